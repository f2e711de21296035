"""Evicts pods of a node without an API server: SIGTERM, and SIGKILL after the grace period.

As the kubelet does it: SIGTERM goes to the first process of each container, SIGKILL to all. A
process is signalled only while it is in a cgroup of the pod, which itself has to be below the
kubelet's root: it is opened by a descriptor first and then looked up in the pod's cgroups again, so
that a number that was given to another process meanwhile is never meant.
"""

import contextlib
import errno
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from slackwater.execution.commands import DEFAULT_GRACE_SECONDS, NobodyCarriesOut
from slackwater.execution.node_states import CommandAttempt
from slackwater.model.cgroup import CgroupMounts, CgroupRef, Level
from slackwater.model.decision import Command
from slackwater.model.gap import Gap
from slackwater.model.plan import CommandState
from slackwater.model.units import Micros
from slackwater.model.workload import Workload

_SECOND = 1_000_000
#: Between two looks at whether the processes of a pod have ended.
_LOOK_EVERY = 1.0
#: Where the kernel cannot kill a cgroup at once, processes that fork may outrun us a few times.
_MOST_ROUNDS = 20
_MOST_DESCRIPTORS = 256
#: Longer than any grace period that is of use to a node in need.
_FORGET_AFTER = 24 * 3600 * _SECOND
_PROCS, _KILL = "cgroup.procs", "cgroup.kill"


class _RefusedError(Exception):
    """Why nothing was signalled; str() is one sentence."""


class SignalCommands(NobodyCarriesOut):
    """Guards the signals to processes of pods. `kubepods` is the kubelet's root, relative to the
    hierarchy's mount; `proc` is where procfs is."""

    def __init__(
        self,
        mounts: CgroupMounts,
        kubepods: str,
        *,
        clock: Callable[[], Micros],
        proc: str = "/proc",
    ) -> None:
        super().__init__("there is no API server; only evictions are carried out, by signals")
        self._mounts = mounts
        self._kubepods = kubepods.strip("/")
        self._clock = clock
        self._proc = proc
        #: When each pod got its SIGTERM.
        self._terminated: dict[str, Micros] = {}

    def evict(self, command: Command, pod: Workload | None) -> CommandAttempt:
        try:
            return self._step(command, pod)
        except _RefusedError as refused:
            return CommandAttempt(CommandState.REFUSED, str(refused))
        except OSError as error:
            detail = f"its processes cannot be signalled: {error.strerror or error}"
            return CommandAttempt(CommandState.REFUSED, detail)

    def _step(self, command: Command, pod: Workload | None) -> CommandAttempt:
        folder = self._find_folder(command, pod)
        if folder is None or not any(_pids_below(folder)):
            self._terminated.pop(command.uid, None)
            return CommandAttempt(CommandState.DONE, "its processes have ended", gone=True)
        self._check_pids(folder)
        grace = command.grace_seconds
        wait = DEFAULT_GRACE_SECONDS if grace is None else grace
        now = self._clock()
        begun = self._terminated.get(command.uid)
        if begun is None and wait > 0:
            self._note(command.uid, now)
            _send(self._first_processes(folder), folder, signal.SIGTERM)
            return _look_again("SIGTERM was sent")
        if begun is not None and now < begun + wait * _SECOND:
            return _look_again("SIGTERM was sent")
        _kill_all(folder)
        return _look_again("SIGKILL was sent")

    def _note(self, uid: str, now: Micros) -> None:
        """Also forgets those that nobody asked about for long."""
        kept = {each: at for each, at in self._terminated.items() if now - at < _FORGET_AFTER}
        self._terminated = {**kept, uid: now}

    def _find_folder(self, command: Command, pod: Workload | None) -> str | None:
        """The pod's cgroup directory; None where it is gone, or another one is in its place."""
        ref = pod.ref if pod is not None else Gap("the pod is not known")
        if isinstance(ref, Gap):
            raise _RefusedError(f"its cgroup is not known: {ref.reason}")
        self._check_place(ref, command)
        mount = self._mounts.identity()
        if isinstance(mount, Gap):
            raise _RefusedError(mount.reason)
        folder = f"{mount.directory}/{ref.path}"
        try:
            found = os.stat(folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        return folder if found.st_ino == ref.id else None

    def _check_place(self, ref: CgroupRef, command: Command) -> None:
        inside = self._kubepods and ref.path.startswith(f"{self._kubepods}/")
        if not inside or ".." in ref.path.split("/"):
            raise _RefusedError(f"{ref.path} is not below the kubelet's root {self._kubepods!r}")
        if ref.level is not Level.POD:
            raise _RefusedError(f"{ref.path} is not a pod's cgroup")
        if ref.owner and ref.owner != command.uid:
            raise _RefusedError(f"{ref.path} is of another pod")

    def _check_pids(self, folder: str) -> None:
        pids = set(_pids_below(folder))
        if 0 in pids:
            raise _RefusedError("its processes are in another PID namespace than the agent")
        if os.getpid() in pids:
            raise _RefusedError("the agent itself runs in this pod")

    def _first_processes(self, folder: str) -> Iterator[int]:
        """Of each container: the one that is PID 1 in its namespace; else those whose parent is
        not in the container, as in a pod that shares one PID namespace."""
        with os.scandir(folder) as entries:
            groups = [each.path for each in entries if each.is_dir(follow_symlinks=False)]
        containers = [set(_pids_below(group)) for group in groups]
        containers.append(set(_pids_of(folder)))  # by hand, or by a runtime without containers
        for pids in containers:
            seen = {pid: self._look_up(pid) for pid in pids}
            firsts = [pid for pid, (_, inner) in seen.items() if inner == 1]
            yield from firsts or [pid for pid, (parent, _) in seen.items() if parent not in pids]

    def _look_up(self, pid: int) -> tuple[int, int]:
        """The parent's number, and the process' own in its innermost PID namespace."""
        parent, inner = 0, 0
        with contextlib.suppress(OSError), open(f"{self._proc}/{pid}/status", "rb") as status:
            for line in status:
                key, _, rest = line.partition(b":")
                if key == b"PPid":
                    parent = int(rest)
                elif key == b"NSpid":
                    inner = int(rest.split()[-1])
        return parent, inner


def _look_again(detail: str) -> CommandAttempt:
    return CommandAttempt(CommandState.DONE, detail, again_after=_LOOK_EVERY)


def _pids_below(folder: str) -> Iterator[int]:
    for path, _, _ in os.walk(folder):
        yield from _pids_of(path)


def _pids_of(folder: str) -> Iterator[int]:
    """None of a group that went meanwhile; a threaded one's are listed in the group above it."""
    try:
        with open(f"{folder}/{_PROCS}", "rb") as listed:
            yield from map(int, listed.read().split())
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP):
            raise


