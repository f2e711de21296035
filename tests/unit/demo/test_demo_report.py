"""The report's keys, and the sentences that say what it means."""

import msgspec
import pytest

from slackwater.demo.demo_plan import ALONE, SLACKWATER, UNPROTECTED
from slackwater.demo.demo_report import (
    NOISY,
    format_milliseconds,
    is_given_back,
    make_phase_report,
    make_report,
    meaning,
    noise_warning,
)
from slackwater.demo.measurements import Noise
from tests.unit.demo.examples import MACHINE, QUIET, SAID, measured, real_report, simulated_report


def test_the_stable_keys() -> None:
    said = msgspec.to_builtins(real_report())
    assert (said["apiVersion"], said["kind"]) == ("slackwater.io/v1", "DemoReport")
    assert set(said) == {
        "machine", "load", "phases", "agent", "meaning", "warning", "pictures", "objective",
        "apiVersion", "kind",
    }  # fmt: skip
    assert set(said["machine"]) == {
        "cpus", "model", "kernel", "cgroup", "simulatedBecause", "requestMilliseconds",
    }  # fmt: skip
    assert set(said["phases"][0]) == {
        "name", "title", "hint", "seconds", "requests", "unanswered", "latency", "lost", "cpu",
        "utilisation", "noise", "samples", "curve", "above", "demoted", "bounded", "slices",
    }  # fmt: skip
    assert set(said["phases"][0]["samples"][0]) == {
        "at", "until", "cpu", "quota", "lost", "demoted", "noise",
    }  # fmt: skip
    assert set(said["phases"][0]["slices"][0]) == {"at", "until", "latency", "above"}
    assert set(said["objective"]) == {"milliseconds", "quantile", "coolDownSeconds"}
    assert set(said["phases"][0]["cpu"]) == {"service", "hog", "other", "idle"}


def test_it_can_be_read_back() -> None:
    for report in (real_report(), simulated_report()):
        assert msgspec.json.decode(msgspec.json.encode(report), type=type(report)) == report


def test_a_real_phase() -> None:
    found = make_phase_report(measured(SLACKWATER, 5.0, 1.2, quota=1.0, demoted=4), 2, 9.0)
    assert (found.requests, found.unanswered) == (100, 0)
    assert found.latency is not None
    assert (found.latency.p50, found.latency.p99) == (5, 10)
    assert found.lost is None
    assert found.utilisation == pytest.approx((0.4 + 1.2 + 0.1) / 2)
    assert len(found.curve) == 10
    assert (found.demoted, found.bounded, found.above) == (0.4, 0.4, 0.0)
    assert [(each.at, each.until) for each in found.slices] == [(0, 5), (5, 10)]
    assert found.p90_range() == (5, 5)
    assert make_phase_report(measured(SLACKWATER, 10.0, 1.2), 2, 9.0).above == 1


def test_a_simulated_phase_has_losses_and_no_latency() -> None:
    found = simulated_report().phase(UNPROTECTED.name)
    assert found.latency is None
    assert found.noise is None
    assert found.lost is not None
    assert (found.lost.mean, found.lost.worst) == (0.6, 0.6)


def test_what_it_means_on_real_cgroups() -> None:
    won, cost = real_report().meaning
    assert won == (
        "Batch with CPU requests made the service's p90 4.0× as long (5.0 ms → 20.0 ms; 100 % of "
        "the seconds above 10.0 ms, its objective); with one rule about its latency it is 1.1× as "
        "long (5.5 ms; 0 % of the seconds above), while batch used 1.35 CPUs: the node was 92 % "
        "busy instead of 25 %."
    )
    assert cost == (
        "Slackwater demoted the batch pods for 30 % of the time and bounded their quota for 30 %, "
        "which cost batch 0.05 CPUs, and gave it back when the service was calm."
    )


def test_what_it_means_in_a_simulation() -> None:
    won, cost = simulated_report().meaning
    assert won.startswith("Batch with CPU requests took 0.60 CPUs that the service wanted; ")
    assert cost == "The objective was not at risk long enough: Slackwater changed nothing."


def test_nothing_follows_from_a_noisy_run() -> None:
    report = real_report(Noise(0.0, 1.4))
    assert report.warning
    assert report.meaning == ()


def test_equal_numbers_are_not_compared() -> None:
    phases = [
        make_phase_report(measured(ALONE, 5.0, 1.5), 2),
        make_phase_report(measured(UNPROTECTED, 5.01, 1.5), 2),
        make_phase_report(measured(SLACKWATER, 5.02, 1.5, demoted=10), 2),
    ]
    won, cost = meaning(phases, 10.0)
    assert won == (
        "Batch with CPU requests did not harm the service's p90 here (5.0 ms; 0 % of the seconds "
        "above 10.0 ms); with one rule about its latency it is as it was (5.0 ms; 0 % of the "
        "seconds above), while batch used 1.50 CPUs."
    )
    assert cost == (
        "Slackwater demoted the batch pods for 100 % of the time, which cost batch nothing here."
    )


def test_given_back_is_within_a_slice() -> None:
    """What stood at a slice's end and not at the next one's start was undone by the agent's end."""
    for demoted, back in ((3, True), (5, False), (7, True), (0, False), (10, False)):
        found = make_phase_report(measured(SLACKWATER, 5.0, 1.5, demoted=demoted), 2)
        assert is_given_back(found) == back, demoted


def test_a_part_of_the_phases_means_nothing_yet() -> None:
    phases = [make_phase_report(measured(phase, 5.0, 0.1), 2) for phase in (ALONE, SLACKWATER)]
    assert meaning(phases, 10.0) == ()


@pytest.mark.parametrize(
    ("noise", "said"),
    [
        (QUIET, ""),
        (Noise(NOISY, NOISY), ""),
        (Noise(0.0, 0.5), "0.50 CPUs"),
        (Noise(1.25, 0.5), "1.25 CPUs"),
    ],
)
def test_a_noisy_machine_is_told(noise: Noise, said: str) -> None:
    report = real_report(noise)
    assert said in report.warning
    assert bool(report.warning) == bool(said)
    assert report.warning == noise_warning(report.phases)


def test_what_the_agent_said_is_kept() -> None:
    assert real_report().agent == SAID


def test_a_report_of_nothing() -> None:
    report = make_report(MACHINE, [])
    assert (report.phases, report.meaning, report.warning) == ((), (), "")


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.04, "0.0 ms"), (5.25, "5.2 ms"), (99.94, "99.9 ms"), (100.4, "100 ms"), (999.4, "999 ms"),
     (1000.0, "1.0 s"), (12_345.0, "12.3 s")],
)  # fmt: skip
def test_milliseconds_as_people_say_them(value: float, said: str) -> None:
    assert format_milliseconds(value) == said
