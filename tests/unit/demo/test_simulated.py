"""The phases on the simulated kernel: what batch takes, and what the agent does about it."""

from pathlib import Path

import pytest

from slackwater.demo.demo_plan import ALONE, DEMO, SLACKWATER, UNPROTECTED, DemoPhase
from slackwater.demo.measurements import PhaseMeasurement, PhaseProgress, ignore_progress
from slackwater.demo.simulated import CPUS, ExportedLatency, make_scenario, run_simulated
from slackwater.model.units import Micros

SECONDS = 18.0


@pytest.fixture(scope="module")
def phases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, PhaseMeasurement]:
    folder = tmp_path_factory.mktemp("simulated")
    return {phase.name: run_simulated(phase, SECONDS, folder, ignore_progress) for phase in DEMO}


def lost(measured: PhaseMeasurement) -> float:
    return sum(s.lost or 0.0 for s in measured.samples)


def test_time_is_covered_once(phases: dict[str, PhaseMeasurement]) -> None:
    for measured in phases.values():
        edges = [(s.at, s.until) for s in measured.samples]
        assert edges[0][0] == 0
        assert edges[-1][1] == SECONDS
        assert [start for start, _ in edges[1:]] == [end for _, end in edges[:-1]]
        assert measured.answers == ()
        assert measured.noise is None


def test_cpus_add_up(phases: dict[str, PhaseMeasurement]) -> None:
    for measured in phases.values():
        for use in (measured.cpu, *(s.cpu for s in measured.samples)):
            assert use.service + use.hog + use.other + use.idle == pytest.approx(CPUS, abs=0.01)


def test_batch_takes_from_the_service_until_slackwater_sees_it(
    phases: dict[str, PhaseMeasurement],
) -> None:
    assert lost(phases[ALONE.name]) == 0
    assert lost(phases[UNPROTECTED.name]) > 5
    assert 0 < lost(phases[SLACKWATER.name]) < lost(phases[UNPROTECTED.name]) / 3


def test_batch_uses_what_is_left(phases: dict[str, PhaseMeasurement]) -> None:
    assert phases[ALONE.name].cpu.hog == 0
    for phase in (UNPROTECTED, SLACKWATER):
        assert phases[phase.name].cpu.idle == pytest.approx(0, abs=0.01)


def test_it_is_demoted_while_at_risk_and_given_back_when_it_is_calm(
    phases: dict[str, PhaseMeasurement],
) -> None:
    ours = phases[SLACKWATER.name]
    assert not ours.samples[0].demoted
    assert any(sample.demoted for sample in ours.samples)
    assert not ours.samples[-1].demoted
    assert {sample.quota for sample in ours.samples} == {None}
    assert any("http_request_duration_seconds:p90" in line.because for line in ours.lines)
    for phase in (ALONE, UNPROTECTED):
        assert not any(sample.demoted for sample in phases[phase.name].samples)
        assert phases[phase.name].lines == ()


def test_a_stretch_is_bound_by_what_stood_there_when_it_began(
    phases: dict[str, PhaseMeasurement],
) -> None:
    ours = phases[SLACKWATER.name]
    first = next(line for line in ours.lines if line.after == "1" and "idle" in line.what)
    assert next(sample.at for sample in ours.samples if sample.demoted) == first.at


def test_a_watcher_sees_every_tick(tmp_path: Path) -> None:
    seen: list[PhaseProgress] = []
    run_simulated(SLACKWATER, 5.0, tmp_path, seen.append)
    assert [glimpse.at for glimpse in seen] == [0, 1, 2, 3, 4]
    assert all(glimpse.phase == SLACKWATER and glimpse.seconds == 5.0 for glimpse in seen)
    assert seen[-1].sample is not None


@pytest.mark.parametrize("phase", DEMO)
def test_the_rule_is_there_in_its_own_phase_alone(phase: DemoPhase) -> None:
    found = make_scenario(phase, SECONDS, ExportedLatency())
    assert len(found.objects.ensurance.node_qos) == (phase == SLACKWATER)
    assert len(found.metrics) == (phase == SLACKWATER)
    assert len(found.pods) == (1 if phase == ALONE else 3)


def test_the_latency_of_a_service_that_nobody_runs_is_fast() -> None:
    latency = ExportedLatency()
    assert latency(Micros(5)) == latency(Micros(0))
    assert latency.holds_until(Micros(5)) > 5


def test_parts_of_seconds_are_fine(tmp_path: Path) -> None:
    found = run_simulated(UNPROTECTED, 2.5, tmp_path, ignore_progress)
    assert found.samples[-1].until == 2.5