def _send(pids: Iterable[int], folder: str, number: signal.Signals) -> None:
    """To those that are in the folder's cgroups at this moment; what ended meanwhile is left."""
    rest = list(pids)
    for start in range(0, len(rest), _MOST_DESCRIPTORS):
        with contextlib.ExitStack() as opened:
            senders = dict(_open_processes(rest[start : start + _MOST_DESCRIPTORS], opened))
            for pid in set(_pids_below(folder)).intersection(senders):
                with contextlib.suppress(ProcessLookupError):
                    senders[pid](number)


def _open_processes(
    pids: Iterable[int], opened: contextlib.ExitStack
) -> Iterator[tuple[int, Callable[[signal.Signals], None]]]:
    """How to signal each process that is there, whatever becomes of its number."""
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        except OSError as error:
            if error.errno != errno.ENOSYS:
                raise
            yield pid, partial(os.kill, pid)  # before Linux 5.3
            continue
        opened.callback(os.close, descriptor)
        yield pid, partial(signal.pidfd_send_signal, descriptor)


def _kill_all(folder: str) -> None:
    """At once where the kernel can (cgroup v2, Linux 5.14)."""
    with contextlib.suppress(FileNotFoundError):
        descriptor = os.open(f"{folder}/{_KILL}", os.O_WRONLY)
        try:
            os.write(descriptor, b"1")
        finally:
            os.close(descriptor)
        return
    for _ in range(_MOST_ROUNDS):
        pids = set(_pids_below(folder))
        if not pids:
            return
        _send(pids, folder, signal.SIGKILL)
