"""A simulated node: the kubelet's cgroups in a fake kernel, its pods, and an agent on it.

SimulatedNode does what kubelet and container runtime do on a real node. The agent is the real one,
with a real executor and ledger; only the reader of snapshots differs. It reads exactly the fields
that were asked for, so a policy that forgot to ask for one fails here as on a real node.
"""

import hashlib
from collections.abc import Collection, Mapping

import msgspec

from slackwater.agent.dependencies import (
    NO_OVERRIDES,
    AgentDependencies,
    CommandDispatch,
    CommandLineOverrides,
)
from slackwater.agent.program import (
    Agent,
)
from slackwater.agent.shared_state import SharedState
from slackwater.contract.crane.node_forecast import forecast_at
from slackwater.contract.kubernetes_pod import Phase, Pod
from slackwater.contract.pod_resources import Container, Limits, PodResources, Requests
from slackwater.execution.executor import Executor
from slackwater.execution.ledger import Ledger
from slackwater.model.cgroup import (
    CgroupReading,
    CgroupRef,
    CgroupVersion,
    CpuTimes,
    Driver,
    Level,
    Tier,
)
from slackwater.model.cpus import CpuSet, KubeletCpus
from slackwater.model.gap import NOT_ASKED, Gap
from slackwater.model.knob import BURST, CPUS, IDLE, KNOBS, QUOTA, WEIGHT, Knob, KnobValue
from slackwater.model.machine import NodeUsage
from slackwater.model.needs import Needs, ReadingField
from slackwater.model.plan import Change, Outcome
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Micros, MilliCpu, Unlimited, bandwidth
from slackwater.model.weight import SMALLEST_SHARES, WeightFormula, shares_of, weight_of
from slackwater.observation.cgroups.paths import (
    KubepodsLayout,
    container_directory,
    node_path,
    pod_path,
    tier_path,
)
from slackwater.observation.cgroups.tree import Depth
from slackwater.observation.objects.object_set import Objects
from slackwater.observation.objects.workload_matching import Matching
from slackwater.observation.rates import Rates
from slackwater.observation.survey import SnapshotInputs, depth_of, read_of_held
from slackwater.policies.catalog import POLICIES
from slackwater.policies.policy import Policy
from slackwater.record.journal import Journal
from slackwater.record.metrics import TickCounters
from slackwater.runtime.change_log import EntrySink
from slackwater.simulation.demand import Demand
from slackwater.simulation.fake_cgroup import SimulatedTask
from slackwater.simulation.fake_kernel import NO_PRESSURE, FakeKernel
from slackwater.simulation.scenario import ScenarioMetric, ScenarioPod
from slackwater.simulation.scenario_machine import (
    ScenarioMachine,
    build_topology,
    plain_machine,
)
from slackwater.simulation.simulated_metrics import SimulatedMetrics

_LAYOUT = KubepodsLayout(Driver.CGROUPFS)
_TIMES = frozenset({ReadingField.TIMES})
_SYSTEM = "system.slice"
_WORK = "work"
#: The name of each pod's one container.
CONTAINER = "main"
#: Enough for any demand: what a pod wants beyond the machine's CPUs, it wants in vain.
_THREADS = 1 << 20
_BLIND = Gap("the scenario hides the node's usage")
#: Knobs without a field of their own in a reading.
_OTHERS = {
    ReadingField(knob.name): knob
    for knob in KNOBS
    if knob not in (QUOTA, BURST, WEIGHT, IDLE, CPUS)
}
_NOTHING: frozenset[ReadingField] = frozenset()
_SECOND = 1_000_000
#: Seconds since 1970 when a simulation begins: any moment would do, and pods may be older.
_EPOCH = 1_800_000_000
#: Never held alone, whatever is reserved, as on a real node.
_FIRST = CpuSet.of([0])
_NO_CPU_MANAGER = KubeletCpus("none")
#: Ticks that a simulated agent keeps: only the last is used.
_KEPT = 1


class _PodGroups(msgspec.Struct, frozen=True):
    """A pod that runs, its cgroup, and that of its one container, in which its task is."""

    pod: ScenarioPod
    ref: CgroupRef
    container: CgroupRef


