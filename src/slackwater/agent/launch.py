"""The agent as a process: run until a signal or for one decision.

Owns the order in which its parts start and end.
"""

import contextlib
import itertools
import signal
from collections.abc import Iterator, Mapping

import msgspec

from slackwater.agent.agent_socket import path_problem, socket_path
from slackwater.agent.building import AgentOptions, BuiltAgent, build_agent
from slackwater.agent.node_writers import (
    NodePaths,
    release_repeatedly,
)
from slackwater.model.plan import Result
from slackwater.record.journal import JournalEntry
from slackwater.runtime.change_log import EntrySink
from slackwater.runtime.http_exchange import ListenAddress
from slackwater.runtime.loop import monotonic_now, run_loop
from slackwater.runtime.wakeup import Woken

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


KEEP, RELEASE = "keep", "release"
#: A rate needs two readings.
_ROUNDS_FOR_A_RATE = 2
#: By this round a cluster's objects are listed, which takes more memory than keeping them.
_SETTLED_ROUNDS = 11
#: How long a single decision waits for each kind of object from a cluster.
_OBJECTS_SECONDS = 10.0
#: Seconds for a command that is being carried out when the agent ends.
_LAST_COMMAND_SECONDS = 2.0


class RunOptions(msgspec.Struct, frozen=True):
    """Where the agent listens, whether it decides only once, and what it does at its end: keep the
    values that it set, or release them."""

    address: ListenAddress | None
    once: bool
    on_exit: str


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
