"""The agent as a process: built for this machine, run until a signal or for one decision.

Owns what it is built from (detection, cgroup tree, ledger, writers), and the order in which its
parts start and end.
"""

import contextlib
import itertools
import os
import random
import signal
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from slackwater.agent.agent_socket import path_problem, socket_path
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
    release_repeatedly,
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
from slackwater.model.cgroup import CgroupController, CgroupMounts
from slackwater.model.gap import Gap
from slackwater.model.plan import Result
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
from slackwater.runtime.http_exchange import ListenAddress
from slackwater.runtime.loop import monotonic_now, run_loop
from slackwater.runtime.wakeup import WakePipe, Woken
from slackwater.settings.agent_document import SettingsSchema
from slackwater.settings.agent_settings import AgentSettings

#: malloc.h: how many arenas there may be.
_M_ARENA_MAX = -8


def share_one_arena() -> None:
    """Call it before the first thread: glibc gives each thread an arena of its own, and returns
    nothing from those. With a cluster's ten threads, which allocate little, one arena saves
    1.7 MiB."""
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)


def give_back_spare_memory() -> None:
    """glibc keeps freed memory for the next malloc, but the loop will not need as much again. What
    is in use by now stays for good, so the cycle collector need not visit it again."""
    import ctypes
    import gc

    gc.collect()
    gc.freeze()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


if TYPE_CHECKING:
    from slackwater.agent.cluster_connection import ClusterConnection, ClusterOptions

KEEP, RELEASE = "keep", "release"
#: A rate needs two readings.
_ROUNDS_FOR_A_RATE = 2
#: By this round a cluster's objects are listed, which takes more memory than keeping them.
_SETTLED_ROUNDS = 11
#: How long a single decision waits for each kind of object from a cluster.
_OBJECTS_SECONDS = 10.0
#: Seconds for a command that is being carried out when the agent ends.
_LAST_COMMAND_SECONDS = 2.0


class AgentOptions(msgspec.Struct, frozen=True):
    """What the agent is to do: for which objects, a folder's or a cluster's, with what overrides,
    and whether it may write. Without a cluster it may evict pods by signals."""

    folder: str
    overrides: CommandLineOverrides = NO_OVERRIDES
    dry_run: bool = False
    cluster: "ClusterOptions | None" = None
    evict_by_signal: bool = False


class RunOptions(msgspec.Struct, frozen=True):
    """Where the agent listens, whether it decides only once, and what it does at its end: keep the
    values that it set, or release them."""

    address: ListenAddress | None
    once: bool
    on_exit: str


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


class SettingsProblemError(Exception):
    """The settings are wrong; str() is one sentence."""


