"""Targets of `slackwater explain`: the node, a tier, a pod, or everything, and their names."""

import enum

import msgspec

from slackwater.model.cgroup import CgroupRef, Level, Tier
from slackwater.model.gap import Gap
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.workload import Workload

NODE = "node"
#: After a tier's name: its pods as well.
PODS = "/*"
#: The subject of a remark about every pod.
ALL_PODS = "all pods"
#: How many pods are listed if the target does not exist.
_NAMED = 8


class Reach(enum.Enum):
    """Whether the question about a tier includes its pods."""

    ITSELF = "itself"
    PODS = "pods"


class TargetScope(msgspec.Struct, frozen=True):
    """The target of a question. Without a tier or a pod: everything, or the node's own cgroup."""

    name: str
    level: Level | None = None
    tier: Tier | None = None
    pod: Workload | None = None
    reach: Reach = Reach.ITSELF

    def contains(self, ref: CgroupRef) -> bool:
        """Whether this cgroup belongs to the target."""
        if self.level is None:
            return True
        if self.pod is not None:
            return ref.owner == self.pod.uid
        if self.tier is not None:
            mine = ref.level is not Level.NODE and ref.tier is self.tier
            return mine and (ref.level is Level.TIER or self.reach is Reach.PODS)
        return ref.level is Level.NODE

    def has_inside(self, ref: CgroupRef) -> bool:
        """Whether this cgroup is in the target's tier, but the question does not include pods."""
        inner = ref.level in (Level.POD, Level.CONTAINER)
        return inner and ref.tier is self.tier and self.reach is Reach.ITSELF

    def concerns(self, about: str, snapshot: NodeSnapshot) -> bool:
        """Whether a remark about `about` belongs to the answer."""
        if self.level in (None, Level.NODE):
            return True
        if self.pod is not None:
            return self.pod.title() == about
        if self.reach is Reach.ITSELF:
            return about == ALL_PODS
        mine = (pod.title() for pod in snapshot.workloads if pod.tier is self.tier)
        return about == ALL_PODS or about in mine

    def is_limited_by(self, ref: CgroupRef) -> bool:
        """Whether this cgroup lies above the target, so that its values limit it."""
        if self.level in (None, Level.NODE):
            return False
        tier = self.pod.tier if self.pod else self.tier
        above = ref.level is Level.TIER and ref.tier is tier
        return ref.level is Level.NODE or (above and self.pod is not None)


EVERYTHING = TargetScope(NODE)


def find_scopes(word: str, snapshot: NodeSnapshot) -> tuple[TargetScope, ...] | Gap:
    """Several if pods in several namespaces have the same name; a Gap lists what exists."""
    if not word:
        return (EVERYTHING,)
    if word == NODE:
        return (TargetScope(NODE, Level.NODE),)
    tiers = {tier.value: tier for tier in Tier}
    tier = word.removesuffix(PODS)
    if tier in tiers:
        reach = Reach.ITSELF if tier == word else Reach.PODS
        return (TargetScope(tier, Level.TIER, tiers[tier], reach=reach),)
    pods = [pod for pod in snapshot.workloads if word in (pod.name, pod_name(pod), pod.uid)]
    if pods:
        return tuple(TargetScope(pod_name(pod), Level.POD, pod=pod) for pod in pods)
    return Gap(f"there is no {word!r} here: {_what_exists(snapshot)}")


def _what_exists(snapshot: NodeSnapshot) -> str:
    groups = ", ".join((NODE, *(tier.value for tier in Tier)))
    names = sorted(pod_name(pod) for pod in snapshot.workloads)
    if not names:
        return f"there are {groups}, and no pods"
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"there are {groups}, and the pods {', '.join(names[:_NAMED])}{more}"


def pod_name(pod: Workload) -> str:
    """With its namespace, if it has one: a pod without an object is named by its uid."""
    return f"{pod.namespace}/{pod.name}" if pod.namespace else pod.name


def find_pod(ref: CgroupRef, snapshot: NodeSnapshot) -> Workload | None:
    return next((pod for pod in snapshot.workloads if ref.owner and pod.uid == ref.owner), None)


def target_name(ref: CgroupRef, snapshot: NodeSnapshot) -> str:
    """The name of a cgroup for people."""
    pod = find_pod(ref, snapshot)
    match ref.level:
        case Level.NODE:
            return NODE
        case Level.TIER:
            return ref.tier.value
        case Level.POD:
            return pod_name(pod) if pod else ref.owner or ref.name()
        case Level.CONTAINER:
            return f"{pod_name(pod) if pod else ref.owner}/{_container_name(ref, pod)}"


def _container_name(ref: CgroupRef, pod: Workload | None) -> str:
    containers = pod.containers if pod else ()
    return next((each.name for each in containers if each.ref == ref), ref.name()[:12])
