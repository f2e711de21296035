"""The node of a simulation: the kubelet's tree in a fake kernel, with pods that come and go.

Owns what kubelet and runtime do on a real node: groups, their weights and limits, work in them.
Refuses to let time pass, and to know the agent.
"""

from slackwater.model.cgroup import CgroupRef, CgroupVersion, Driver, Level, Tier
from slackwater.model.gap import Gap
from slackwater.model.knob import CPUS, QUOTA, WEIGHT, Knob, KnobValue
from slackwater.model.plan import Change, Outcome
from slackwater.model.units import MilliCpu, Unlimited, bandwidth
from slackwater.model.weight import SMALLEST_SHARES, WeightFormula, shares_of, weight_of
from slackwater.observation.cgroups.paths import KubepodsLayout, node_path, pod_path, tier_path
from slackwater.simulation.fake_kernel import FakeKernel
from slackwater.simulation.group import Task
from slackwater.simulation.scenario import ScenarioPod
from slackwater.simulation.workloads import Demand

_LAYOUT = KubepodsLayout(Driver.CGROUPFS)
_SYSTEM = "system.slice"
_WORK = "work"
#: Enough for any demand: what a pod wants beyond the machine's CPUs, it wants in vain.
_THREADS = 1 << 20


class SimulatedNode:
    """Guards the tree. A pod's work runs in the pod's own group, on any CPU."""

    def __init__(self, kernel: FakeKernel, system: Demand | None = None) -> None:
        """`kernel` has no groups yet."""
        self.kernel = kernel
        self.cpus = len(kernel.cpus())
        self._version = kernel.version(WEIGHT)
        self._pods: dict[str, tuple[ScenarioPod, CgroupRef]] = {}
        self.kubepods = self._make(node_path(_LAYOUT), Level.NODE)
        self.tiers = {
            tier: self._make(tier_path(_LAYOUT, tier), Level.TIER, tier)
            for tier in (Tier.BURSTABLE, Tier.BESTEFFORT)
        }
        self.put(self.tiers[Tier.BESTEFFORT], WEIGHT, self._weight(MilliCpu(0)))
        if system is not None:
            self.kernel.attach(self._make(_SYSTEM), Task(_WORK, system, _THREADS))

    @property
    def pods(self) -> tuple[ScenarioPod, ...]:
        """Those that are there now."""
        return tuple(pod for pod, _ in self._pods.values())

    def group(self, name: str) -> CgroupRef | Gap:
        """A tier by its name, or a pod by its."""
        tier = next((ref for tier, ref in self.tiers.items() if tier.value == name), None)
        if tier is not None:
            return tier
        found = self._pods.get(name)
        return found[1] if found else Gap(f"there is no pod {name} now")

    def add(self, pod: ScenarioPod) -> None:
        ref = self._make(pod_path(_LAYOUT, pod.tier, pod.name), Level.POD, pod.tier, pod.name)
        self._pods[pod.name] = (pod, ref)
        weight = self._weight(pod.request) if pod.weight is None else pod.weight
        self.put(ref, WEIGHT, weight)
        if not isinstance(pod.limit, Unlimited):
            self.put(ref, QUOTA, bandwidth(pod.limit))
        self.kernel.attach(ref, Task(_WORK, pod.demand, _THREADS))
        self._weigh_burstable()

    def remove(self, name: str) -> None:
        _, ref = self._pods.pop(name)
        self.kernel.detach(ref, _WORK)
        self.kernel.remove(ref)
        self._weigh_burstable()

    def put(self, ref: CgroupRef, knob: Knob, value: KnobValue) -> Outcome:
        """As anybody but the agent writes: nothing is noted."""
        old = self.kernel.read(ref, knob)
        return self.kernel.write(Change(ref, knob, value if isinstance(old, Gap) else old, value))

    def _make(
        self, path: str, level: Level = Level.POD, tier: Tier = Tier.GUARANTEED, owner: str = ""
    ) -> CgroupRef:
        ref = self.kernel.make(path, level, tier, owner)
        if self._version is CgroupVersion.V1:  # a runtime fills it; v2 has the parent's
            self.put(ref, CPUS, self.kernel.cpus())
        return ref

    def _weigh_burstable(self) -> None:
        """setCPUCgroupConfig of the kubelet: the tier weighs what its pods request."""
        requested = sum(pod.request for pod in self.pods if pod.tier is Tier.BURSTABLE)
        self.put(self.tiers[Tier.BURSTABLE], WEIGHT, self._weight(MilliCpu(requested)))

    def _weight(self, milli: MilliCpu) -> int:
        """The kubelet's; nothing requested is the least there is."""
        shares = shares_of(milli) if milli else SMALLEST_SHARES
        if self._version is CgroupVersion.V1:
            return shares
        return weight_of(shares, WeightFormula.LINEAR)
