"""The agent as it is built for this machine: detection, cgroup tree, ledger, writers."""

import contextlib
import os
import random
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from slackwater.agent.dependencies import (
    CLUSTER,
    FOLDER,
    NO_OVERRIDES,
    AgentDependencies,
    CommandLineOverrides,
)
from slackwater.agent.interception import InterceptionThread, StartAnswers
from slackwater.agent.node_writers import (
    PAGE_SIZE,
    CannotStartError,
    NodePaths,
    boot_id,
    build_executor,
    detect_cgroups,
    need,
)
from slackwater.agent.objects_checkpoint import ObjectsCheckpoint
from slackwater.agent.pause import nobody_asks
from slackwater.agent.pause_file import PauseFile
from slackwater.agent.program import (
    Agent,
)
from slackwater.agent.shared_state import SharedState, no_link
from slackwater.execution.commands import CommandQueue, NobodyCarriesOut
from slackwater.execution.executor import DryRun, Executor
from slackwater.execution.folder_lock import Taken, lock_directory
from slackwater.execution.ledger import FILE
from slackwater.execution.memory_file import MemoryFiles
from slackwater.model.cgroup import CgroupController, CgroupMounts, CgroupVersion
from slackwater.model.gap import Gap
from slackwater.model.units import MilliCpu
from slackwater.nri.plugin import DEFAULT_SOCKET
from slackwater.observation.cgroups.files import raise_descriptor_limit
from slackwater.observation.cgroups.tree import CgroupTree, Depth
from slackwater.observation.cpu_inventory import CpuInventory
from slackwater.observation.detection import (
    Kubepods,
    clues_of,
    find_kubepods,
)
from slackwater.observation.host import NodeUsageMeter, Roots, read_online
from slackwater.observation.metrics.collector import MetricCollector, node_families
from slackwater.observation.objects.folder import Folder
from slackwater.observation.plugins.plugin_host import PluginHost
from slackwater.observation.pressure import PressureAlarms, Watched
from slackwater.observation.probes.object_sources import NodePlace, ObjectSources
from slackwater.observation.survey import Surveyor, TreeGuard
from slackwater.policies.catalog import POLICIES, schema_of
from slackwater.policies.policy import Policy
from slackwater.record.journal import Journal, JournalEntry
from slackwater.record.metrics import TickCounters
from slackwater.runtime.change_log import EntrySink
from slackwater.runtime.loop import monotonic_now
from slackwater.runtime.wakeup import WakePipe
from slackwater.settings.agent_document import SettingsSchema
from slackwater.settings.agent_settings import AgentSettings

if TYPE_CHECKING:
    from slackwater.agent.cluster_connection import ClusterConnection, ClusterOptions


class AgentOptions(msgspec.Struct, frozen=True):
    """What the agent is to do: for which objects, a folder's or a cluster's, with what overrides,
    and whether it may write. Without a cluster it may evict pods by signals."""

    folder: str
    overrides: CommandLineOverrides = NO_OVERRIDES
    dry_run: bool = False
    cluster: "ClusterOptions | None" = None
    evict_by_signal: bool = False


class BuiltAgent(msgspec.Struct, frozen=True):
    """An agent, what it shares with other threads, its sleep, and its connection to a cluster."""

    agent: Agent
    shared: SharedState
    pipe: WakePipe
    cluster: "ClusterConnection | None" = None
    #: Of an agent without a cluster; None in a dry run.
    commands: CommandQueue | None = None
    sources: ObjectSources | None = None
    #: None in a dry run, as is the lock of the kubelet's tree.
    executor: Executor | None = None
    tree_lock: int | None = None
    #: None in a dry run.
    interception: InterceptionThread | None = None


