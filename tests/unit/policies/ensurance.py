"""Rules, actions, pods and nodes of QoS ensurance in a few words, for tests."""

from collections.abc import Mapping
from typing import Any

import msgspec

from slackwater.contract.crane.ensurance import AvoidanceAction
from slackwater.contract.crane.ensurance_set import EnsuranceObjects
from slackwater.contract.crane.objects import (
    read_avoidance_action,
    read_node_qos,
    read_pod_qos,
)
from slackwater.contract.crane.pod_qos import PodQos
from slackwater.model.cgroup import CgroupReading, CgroupRef, CgroupVersion, Level, Tier
from slackwater.model.decision import Act, CommandKind, Decision, RuleState
from slackwater.model.gap import Gap
from slackwater.model.metric import Sample
from slackwater.model.snapshot import NodeSnapshot, Rate
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, MilliCpu, Unlimited
from slackwater.model.workload import Workload, WorkloadContainer
from slackwater.policies.ensurance.watermark_relief import WatermarkMemory, decide
from slackwater.policies.ensurance.watermark_settings import (
    WatermarkReliefSettings,
    WatermarkRules,
    bind,
)
from tests.unit.policies.nodes import FREE, SECOND, node

V1, V2 = CgroupVersion.V1, CgroupVersion.V2
API = "ensurance.crane.io/v1alpha1"


def action(name: str, cool_down: int = 300, **spec: Any) -> AvoidanceAction:
    document = {
        "apiVersion": API,
        "kind": "AvoidanceAction",
        "metadata": {"name": name},
        "spec": {"coolDownSeconds": cool_down, **spec},
    }
    return read_avoidance_action(document, "test")


def throttle(
    name: str = "throttle", cool_down: int = 300, step: int = 10, least: int = 10
) -> AvoidanceAction:
    cpu = {"stepCPURatio": step, "minCPURatio": least}
    return action(name, cool_down, throttle={"cpuThrottle": cpu})


def evict(name: str = "evict", cool_down: int = 300, grace: int | None = None) -> AvoidanceAction:
    seconds = {} if grace is None else {"terminationGracePeriodSeconds": grace}
    return action(name, cool_down, eviction=seconds)


STOP = action("stop")


def rule(
    name: str = "r",
    metric: str = "cpu_total_usage",
    value: int | str = 6000,
    does: str = "throttle",
    counts: tuple[int, int] = (1, 1),
    **more: Any,
) -> dict[str, Any]:
    selector = more.pop("selector", None)
    return {
        "name": name,
        "metricRule": {"name": metric, "value": value}
        | ({} if selector is None else {"selector": selector}),
        "actionName": does,
        "avoidanceThreshold": counts[0],
        "restoreThreshold": counts[1],
        **more,
    }


def pod_qos(name: str, *actions: str, **spec: Any) -> PodQos:
    document = {
        "apiVersion": API,
        "kind": "PodQOS",
        "metadata": {"name": name},
        "spec": {"allowedActions": list(actions), **spec},
    }
    return read_pod_qos(document, "test")


def scope(what: str, operator: str, *values: str) -> dict[str, Any]:
    each = {"scopeName": what, "operator": operator, "values": list(values)}
    return {"scopeSelector": {"matchExpressions": [each]}}


def objects(
    *rules: dict[str, Any],
    actions: tuple[AvoidanceAction, ...] = (),
    pods: tuple[PodQos, ...] = (),
    probe: Mapping[str, Any] | None = None,
) -> EnsuranceObjects:
    document = {
        "apiVersion": API,
        "kind": "NodeQOS",
        "metadata": {"name": "q"},
        "spec": {
            "nodeQualityProbe": dict(probe or {"nodeLocalGet": {}}),
            "rules": list(rules),
        },
    }
    return EnsuranceObjects((read_node_qos(document, "test"),), (), actions, pods)


HTTP = {"httpGet": {"port": 8080, "path": "/metrics"}}
LATENCY = "latency_seconds:p99"


def bound(
    *rules: dict[str, Any],
    actions: tuple[AvoidanceAction, ...] = (),
    pods: tuple[PodQos, ...] = (),
    probe: Mapping[str, Any] | None = None,
    **settings: Any,
) -> WatermarkRules:
    made = bind(
        WatermarkReliefSettings(**settings),
        objects(*rules, actions=actions, pods=pods, probe=probe),
        {},
        {},
    )
    assert isinstance(made, WatermarkRules)
    return made


