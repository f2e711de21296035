"""The what-if's report: its numbers, its keys, its sentences."""

import json
from typing import Any

import msgspec
import pytest

from slackwater.rebalancer.observed import HpaTarget, HpaTargetKind
from slackwater.rebalancer.whatif.simulate_day import SimulationResult, SimulationTerms
from slackwater.rebalancer.whatif.simulation_report import (
    SimulationReport,
    build_report,
    conclusions,
)
from slackwater.settings.rebalancer import MoveSettings
from tests.unit.rebalancer.whatif.days import SIX, day_with, generated_day, reported, result

EVEN = dict.fromkeys("abcd", 0.5)


def plain(report: SimulationReport) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(msgspec.json.encode(report))
    return found


def test_keys() -> None:
    found = plain(reported(day_with([SIX] * 3)))
    assert (found["apiVersion"], found["kind"]) == ("slackwater.io/v1", "RebalanceSimulation")
    assert set(found) == {
        *("apiVersion", "kind", "day", "hpa", "settings", "rotatedPods", "skipped"),
        *("without", "with", "saved", "rotations", "steps"),
    }
    assert set(found["day"]) == {
        *("recording", "seed", "start", "seconds", "stepSeconds", "steps", "missing", "pods"),
    }
    sides = {"skew", "worstSkew", "above", "replicaHours", "coreHours", "mostReplicas"}
    assert set(found["without"]) == set(found["with"]) == sides
    assert set(found["saved"]) == {"replicaHours", "coreHours", "percent"}
    assert set(found["rotations"][0]) == {
        *("at", "pods", "average", "predicted", "improvement", "realised"),
    }
    assert set(found["steps"][0]) == {
        *("at", "pods", "target", "threshold", "without", "with", "reason"),
    }
    assert set(found["steps"][0]["with"]) == {"hottest", "mean", "above", "replicas"}


def test_the_seeds_example_in_numbers() -> None:
    """Three steps of five minutes; rotated in the first, so the other two are flatter."""
    found = plain(reported(day_with([SIX] * 3)))
    assert found["day"] == {
        "recording": None, "seed": 0, "start": 0.0, "seconds": 900.0, "stepSeconds": 300.0,
        "steps": 3, "missing": 0, "pods": 6,
    }  # fmt: skip
    assert found["rotatedPods"] == 4
    assert found["skipped"] == {"no_pods_above_tolerance": 2}
    assert found["without"]["skew"] == pytest.approx(1.2 / (4.4 / 6), abs=1e-4)
    assert found["without"]["worstSkew"] == found["without"]["skew"]
    assert found["without"]["above"] == pytest.approx(100 * 2 / 6, abs=0.01)
    assert found["with"]["above"] == pytest.approx(100 * 2 / 18, abs=0.01)
    assert found["with"]["worstSkew"] == found["without"]["skew"], "the first step is the same"
    assert found["without"]["mostReplicas"] == 7
    assert found["without"]["replicaHours"] == pytest.approx(7 * 0.25)
    assert found["rotations"] == [{
        "at": 0.0, "pods": found["rotations"][0]["pods"], "average": 1.15, "predicted": 0.75,
        "improvement": 34.78, "realised": 32.61,
    }]  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_the_sums_agree(seed: int) -> None:
    found = reported(generated_day(seed, skew=1.0, request=0.5, busiest=0.35))
    without, rotated, saved = found.without, found.rotated, found.saved
    assert saved.core_hours == pytest.approx(without.core_hours - rotated.core_hours, abs=0.011)
    assert saved.replica_hours == pytest.approx(2 * saved.core_hours, abs=0.011)
    assert saved.percent == pytest.approx(100 * saved.core_hours / without.core_hours, abs=0.01)
    assert sum(found.skipped.values()) + len(found.rotations) == len(found.steps)
    assert found.rotated_pods == sum(len(each.pods) for each in found.rotations)
    assert without.skew is not None
    assert rotated.skew is not None
    assert rotated.skew <= without.skew
    assert rotated.above <= without.above


def test_what_was_tried_is_told() -> None:
    moves = MoveSettings(top_k=3, tolerance=1.2, batch=1)
    terms = SimulationTerms(HpaTarget(HpaTargetKind.AVERAGE_VALUE, 0.5, ""), moves, 0.25)
    day = day_with([EVEN])
    found = plain(build_report(day, terms, result(day), "day.csv", None))
    assert found["hpa"] == {"target": 0.5, "unit": "cores"}
    assert found["settings"] == {
        "topK": 3, "tolerance": 1.2, "minimumImprovement": 10.0, "minimumPods": 2, "window": "5m",
        "minimumPodAge": "5m", "cooldown": "10m", "batchSize": 1, "stickiness": 0.25,
    }  # fmt: skip
    assert (found["day"]["recording"], found["day"]["seed"]) == ("day.csv", None)


def test_a_recordings_gaps_are_counted() -> None:
    found = reported(day_with([EVEN, {}, {}, EVEN], start=1000.0))
    assert (found.day.steps, found.day.missing) == (2, 2)
    assert (found.day.start, found.day.seconds) == (1000.0, 1200.0)


def test_idle_pods_have_no_skew() -> None:
    found = reported(day_with([dict.fromkeys("ab", 0.0)]))
    assert (found.without.skew, found.without.worst_skew) == (None, None)
    assert found.without.above == 0.0


def test_the_commonest_reason_comes_first() -> None:
    found = reported(generated_day(skew=1.0), stickiness=0.9)
    counts = list(found.skipped.values())
    assert counts == sorted(counts, reverse=True)
    assert "rotated" not in found.skipped
    assert "cooldown" in found.skipped


def test_sentences_of_a_day_with_rotations() -> None:
    often, skew, cpu = conclusions(reported(generated_day()))
    assert often == "It would have rotated 2 times in 24 h, 6 pods in all."
    assert skew == (
        "The hottest pod had 2.30 × the mean's load, with rotation 1.54 ×; pods were above the "
        "threshold 6.8 % of their time, with rotation 0.1 %."
    )
    assert cpu == (
        "For the hottest pod to stay below the threshold an HPA would need 340 core-hours, with "
        "rotation 235: 30.7 % saved."
    )


def test_a_sentence_where_more_pods_are_above_the_threshold_than_without() -> None:
    """One hot pod becomes three, each of them cooler and still above it."""
    report = reported(day_with([{"a": 3.0, "b": 0.1, "c": 0.1, "d": 0.1, "e": 0.1}] * 3))
    assert (report.without.above, report.rotated.above) == (20.0, 46.67)
    assert report.rotated.skew is not None
    assert report.without.skew is not None
    assert report.rotated.skew < report.without.skew
    _, skew, above, _ = conclusions(report)
    assert skew.endswith("20.0 % of their time, with rotation 46.7 %.")
    assert above == (
        "That is more than without: the load of the hottest pods is now shared by pods that are "
        "each cooler, and still above the threshold. More pods, not rotation, would help them."
    )


def test_sentences_of_a_short_day() -> None:
    often, *_ = conclusions(reported(day_with([SIX] * 3)))
    assert often == "It would have rotated once in 15 min, 4 pods in all."


def test_a_sentence_where_it_never_rotated() -> None:
    (told,) = conclusions(reported(day_with([EVEN] * 3)))
    assert told == "It would never have rotated; the usual reason: no pods above tolerance."


def test_no_steps_are_a_mistake_of_the_caller() -> None:
    terms = SimulationTerms(HpaTarget(HpaTargetKind.UTILIZATION, 70.0, ""))
    with pytest.raises(IndexError):
        build_report(day_with([]), terms, SimulationResult((), ()), None, 0)