def build_agent(
    paths: NodePaths,
    options: AgentOptions,
    environ: Mapping[str, str],
    write: EntrySink,
    policies: tuple[Policy, ...] = POLICIES,
) -> BuiltAgent:
    raise_descriptor_limit()
    mounts, tree = _find_tree(paths, environ, write)
    sources = _metric_sources(paths, options, environ, mounts)
    plugins = PluginHost(sources)
    surveyor = _surveyor(paths.roots, mounts, tree, sources, plugins)
    journal = Journal(AgentSettings().kept_ticks)

    def watched() -> Watched:
        latest = journal.latest
        stall = shared.last_round.settings.pressure_stall
        return Watched(surveyor.protected(), stall, bool(latest and latest.outcomes))

    _warn_of_ledger(options, paths.state, write)
    pipe = _open_pipe(PressureAlarms(mounts, watched, monotonic_now))
    schema = schema_of(policies)
    checkpoint = _checkpoint(paths, options, schema)
    cluster = _cluster(options, schema, paths.roots, checkpoint, write)
    link = cluster.link if cluster else no_link
    shared = SharedState(journal, TickCounters(), pipe.wake, _version(mounts), link, policies)
    commands = None if cluster else _local_commands(mounts, tree, paths.roots, options)
    executor = None if options.dry_run else build_executor(paths, mounts, tree.driver, write)
    tree_lock = None if options.dry_run else _lock_tree(mounts, tree)
    dependencies = AgentDependencies(
        source=cluster.objects if cluster else _folder(options, schema),
        snapshot_reader=surveyor if cluster is None else _guarded(surveyor, mounts, tree),
        actuator=executor or DryRun(PAGE_SIZE),
        shared=shared,
        machine_cpu=_machine_cpu(paths.roots),
        clock=monotonic_now,
        origin=CLUSTER if cluster else FOLDER,
        policies=policies,
        commands=None if options.dry_run else cluster.commands if cluster else commands,
        plugins=plugins,
        memory_files=None if options.dry_run else _memory_files(paths, policies),
        ledger=executor.ledger if executor else None,
        checkpoint=checkpoint,
        pause_file=None if options.dry_run else PauseFile((paths.lasting_folder(), paths.state)),
        start_notes=executor,
        release_asked=cluster.objects.release_asked if cluster and executor else nobody_asks,
    )
    agent = Agent(dependencies, write, options.overrides)
    starts = None if executor is None else _interception(paths, shared, executor, cluster, write)
    return BuiltAgent(agent, shared, pipe, cluster, commands, sources, executor, tree_lock, starts)


def _find_tree(
    paths: NodePaths, environ: Mapping[str, str], write: EntrySink
) -> tuple[CgroupMounts, Kubepods]:
    mounts, driver = detect_cgroups(paths.roots, environ)
    clues = clues_of(paths.roots, mounts, driver)
    tree = need(find_kubepods(mounts, clues, paths.kubepods))
    write(JournalEntry(0, monotonic_now(), "kubelet's tree", because=_why(tree, paths.kubepods)))
    return mounts, tree


def _surveyor(
    roots: Roots,
    mounts: CgroupMounts,
    tree: Kubepods,
    sources: ObjectSources,
    plugins: PluginHost,
) -> Surveyor:
    return Surveyor(
        CgroupTree(mounts, tree.path, Depth.TIERS),
        NodeUsageMeter(mounts, roots),
        MetricCollector(node_families(roots, mounts), plugins),
        sources=sources,
        cpus=CpuInventory(roots),
    )


def _version(mounts: CgroupMounts) -> CgroupVersion | Gap:
    cpu = mounts.identity()
    return cpu if isinstance(cpu, Gap) else cpu.version


def _machine_cpu(roots: Roots) -> MilliCpu | Gap:
    cpus = read_online(roots)
    return cpus if isinstance(cpus, Gap) else MilliCpu(len(cpus) * 1000)


def _memory_files(paths: NodePaths, policies: tuple[Policy, ...]) -> MemoryFiles:
    return MemoryFiles(_made_folder(paths.lasting_folder()), policies, boot=boot_id(paths.roots))


def _open_pipe(alarms: PressureAlarms) -> WakePipe:
    try:
        return WakePipe(alarms)
    except OSError as error:
        raise CannotStartError(f"no pipe can be opened: {error.strerror}") from None


def _lock_tree(mounts: CgroupMounts, tree: Kubepods) -> int | None:
    """Held until the process ends. Two agents with state folders of their own would take each
    other for the kubelet, and each other's values for baselines."""
    directory = mounts.directory(CgroupController.CPU, tree.path)
    lock = directory if isinstance(directory, Gap) else lock_directory(directory)
    if isinstance(lock, Taken):
        raise CannotStartError(lock.reason)
    return lock if isinstance(lock, int) else None


