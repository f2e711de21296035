"""A kubepods-like tree of real cgroups, real processes in it, all of it removed afterwards.

Owns the test's scratch cgroups and nothing else: one top folder named after this process, in
every hierarchy of the kernel under test. Every read and write here is done by hand, not with
the code under test.
"""

import contextlib
import errno
import os
import signal
import time
from collections.abc import Callable, Iterator

from slackwater.model.cgroup import CgroupController, CgroupMounts, CgroupVersion, Mount
from tests.kernel.machine import IS_MACHINE

ROOT = "/sys/fs/cgroup"
#: Of beds alone: others make trees on this machine too, a cluster's node for one.
PREFIX = "slackwater-bed-"
V2_CONTROLLERS = ("cpu", "cpuset", "memory")


def mounts_of(version: CgroupVersion) -> CgroupMounts:
    if version is CgroupVersion.V2:
        return CgroupMounts({c: Mount(version, ROOT) for c in CgroupController})
    return CgroupMounts({c: Mount(version, f"{ROOT}/{c.value}") for c in CgroupController})


class Bed:
    """One scratch tree. Paths are relative to the hierarchy's mount, like CgroupRef.path."""

    def __init__(self, version: CgroupVersion, name: str) -> None:
        self.version = version
        self.mounts = mounts_of(version)
        self.top = f"{PREFIX}{os.getpid()}-{name}"
        self._pids: list[int] = []
        self._clear()
        self.make(self.top)
        if IS_MACHINE:  # where nothing else runs: loops give way to the test's own processes
            self.write(self.top, "cpu.weight", "1")

    @property
    def kubepods(self) -> str:
        return f"{self.top}/kubepods"

    def directory(self, path: str, controller: CgroupController = CgroupController.CPU) -> str:
        found = self.mounts.directory(controller, path)
        assert isinstance(found, str), found
        return found

    def make(self, path: str) -> str:
        """The cgroup and its parents, usable: cpusets filled on v1, controllers on on v2."""
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            here, above = "/".join(parts[:depth]), "/".join(parts[: depth - 1])
            self._make_one(here, above)
        return path

    def _make_one(self, here: str, above: str) -> None:
        if self.version is CgroupVersion.V2:
            for controller in V2_CONTROLLERS:
                put(f"{self.directory(above)}/cgroup.subtree_control", f"+{controller}")
        for directory in {self.directory(here, c) for c in CgroupController}:
            with contextlib.suppress(FileExistsError):
                os.mkdir(directory)
        if self.version is CgroupVersion.V1:
            for file in ("cpuset.cpus", "cpuset.mems"):
                source = self.directory(above, CgroupController.CPUSET)
                target = self.directory(here, CgroupController.CPUSET)
                if not get(f"{target}/{file}"):
                    put(f"{target}/{file}", get(f"{source}/{file}"))

    def go_first(self) -> None:
        """Before all other work of this machine, which may be busy: only for what is bounded."""
        self.stay_awake()
        if self.version is CgroupVersion.V1:
            self.write(self.top, "cpu.shares", "51200")
        else:
            self.write(self.top, "cpu.weight", "5000")

    def stay_awake(self) -> None:
        """An emulated machine has a time of its own only while it works: asleep it goes by the
        host's clock, and a busy host wakes it late. This loop gives way to everything."""
        if IS_MACHINE:
            self._pids.append(_fork_loop(_give_way))

    def remove(self, path: str) -> None:
        """One cgroup without children and processes."""
        for directory in {self.directory(path, c) for c in CgroupController}:
            _rmdir(directory)

    def id(self, path: str) -> int:
        return os.stat(self.directory(path)).st_ino

    def read(
        self, path: str, file: str, controller: CgroupController = CgroupController.CPU
    ) -> str:
        return get(f"{self.directory(path, controller)}/{file}")

    def write(
        self, path: str, file: str, text: str, controller: CgroupController = CgroupController.CPU
    ) -> None:
        put(f"{self.directory(path, controller)}/{file}", text)

    def burn(self, path: str, processes: int = 1) -> list[int]:
        """Busy loops in this cgroup, ended with the bed."""
        directories = sorted({self.directory(path, c) for c in CgroupController})
        started = [_fork_loop(lambda: _enter(directories)) for _ in range(processes)]
        self._pids += started
        return started

    def rest(self, path: str) -> int:
        """A process in this cgroup that does nothing, ended with the bed. It is there on return."""
        directories = sorted({self.directory(path, c) for c in CgroupController})
        there, told = os.pipe()

        def enter() -> None:
            _enter(directories)
            os.write(told, b".")

        self._pids.append(_fork(enter, signal.pause))
        os.read(there, 1)
        os.close(there)
        os.close(told)
        return self._pids[-1]

    def usage(self, path: str) -> int:
        """Exact CPU time in microseconds."""
        if self.version is CgroupVersion.V1:
            return int(self.read(path, "cpuacct.usage", CgroupController.CPUACCT)) // 1000
        return int(self.read(path, "cpu.stat").split()[1])

    def cores(self, path: str, seconds: float) -> float:
        """CPU used in this cgroup over the next seconds, in cores.

        One period more or less in the window is an error of one in ten for each second: take
        three seconds for a bound of 5 %.
        """
        return self.cores_of([path], seconds)[0]

    def cores_of(self, paths: list[str], seconds: float) -> list[float]:
        """The same of several cgroups, over the same seconds."""
        cores_since = self.meter(paths)
        time.sleep(seconds)
        return cores_since()

    def meter(self, paths: list[str]) -> Callable[[], list[float]]:
        """What each of them has used since now, in cores."""
        before = [(self.usage(path), time.monotonic()) for path in paths]
        return lambda: [
            (self.usage(path) - usage) / 1e6 / (time.monotonic() - start)
            for path, (usage, start) in zip(paths, before, strict=True)
        ]

    def stop(self, pids: list[int]) -> None:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            self._pids.remove(pid)

    def close(self) -> None:
        self.stop(list(self._pids))
        self._clear()

    def _clear(self) -> None:
        for directory in {self.directory(self.top, c) for c in CgroupController}:
            for folder, _, _ in os.walk(directory, topdown=False):
                _rmdir(folder)


