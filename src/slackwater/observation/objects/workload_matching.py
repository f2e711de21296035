"""Pod objects and groups of the tree, matched by uid, as what policies know of a pod.

Owns the translation of a dialect's annotations into the model's words. A group without an object
is a pod too, called by its uid.
"""

from collections.abc import Sequence

from slackwater.contract import pod_resources
from slackwater.contract.crane.cpu_policy import cpu_policy, said_by
from slackwater.contract.koordinator.pod import bound_cpus
from slackwater.contract.kubernetes_pod import Phase, Pod
from slackwater.contract.pod_protection import protection_of
from slackwater.contract.volcano.pod import memory_qos, qos_level, quota_burst
from slackwater.model.cgroup import CgroupRef, Level
from slackwater.model.gap import Gap
from slackwater.model.workload import MemoryRatios, Workload, WorkloadContainer
from slackwater.observation.cgroups.paths import container_id

_NO_GROUP = Gap("its cgroup is not there")
_UNKNOWN = Gap("the pod's status does not say which of its cgroups is this container's")
#: A pod's groups of containers, by the runtime's id.
_Inner = dict[str | None, CgroupRef]


class Matching:
    """Keeps the last match: pods and groups change rarely."""

    def __init__(self) -> None:
        self._of: tuple[Sequence[Pod], tuple[CgroupRef, ...]] | None = None
        self._found: tuple[Workload, ...] = ()

    def match(self, pods: Sequence[Pod], refs: tuple[CgroupRef, ...]) -> tuple[Workload, ...]:
        """The same object again while neither changed."""
        if self._of is None or self._of[0] is not pods or self._of[1] is not refs:
            self._of, self._found = (pods, refs), workloads_of(pods, refs)
        return self._found


def workloads_of(pods: Sequence[Pod], refs: tuple[CgroupRef, ...]) -> tuple[Workload, ...]:
    groups = {ref.owner: ref for ref in refs if ref.level is Level.POD}
    inner: dict[str, _Inner] = {}
    for ref in refs:
        if ref.level is Level.CONTAINER:
            inner.setdefault(ref.owner, {})[container_id(ref.name())] = ref
    known = [
        _workload(pod, groups.get(pod.cgroup_uid), inner.get(pod.cgroup_uid, {}))
        for pod in pods
        if not pod.is_finished()
    ]
    named = {pod.cgroup_uid for pod in pods}
    strays = [
        Workload(uid, uid, "", ref.tier, ref) for uid, ref in groups.items() if uid not in named
    ]
    return (*known, *strays)


def _workload(pod: Pod, ref: CgroupRef | None, inner: _Inner) -> Workload:
    """The tier is where the group is; what the object says counts until there is one."""
    extended = pod_resources.pod_extended(pod.resources)
    return Workload(
        uid=pod.cgroup_uid,
        name=pod.name,
        namespace=pod.namespace,
        tier=ref.tier if ref else pod.tier,
        ref=ref or _NO_GROUP,
        request=pod_resources.pod_requests(pod.resources).cpu,
        priority=pod.priority,
        containers=tuple(
            _container(each, _group(pod, each, inner)) for each in pod.resources.containers
        ),
        own_limit=pod.resources.own_limits.cpu,
        qos_level=_qos_level(pod),
        burst=quota_burst(pod.annotations),
        memory_ratios=_memory_ratios(pod),
        extended_requests=extended.requests,
        extended_limits=extended.limits,
        labels=pod.labels,
        started=pod.started,
        terminating=pod.terminating,
        protected=protection_of(pod),
        address=pod.address,
        ports=pod.ports,
        cpu_policy=cpu_policy(pod.annotations),
        cpu_policy_key=said_by(pod.annotations),
        bound_cpus=bound_cpus(pod.labels, pod.annotations),
    )


def _group(pod: Pod, each: pod_resources.Container, inner: _Inner) -> CgroupRef | Gap:
    """By the id in the status. A pod without any status was written by hand: its only container
    is in the only group; in a cluster a lone group is the sandbox's."""
    if each.id:
        return inner.get(each.id.rpartition("://")[2], _NO_GROUP)
    if pod.phase is not Phase.UNKNOWN or not inner:
        return _NO_GROUP
    alone = len(pod.resources.containers) == len(inner) == 1
    return next(iter(inner.values())) if alone else _UNKNOWN


def _container(each: pod_resources.Container, ref: CgroupRef | Gap) -> WorkloadContainer:
    return WorkloadContainer(
        name=each.name,
        ref=ref,
        request=each.requests.cpu,
        limit=each.limits.cpu,
        memory_request=each.requests.memory,
        memory_limit=each.limits.memory,
        extended_requests=each.extended_requests,
        extended_limits=each.extended_limits,
    )


def _qos_level(pod: Pod) -> int | Gap:
    level = qos_level(pod.annotations)
    return level if isinstance(level, Gap) else level.number


def _memory_ratios(pod: Pod) -> MemoryRatios | Gap | None:
    return pod.memory_ratios or memory_qos(pod.annotations)