def _made_folder(path: str) -> str:
    """One that cannot be made is told by whoever writes there."""
    with contextlib.suppress(OSError):
        os.makedirs(path, mode=0o700, exist_ok=True)
    return path


def _interception(
    paths: NodePaths,
    shared: SharedState,
    executor: Executor,
    cluster: "ClusterConnection | None",
    write: EntrySink,
) -> InterceptionThread:
    """A folder's pods are those of the last tick."""

    def report(sentence: str) -> None:
        write(JournalEntry(0, monotonic_now(), "container starts", because=sentence))

    record = shared.interception
    answers = StartAnswers(
        lambda: shared.basis,
        cluster.objects.find_pod if cluster else lambda _namespace, _name: None,
        executor,
        shared.policies,
        monotonic_now,
        record,
        report,
    )
    path = paths.nri_socket or f"{paths.roots.host}/{DEFAULT_SOCKET}"
    return InterceptionThread(path, answers, record, report)


def _folder(options: AgentOptions, schema: SettingsSchema) -> Folder:
    return Folder(options.folder, options.overrides.node, options.overrides.host, schema)


def _metric_sources(
    paths: NodePaths, options: AgentOptions, environ: Mapping[str, str], mounts: CgroupMounts
) -> ObjectSources:
    """A probe without a host asks the node: its address where the agent has a network of its own,
    else loopback."""
    address = environ.get("NODE_ADDRESS") or "127.0.0.1"
    name = options.overrides.node or options.overrides.host
    place = NodePlace(name, address, paths.lasting_folder())
    return ObjectSources(AgentSettings().period, monotonic_now, mounts, place)


def _local_commands(
    mounts: CgroupMounts, tree: Kubepods, roots: Roots, options: AgentOptions
) -> CommandQueue | None:
    """For a node without a cluster; None in a dry run."""
    if options.dry_run:
        return None
    runner = NobodyCarriesOut()
    if options.evict_by_signal:
        from slackwater.execution.eviction_by_signal import SignalCommands

        runner = SignalCommands(mounts, tree.path, clock=monotonic_now, proc=roots.proc)
    jitter = random.Random()  # noqa: S311 - it spreads attempts, it hides nothing
    return CommandQueue(runner, clock=monotonic_now, jitter=jitter)


def _warn_of_ledger(options: AgentOptions, state: str, write: EntrySink) -> None:
    if options.dry_run and os.path.exists(f"{state}/{FILE}"):
        because = f"there is a ledger in {state}: what its agent set is taken for the node's"
        write(JournalEntry(0, monotonic_now(), "dry run", because=because))


def _guarded(surveyor: Surveyor, mounts: CgroupMounts, tree: Kubepods) -> TreeGuard:
    """Only a cluster knows the node's pods; a folder may hold any."""
    return TreeGuard(surveyor, need(mounts.identity()).directory, tree.path)


def _why(tree: Kubepods, asked: str) -> str:
    if asked:
        return f"{tree.path} is taken: --kubepods names it"
    if tree.because:
        return f"{tree.path} is taken, one of several that look like it: {tree.because}"
    return f"{tree.path} is taken: no other one looks like it"


def _cluster(
    options: AgentOptions,
    schema: SettingsSchema,
    roots: Roots,
    checkpoint: ObjectsCheckpoint | None,
    write: EntrySink,
) -> "ClusterConnection | None":
    """Imported late: an agent without a cluster needs none of it."""
    if options.cluster is None:
        return None
    from slackwater.agent.cluster_connection import open_cluster

    found = checkpoint.load() if checkpoint else None
    if isinstance(found, Gap):
        because = f"{found.reason}; without the API server nothing can be decided"
        write(JournalEntry(0, monotonic_now(), "checkpoint", because=because))
    saved = None if isinstance(found, Gap) else found
    return open_cluster(options.cluster, monotonic_now, schema, roots, saved)


def _checkpoint(
    paths: NodePaths, options: AgentOptions, schema: SettingsSchema
) -> ObjectsCheckpoint | None:
    """Of the objects of a cluster; a dry run neither has one nor makes one."""
    if options.cluster is None or options.dry_run:
        return None
    folder = _made_folder(paths.lasting_folder())
    return ObjectsCheckpoint(folder, options.cluster.node, schema)
