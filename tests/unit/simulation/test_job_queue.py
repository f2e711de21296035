"""Batch jobs before a simulated node: placed where elastic CPU is offered, and only there."""

from pathlib import Path

import pytest

from slackwater.model.problem import InvalidError
from slackwater.model.units import Micros, MilliCpu
from slackwater.simulation.job_queue import JobQueue
from slackwater.simulation.scenario import ScenarioJob
from slackwater.simulation.scenario_file import scenario_in
from slackwater.simulation.simulation_run import Simulation

SECOND = 1_000_000
NOBODY: frozenset[str] = frozenset()


def job(name: str, cpu: int, arrives: int = 0, duration: int = 60) -> ScenarioJob:
    return ScenarioJob(
        name, MilliCpu(cpu * 1000), Micros(duration * SECOND), Micros(arrives * SECOND)
    )


def test_jobs_are_placed_while_there_is_room() -> None:
    queue = JobQueue([job("a", 2), job("b", 4), job("c", 1)])
    assert queue.place(Micros(0), MilliCpu(0), NOBODY) == []
    placed = queue.place(Micros(SECOND), MilliCpu(3_999), NOBODY)
    assert [each.name for each in placed] == ["a", "c"]
    assert placed[0].extended == {"gocrane.io/cpu": 2_000}
    assert queue.place(Micros(2 * SECOND), MilliCpu(3_999), frozenset({"a", "c"})) == []
    [last] = queue.place(Micros(61 * SECOND), MilliCpu(4_000), NOBODY)
    assert (last.name, last.ends) == ("b", 121 * SECOND)
    assert (queue.counts.placed, queue.counts.finished, queue.counts.most_running) == (3, 2, 2)


def test_jobs_wait_from_their_arrival_on() -> None:
    queue = JobQueue([job("late", 1, arrives=10)])
    for second in (5, 10, 15, 20):
        queue.place(Micros(second * SECOND), MilliCpu(0), NOBODY)
    assert queue.counts.waited == 15 * SECOND
    assert queue.counts.placed == 0


def document(enabled: bool) -> dict[str, object]:
    return {
        "apiVersion": "slackwater.io/v1",
        "kind": "Scenario",
        "spec": {
            "cpus": 8,
            "duration": "30m",
            "period": "10s",
            "settings": {
                "oversold": {"enabled": enabled, "offer": "cpu"},
                "elasticResources": {"enabled": True},
            },
            "pods": [{"name": "shop", "tier": "burstable", "request": 4, "demand": 1}],
            "jobs": [{"name": "job", "cpu": 2, "duration": "5m", "count": 4}],
        },
    }


@pytest.mark.parametrize(("enabled", "finished"), [(True, 4), (False, 0)])
def test_the_same_jobs_with_and_without_overselling(
    tmp_path: Path, enabled: bool, finished: int
) -> None:
    simulation = Simulation(scenario_in(document(enabled), "s.yaml"), str(tmp_path))
    simulation.run(lambda _at, _done: None)
    assert simulation.jobs.counts.finished == finished
    # 8 CPUs less the reserve of 20 %, less 1 in use and its margin: two jobs of 2 at a time.
    assert simulation.jobs.counts.most_running == (2 if enabled else 0)
    assert simulation.release() == 0
    assert simulation.server.offer.amounts == {}
    simulation.close()


def test_a_job_asks_for_whole_cpus() -> None:
    wrong = document(enabled=True)
    spec = wrong["spec"]
    assert isinstance(spec, dict)
    spec["jobs"] = [{"name": "job", "cpu": "1500m", "duration": "5m"}]
    with pytest.raises(InvalidError, match="must be whole CPUs, as an extended resource is"):
        scenario_in(wrong, "s.yaml")
