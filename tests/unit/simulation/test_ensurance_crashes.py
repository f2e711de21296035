"""Ten thousand ticks of QoS ensurance: rules come, change and go, pods come and end, and the agent
is killed at any effect. Whenever the rules are gone nothing of theirs is left."""

import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from slackwater.contract.crane.ensurance_set import (
    NO_OBJECTS,
    EnsuranceObjects,
    join_ensurance,
    read_ensurance,
)
from slackwater.contract.node_interference import NO_INTERFERENCE, NodeInterference
from slackwater.execution.ledger import Ledger
from slackwater.execution.node_states import CommandAttempt
from slackwater.model.cgroup import CgroupVersion, Tier
from slackwater.model.decision import Because, Command, RuleState
from slackwater.model.knob import QUOTA
from slackwater.model.units import UNLIMITED, Micros, MilliCpu
from slackwater.model.workload import Workload
from slackwater.policies.catalog import SETTINGS
from slackwater.record.journal import TickRecord
from slackwater.simulation.demand import SECOND, Demand, Steady, Steps
from slackwater.simulation.scenario import ScenarioPod
from slackwater.simulation.simulated_api_server import SimulatedApiServer, SimulatedCommands
from slackwater.simulation.simulated_node import SimulatedAgent, start_agent
from tests.unit.simulation.mortal import MEMORY, Bed, Fate, doomed_ledger

pytestmark = pytest.mark.long

V1, V2 = CgroupVersion.V1, CgroupVersion.V2
CPUS = 8
MOST_PODS = 8
#: Rounds without a kill in which everything is to be undone.
SETTLED_AFTER = 4
ACTIONS: dict[str, dict[str, Any]] = {
    "taint": {},
    "throttle": {"throttle": {"cpuThrottle": {"stepCPURatio": 20, "minCPURatio": 10}}},
    "evict": {"eviction": {"terminationGracePeriodSeconds": 2}},
    "both": {
        "throttle": {"cpuThrottle": {"stepCPURatio": 50, "minCPURatio": 30}},
        "eviction": {"terminationGracePeriodSeconds": 0},
    },
}


class MortalApiServer(SimulatedApiServer):
    """An API server whose client may die before and after each request."""

    def __init__(self, bed: Bed) -> None:
        super().__init__(bed.node.find_pod, lambda: bed.kernel.now)
        self._fate: Fate = bed.fate
        self.asked: Counter[str] = Counter()

    def evict(self, command: Command, pod: Workload | None) -> CommandAttempt:
        self._fate.meet("before the eviction")
        done = super().evict(command, pod)
        self.asked["evict"] += 1
        self._fate.meet("after the eviction")
        return done

    def mark_node(self, wanted: NodeInterference, because: Because) -> CommandAttempt:
        self._fate.meet("before the taint")
        done = super().mark_node(wanted, because)
        self.asked["taint" if wanted.effect else "no taint"] += 1
        self._fate.meet("after the taint")
        return done


class EnsuranceBed(Bed):
    """A node with an API server that outlives the agents."""

    def __init__(self, folder: Path, version: CgroupVersion, chance: random.Random) -> None:
        super().__init__(folder, version, CPUS, SETTINGS.defaults)
        self.folder = str(folder)
        self.chance = chance
        self.server = MortalApiServer(self)
        self.number = 0

    def start(self) -> SimulatedAgent:
        if self.process is not None:
            self.process.end()
        ledger = Ledger.open(self.folder, "boot")
        assert isinstance(ledger, Ledger), ledger
        commands = SimulatedCommands(self.server, lambda: self.kernel.now)
        self.process = start_agent(
            self.node, self.source, ledger, lambda _entry: None, commands=commands
        )
        assert self.process.agent.start(self.kernel.now) == ()
        return self.process

    def add_pod(self) -> None:
        self.number += 1
        tier = self.chance.choice(tuple(Tier))
        levels = [MilliCpu(self.chance.randrange(0, 3000)) for _ in range(5)]
        demand: Demand = Steps(tuple(levels), Micros(self.chance.choice((1, 3, 7)) * SECOND))
        request = MilliCpu(0 if tier is Tier.BESTEFFORT else self.chance.randrange(100, 2000))
        limited = tier is Tier.GUARANTEED or (tier is Tier.BURSTABLE and self.chance.random() < 0.5)
        self.node.add(
            ScenarioPod(
                f"pod-{self.number}",
                tier,
                demand,
                request,
                MilliCpu(request + self.chance.randrange(1000)) if limited else UNLIMITED,
                priority=self.chance.choice((-10, 0, 1000)),
                starts=self.kernel.now,
            )
        )

    def end_pod(self, name: str) -> None:
        self.node.remove(name)
        self.server.ending.pop(name, None)

    def move_pods(self) -> None:
        """Some come, some end, those that were evicted end when their grace is over."""
        before = (self.node.pods, frozenset(self.server.ending))
        for name in [name for name, at in self.server.ending.items() if at <= self.kernel.now]:
            self.end_pod(name)
        if self.chance.random() < 0.1 and self.node.pods:
            self.end_pod(self.chance.choice(self.node.pods).name)
        if self.chance.random() < 0.2 and len(self.node.pods) < MOST_PODS:
            self.add_pod()
        self.show_pods(before)

    def show_pods(self, before: object) -> None:
        now = (self.node.pods, frozenset(self.server.ending))
        if now != before:
            self.source.set_pods(*now)

    def apply(self, ensurance: EnsuranceObjects) -> None:
        self.source.objects = msgspec.structs.replace(self.source.objects, ensurance=ensurance)

    def untouched(self) -> object:
        """The knobs of a node with these pods that no agent ever saw."""
        fresh = Bed(self.folder, self.kernel.version(QUOTA), CPUS)
        # The kubelet weighs the burstable tier when a pod comes or ends.
        fresh.node.add(ScenarioPod("first", Tier.BESTEFFORT, Steady(MilliCpu(0))))
        fresh.node.remove("first")
        for pod in self.node.pods:
            fresh.node.add(pod)
        return fresh.knobs()