class SimulatedNode:
    """The kubelet's tree. Each pod has one container, whose task runs on any CPU."""

    def __init__(
        self,
        kernel: FakeKernel,
        system: Demand | None = None,
        machine: ScenarioMachine | None = None,
    ) -> None:
        """`kernel` must not have cgroups yet. Without a machine its CPUs are cores of one
        socket."""
        self.kernel = kernel
        self.cpus = len(kernel.cpus())
        self.machine = machine or plain_machine(self.cpus)
        self._version = kernel.version(WEIGHT)
        self._pods: dict[str, _PodGroups] = {}
        self.kubepods = self._make(node_path(_LAYOUT), Level.NODE)
        self.tiers = {
            tier: self._make(tier_path(_LAYOUT, tier), Level.TIER, tier)
            for tier in (Tier.BURSTABLE, Tier.BESTEFFORT)
        }
        self.put(self.tiers[Tier.BESTEFFORT], WEIGHT, self._weight(MilliCpu(0)))
        if system is not None:
            self.kernel.attach(self._make(_SYSTEM), SimulatedTask(_WORK, system, _THREADS))

    @property
    def pods(self) -> tuple[ScenarioPod, ...]:
        """The pods that run now."""
        return tuple(each.pod for each in self._pods.values())

    def find_pod(self, uid: str) -> ScenarioPod | None:
        """A pod that runs now; its uid is its name."""
        found = self._pods.get(uid)
        return found.pod if found else None

    def container_cpus(self, name: str) -> CpuSet | Gap:
        """The CPUs that a pod's one container runs on."""
        found = self._pods.get(name)
        if found is None:
            return Gap(f"there is no pod {name} now")
        return self.kernel.effective_cpus(found.container)

    def group(self, name: str) -> CgroupRef | Gap:
        """The cgroup of a tier or of a pod, by name."""
        tier = next((ref for tier, ref in self.tiers.items() if tier.value == name), None)
        if tier is not None:
            return tier
        found = self._pods.get(name)
        return found.ref if found else Gap(f"there is no pod {name} now")

    def add(self, pod: ScenarioPod) -> None:
        ref = self._make(pod_path(_LAYOUT, pod.tier, pod.name), Level.POD, pod.tier, pod.name)
        path = f"{ref.path}/{container_directory(_LAYOUT.driver, _container_id(pod))}"
        container = self._make(path, Level.CONTAINER, pod.tier, pod.name)
        self._pods[pod.name] = _PodGroups(pod, ref, container)
        weight = self._weight(pod.request) if pod.weight is None else pod.weight
        for each in (ref, container):
            self.put(each, WEIGHT, weight)
            if not isinstance(pod.limit, Unlimited):
                self.put(each, QUOTA, bandwidth(pod.limit))
        self.kernel.attach(container, SimulatedTask(_WORK, pod.demand, _THREADS))
        self._weigh_burstable()

    def annotate(self, name: str, annotations: Mapping[str, str]) -> None:
        """A pod that runs now."""
        groups = self._pods[name]
        pod = msgspec.structs.replace(groups.pod, annotations=annotations)
        self._pods[name] = msgspec.structs.replace(groups, pod=pod)

    def remove(self, name: str) -> None:
        groups = self._pods.pop(name)
        self.kernel.detach(groups.container, _WORK)
        self.kernel.remove(groups.container)
        self.kernel.remove(groups.ref)
        self._weigh_burstable()

    def put(self, ref: CgroupRef, knob: Knob, value: KnobValue) -> Outcome:
        """A write by anybody but the agent: the ledger does not see it."""
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
        """setCPUCgroupConfig of the kubelet: the tier's weight follows its pods' requests."""
        requested = sum(pod.request for pod in self.pods if pod.tier is Tier.BURSTABLE)
        self.put(self.tiers[Tier.BURSTABLE], WEIGHT, self._weight(MilliCpu(requested)))

    def _weight(self, milli: MilliCpu) -> int:
        """The kubelet's weight for a request; the smallest if nothing is requested."""
        shares = shares_of(milli) if milli else SMALLEST_SHARES
        if self._version is CgroupVersion.V1:
            return shares
        return weight_of(shares, WeightFormula.LINEAR)


