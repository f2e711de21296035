"""One CPU unit, the same worth on every machine (Koordinator's CPU normalization).

What a pod declares is in normalized CPU; a faster machine gives less of its own time for it:

    quota = ceil(what the quota would be / the node's ratio)

of the pod and of each of its containers, of every kind. The ratio is an annotation of the Node,
which the manager writes; without it, or at 1.00, nothing is scaled. Unlimited stays unlimited. Pods
with CPUs of their own count whole CPUs, and are left alone. Bursts come before the ratio and
throttles after it: that is the quota law's to see to.

On cgroup v1 the kernel refuses a container whose quota is larger than its pod's, and the runtime
starts each with its declared limit: the pod's quota stays at the largest of those, or no container
could be started again. The containers' own quotas bind them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from slackwater.contract.crane.ensurance_set import EnsuranceObjects
from slackwater.contract.koordinator.normalization import (
    ONE,
    RATIO_ANNOTATION,
    Hundredths,
    format_ratio,
    parse_ratio,
)
from slackwater.contract.schema import SettingsStruct
from slackwater.model.cgroup import CgroupRef, CgroupVersion, Level
from slackwater.model.cpus import KubeletCpus
from slackwater.model.decision import NODE, Act, Because, Decision, Intent, Remark, Verb
from slackwater.model.gap import Gap
from slackwater.model.knob import QUOTA, KnobKey
from slackwater.model.needs import Needs, ReadingField
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Ratio, Unlimited
from slackwater.model.workload import Workload
from slackwater.policies.policy import Policy


class NormalizationSettings(SettingsStruct, frozen=True):
    """Settings of CPU normalization."""

    enabled: Annotated[
        bool,
        Meta(
            description="Whether CPU quotas are divided by the ratio in the Node's annotation "
            f"{RATIO_ANNOTATION}. Without that annotation nothing happens.",
        ),
    ] = True


class BoundNormalization(NormalizationSettings, frozen=True):
    """With the node's ratio, or why it cannot be read."""

    ratio: Hundredths | Gap = ONE


class LastRatio(msgspec.Struct, frozen=True):
    """The last ratio that could be read: a mistyped annotation changes nothing."""

    ratio: Hundredths | None = None


NAME = "normalization"
RATIO_NUMBER = "ratio in hundredths"
_COULD_NOT_START = "below it cgroup v1 refuses the container's start"
_FIELDS = frozenset({ReadingField.QUOTA})


def bind(
    settings: NormalizationSettings,
    _: EnsuranceObjects,
    __: Mapping[str, str],
    annotations: Mapping[str, str],
) -> BoundNormalization | str:
    text = annotations.get(RATIO_ANNOTATION)
    if text is None:
        return f"the Node has no annotation {RATIO_ANNOTATION}"
    ratio = parse_ratio(text, "")
    if ratio == ONE:
        return f"the Node's annotation {RATIO_ANNOTATION} is {text}"
    return BoundNormalization(settings.enabled, ratio)


def cpu_worth(in_force: object) -> Ratio | Gap:
    """What a CPU of this machine is worth in the unit that pods and nodes declare, by this policy's
    settings; they are None where it is off, and a CPU is worth a CPU."""
    if not isinstance(in_force, BoundNormalization):
        return Ratio(1)
    ratio = in_force.ratio
    return ratio if isinstance(ratio, Gap) else Ratio(ratio, ONE)


def needs(_: NormalizationSettings, __: frozenset[KnobKey]) -> Needs:
    """The tiers' quotas too: on cgroup v1 they bind what is below them."""
    fields = dict.fromkeys((Level.TIER, Level.POD, Level.CONTAINER), _FIELDS)
    return Needs(fields, topology=True)


def decide(snapshot: NodeSnapshot, memory: LastRatio, settings: BoundNormalization) -> Decision:
    remarks: list[Remark] = []
    ratio = settings.ratio
    if isinstance(ratio, Gap):
        last = format_ratio(memory.ratio or ONE)
        remarks.append(Remark(NODE, f"{ratio.reason}; {last} stays"))
        if memory.ratio is None:
            return Act((), memory, {}, (), tuple(remarks))
        ratio = memory.ratio
    scale = Ratio(ONE, ratio)
    because = Because(RATIO_ANNOTATION, format_ratio(ratio), "a CPU of this node is worth more")
    intents: list[Intent] = []
    pods = 0
    for pod in snapshot.workloads:
        groups = tuple(_groups(snapshot, pod))
        pods += bool(groups)
        intents += (Intent(ref, QUOTA.name, Verb.SCALE, scale, because, NAME) for ref in groups)
        if snapshot.version is CgroupVersion.V1:
            intents += _room_to_start(pod, groups)
    numbers = {"pods": pods, RATIO_NUMBER: ratio}
    return Act(tuple(intents), LastRatio(ratio), numbers, (), tuple(remarks))


def _groups(snapshot: NodeSnapshot, pod: Workload) -> Iterator[CgroupRef]:
    """The containers that share CPUs with others by time; and the pod, if all of them do."""
    if _bound(pod, snapshot.kubelet_cpus):
        return
    free = [each for each in pod.containers if not _is_pinned(snapshot, each.ref)]
    if len(free) == len(pod.containers) and isinstance(pod.ref, CgroupRef):
        yield pod.ref
    for each in free:
        if isinstance(each.ref, CgroupRef):
            yield each.ref


def _room_to_start(pod: Workload, groups: Sequence[CgroupRef]) -> Iterator[Intent]:
    """Of a pod whose own quota is scaled."""
    started_with = map(pod.limit_at_start, pod.containers)
    limits = [limit for limit in started_with if not isinstance(limit, Unlimited)]
    if pod.ref in groups and isinstance(pod.ref, CgroupRef) and limits:
        largest = max(limits)
        because = Because("largest limit of a container", f"{largest}m", _COULD_NOT_START)
        yield Intent(pod.ref, QUOTA.name, Verb.FLOOR, largest, because, NAME)


def _bound(pod: Workload, kubelet: KubeletCpus | Gap) -> str:
    """Why the pod's CPUs are its own by somebody else's doing; empty where they are not."""
    if not pod.bound_cpus and isinstance(kubelet, KubeletCpus) and kubelet.assigned.get(pod.uid):
        return "the kubelet gave it CPUs of its own"
    return pod.bound_cpus


def _is_pinned(snapshot: NodeSnapshot, ref: CgroupRef | Gap) -> bool:
    return isinstance(ref, CgroupRef) and snapshot.has_own_cpus(ref)


def explain_pod(
    settings: BoundNormalization, snapshot: NodeSnapshot, pod: Workload
) -> tuple[str, ...]:
    why = _bound(pod, snapshot.kubelet_cpus)
    if any(_is_pinned(snapshot, each.ref) for each in pod.containers):
        why = why or "containers of it have CPUs of their own"
    shown = "" if isinstance(settings.ratio, Gap) else f" by {format_ratio(settings.ratio)}"
    return (f"its quota is not divided{shown}: {why}",) if why else ()


def keep(memory: LastRatio, _now: int) -> LastRatio:
    """A restarted agent goes on with the last good ratio."""
    return memory


POLICY = Policy(
    NAME,
    LastRatio(),
    needs,
    decide,
    settings=NormalizationSettings,
    bound_settings=BoundNormalization,
    bind=bind,
    description="gives a CPU unit the same worth on every node",
    ignores_counters=True,
    knobs=((QUOTA.name,),),
    explain_pod=explain_pod,
    keep=keep,
)
