"""The scenarios in examples/scenarios: each one runs, and shows what its comment promises."""

import tempfile
from pathlib import Path

import msgspec
import pytest

from slackwater.model.cpus import CpuSet
from slackwater.model.units import Micros
from slackwater.simulation.scenario import Scenario
from slackwater.simulation.scenario_file import read_scenario
from slackwater.simulation.scenario_picture import draw_scenario
from slackwater.simulation.scenario_report import ScenarioReport, make_report
from slackwater.simulation.simulation_run import Simulation
from slackwater.simulation.timeline import FEW
from tests.unit.simulation.mortal import MEMORY

pytestmark = pytest.mark.long

FOLDER = Path(__file__).parents[3] / "examples/scenarios"
NAMES = (
    "best-effort-only",
    "cpu-sets",
    "nightly-batch",
    "noisy-neighbour",
    "qos-ensurance",
    "sold-idle-cpu",
    "spikes",
)


def example(name: str) -> Scenario:
    return read_scenario(str(FOLDER / f"{name}.yaml"))


def lived(scenario: Scenario, most_rows: int = FEW + 5) -> ScenarioReport:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        simulation = Simulation(scenario, folder)
        simulation.run(lambda _at, _done: None)
        rows = simulation.timeline.rows(FEW)
        report = make_report(simulation, rows, simulation.release())
        simulation.close()
    assert draw_scenario(report, simulation.meter, rows).startswith("<svg ")
    assert len(rows) <= most_rows
    assert report.left == 0
    return report


def part(report: ScenarioReport) -> float:
    assert report.best_effort.part is not None
    return report.best_effort.part


def lost(report: ScenarioReport, tier: str) -> float:
    (found,) = [each for each in report.tiers if each.tier == tier]
    return found.lost / found.wanted


def test_all_of_them_are_tested_here() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.yaml")) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_they_say_their_own_name(name: str) -> None:
    assert example(name).name == name


def test_best_effort_alone_gets_what_the_threshold_leaves() -> None:
    report = lived(example("best-effort-only"))
    assert report.best_effort.got / report.scenario.seconds == pytest.approx(1.6, abs=0.01)
    assert part(report) > 0.99
    assert report.agent.writes == 1


def test_batch_work_uses_the_night_and_nobody_lacks_cpu() -> None:
    """The first eight hours: the batch work comes at 1:00 and is gone at 6:30."""
    scenario = msgspec.structs.replace(example("nightly-batch"), duration=Micros(8 * 3_600_000_000))
    report = lived(scenario)
    assert part(report) > 0.97
    assert report.online.p99_lost_milli == 0
    assert report.best_effort.beyond < 0.02 * report.best_effort.got


def test_a_spike_is_made_room_for_at_once() -> None:
    report = lived(example("spikes"))
    assert lost(report, "burstable") < 0.001
    assert lost(report, "guaranteed") < 0.001
    # The price of raises in steps: best effort does not get all that it could have had.
    assert 0.9 < part(report) < 0.97
    assert report.agent.early == 2
    cuts = [line for line in report.timeline if line.after == "10m"]
    assert len(cuts) >= 4


def test_a_bad_day_ends_well() -> None:
    report = lived(example("noisy-neighbour"))
    assert (report.agent.repairs, report.agent.yields) == (5, 1)
    assert report.agent.holds > 30
    assert lost(report, "guaranteed") < 0.001  # the neighbour hurts its own tier only
    assert 0.05 < lost(report, "burstable") < 0.2
    told = [line.because for line in report.timeline]
    assert told.count("adopted: ours") == 2
    assert "it came, burstable" in told
    assert any("so released" in why for why in told)
    assert any(why.startswith("yielded for 600 s") for why in told)


def test_cpu_sets_are_disjoint_and_given_back() -> None:
    """The replica finds no room while the report is there, and has it once that has gone."""
    report = lived(example("cpu-sets"))
    found = {each.pod: each for each in report.placements}
    assert found["database"].policy == found["replica"].policy == "exclusive"
    database, replica, cache = (
        CpuSet.parse(found[name].cpus) for name in ("database", "replica", "cache")
    )
    assert (len(database), len(replica), len(cache)) == (8, 8, 4)
    assert found["cache"].policy == "share"
    for name in ("web", "batch", "half"):
        rest = CpuSet.parse(found[name].cpus)
        assert found[name].policy == "none"
        assert not rest & (database | replica)
        assert cache.within(rest)
    assert "report" not in found
    told = [line.because for line in report.timeline]
    assert any("8 CPUs of its own are not free" in why for why in told)
    assert any("which no container has: main has request 1500m" in why for why in told)


def test_jobs_run_on_idle_cpu_that_is_sold_and_wait_where_it_is_not() -> None:
    """The first three hours of its day."""
    scenario = msgspec.structs.replace(example("sold-idle-cpu"), duration=Micros(3 * 3_600_000_000))
    report = lived(scenario, most_rows=200)  # each job has lines of its own
    assert report.jobs is not None
    assert report.jobs.placed > report.jobs.finished > 3
    assert lost(report, "burstable") < 0.001
