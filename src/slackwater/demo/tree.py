"""A small kubelet's tree of the demo's own, made for it and removed after it.

Owns one top folder in every hierarchy of this machine, named after this process, and all that is
below it. The hog is held back by hand here, as a kubelet or an administrator would; what the
agent does, it does itself. Refuses to touch anything outside, but for the root's list of
controllers on v2, which is put back.
"""

import contextlib
import errno
import os
import signal
import time
from collections.abc import Iterator

from slackwater.demo.plan import (
    HOG_CONTAINER,
    HOG_UID,
    SERVICE_CONTAINER,
    SERVICE_REQUEST,
    SERVICE_UID,
    STATIC_PERCENT,
    Hold,
)
from slackwater.model.cgroup import CgroupMounts, CgroupVersion, Controller
from slackwater.model.gap import Gap
from slackwater.model.units import MilliCpu
from slackwater.model.weight import (
    SMALLEST_SHARES,
    Shares,
    WeightFormula,
    shares_of,
    weight_of,
)

PREFIX = "slackwater-demo-"
_DEFAULT_SHARES, _DEFAULT_WEIGHT = 1024, 100
#: The client's weight beside the pods: it must not wait where the service is measured.
_CLIENT_CPUS = 8
_PERIOD = 100_000
#: A process that was killed keeps its group busy for a moment.
_PATIENCE = 10.0


class CannotBuildTree(Exception):  # noqa: N818  it reads as a sentence where it is caught
    """One sentence about why no cgroups can be made here."""