def get(file: str) -> str:
    with open(file) as opened:
        return opened.read().strip()


def put(file: str, text: str) -> None:
    """By os.write: the kernel's refusal must be raised here, not lost at close."""
    fd = os.open(file, os.O_WRONLY)
    try:
        os.write(fd, (text + "\n").encode())
    finally:
        os.close(fd)


def _enter(directories: list[str]) -> None:
    for directory in directories:
        put(f"{directory}/cgroup.procs", "0")


def _give_way() -> None:
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _fork_loop(first: Callable[[], None]) -> int:
    """Busy for ever, after what it does first."""
    return _fork(first, _nothing)


def _nothing() -> None:
    return None


def _fork(first: Callable[[], None], again: Callable[[], None]) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        first()
        while True:
            again()
    finally:
        os._exit(1)


def _rmdir(directory: str) -> None:
    """A dying process keeps its cgroup busy for a moment."""
    for _ in range(200):
        try:
            os.rmdir(directory)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            time.sleep(0.01)
        else:
            return
    raise TimeoutError(f"{directory} stays busy")


def leftovers(version: CgroupVersion) -> Iterator[str]:
    """Top folders of earlier runs that were killed: their process is gone."""
    for mount in {m.directory for m in mounts_of(version).by_controller.values()}:
        for name in os.listdir(mount):
            pid = name.removeprefix(PREFIX).split("-")[0]
            if name.startswith(PREFIX) and not os.path.exists(f"/proc/{pid}"):
                yield f"{mount}/{name}"