class SimulatedSnapshotReader:
    """Closes snapshots by the rules of observation.survey; keeps the readings before for rates."""

    def __init__(
        self,
        kernel: FakeKernel,
        kubepods: CgroupRef,
        stated: tuple[ScenarioMetric, ...] = (),
        machine: ScenarioMachine | None = None,
    ) -> None:
        """`stated` are the metrics that the scenario gives."""
        self._kernel = kernel
        self._kubepods = kubepods
        self._rates = Rates()
        self._before: Micros | None = None
        self._listed: tuple[CgroupRef, ...] = ()
        self._shown: dict[Depth, tuple[CgroupRef, ...]] = {}
        self._matching = Matching()
        self._metrics = SimulatedMetrics(len(kernel.cpus()), stated)
        machine = machine or plain_machine(len(kernel.cpus()))
        self._topology = build_topology(machine)
        self._reserved = CpuSet.parse(machine.reserved) | _FIRST
        #: Until then the node's usage cannot be read.
        self.blind_until = Micros(0)

    def close_snapshot(self, tick: int, at: Micros, known: SnapshotInputs) -> NodeSnapshot | Gap:
        if not self._kernel.lives(self._kubepods):
            return Gap("the kubelet's tree is gone")
        refs = self._refs(depth_of(known))
        held = {each.ref.id for each in known.held}
        readings = {
            ref.id: self._read(ref, wants, at)
            for ref in refs
            if (
                wants := known.needs.at(ref.level)
                | (read_of_held(ref.level) if ref.id in held else _NOTHING)
            )
        }
        elapsed = Micros(0 if self._before is None else at - self._before)
        self._before = at
        snapshot = NodeSnapshot(
            tick=tick,
            at=at,
            elapsed=elapsed,
            allocatable=known.allocatable,
            usage=self._rates.of_node(self._usage(at), at),
            kubepods=self._kubepods,
            tiers={ref.tier: ref for ref in refs if ref.level is Level.TIER},
            workloads=self._matching.match(known.pods, refs),
            readings=readings,
            rates=self._rates.of_groups(readings, at),
            pressure=NO_PRESSURE
            if ReadingField.PRESSURE in known.needs.at(Level.NODE)
            else NOT_ASKED,
            held=known.held,
            off=known.off,
            early=known.early,
            in_flight=known.in_flight,
            precision=known.precision,
            version=self._kernel.version(QUOTA),
            wall_time=_EPOCH + at // _SECOND,
            node_resources=known.node_resources,
            forecast=forecast_at(known.predictions, _EPOCH + at // _SECOND),
        )
        if known.needs.topology:
            snapshot = msgspec.structs.replace(
                snapshot,
                topology=self._topology,
                reserved_cpus=self._reserved,
                kubelet_cpus=_NO_CPU_MANAGER,
            )
        if not known.needs.metrics:
            return snapshot
        metrics = self._metrics.measure(known.needs.metrics, snapshot, known.placement)
        return msgspec.structs.replace(snapshot, metrics=metrics)

    def start_counters(self, at: Micros, needs: Needs) -> None:
        levels = {level for level in Level if ReadingField.TIMES in needs.at(level)}
        refs = (ref for ref in self._refs(Depth.CONTAINERS) if ref.level in levels)
        times = {ref.id: self._read(ref, _TIMES, at).times for ref in refs}
        self._rates.start({key: t for key, t in times.items() if isinstance(t, CpuTimes)}, at)

    def close(self) -> None:
        """Nothing is open."""

    def _usage(self, at: Micros) -> NodeUsage | Gap:
        return _BLIND if at < self.blind_until else self._kernel.node_usage()

    def _refs(self, depth: Depth) -> tuple[CgroupRef, ...]:
        """The kubelet's tree down to that depth; cached while it does not change."""
        listed = self._kernel.refs()
        if listed is not self._listed:
            self._listed, self._shown = listed, {}
        if depth not in self._shown:
            inside = f"{self._kubepods.path}/"
            below = (ref for ref in listed if ref.path.startswith(inside) and depth.shows(ref))
            self._shown[depth] = (self._kubepods, *below)
        return self._shown[depth]

    def _read(self, ref: CgroupRef, wants: frozenset[ReadingField], at: Micros) -> CgroupReading:
        full = self._kernel.reading(ref, at)
        if isinstance(full, Gap):
            return CgroupReading(ref, at, full, full, full, full, full, full, full)
        return CgroupReading(
            ref=ref,
            at=at,
            times=full.times if ReadingField.TIMES in wants else NOT_ASKED,
            quota=full.quota if ReadingField.QUOTA in wants else NOT_ASKED,
            burst=full.burst if ReadingField.BURST in wants else NOT_ASKED,
            weight=full.weight if ReadingField.WEIGHT in wants else NOT_ASKED,
            idle=full.idle if ReadingField.IDLE in wants else NOT_ASKED,
            cpus=full.cpus if ReadingField.CPUS in wants else NOT_ASKED,
            pressure=full.pressure if ReadingField.PRESSURE in wants else NOT_ASKED,
            others=self._others(ref, wants) if not wants.isdisjoint(_OTHERS) else {},
        )

    def _others(
        self, ref: CgroupRef, wants: frozenset[ReadingField]
    ) -> dict[str, int | Unlimited | Gap]:
        values = {k.name: self._kernel.read(ref, k) for f, k in _OTHERS.items() if f in wants}
        return {
            name: value
            if isinstance(value, int | Unlimited | Gap)
            else Gap(f"{value} is not a number")
            for name, value in values.items()
        }


class ScenarioSource:
    """The current objects; the same object again if nothing changed."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects

    def read(self) -> Objects:
        return self.objects

    def set_pods(self, pods: tuple[ScenarioPod, ...], terminating: Collection[str] = ()) -> None:
        """`terminating` are the names of those that were told to end."""
        listed = tuple(_pod_object(pod, terminating) for pod in pods)
        self.objects = msgspec.structs.replace(self.objects, pods=listed)


class SimulatedAgent(msgspec.Struct, frozen=True):
    agent: Agent
    snapshot_reader: SimulatedSnapshotReader
    actuator: Executor
    ledger: Ledger
    shared: SharedState

    def end(self) -> None:
        """Like kill -9: its descriptors are closed, and with them its lock on the ledger."""
        self.ledger.close()


def start_agent(
    node: SimulatedNode,
    source: ScenarioSource,
    ledger: Ledger,
    tell: EntrySink,
    overrides: CommandLineOverrides = NO_OVERRIDES,
    policies: tuple[Policy, ...] = POLICIES,
    commands: CommandDispatch | None = None,
    stated: tuple[ScenarioMetric, ...] = (),
) -> SimulatedAgent:
    """The caller runs `agent.start`, which reports problems of the settings."""
    kernel = node.kernel

    def clock() -> Micros:
        return kernel.now

    snapshot_reader = SimulatedSnapshotReader(kernel, node.kubepods, stated, node.machine)
    actuator = Executor(ledger, kernel, None, clock)
    version = kernel.version(QUOTA)
    shared = SharedState(Journal(_KEPT), TickCounters(), _nobody_waits, version)
    dependencies = AgentDependencies(
        source=source,
        snapshot_reader=snapshot_reader,
        actuator=actuator,
        shared=shared,
        machine_cpu=MilliCpu(node.cpus * 1000),
        clock=clock,
        policies=policies,
        commands=commands,
    )
    agent = Agent(dependencies, tell, overrides)
    return SimulatedAgent(agent, snapshot_reader, actuator, ledger, shared)


def _nobody_waits() -> None:
    """A simulation has one thread."""


def _container_id(pod: ScenarioPod) -> str:
    """As the runtime's: 64 hexadecimal digits."""
    return hashlib.sha256(pod.name.encode()).hexdigest()


def _pod_object(pod: ScenarioPod, terminating: Collection[str]) -> Pod:
    """The pod as the API server would return it."""
    main = Container(
        CONTAINER,
        id=f"containerd://{_container_id(pod)}",
        requests=Requests(pod.request),
        limits=Limits(pod.limit),
        extended_requests=dict(pod.extended),
        extended_limits=dict(pod.extended),
    )
    return Pod(
        uid=pod.name,
        cgroup_uid=pod.name,
        name=pod.name,
        namespace=pod.namespace,
        labels=dict(pod.labels),
        annotations=dict(pod.annotations),
        terminating=pod.name in terminating,
        node_name="",
        priority=pod.priority,
        phase=Phase.RUNNING,
        tier=pod.tier,
        resources=PodResources((main,)),
        started=_EPOCH + (pod.starts - pod.age) // _SECOND,
    )