def batch(
    number: int,
    *containers: WorkloadContainer,
    tier: Tier = Tier.BESTEFFORT,
    **more: Any,
) -> Workload:
    """A pod with one container, unless more are given."""
    parent = {Tier.GUARANTEED: "kubepods"}.get(tier, f"kubepods/{tier.value}")
    ref = CgroupRef(f"{parent}/pod{number}", 100 * number, Level.POD, tier, str(number))
    plain: dict[str, Any] = {
        "namespace": "default",
        "ref": ref,
        "containers": containers or (box(number, "c1", tier=tier),),
    }
    return Workload(str(number), f"pod-{number}", tier=tier, **plain | more)


def box(
    number: int, name: str, tier: Tier = Tier.BESTEFFORT, request: int = 0, limit: int = 0
) -> WorkloadContainer:
    """c1, c2, ... of pod `number`. A limit of 0 is none."""
    parent = {Tier.GUARANTEED: "kubepods"}.get(tier, f"kubepods/{tier.value}")
    path = f"{parent}/pod{number}/{name}"
    ref = CgroupRef(path, 100 * number + int(name[1:]), Level.CONTAINER, tier, str(number))
    return WorkloadContainer(name, ref, MilliCpu(request), MilliCpu(limit) if limit else UNLIMITED)


def readings(workloads: tuple[Workload, ...], idle: bool | Gap = False) -> dict[int, CgroupReading]:
    found: dict[int, CgroupReading] = {}
    for pod in workloads:
        if isinstance(pod.ref, CgroupRef):
            found[pod.ref.id] = CgroupReading(pod.ref, Micros(0), quota=FREE, weight=20, idle=idle)
        for each in pod.containers:
            if isinstance(each.ref, CgroupRef):
                limit = each.limit
                quota = FREE if isinstance(limit, Unlimited) else Bandwidth(Micros(limit * 100))
                found[each.ref.id] = CgroupReading(each.ref, Micros(0), quota=quota)
    return found


def seen(
    tick: int,
    *workloads: Workload,
    usages: Mapping[int, int] | None = None,
    metrics: Mapping[str, Any] | None = None,
    version: CgroupVersion = V2,
    idle: bool | Gap = False,
    **more: Any,
) -> NodeSnapshot:
    """A node at second `tick`. `usages` are milliCPU by the pod's number, used by its first
    container; a metric is a number, samples or a Gap."""
    rates: dict[int, Rate] = {}
    for number, used in (usages or {}).items():
        rates[100 * number] = rates[100 * number + 1] = Rate(MilliCpu(used), 0)
    found = {
        name: (Sample(float(value)),) if isinstance(value, int | float) else value
        for name, value in (metrics or {}).items()
    }
    plain: dict[str, Any] = {
        "at": Micros(tick * SECOND),
        "readings": readings(workloads, idle),
        "rates": rates,
        "metrics": found,
        "version": version,
        "wall_time": 1_000_000,
    }
    return msgspec.structs.replace(node(tick=tick, workloads=workloads), **plain | more)


def act(decision: Decision) -> Act:
    assert isinstance(decision, Act)
    return decision


class Run:
    """Ticks in a row with one memory."""

    def __init__(self, settings: WatermarkRules) -> None:
        self.settings = settings
        self.memory = WatermarkMemory()
        self.last = Act(())

    def tick(self, snapshot: NodeSnapshot) -> Act:
        self.last = act(decide(snapshot, self.memory, self.settings))
        assert isinstance(self.last.memory, WatermarkMemory)
        self.memory = self.last.memory
        return self.last

    def quotas(self) -> dict[str, Any]:
        """What is claimed, by the container's path below the tree."""
        return {
            "/".join(i.target.path.split("/")[-2:]): i.value
            for i in self.last.intents
            if i.knob == "quota"
        }

    def demoted(self) -> set[str]:
        return {i.target.name() for i in self.last.intents if i.knob in ("idle", "weight")}

    def evicted(self) -> list[str]:
        return [c.target for c in self.last.commands if c.kind is CommandKind.EVICT]

    def stops_scheduling(self) -> bool:
        kinds = {c.kind for c in self.last.commands}
        return {CommandKind.TAINT, CommandKind.CONDITION} <= kinds

    def state(self, place: int = 0) -> RuleState:
        return self.last.rules[place].state
