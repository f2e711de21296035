"""Every metric of the rebalancer: its value, when it is absent, and its row in the reference."""

import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kube.api_time import format_time
from slackwater.rebalancer.assessment import Assessment
from slackwater.rebalancer.last_rotation import encode_last_rotation
from slackwater.rebalancer.metrics import (
    BUCKETS,
    METRICS,
    RoundMetrics,
    expose,
    usage_variance,
)
from slackwater.rebalancer.observed import Unavailable
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.results import RoundResult, WorkloadResult
from slackwater.rebalancer.run import run_once
from slackwater.settings.rebalancer import RunSettings
from tests.unit.rebalancer.rotating_world import RUN, World, refused
from tests.unit.rebalancer.workloads import NAME, NAN, NOON, measured, rotated

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "rebalancer-metrics.md"
WEB = 'namespace="shop",workload="web"'


def shown(tally: RoundMetrics) -> dict[str, float]:
    """What a scrape reads, by series."""
    content_type, body = expose(tally)
    assert content_type.startswith("text/plain; version=0.0.4")
    lines = [line for line in body.decode().splitlines() if not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def after(world: World, settings: RunSettings = RUN) -> dict[str, float]:
    tally = RoundMetrics()
    tally.add(run_once(world.dependencies(), settings))
    return shown(tally)


def test_the_seeds_five() -> None:
    found = after(World())
    assert found[f"rebalancer_current_cpu_average{{{WEB}}}"] == pytest.approx(1.15)
    assert found[f"rebalancer_predicted_cpu_average{{{WEB}}}"] == pytest.approx(0.75)
    improvement = found[f"rebalancer_improvement_calculated{{{WEB}}}"]
    assert improvement == pytest.approx(100 * (1.15 - 0.75) / 1.15)
    assert found[f"rebalancer_safety_threshold_current{{{WEB}}}"] == pytest.approx(1.05)
    assert found['rebalancer_rotation_decisions_total{reason="rotated"}'] == 1


def test_what_was_done() -> None:
    found = after(World())
    assert found['rebalancer_pods_deleted_total{type="most_busy"}'] == 2
    assert found['rebalancer_pods_deleted_total{type="least_busy"}'] == 2
    assert found["rebalancer_pods_analyzed_total"] == 6
    assert found['rebalancer_executions_total{status="success"}'] == 1
    assert found["rebalancer_last_run_timestamp_seconds"] > NOON
    assert found["rebalancer_execution_duration_seconds_count"] == 1
    assert found["rebalancer_execution_duration_seconds_sum"] == 12
    assert found['rebalancer_execution_duration_seconds_bucket{le="10.0"}'] == 0
    assert found['rebalancer_execution_duration_seconds_bucket{le="30.0"}'] == 1


def test_acceptance_row_19() -> None:
    world = World()
    world.budget = 1
    found = after(world)
    assert found['rebalancer_pods_deleted_total{type="most_busy"}'] == 1
    assert found['rebalancer_pods_deleted_total{type="least_busy"}'] == 0


def test_a_dry_run_deletes_nothing() -> None:
    tally = RoundMetrics()
    tally.add(run_once(msgspec.structs.replace(World().dependencies(), writer=None), RUN))
    found = shown(tally)
    assert found['rebalancer_rotation_decisions_total{reason="dry_run"}'] == 1
    assert found['rebalancer_pods_deleted_total{type="most_busy"}'] == 0


def test_pods_by_where_they_stand() -> None:
    world = World()
    world.change("A", held_back="says so")
    found = after(world)
    groups = {
        match[1]: value
        for name, value in found.items()
        if (match := re.fullmatch(rf'rebalancer_pods{{group="(\w+)",{WEB}}}', name))
        or (match := re.fullmatch(rf'rebalancer_pods{{{WEB},group="(\w+)"}}', name))
    }
    assert groups == {
        "top": 1, "bottom": 2, "rest": 2, "young": 0, "unready": 0, "held_back": 1, "unknown": 0,
    }  # fmt: skip


def test_every_reason_is_there_from_the_start() -> None:
    found = shown(RoundMetrics())
    reasons = {name for name in found if name.startswith("rebalancer_rotation_decisions_total")}
    assert reasons == {
        f'rebalancer_rotation_decisions_total{{reason="{each.value}"}}' for each in Reason
    }
    assert "rebalancer_last_run_timestamp_seconds" not in found


def test_what_is_not_known_is_absent() -> None:
    world = World()
    world.usage_problem = Unavailable(Reason.PROMETHEUS_ERROR, "it is down")
    found = after(world)
    assert not [name for name in found if WEB in name]
    assert found['rebalancer_api_errors_total{component="prometheus"}'] == 1
    assert found['rebalancer_executions_total{status="error"}'] == 1


def test_without_a_hot_pod_there_is_a_threshold_and_no_average() -> None:
    found = after(World({"A": 0.6, "B": 0.5, "C": 0.4}))
    assert f"rebalancer_safety_threshold_current{{{WEB}}}" in found
    for absent in ("current_cpu_average", "predicted_cpu_average", "improvement_calculated"):
        assert f"rebalancer_{absent}{{{WEB}}}" not in found


def test_an_eviction_that_fails_is_an_error_of_kubernetes() -> None:
    world = World()
    world.refusals["A"] = refused(500, "InternalError", "two budgets")
    found = after(world)
    assert found['rebalancer_api_errors_total{component="kubernetes"}'] == 1


def test_realised_beside_expected() -> None:
    world = World({"A": 0.9, "B": 0.8, "C": 0.7, "D": 0.7, "E": 0.7, "F": 0.6})
    world.annotation = encode_last_rotation(rotated(), format_time)
    found = after(world)
    assert found[f"rebalancer_improvement_realised{{{WEB}}}"] == pytest.approx(26.09, abs=0.01)
    assert found[f"rebalancer_improvement_expected{{{WEB}}}"] == 34.8


def test_realised_is_absent_before_it_is_judged() -> None:
    world = World()
    world.annotation = encode_last_rotation(rotated("2026-11-17T11:58:00Z"), format_time)
    found = after(world)
    assert f"rebalancer_improvement_realised{{{WEB}}}" not in found
    assert f"rebalancer_improvement_expected{{{WEB}}}" in found


def test_counters_go_on_and_gauges_are_the_last_rounds() -> None:
    tally, world = RoundMetrics(), World()
    for _ in range(3):
        tally.add(run_once(world.dependencies(), RUN))
    assert shown(tally)["rebalancer_pods_analyzed_total"] == 18
    tally.add(run_once(world.dependencies(), RunSettings()))
    found = shown(tally)
    assert not [name for name in found if WEB in name], "it is no longer looked after"
    assert found['rebalancer_rotation_decisions_total{reason="rotated"}'] == 1


@pytest.mark.parametrize(
    ("usages", "variance"),
    [
        ({"a": 1.0, "b": 1.0}, 0.0),
        ({"a": 1.0, "b": 3.0}, 1.0),
        ({"a": 1.0, "b": 3.0, "c": NAN}, 1.0),
        ({"a": NAN}, None),
        ({}, None),
    ],
)
def test_variance(usages: dict[str, float], variance: float | None) -> None:
    assert usage_variance(measured(usages)) == variance


@given(st.lists(st.floats(0, 1000), max_size=40))
def test_durations_add_up(durations: list[float]) -> None:
    tally = RoundMetrics()
    for took in durations:
        tally.add(RoundResult((), {}, took, NOON))
    buckets, total = tally.durations()
    counts = [count for _, count in buckets]
    assert counts == sorted(counts)
    assert counts[-1] == len(durations)
    assert total == pytest.approx(sum(durations))
    for bound, (_, count) in zip(BUCKETS, buckets, strict=False):
        assert count == sum(took <= bound for took in durations)


@given(st.lists(st.sampled_from(list(Reason)), max_size=30))
def test_every_workload_is_one_decision(reasons: list[Reason]) -> None:
    results = tuple(WorkloadResult(Assessment(NAME, each, ""), each, "") for each in reasons)
    tally = RoundMetrics()
    tally.add(RoundResult(results, {}, 0.1, NOON))
    found = shown(tally)
    for reason in Reason:
        name = f'rebalancer_rotation_decisions_total{{reason="{reason.value}"}}'
        assert found[name] == reasons.count(reason)


def test_openmetrics_is_spoken_too() -> None:
    content_type, body = expose(RoundMetrics(), "application/openmetrics-text")
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")


def test_names_are_prometheus_names() -> None:
    for metric in METRICS[1:]:
        assert re.fullmatch(r"rebalancer_[a-z_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind.value == "counter")
    assert len({metric.name for metric in METRICS}) == len(METRICS)


@pytest.mark.parametrize("metric", METRICS, ids=lambda each: each.name)
def test_every_metric_is_a_row(metric: msgspec.Struct) -> None:
    name, kind, labels, prose = msgspec.structs.astuple(metric)
    told = ", ".join(f"`{word}`" for word in labels)
    assert f"| `{name}` | {kind.value} | {told} | {prose} |\n" in PAGE.read_text()
