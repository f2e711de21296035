"""How much of the CPUs that containers hold alone is idle: nobody else can use it.

A container that holds CPUs alone is all that runs there, so what is idle of them is their number
less what its cgroup used, by the kernel's exact counters. Ours and the kubelet's own are counted.
"""

from collections.abc import Mapping

from slackwater.model.cpus import CpuPolicy, CpuSet, KubeletCpus
from slackwater.model.decision import CpuPlacement
from slackwater.model.gap import NOT_ASKED, VANISHED, Gap
from slackwater.model.knob import CPUS
from slackwater.model.metric import Samples
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Micros
from slackwater.observation.metrics.node_metrics import only
from slackwater.observation.metrics.tick_view import (
    NEEDS_SECOND,
    MetricAges,
    SetsHeldAlone,
    TickView,
)

_MILLI = 1000


def find_sets_held_alone(
    snapshot: NodeSnapshot, placement: CpuPlacement | Gap | None
) -> SetsHeldAlone | Gap:
    """By the container's cgroup: those that the last tick gave and that were written, and the
    kubelet's. `placement` is the last tick's."""
    if isinstance(placement, Gap):
        return placement
    kubelet = snapshot.kubelet_cpus
    if isinstance(kubelet, Gap):
        return kubelet
    return _ours(snapshot, placement) | _kubelets(snapshot, kubelet)


def _ours(snapshot: NodeSnapshot, placement: CpuPlacement | None) -> dict[int, CpuSet]:
    """A container whose claim was refused may have a set of ours too: everybody's."""
    claims = placement.claims if placement else ()
    alone = {
        each.claim.target.id
        for each in claims
        if each.cpus and each.claim.policy is CpuPolicy.EXCLUSIVE
    }
    return {
        held.ref.id: held.ours
        for held in snapshot.held
        if held.knob == CPUS.name and held.ref.id in alone and isinstance(held.ours, CpuSet)
    }


def _kubelets(snapshot: NodeSnapshot, kubelet: KubeletCpus) -> dict[int, CpuSet]:
    return {
        each.ref.id: cpus
        for pod in snapshot.workloads
        for each in pod.containers
        if (cpus := kubelet.assigned.get(pod.uid, {}).get(each.name))
        and not isinstance(each.ref, Gap)
    }


class ExclusiveCpuMetrics:
    """In milliCPU; 0 where no container holds a CPU alone."""

    names = frozenset({"exclusive_cpu_idle"})
    keeps_samples = False

    def measure(
        self, _at: Micros, wanted: MetricAges, view: TickView
    ) -> Mapping[str, Samples | Gap]:
        return dict.fromkeys(wanted, _idle(view))

    def forget(self) -> None:
        """Nothing is kept."""


def _idle(view: TickView) -> Samples | Gap:
    if isinstance(view.held_alone, Gap):
        return view.held_alone
    idle = 0
    for identity, cpus in view.held_alone.items():
        rate, reading = view.rates.get(identity), view.readings.get(identity)
        if rate is not None:
            idle += max(len(cpus) * _MILLI - rate.usage, 0)
            continue
        times = NOT_ASKED if reading is None else reading.times
        if times is not VANISHED:
            return times if isinstance(times, Gap) else NEEDS_SECOND
    return only(float(idle))
