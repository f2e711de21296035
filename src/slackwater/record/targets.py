"""What a word on the command line names: the node, a tier, a pod, or everything.

Owns the names that people see, of whatever a knob may belong to.
"""

import enum

import msgspec

from slackwater.model.cgroup import CgroupRef, Level, Tier
from slackwater.model.gap import Gap
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.workload import Workload

NODE = "node"
#: After a tier's name: its pods as well.
PODS = "/*"
#: What a remark is about that is about every pod.
ALL_PODS = "all pods"
#: So many pods are named to somebody who asked for one that is not there.
_NAMED = 8


class Reach(enum.Enum):
    """How far down a tier is asked about."""

    ITSELF = "itself"
    PODS = "pods"


class Scope(msgspec.Struct, frozen=True):
    """What is asked about. Neither a tier nor a pod: everything, or the node's own group."""

    name: str
    level: Level | None = None
    tier: Tier | None = None
    pod: Workload | None = None
    reach: Reach = Reach.ITSELF

    def holds(self, ref: CgroupRef) -> bool:
        """Whether this group is part of what was asked about."""
        if self.level is None:
            return True
        if self.pod is not None:
            return ref.owner == self.pod.uid
        if self.tier is not None:
            mine = ref.level is not Level.NODE and ref.tier is self.tier
            return mine and (ref.level is Level.TIER or self.reach is Reach.PODS)
        return ref.level is Level.NODE

    def is_beneath(self, ref: CgroupRef) -> bool:
        """Whether this group is in the tier that was asked about, and was not asked about."""
        inner = ref.level in (Level.POD, Level.CONTAINER)
        return inner and ref.tier is self.tier and self.reach is Reach.ITSELF

    def concerns(self, about: str, snapshot: NodeSnapshot) -> bool:
        """Whether a remark about so and so is for who asked."""
        if self.level in (None, Level.NODE):
            return True
        if self.pod is not None:
            return self.pod.title() == about
        if self.reach is Reach.ITSELF:
            return about == ALL_PODS
        mine = (pod.title() for pod in snapshot.workloads if pod.tier is self.tier)
        return about == ALL_PODS or about in mine

    def feels(self, ref: CgroupRef) -> bool:
        """Whether what is set on this group binds what was asked about: it lies above it."""
        if self.level in (None, Level.NODE):
            return False
        tier = self.pod.tier if self.pod else self.tier
        above = ref.level is Level.TIER and ref.tier is tier
        return ref.level is Level.NODE or (above and self.pod is not None)


EVERYTHING = Scope(NODE)


def scopes_of(word: str, snapshot: NodeSnapshot) -> tuple[Scope, ...] | Gap:
    """A pod's name may be that of several, in several namespaces."""
    if not word:
        return (EVERYTHING,)
    if word == NODE:
        return (Scope(NODE, Level.NODE),)
    tiers = {tier.value: tier for tier in Tier}
    tier = word.removesuffix(PODS)
    if tier in tiers:
        reach = Reach.ITSELF if tier == word else Reach.PODS
        return (Scope(tier, Level.TIER, tiers[tier], reach=reach),)
    pods = [pod for pod in snapshot.workloads if word in (pod.name, pod_name(pod), pod.uid)]
    if pods:
        return tuple(Scope(pod_name(pod), Level.POD, pod=pod) for pod in pods)
    return Gap(f"there is no {word!r} here: {_what_exists(snapshot)}")


def _what_exists(snapshot: NodeSnapshot) -> str:
    groups = ", ".join((NODE, *(tier.value for tier in Tier)))
    names = sorted(pod_name(pod) for pod in snapshot.workloads)
    if not names:
        return f"there are {groups}, and no pods"
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"there are {groups}, and the pods {', '.join(names[:_NAMED])}{more}"


def pod_name(pod: Workload) -> str:
    """With its namespace, if it has one: a pod without an object is called by its uid."""
    return f"{pod.namespace}/{pod.name}" if pod.namespace else pod.name


def pod_of(ref: CgroupRef, snapshot: NodeSnapshot) -> Workload | None:
    return next((pod for pod in snapshot.workloads if ref.owner and pod.uid == ref.owner), None)


def target_name(ref: CgroupRef, snapshot: NodeSnapshot) -> str:
    """What people call a group."""
    pod = pod_of(ref, snapshot)
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