def run_agent(
    paths: NodePaths,
    options: AgentOptions,
    how: RunOptions,
    environ: Mapping[str, str],
    write: EntrySink,
) -> int:
    """The whole life of an agent; its exit code. Raises CannotStartError, CannotListenError and
    SettingsProblemError."""
    socket = "" if options.dry_run or how.once else socket_path(paths.state)
    problem = path_problem(socket)
    if problem:
        raise SettingsProblemError(f"--state is too long: {problem}")
    built = build_agent(paths, options, environ, write)
    built.pipe.stop_on(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    with (
        _started(built),
        _connected(built, once=how.once, dry_run=options.dry_run),
        _serving(built, how.address, socket, write),
    ):
        left = _run_rounds(built, how)
    return 1 if left or (how.once and _has_failed(built)) else 0


@contextlib.contextmanager
def _started(built: BuiltAgent) -> Iterator[None]:
    """A cluster's objects may come later; a folder is there, or is wrong."""
    start = built.agent.start if built.cluster is None else built.agent.start_waiting
    try:
        problems = start(monotonic_now())
        if problems:
            raise SettingsProblemError("; ".join(problems))
        if built.commands is not None:
            with built.shared.health.starting_threads():
                built.commands.start()
        yield
    finally:
        if built.interception is not None:
            built.interception.stop()
        if built.commands is not None:
            built.shared.health.forget_threads()
        if built.sources is not None:
            built.sources.stop()
        if built.commands is not None:
            built.commands.stop(_LAST_COMMAND_SECONDS)
        built.agent.close()


@contextlib.contextmanager
def _connected(built: BuiltAgent, *, once: bool, dry_run: bool) -> Iterator[None]:
    """Informers and writer run while the agent does. A single decision waits for the objects."""
    if built.cluster is None:
        yield
        return
    health = built.shared.health
    try:
        with health.starting_threads():
            built.cluster.start_informers()
            if not dry_run:
                built.cluster.start_writer()
        if once:
            built.cluster.objects.wait(_OBJECTS_SECONDS)
        yield
    finally:
        health.forget_threads()
        built.cluster.stop()


@contextlib.contextmanager
def _serving(
    built: BuiltAgent, address: ListenAddress | None, socket: str, write: EntrySink
) -> Iterator[None]:
    """Without a lock on the state folder, in a dry run, there is no socket."""
    if address is None and not socket:
        yield
        return
    from slackwater.agent.endpoint_server import EndpointAddresses, serving_endpoints

    def report(sentence: str) -> None:
        write(JournalEntry(0, monotonic_now(), "endpoint", because=sentence))

    addresses = EndpointAddresses(address, socket)
    with serving_endpoints(addresses, built.shared, monotonic_now, report):
        yield


def _run_rounds(built: BuiltAgent, how: RunOptions) -> int:
    """Until a signal, or for one decision; how many knobs could not be restored at the end."""
    give_back_spare_memory()
    done = itertools.count(1)

    def run_round(woken: Woken) -> float | None:
        built.agent.once(monotonic_now(), early=woken is not Woken.TIMEOUT)
        number = next(done)
        if built.interception is not None and not how.once:
            built.interception.use(built.agent.settings.intercept_starts)
        if built.cluster is not None:
            built.cluster.report(built.shared, monotonic_now())
            if number == _SETTLED_ROUNDS:
                give_back_spare_memory()
        if how.once and number == _ROUNDS_FOR_A_RATE:
            return None
        return built.agent.pause(monotonic_now())

    try:
        run_loop(run_round, built.pipe.wait)
    finally:
        left = _release_at_exit(built) if how.on_exit == RELEASE else 0
    return left


def _release_at_exit(built: BuiltAgent) -> int:
    if built.executor is not None:
        built.executor.be_patient()
    left = release_repeatedly(lambda: built.agent.release(monotonic_now(), "released at exit").left)
    if built.cluster is not None:
        built.cluster.report_release(built.shared, monotonic_now(), left)
    return left


def _has_failed(built: BuiltAgent) -> bool:
    """Whether a change of the last round failed, or a cluster's agent never saw its objects."""
    latest = built.shared.journal.latest
    if latest is None:
        return built.cluster is not None
    return any(each.result in (Result.REFUSED, Result.UNSUPPORTED) for each in latest.outcomes)


def build_agent(
    paths: NodePaths,
    options: AgentOptions,
    environ: Mapping[str, str],
    write: EntrySink,
    policies: tuple[Policy, ...] = POLICIES,
) -> BuiltAgent:
    raise_descriptor_limit()
    mounts, driver = detect_cgroups(paths.roots, environ)
    clues = clues_of(paths.roots, mounts, driver)
    tree = need(find_kubepods(mounts, clues, paths.kubepods))
    write(JournalEntry(0, monotonic_now(), "kubelet's tree", because=_why(tree, paths.kubepods)))
    cpus = read_online(paths.roots)
    sources = _metric_sources(paths, options, environ, mounts)
    plugins = PluginHost(sources)
    surveyor = Surveyor(
        CgroupTree(mounts, tree.path, Depth.TIERS),
        NodeUsageMeter(mounts, paths.roots),
        MetricCollector(node_families(paths.roots, mounts), plugins),
        sources=sources,
        cpus=CpuInventory(paths.roots),
    )
    journal = Journal(AgentSettings().kept_ticks)

    def watched() -> Watched:
        latest = journal.latest
        stall = shared.last_round.settings.pressure_stall
        return Watched(surveyor.protected(), stall, bool(latest and latest.outcomes))

    if options.dry_run:
        _warn_of_ledger(paths.state, write)
    pipe = _open_pipe(PressureAlarms(mounts, watched, monotonic_now))
    cpu = mounts.identity()
    version = cpu if isinstance(cpu, Gap) else cpu.version
    schema = schema_of(policies)
    checkpoint = _checkpoint(paths, options, schema)
    cluster = _cluster(options, schema, paths.roots, checkpoint, write)
    link = cluster.link if cluster else no_link
    shared = SharedState(journal, TickCounters(), pipe.wake, version, link, policies)
    commands = (
        None
        if cluster or options.dry_run
        else _local_commands(mounts, tree, paths.roots, by_signal=options.evict_by_signal)
    )
    executor = None if options.dry_run else build_executor(paths, mounts, tree.driver, write)
    tree_lock = None if options.dry_run else _lock_tree(mounts, tree)
    dependencies = AgentDependencies(
        source=cluster.objects if cluster else _folder(options, schema),
        snapshot_reader=surveyor if cluster is None else _guarded(surveyor, mounts, tree),
        actuator=executor or DryRun(PAGE_SIZE),
        shared=shared,
        machine_cpu=cpus if isinstance(cpus, Gap) else MilliCpu(len(cpus) * 1000),
        clock=monotonic_now,
        origin=CLUSTER if cluster else FOLDER,
        policies=policies,
        commands=None if options.dry_run else cluster.commands if cluster else commands,
        plugins=plugins,
        memory_files=None
        if options.dry_run
        else MemoryFiles(_made_folder(paths.lasting_folder()), policies, boot=boot_id(paths.roots)),
        ledger=executor.ledger if executor else None,
        checkpoint=checkpoint,
        pause_file=None if options.dry_run else PauseFile((paths.lasting_folder(), paths.state)),
        start_notes=executor,
        release_asked=cluster.objects.release_asked if cluster and executor else nobody_asks,
    )
    agent = Agent(dependencies, write, options.overrides)
    starts = None if executor is None else _interception(paths, shared, executor, cluster, write)
    return BuiltAgent(agent, shared, pipe, cluster, commands, sources, executor, tree_lock, starts)


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
    mounts: CgroupMounts, tree: Kubepods, roots: Roots, *, by_signal: bool
) -> CommandQueue:
    """For a node without a cluster."""
    runner = NobodyCarriesOut()
    if by_signal:
        from slackwater.execution.eviction_by_signal import SignalCommands

        runner = SignalCommands(mounts, tree.path, clock=monotonic_now, proc=roots.proc)
    jitter = random.Random()  # noqa: S311 - it spreads attempts, it hides nothing
    return CommandQueue(runner, clock=monotonic_now, jitter=jitter)


def _warn_of_ledger(state: str, write: EntrySink) -> None:
    if os.path.exists(f"{state}/{FILE}"):
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
