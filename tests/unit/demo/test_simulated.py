"""The phases on the simulated kernel: what batch takes, and what the agent does about it."""

from pathlib import Path

import pytest

from slackwater.demo.demo_plan import (
    ALONE,
    DEFAULT_WEIGHT,
    DEMO,
    KUBELET,
    SLACKWATER,
    THRESHOLD,
    DemoPhase,
)
from slackwater.demo.measurements import PhaseMeasurement, PhaseProgress, ignore_progress
from slackwater.demo.simulated import CPUS, make_scenario, run_simulated

SECONDS = 12.0


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


def test_only_equals_take_from_the_service(phases: dict[str, PhaseMeasurement]) -> None:
    assert lost(phases[DEFAULT_WEIGHT.name]) > 1
    for phase in (ALONE, KUBELET, SLACKWATER):
        assert lost(phases[phase.name]) < 0.1


def test_the_hog_uses_what_is_left_and_slackwater_bounds_it(
    phases: dict[str, PhaseMeasurement],
) -> None:
    assert phases[ALONE.name].cpu.hog == 0
    kubelet, ours = phases[KUBELET.name], phases[SLACKWATER.name]
    assert kubelet.cpu.idle == pytest.approx(0, abs=0.01)
    settled = ours.samples[-1]
    assert settled.cpu.idle == pytest.approx(CPUS * (100 - THRESHOLD) / 100, abs=0.02)
    assert settled.quota == pytest.approx(settled.cpu.hog, abs=0.02)


def test_no_quota_is_drawn_before_there_was_one(phases: dict[str, PhaseMeasurement]) -> None:
    """A stretch is bound by what stood there when it began."""
    ours = phases[SLACKWATER.name]
    first = next(line for line in ours.lines if line.after and "quota" in line.what)
    for sample in ours.samples:
        assert (sample.quota is None) == (sample.at < first.at)


def test_the_quota_moves_with_the_service_and_says_why(phases: dict[str, PhaseMeasurement]) -> None:
    ours = phases[SLACKWATER.name]
    quotas = [s.quota for s in ours.samples if s.quota is not None]
    assert max(quotas) > min(quotas) + 1
    assert any("best_effort_share" in line.because for line in ours.lines)
    for phase in (ALONE, DEFAULT_WEIGHT, KUBELET):
        assert {s.quota for s in phases[phase.name].samples} == {None}
        assert phases[phase.name].lines == ()


def test_a_watcher_sees_every_tick(tmp_path: Path) -> None:
    seen: list[PhaseProgress] = []
    run_simulated(SLACKWATER, 5.0, tmp_path, seen.append)
    assert [glimpse.at for glimpse in seen] == [0, 1, 2, 3, 4]
    assert all(glimpse.phase == SLACKWATER and glimpse.seconds == 5.0 for glimpse in seen)
    assert seen[-1].sample is not None


@pytest.mark.parametrize("phase", DEMO)
def test_the_agent_is_on_in_its_own_phase_alone(phase: DemoPhase) -> None:
    found = make_scenario(phase, SECONDS)
    assert found.objects.settings is not None
    assert found.objects.settings.policies["best_effort_share"].enabled == (phase == SLACKWATER)
    assert len(found.pods) == (1 if phase == ALONE else 2)


def test_parts_of_seconds_are_fine(tmp_path: Path) -> None:
    found = run_simulated(KUBELET, 2.5, tmp_path, ignore_progress)
    assert found.samples[-1].until == 2.5
