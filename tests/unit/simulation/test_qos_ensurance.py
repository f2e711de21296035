"""QoS ensurance simulated: Crane's three actions as in examples/scenarios/qos-ensurance.yaml, and
what becomes of pods, node and timeline."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slackwater.model.units import Micros
from slackwater.record.journal import TickRecord
from slackwater.simulation.scenario_file import read_scenario, scenario_in
from slackwater.simulation.scenario_picture import draw_scenario
from slackwater.simulation.scenario_report import make_report
from slackwater.simulation.simulation_run import Simulation
from slackwater.simulation.timeline import TimelineRow
from tests.unit.simulation.mortal import MEMORY
from tests.unit.simulation.test_scenario_ensurance import ACTION, RULES

EXAMPLE = Path(__file__).parents[3] / "examples/scenarios/qos-ensurance.yaml"
#: All that is not a knob: minute and second, what, and what it became or why.
GOLDEN = """\
3:02 event AvoidanceTriggered: waterline1/cpu-usage triggered action disablescheduling
3:02 taint interference.crane.io: PreferNoSchedule
3:02 condition interference-identified: True
6:01 event RestoreTriggered: waterline1/cpu-usage restored action disablescheduling
6:01 taint interference.crane.io: none
6:01 condition interference-identified: False
8:02 event AvoidanceTriggered: waterline1/cpu-usage triggered action disablescheduling
8:02 event AvoidanceTriggered: waterline2/cpu-usage triggered action throttle
8:02 taint interference.crane.io: PreferNoSchedule
8:02 condition interference-identified: True
11:01 event RestoreTriggered: waterline1/cpu-usage restored action disablescheduling
11:01 taint interference.crane.io: none
11:01 condition interference-identified: False
11:48 event RestoreTriggered: waterline2/cpu-usage restored action throttle
16:02 event AvoidanceTriggered: waterline1/cpu-usage triggered action disablescheduling
16:02 event AvoidanceTriggered: waterline2/cpu-usage triggered action throttle
16:02 event AvoidanceTriggered: waterline3/cpu-usage triggered action eviction
16:02 taint interference.crane.io: PreferNoSchedule
16:02 condition interference-identified: True
16:02 evict batch/crawler: evicted
16:02 evict batch/report-2: evicted
16:32 pod crawler: it ended
16:32 pod report-2: it ended
18:33 event RestoreTriggered: waterline2/cpu-usage restored action throttle
18:33 event RestoreTriggered: waterline3/cpu-usage restored action eviction
19:01 event RestoreTriggered: waterline1/cpu-usage restored action disablescheduling
19:01 taint interference.crane.io: none
19:01 condition interference-identified: False
19:02 pod crawler-2: it came, besteffort
19:02 pod report-2-2: it came, burstable
"""
HOT = {"name": "web", "tier": "burstable", "request": 2, "demand": "2500m", "priority": 100}
BATCH = {"name": "batch", "tier": "burstable", "request": "100m", "demand": 1, "priority": -1}
EVICT: dict[str, Any] = {
    **ACTION,
    "metadata": {"name": "throttle"},
    "spec": {"coolDownSeconds": 5, "eviction": {"terminationGracePeriodSeconds": 4}},
}
TAINT: dict[str, Any] = {**ACTION, "spec": {"coolDownSeconds": 5}}


class Trial:
    """A short scenario to its end."""

    def __init__(self, folder: str, **spec: Any) -> None:
        base = {"cpus": 4, "duration": "60s", "pods": [HOT, BATCH], "objects": [ACTION, RULES]}
        document = {"apiVersion": "slackwater.io/v1", "kind": "Scenario", "spec": base | spec}
        self.simulation = Simulation(scenario_in(document, "s.yaml"), folder)
        self.ticks: list[TickRecord] = []
        self.simulation.run(self._watch)
        self.rows = self.simulation.timeline.rows()

    def _watch(self, _at: Micros, done: object) -> None:
        if isinstance(done, TickRecord):
            self.ticks.append(done)

    def told(self, what: str) -> list[tuple[float, str]]:
        return [(row.at, row.after or row.because) for row in self.rows if row.what == what]


@pytest.fixture
def folder() -> Iterator[str]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as made:
        yield made


def line(row: TimelineRow) -> str:
    said = row.after or row.because.partition(":")[0]
    return f"{int(row.at) // 60}:{int(row.at) % 60:02} {row.what}: {said}\n"


@pytest.mark.long
def test_the_example_with_all_three_actions(folder: str) -> None:
    simulation = Simulation(read_scenario(str(EXAMPLE)), folder)
    simulation.run(lambda _at, _done: None)
    rows = simulation.timeline.rows()
    assert "".join(line(row) for row in rows if not row.changes) == GOLDEN
    report = make_report(simulation, rows, simulation.release())
    assert report.left == 0
    picture = draw_scenario(report, simulation.meter, rows)
    assert "waterline3/cpu-usage triggered action eviction" in picture
    simulation.close()


def test_a_throttled_pod_is_a_line_about_its_quota(folder: str) -> None:
    found = Trial(folder)
    (first, *_) = found.told("quota of kubepods/burstable/podbatch/main")
    assert first == (1.0, "900m")
    assert found.told("idle of kubepods/burstable/podbatch")[0] == (1.0, "1")
    assert found.told("quota of kubepods/burstable/podweb/main") == []
    assert found.simulation.release() == 0


def test_an_evicted_pod_works_on_for_its_grace_and_ends(folder: str) -> None:
    found = Trial(folder, objects=[EVICT, RULES])
    assert found.told("evict default/batch") == [(1.0, "evicted")]
    assert found.told("pod batch") == [(5.0, "it ended: it was evicted")]
    ending = [each.terminating for tick in found.ticks for each in tick.snapshot.workloads]
    assert ending.count(True) == 3
    assert [pod.name for pod in found.simulation.node.pods] == ["web"]


def test_without_a_grace_of_the_action_the_pods_own_counts(folder: str) -> None:
    action = {**EVICT, "spec": {"coolDownSeconds": 5, "eviction": {}}}
    found = Trial(folder, objects=[action, RULES], pods=[HOT, {**BATCH, "grace": "7s"}])
    assert found.told("pod batch") == [(8.0, "it ended: it was evicted")]


def test_a_controller_replaces_an_evicted_pod_again_and_again(folder: str) -> None:
    pods = [HOT, {**BATCH, "replaced": True, "replacedAfter": "3s"}]
    found = Trial(folder, objects=[EVICT, RULES], pods=pods, duration="2m")
    came = [row.what for row in found.rows if row.because.startswith("it came")]
    assert came[:2] == ["pod batch-2", "pod batch-3"]
    assert found.told("pod batch-2")[0] == (8.0, "it came, burstable")
    assert found.told("evict default/batch-2")


def test_no_replacement_comes_while_the_node_is_tainted(folder: str) -> None:
    taint = {**TAINT, "metadata": {"name": "taint"}, "spec": {"coolDownSeconds": 20}}
    rule = {**RULES["spec"]["rules"][0], "name": "second", "actionName": "taint"}
    both = {**RULES, "spec": {**RULES["spec"], "rules": [*RULES["spec"]["rules"], rule]}}
    pods = [HOT, {**BATCH, "replaced": True, "replacedAfter": "1s"}]
    found = Trial(folder, objects=[EVICT, taint, both], pods=pods)
    ((_, added), (gone, removed), *_) = found.told("taint interference.crane.io")
    assert (added, removed) == ("PreferNoSchedule", "none")
    assert found.told("pod batch-2")[0] == (gone + 1, "it came, burstable")


def test_the_taint_outlives_a_killed_agent_and_goes_with_its_rule(folder: str) -> None:
    found = Trial(
        folder,
        objects=[TAINT, RULES],
        events=[
            {"at": "10s", "kind": "kill", "down": "5s"},
            {"at": "30s", "kind": "object-removed", "object": "NodeQOS/waterline"},
        ],
    )
    told = found.told("taint interference.crane.io")
    assert told[0] == (1.0, "PreferNoSchedule")
    assert told[-1] == (30.0, "none")
    assert [at for at, _ in told if 10 <= at < 15] == []
    assert found.told("objects") == [(30.0, "NodeQOS/waterline is deleted")]
    assert found.simulation.server.interference.effect == ""


def test_preview_tells_and_changes_nothing(folder: str) -> None:
    rule = {**RULES["spec"]["rules"][0], "strategy": "Preview"}
    found = Trial(folder, objects=[ACTION, {**RULES, "spec": {**RULES["spec"], "rules": [rule]}}])
    ((_, message),) = found.told("event AvoidanceTriggered")
    assert "Preview: nothing is done" in message
    assert [row for row in found.rows if row.changes] == []


def latency_rule(limit: str) -> dict[str, Any]:
    rule = {**RULES["spec"]["rules"][0], "metricRule": {"name": "latency:p99", "value": limit}}
    probe = {"httpGet": {"path": "/metrics", "port": 9090}}
    return {**RULES, "spec": {"nodeQualityProbe": probe, "rules": [rule]}}


def test_a_rule_about_a_stated_latency(folder: str) -> None:
    series = {"spike": {"at": "20s", "height": "80m", "for": "10s", "base": "20m"}}
    found = Trial(
        folder,
        objects=[{**ACTION, "spec": {**ACTION["spec"], "coolDownSeconds": 5}}, latency_rule("50m")],
        metrics=[{"name": "latency:p99", "source": "NodeQOS/waterline", "series": series}],
    )
    ((at, message),) = found.told("event AvoidanceTriggered")
    assert (at, "latency:p99 0.08 > 0.05" in message) == (20.0, True)
    (demoted, restored) = found.told("idle of kubepods/burstable/podbatch")
    assert demoted == (20.0, "1")
    assert restored[0] >= 35
    assert restored[1] == "0"


def test_a_latency_that_the_scenario_does_not_state_holds_the_rule(folder: str) -> None:
    found = Trial(folder, objects=[ACTION, latency_rule("50m")])
    (told,) = [each for each in found.ticks[-1].story.told if each.policy == "watermark_relief"]
    (held,) = [each.held for each in told.rules]
    assert held.startswith("the scenario states no latency:p99 under spec.metrics")
