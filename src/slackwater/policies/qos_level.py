"""Maps a pod's QoS level to the kernel's CPU priority (Volcano's CPU QoS).

A vendor's kernel has cpu.qos_level, set on the pod and everything in it. Others have cpu.idle,
which lets best-effort work run only where nobody else wants to, or at least a lowest weight: they
stand in for level BE, on the pod's own group, beside its neighbours. Where none of them works
nothing is done, and a remark says so.
"""

import enum
from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from slackwater.contract.schema import SettingsStruct
from slackwater.model.cgroup import CgroupRef, CgroupVersion, Level
from slackwater.model.decision import Act, Because, Decision, Intent, Remark, Verb
from slackwater.model.gap import Gap
from slackwater.model.knob import CPU_QOS_LEVEL, IDLE, WEIGHT, KnobKey
from slackwater.model.needs import Needs, ReadingField
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.weight import SMALLEST_SHARES, SMALLEST_WEIGHT
from slackwater.model.workload import Workload
from slackwater.policies.policy import STATELESS, Policy


class StandIn(enum.Enum):
    """What is done for best-effort pods on a kernel without cpu.qos_level."""

    IDLE = "idle"
    WEIGHT = "weight"
    NONE = "none"


class QosLevelSettings(SettingsStruct, frozen=True):
    """Settings of the QoS level."""

    enabled: Annotated[
        bool,
        Meta(
            description="Whether the level that a pod's volcano.sh/qos-level names is set on its "
            "cgroups.",
        ),
    ] = False
    stand_in: Annotated[
        StandIn,
        Meta(
            description="What pods of level BE get where the kernel has no cpu.qos_level, a "
            "vendor's file: cpu.idle, or the lowest weight where that is missing too; the lowest "
            "weight at once; or nothing.",
        ),
    ] = StandIn.IDLE


NAME = "qos_level"
_BEST_EFFORT = -1
_FIELDS = frozenset({ReadingField.CPU_QOS_LEVEL, ReadingField.IDLE, ReadingField.WEIGHT})


def needs(_: QosLevelSettings, __: frozenset[KnobKey]) -> Needs:
    return Needs({Level.POD: _FIELDS, Level.CONTAINER: _FIELDS})


def decide(snapshot: NodeSnapshot, _: object, settings: QosLevelSettings) -> Decision:
    intents: list[Intent] = []
    remarks: list[Remark] = []
    for workload in snapshot.workloads:
        level = workload.qos_level
        if isinstance(level, Gap):
            remarks.append(Remark(workload.title(), level.reason))
        elif level and isinstance(workload.ref, CgroupRef):
            asked = _asked(snapshot, workload, workload.ref, level, settings.stand_in)
            intents += asked
            if not asked and level == _BEST_EFFORT and settings.stand_in is not StandIn.NONE:
                text = "neither cpu.qos_level nor cpu.idle nor its weight can be set here"
                remarks.append(Remark(workload.title(), text))
    return Act(tuple(intents), STATELESS, {}, (), tuple(remarks))


def _asked(
    snapshot: NodeSnapshot, workload: Workload, pod: CgroupRef, level: int, stand_in: StandIn
) -> list[Intent]:
    if _has(snapshot, pod, CPU_QOS_LEVEL.name):
        because = Because("volcano.sh/qos-level", str(level), "the kernel has cpu.qos_level")
        inner = (each.ref for each in workload.containers)
        groups = (pod, *(ref for ref in inner if isinstance(ref, CgroupRef)))
        return [
            Intent(ref, CPU_QOS_LEVEL.name, Verb.SET, level, because, NAME)
            for ref in groups
            if _has(snapshot, ref, CPU_QOS_LEVEL.name)
        ]
    return [] if level != _BEST_EFFORT else list(_stand_in(snapshot, pod, stand_in))


def _stand_in(snapshot: NodeSnapshot, pod: CgroupRef, chosen: StandIn) -> Iterator[Intent]:
    if chosen is StandIn.IDLE and _has(snapshot, pod, IDLE.name):
        because = Because("volcano.sh/qos-level", "BE", "cpu.idle stands in for cpu.qos_level")
        yield Intent(pod, IDLE.name, Verb.SET, True, because, NAME)
    elif chosen is not StandIn.NONE and _has(snapshot, pod, WEIGHT.name):
        v1 = snapshot.version is CgroupVersion.V1
        because = Because("volcano.sh/qos-level", "BE", "the lowest weight stands in")
        value = SMALLEST_SHARES if v1 else SMALLEST_WEIGHT
        yield Intent(pod, WEIGHT.name, Verb.SET, value, because, NAME)


def _has(snapshot: NodeSnapshot, ref: CgroupRef, knob: str) -> bool:
    """Whether this group has the file, and it could be written so far."""
    reading = snapshot.readings.get(ref.id)
    there = reading is not None and not isinstance(reading.value(knob), Gap)
    return there and snapshot.can_write(ref, knob)


def concerns(pod: Workload) -> bool:
    return pod.qos_level != 0


POLICY = Policy(
    NAME,
    STATELESS,
    needs,
    decide,
    settings=QosLevelSettings,
    description="best-effort work yields the CPU at once",
    concerns=concerns,
    ignores_counters=True,
    knobs=((CPU_QOS_LEVEL.name,), (IDLE.name,), (WEIGHT.name,)),
)