class Tree:
    """Guards the demo's cgroups."""

    def __init__(self, mounts: CgroupMounts, cpus: int) -> None:
        cpu = mounts.identity()
        if isinstance(cpu, Gap):
            raise CannotBuildTree(cpu.reason)
        self.version = cpu.version
        self.cpus = cpus
        self._mounts = mounts
        self._enabled: list[tuple[str, str]] = []
        self.top = f"{PREFIX}{os.getpid()}-{_started(os.getpid())}"
        self.kubepods = f"{self.top}/kubepods"
        self.burstable = f"{self.kubepods}/burstable"
        self.besteffort = f"{self.kubepods}/besteffort"
        self.service = f"{self.burstable}/pod{SERVICE_UID}/{SERVICE_CONTAINER}"
        self.hog = f"{self.besteffort}/pod{HOG_UID}/{HOG_CONTAINER}"
        self.client = f"{self.top}/client"
        self.agent = f"{self.top}/agent"

    def make(self) -> None:
        """All of it, with the weights that a kubelet gives."""
        try:
            for path in (self.service, self.hog, self.client, self.agent):
                self._make(path)
            # Beside the machine's other groups the demo weighs what a kubelet's tree does.
            self._weigh(self.top, shares_of(MilliCpu(1000 * self.cpus)))
            self._weigh(self.kubepods, shares_of(MilliCpu(1000 * self.cpus)))
            self._weigh(self.client, shares_of(MilliCpu(1000 * self.cpus * _CLIENT_CPUS)))
            self._weigh(self.service.rpartition("/")[0], shares_of(MilliCpu(SERVICE_REQUEST)))
            self._weigh(self.hog.rpartition("/")[0], SMALLEST_SHARES)
            self.hold(Hold.KUBELET)
        except OSError as error:
            where = error.filename or self.top
            raise CannotBuildTree(f"no cgroups can be made at {where}: {error.strerror}") from error

    def hold(self, hold: Hold) -> None:
        """How the hog is held back from now on. Raises OSError where the kernel cannot."""
        tier = self.besteffort
        if os.path.exists(f"{self._directory(tier)}/cpu.idle"):
            self._put(tier, "cpu.idle", "0")
        self._bound(tier, None)
        if hold in (Hold.DEFAULT_WEIGHT, Hold.STATIC_QUOTA):
            self._weigh_default(tier)
            self._weigh_default(self.burstable)
        else:
            self._weigh(tier, SMALLEST_SHARES)
            self._weigh(self.burstable, shares_of(MilliCpu(SERVICE_REQUEST)))
        if hold is Hold.STATIC_QUOTA:
            self._bound(tier, _PERIOD * self.cpus * STATIC_PERCENT // 100)
        if hold is Hold.IDLE:
            self._put(tier, "cpu.idle", "1")

    def enter(self, path: str, pid: int) -> None:
        """Moves a process into a group, in every hierarchy."""
        for directory in self._directories(path):
            put(f"{directory}/cgroup.procs", str(pid))

    def usage(self, path: str) -> int:
        """Exact CPU time in microseconds."""
        mount = self._mounts.mount(Controller.CPUACCT)
        if not isinstance(mount, Gap) and mount.version is CgroupVersion.V1:
            return int(get(f"{mount.directory}/{path}/cpuacct.usage")) // 1000
        words = get(f"{self._directory(path)}/cpu.stat").split()
        return int(words[words.index("usage_usec") + 1])

    def quota(self) -> float | None:
        """Of the hog's tier, in CPUs; None is unlimited."""
        if self.version is CgroupVersion.V1:
            quota = get(f"{self._directory(self.besteffort)}/cpu.cfs_quota_us")
            period = get(f"{self._directory(self.besteffort)}/cpu.cfs_period_us")
        else:
            quota, period = get(f"{self._directory(self.besteffort)}/cpu.max").split()
        return None if quota in ("-1", "max") else int(quota) / int(period)

    def remove(self) -> None:
        """Ends what still runs in it, and leaves the machine as it was."""
        for mount in self._mount_directories():
            remove_tree(f"{mount}/{self.top}")
        for directory, controller in reversed(self._enabled):
            if directory in self._mount_directories():
                # EBUSY: somebody else has begun to use it.
                with contextlib.suppress(OSError):
                    put(f"{directory}/cgroup.subtree_control", f"-{controller}")
        self._enabled.clear()

    def _make(self, path: str) -> None:
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            here, above = "/".join(parts[:depth]), "/".join(parts[: depth - 1])
            self._enable_below(above)
            for directory in self._directories(here):
                with contextlib.suppress(FileExistsError):
                    os.mkdir(directory)
            self._fill_cpuset(here, above)

    def _enable_below(self, above: str) -> None:
        """v2: what a group's children may use. cpuacct is part of cpu there."""
        for controller, mount in self._mounts.by_controller.items():
            if mount.version is CgroupVersion.V1 or controller is Controller.CPUACCT:
                continue
            directory = f"{mount.directory}/{above}".rstrip("/")
            if controller.value not in get(f"{directory}/cgroup.subtree_control").split():
                put(f"{directory}/cgroup.subtree_control", f"+{controller.value}")
                self._enabled.append((directory, controller.value))

    def _fill_cpuset(self, here: str, above: str) -> None:
        """v1: a group without CPUs takes no process."""
        mount = self._mounts.mount(Controller.CPUSET)
        if isinstance(mount, Gap) or mount.version is CgroupVersion.V2:
            return
        for file in ("cpuset.cpus", "cpuset.mems"):
            if not get(f"{mount.directory}/{here}/{file}"):
                put(f"{mount.directory}/{here}/{file}", get(f"{mount.directory}/{above}/{file}"))

    def _weigh(self, path: str, shares: Shares) -> None:
        if self.version is CgroupVersion.V1:
            self._put(path, "cpu.shares", str(shares))
        else:
            self._put(path, "cpu.weight", str(weight_of(shares, WeightFormula.LINEAR)))

    def _weigh_default(self, path: str) -> None:
        if self.version is CgroupVersion.V1:
            self._put(path, "cpu.shares", str(_DEFAULT_SHARES))
        else:
            self._put(path, "cpu.weight", str(_DEFAULT_WEIGHT))

    def _bound(self, path: str, micros: int | None) -> None:
        if self.version is CgroupVersion.V1:
            self._put(path, "cpu.cfs_quota_us", str(-1 if micros is None else micros))
        else:
            self._put(path, "cpu.max", f"{'max' if micros is None else micros} {_PERIOD}")

    def _put(self, path: str, file: str, text: str) -> None:
        put(f"{self._directory(path)}/{file}", text)

    def _directory(self, path: str) -> str:
        return f"{self._mounts.by_controller[Controller.CPU].directory}/{path}"

    def _directories(self, path: str) -> list[str]:
        return [f"{mount}/{path}" for mount in self._mount_directories()]

    def _mount_directories(self) -> list[str]:
        return sorted({mount.directory for mount in self._mounts.by_controller.values()})


def clear_leftovers(mounts: CgroupMounts) -> list[str]:
    """Removes the trees of demos that were killed, with what still runs in them."""
    found = []
    for mount in sorted({mount.directory for mount in mounts.by_controller.values()}):
        for name in sorted(os.listdir(mount)):
            if name.startswith(PREFIX) and not _is_alive(name):
                with contextlib.suppress(OSError):
                    remove_tree(f"{mount}/{name}")
                    found.append(f"{mount}/{name}")
    return found


def remove_tree(directory: str) -> None:
    """Kills what is in it, deepest group first, and removes it; fine if it is not there."""
    for folder, _, _ in os.walk(directory, topdown=False):
        _kill(folder)
        _rmdir(folder)


def get(file: str) -> str:
    with open(file) as opened:
        return opened.read().strip()


def put(file: str, text: str) -> None:
    """By os.write: the kernel's refusal must be raised here, with the file's name in it."""
    try:
        fd = os.open(file, os.O_WRONLY)
        try:
            os.write(fd, (text + "\n").encode())
        finally:
            os.close(fd)
    except OSError as error:
        raise OSError(error.errno, error.strerror, file) from None


def _kill(directory: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        for pid in _pids(directory):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _pids(directory: str) -> Iterator[int]:
    """0 is a process that this one cannot see: never a pid to kill."""
    for word in get(f"{directory}/cgroup.procs").split():
        if int(word) > 1:
            yield int(word)


def _rmdir(directory: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            os.rmdir(directory)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
            _kill(directory)
            time.sleep(0.01)
        else:
            return


def _is_alive(name: str) -> bool:
    """Whether the process that made a tree still runs: a pid alone may be somebody else by now."""
    pid, _, started = name.removeprefix(PREFIX).partition("-")
    return pid.isdigit() and started == _started(int(pid))


def _started(pid: int) -> str:
    """In ticks since boot; empty for a process that is gone."""
    # The name, in brackets, may hold blanks.
    try:
        return get(f"/proc/{pid}/stat").rpartition(")")[2].split()[19]
    except OSError:
        return ""
