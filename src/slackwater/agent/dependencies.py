"""What one node's agent works with, and what its command line sets: the seams at which a
simulation, a dry run or a test puts something else."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from slackwater.agent.objects_checkpoint import ObjectsCheckpoint
from slackwater.agent.pause import nobody_asks
from slackwater.agent.pause_file import PauseFile
from slackwater.agent.shared_state import SharedState
from slackwater.contract.ensurance_plugin import PluginState
from slackwater.contract.volcano.node import EVERY_FEATURE
from slackwater.execution.ledger import Ledger
from slackwater.execution.memory_file import MemoryFiles
from slackwater.model.cgroup import CgroupRef
from slackwater.model.decision import (
    Command,
)
from slackwater.model.gap import Gap
from slackwater.model.knob import KnobKey
from slackwater.model.plan import (
    Adoption,
    Change,
    CommandOutcome,
    CommandProgress,
    Outcome,
    StartNote,
)
from slackwater.model.snapshot import Held, NodeSnapshot, WritePrecision
from slackwater.model.units import Micros, MilliCpu
from slackwater.model.workload import Workload
from slackwater.observation.objects.object_set import Objects
from slackwater.observation.survey import SnapshotReader
from slackwater.policies.catalog import POLICIES
from slackwater.policies.policy import Policy

FOLDER, CLUSTER = "folder", "cluster"


class StartNotes(Protocol):
    """Quotas that a container runtime was told of before a start: the executor."""

    def starts(self) -> tuple[StartNote, ...]: ...

    def adopt_start(self, note: StartNote, ref: CgroupRef) -> None: ...

    def forget_start(self, note: StartNote) -> None: ...


class ObjectSource(Protocol):
    """Where objects come from: a folder, a cluster, a scenario."""

    def read(self) -> Objects | Gap: ...


class Actuator(Protocol):
    """Carries out changes: the executor, or a dry run."""

    def apply(self, changes: Iterable[Change]) -> list[Outcome]: ...

    def adopt(self) -> Adoption: ...

    def release(self) -> list[Outcome]: ...

    def let_go(self, knobs: Collection[tuple[int, str]]) -> list[Outcome]: ...

    def held(self) -> tuple[Held, ...]: ...

    def off(self) -> frozenset[KnobKey]: ...

    def precision(self) -> WritePrecision: ...


class CommandDispatch(Protocol):
    """Carries out commands off the tick: execution.commands.CommandQueue, or a simulation."""

    def offer(
        self,
        commands: Sequence[Command],
        at: Micros,
        workloads: Iterable[Workload] | None = None,
        *,
        decided: bool = True,
    ) -> None:
        """Everything that policies ask for now, after each tick. Never waits."""
        ...

    def progress(self) -> tuple[CommandProgress, ...]:
        """What was taken up and is not finished."""
        ...

    def outcomes(self) -> tuple[CommandOutcome, ...]:
        """What changed since the last call."""
        ...

    def withdraw(self) -> None:
        """No eviction is needed any more, also none that was refused and waits."""
        ...

    def release(self) -> None:
        """Nothing is wanted any more."""
        ...


class Plugins(Protocol):
    """Plug-ins in their processes: observation.plugins.plugin_host."""

    def use(self, names: tuple[str, ...]) -> tuple[PluginState, ...]:
        """Those that are switched on; the same object while nothing changes."""
        ...

    def offer(self, snapshot: NodeSnapshot) -> None:
        """What they may be asked about. Never waits."""
        ...

    def close(self) -> None: ...


class AgentDependencies(msgspec.Struct, frozen=True):
    """What an agent works with. `machine_cpu` is the machine's size, for nodes without a Node
    object."""

    source: ObjectSource
    snapshot_reader: SnapshotReader
    actuator: Actuator
    shared: SharedState
    machine_cpu: MilliCpu | Gap
    clock: Callable[[], Micros]
    #: What problems with the objects are logged under.
    origin: str = FOLDER
    policies: tuple[Policy, ...] = POLICIES
    #: None in a dry run: commands are told only.
    commands: CommandDispatch | None = None
    plugins: Plugins | None = None
    #: None in a dry run, and in simulations.
    memory_files: MemoryFiles | None = None
    #: What the actuator notes; None in a dry run.
    ledger: Ledger | None = None
    #: Of a cluster's objects.
    checkpoint: ObjectsCheckpoint | None = None
    #: None in a dry run, and in simulations: a release by hand lasts as long as the process.
    pause_file: PauseFile | None = None
    #: By what word the cluster asks for a release of everything; see agent.pause.
    release_asked: Callable[[], str | None] = nobody_asks
    #: Where no container runtime is ever told of a quota, None.
    start_notes: StartNotes | None = None


class CommandLineOverrides(msgspec.Struct, frozen=True):
    """What flags and variables set over the configuration. `node` names this node's Node object;
    without it `host`, the machine's name, does. `features` are those of Volcano's that this agent
    supports."""

    node: str = ""
    host: str = ""
    settings: Mapping[str, str] = {}
    features: tuple[str, ...] = EVERY_FEATURE


NO_OVERRIDES = CommandLineOverrides()
