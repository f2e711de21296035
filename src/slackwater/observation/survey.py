"""Closes one snapshot: reads what the enabled policies need, at the level that they need.

Owns the order of reading: the node first and the tiers right after it, so that what is
subtracted from each other was read together.
"""

from collections.abc import Sequence

import msgspec

from slackwater.contract.kubernetes_pod import Pod
from slackwater.contract.pod_resources import pod_requests
from slackwater.model.cgroup import CgroupRef, Level
from slackwater.model.gap import Gap
from slackwater.model.needs import TIERS, Field, Needs
from slackwater.model.snapshot import Held, NodeSnapshot
from slackwater.model.units import Micros, MilliCpu
from slackwater.model.workload import Container, Workload
from slackwater.observation.cgroup_paths import container_id
from slackwater.observation.cgroup_tree import CgroupTree, Depth
from slackwater.observation.node_usage import NodeUsageMeter
from slackwater.observation.rates import Rates

_HELD = frozenset({Field.TIMES, Field.QUOTA})


class Known(msgspec.Struct, frozen=True):
    """What a snapshot takes from elsewhere: the node's size, its pods, and what is ours; and
    what it is wanted for. `early` is a look before its time, woken by pressure."""

    allocatable: MilliCpu | Gap
    pods: Sequence[Pod] = ()
    held: tuple[Held, ...] = ()
    off: frozenset[str] = frozenset()
    needs: Needs = TIERS
    early: bool = False


class Surveyor:
    """Guards the tree, the meter and the readings before."""

    def __init__(self, tree: CgroupTree, meter: NodeUsageMeter) -> None:
        self._tree = tree
        self._meter = meter
        self._rates = Rates()
        self._before: Micros | None = None

    def close_snapshot(self, tick: int, at: Micros, known: Known) -> NodeSnapshot | Gap:
        """A Gap where the tree itself is gone."""
        self._tree.look_to(_depth(known))
        usage = self._meter.read()
        scan = self._tree.refresh()
        kubepods = next((ref for ref in scan.refs if ref.level is Level.NODE), None)
        if kubepods is None:
            return Gap("the kubelet's tree is gone")
        held = {each.ref.id for each in known.held}
        readings = {
            ref.id: self._tree.read(ref, wants, at)
            for ref in scan.refs
            if (wants := known.needs.at(ref.level) | (_HELD if ref.id in held else frozenset()))
        }
        elapsed = Micros(at - self._before) if self._before is not None else Micros(0)
        self._before = at
        return NodeSnapshot(
            tick=tick,
            at=at,
            elapsed=elapsed,
            allocatable=known.allocatable,
            usage=self._rates.of_node(usage, at),
            kubepods=kubepods,
            tiers={ref.tier: ref for ref in scan.refs if ref.level is Level.TIER},
            workloads=_workloads(known.pods, scan.refs),
            readings=readings,
            rates=self._rates.of_groups(readings.values()),
            held=known.held,
            off=known.off,
            early=known.early,
        )

    def protected(self) -> tuple[CgroupRef, ...]:
        """The groups that best-effort work must not hurt, as of the last snapshot."""
        return self._tree.protected()

    def close(self) -> None:
        self._tree.close()
        self._meter.close()


def _depth(known: Known) -> Depth:
    """As far down as somebody needs, and as something of ours is."""
    levels = {each.ref.level for each in known.held} | known.needs.fields.keys()
    if Level.CONTAINER in levels:
        return Depth.CONTAINERS
    return Depth.PODS if Level.POD in levels else Depth.TIERS


def _workloads(pods: Sequence[Pod], refs: tuple[CgroupRef, ...]) -> tuple[Workload, ...]:
    """Objects and groups matched by uid. A group without an object is called by its uid."""
    groups = {ref.owner: ref for ref in refs if ref.level is Level.POD}
    inner = {
        (ref.owner, container_id(ref.name())): ref for ref in refs if ref.level is Level.CONTAINER
    }
    known = [_workload(p, groups.get(p.cgroup_uid), inner) for p in pods if not p.is_finished()]
    named = {pod.cgroup_uid for pod in pods}
    strays = [
        Workload(uid, uid, "", ref.tier, ref) for uid, ref in groups.items() if uid not in named
    ]
    return (*known, *strays)


def _workload(
    pod: Pod, ref: CgroupRef | None, inner: dict[tuple[str, str | None], CgroupRef]
) -> Workload:
    """The tier is where the group is; what the object says counts until there is one."""
    return Workload(
        uid=pod.cgroup_uid,
        name=pod.name,
        namespace=pod.namespace,
        tier=ref.tier if ref else pod.tier,
        ref=ref or Gap("its cgroup is not there"),
        request=pod_requests(pod.resources).cpu,
        priority=pod.priority,
        containers=tuple(
            Container(
                name=each.name,
                ref=inner.get(
                    (pod.cgroup_uid, each.id.rpartition("://")[2]), Gap("its cgroup is not there")
                ),
                request=each.requests.cpu,
                limit=each.limits.cpu,
            )
            for each in pod.resources.containers
        ),
        options=pod.annotations,
    )