def document(kind: str, name: str, spec: dict[str, Any]) -> EnsuranceObjects:
    head = {"apiVersion": "ensurance.crane.io/v1alpha1", "kind": kind, "metadata": {"name": name}}
    found = read_ensurance(kind, {**head, "spec": spec}, "test")
    assert found is not None
    return found


def any_rules(chance: random.Random) -> EnsuranceObjects:
    """One to three rules in one or two objects, of both kinds; an action may be missing."""
    there = [name for name in ACTIONS if chance.random() < 0.9]
    parts = [
        document(
            "AvoidanceAction", name, {**ACTIONS[name], "coolDownSeconds": chance.choice((1, 5))}
        )
        for name in there
    ]
    for kind, key in (("NodeQOS", "rules"), ("NodeQOSEnsurancePolicy", "objectiveEnsurances")):
        rules = [
            {
                "name": f"rule-{place}",
                "actionName": chance.choice(tuple(ACTIONS)),
                "avoidanceThreshold": chance.choice((1, 2)),
                "restoreThreshold": chance.choice((1, 2)),
                "strategy": chance.choice(("None", "None", "None", "Preview")),
                "metricRule": {
                    "name": chance.choice(("cpu_total_usage", "cpu_total_utilization")),
                    "value": chance.choice((20, 60, 2000, 5000)),
                },
            }
            for place in range(chance.randrange(3))
        ]
        if rules:
            spec = {"nodeQualityProbe": {"nodeLocalGet": {}}, key: rules}
            parts.append(document(kind, "waterline", spec))
    if chance.random() < 0.3:
        allowed = chance.sample(tuple(ACTIONS), 2)
        selector = {"matchExpressions": [
            {"scopeName": "Priority", "operator": "In", "values": ["-10-0"]}
        ]}  # fmt: skip
        spec = {"allowedActions": allowed, "scopeSelector": selector}
        parts.append(document("PodQOS", "batch", spec))
    return join_ensurance(parts)


def check_nothing_is_left(bed: EnsuranceBed, told: str) -> None:
    """With all rules gone, a few rounds later."""
    bed.fate.left = None
    bed.apply(NO_OBJECTS)
    for _ in range(SETTLED_AFTER):
        bed.once()
    assert bed.knobs() == bed.untouched(), told
    assert bed.alive().ledger.entries == (), told
    assert bed.server.interference == NO_INTERFERENCE, told
    for name, at in tuple(bed.server.ending.items()):
        # The API server was asked for it: the pod ends, whoever lives by then.
        assert at <= bed.kernel.now + 2 * SECOND, told
        assert bed.node.find_pod(name) is not None, told


@pytest.mark.parametrize(("version", "ticks"), [(V2, 7_500), (V1, 2_500)])
def test_ten_thousand_ticks_leave_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, version: CgroupVersion, ticks: int
) -> None:
    chance = random.Random(14)  # noqa: S311 - not a secret
    states: Counter[RuleState] = Counter()
    with tempfile.TemporaryDirectory(dir=MEMORY) as made:
        bed = EnsuranceBed(Path(made), version, chance)
        doomed_ledger(bed, monkeypatch)
        for tick in range(ticks):
            bed.move_pods()
            if chance.random() < 0.03:
                bed.apply(any_rules(chance))
            if bed.fate.left is None and chance.random() < 0.05:
                bed.fate.left = chance.randrange(1, 30)
            records: list[TickRecord] = []
            bed.survive(lambda: records.append(bed.once()))  # noqa: B023 - called at once
            states.update(
                rule.state for each in records for told in each.story.told for rule in told.rules
            )
            if tick % 250 == 249:
                check_nothing_is_left(bed, f"tick {tick}")
    assert min(bed.server.asked[each] for each in ("evict", "taint", "no taint")) > ticks // 200
    assert set(states) == set(RuleState)
    assert {"after the eviction", "after the taint", "after the write"} <= set(bed.fate.deaths)
    assert bed.fate.deaths.total() > ticks // 100
