"""The report's keys, and the sentences that say what it means."""

import msgspec
import pytest

from slackwater.demo.demo_plan import ALONE, DEFAULT_WEIGHT, KUBELET, SLACKWATER
from slackwater.demo.demo_report import (
    NOISY,
    format_milliseconds,
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
        "machine", "load", "phases", "agent", "meaning", "warning", "pictures",
        "apiVersion", "kind",
    }  # fmt: skip
    assert set(said["machine"]) == {
        "cpus", "model", "kernel", "cgroup", "simulatedBecause", "requestMilliseconds",
    }  # fmt: skip
    assert set(said["phases"][0]) == {
        "name", "title", "hint", "seconds", "requests", "unanswered", "latency", "lost", "cpu",
        "utilisation", "noise", "samples", "curve",
    }  # fmt: skip
    assert set(said["phases"][0]["samples"][0]) == {
        "at", "until", "cpu", "quota", "lost", "demoted", "noise",
    }  # fmt: skip
    assert set(said["phases"][0]["cpu"]) == {"service", "hog", "other", "idle"}


def test_it_can_be_read_back() -> None:
    for report in (real_report(), simulated_report()):
        assert msgspec.json.decode(msgspec.json.encode(report), type=type(report)) == report


def test_a_real_phase() -> None:
    found = make_phase_report(measured(KUBELET, 5.0, 1.2), 2)
    assert (found.requests, found.unanswered) == (100, 0)
    assert found.latency is not None
    assert (found.latency.p50, found.latency.p99) == (5, 10)
    assert found.lost is None
    assert found.utilisation == pytest.approx((0.4 + 1.2 + 0.1) / 2)
    assert len(found.curve) == 10


def test_a_simulated_phase_has_losses_and_no_latency() -> None:
    found = simulated_report().phase(DEFAULT_WEIGHT.name)
    assert found.latency is None
    assert found.noise is None
    assert found.lost is not None
    assert (found.lost.mean, found.lost.worst) == (0.6, 0.6)


def test_what_it_means_on_real_cgroups() -> None:
    won, cost = real_report().meaning
    assert won == (
        "At the default weight batch made the service's p90 4.0× as long (5.0 ms → 20.0 ms); with "
        "Slackwater it is 1.1× as long (5.5 ms), while batch used 1.35 CPUs: the node was 92 % "
        "busy instead of 25 %."
    )
    assert cost == (
        "The kubelet's weight alone: p90 5.2 ms, batch 1.45 CPUs. Slackwater also bounds batch to "
        "what others leave of 95 % of the node, which cost batch 0.10 CPUs."
    )


def test_what_it_means_in_a_simulation() -> None:
    won, cost = simulated_report().meaning
    assert won.startswith("At the default weight batch took 0.60 CPUs that the service wanted; ")
    assert cost.endswith("which cost batch nothing here.")


def test_nothing_follows_from_a_noisy_run() -> None:
    report = real_report(Noise(0.0, 1.4))
    assert report.warning
    assert report.meaning == ()


def test_equal_numbers_are_not_compared() -> None:
    phases = [
        make_phase_report(measured(ALONE, 5.0, 1.5), 2),
        make_phase_report(measured(DEFAULT_WEIGHT, 5.01, 1.5), 2),
        make_phase_report(measured(KUBELET, 5.0, 1.5), 2),
        make_phase_report(measured(SLACKWATER, 5.02, 1.5), 2),
    ]
    assert meaning(phases)[0] == (
        "At the default weight batch did not harm the service's p90 here (5.0 ms); with "
        "Slackwater it is as it was (5.0 ms), while batch used 1.50 CPUs."
    )


def test_a_part_of_the_phases_means_nothing_yet() -> None:
    phases = [
        make_phase_report(measured(phase, 5.0, 0.1), 2) for phase in (ALONE, KUBELET, SLACKWATER)
    ]
    assert meaning(phases) == ()


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
