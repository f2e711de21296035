"""A small cgroup tree like a kubelet's, made for the demo and removed after it.

It is one top directory in every hierarchy of this machine, named after this process, and all that
is below it. Batch work is restricted here as a kubelet or an administrator would; the agent does
its own part. Nothing outside is touched but the root's controllers on v2, which are restored.
"""

import contextlib
import errno
import os
import signal
import time
from collections.abc import Iterator

from slackwater.demo.demo_plan import (
    BATCH_PODS,
    ELASTIC_PODS,
    HOG_CONTAINER,
    HOG_UID,
    SERVICE_CONTAINER,
    SERVICE_REQUEST,
    SERVICE_UID,
    STATIC_PERCENT,
    BatchControl,
)
from slackwater.model.cgroup import CgroupController, CgroupMounts, CgroupVersion
from slackwater.model.gap import Gap
from slackwater.model.units import MilliCpu
from slackwater.model.weight import (
    LARGEST_SHARES,
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


class CannotBuildTreeError(Exception):
    """One sentence about why no cgroups can be made here."""


class OwnTree:
    """One top directory in every hierarchy, named after this process, and a kubepods in it."""

    def __init__(self, mounts: CgroupMounts, cpus: int) -> None:
        cpu = mounts.identity()
        if isinstance(cpu, Gap):
            raise CannotBuildTreeError(cpu.reason)
        self.version = cpu.version
        self.cpus = cpus
        self._mounts = mounts
        self._enabled: list[tuple[str, str]] = []
        self.top = f"{PREFIX}{os.getpid()}-{_start_time(os.getpid())}"
        self.kubepods = f"{self.top}/kubepods"

    def enter(self, path: str, pid: int) -> None:
        """Moves a process into a group, in every hierarchy."""
        for directory in self._directories(path):
            write_file(f"{directory}/cgroup.procs", str(pid))

    def remove(self) -> None:
        """Kills what still runs in it, and restores the machine."""
        for mount in self._mount_directories():
            remove_tree(f"{mount}/{self.top}")
        for directory, controller in reversed(self._enabled):
            if directory in self._mount_directories():
                # EBUSY: it is in use by something else by now.
                with contextlib.suppress(OSError):
                    write_file(f"{directory}/cgroup.subtree_control", f"-{controller}")
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
            if mount.version is CgroupVersion.V1 or controller is CgroupController.CPUACCT:
                continue
            directory = f"{mount.directory}/{above}".rstrip("/")
            if controller.value not in read_file(f"{directory}/cgroup.subtree_control").split():
                write_file(f"{directory}/cgroup.subtree_control", f"+{controller.value}")
                self._enabled.append((directory, controller.value))

    def _fill_cpuset(self, here: str, above: str) -> None:
        """v1: a group without CPUs takes no process."""
        mount = self._mounts.mount(CgroupController.CPUSET)
        if isinstance(mount, Gap) or mount.version is CgroupVersion.V2:
            return
        for file in ("cpuset.cpus", "cpuset.mems"):
            if not read_file(f"{mount.directory}/{here}/{file}"):
                write_file(
                    f"{mount.directory}/{here}/{file}",
                    read_file(f"{mount.directory}/{above}/{file}"),
                )

    def _weigh(self, path: str, shares: Shares) -> None:
        if self.version is CgroupVersion.V1:
            self._put(path, "cpu.shares", str(shares))
        else:
            self._put(path, "cpu.weight", str(weight_of(shares, WeightFormula.LINEAR)))

    def _weigh_pod(self, container: str, shares: Shares) -> None:
        """The container and its pod."""
        self._weigh(container, shares)
        self._weigh(container.rpartition("/")[0], shares)

    def _put(self, path: str, file: str, text: str) -> None:
        write_file(f"{self._directory(path)}/{file}", text)

    def _directory(self, path: str) -> str:
        return f"{self._mounts.by_controller[CgroupController.CPU].directory}/{path}"

    def _directories(self, path: str) -> list[str]:
        return [f"{mount}/{path}" for mount in self._mount_directories()]

    def _mount_directories(self) -> list[str]:
        return sorted({mount.directory for mount in self._mounts.by_controller.values()})


class DemoTree(OwnTree):
    """The demo's cgroups."""

    def __init__(self, mounts: CgroupMounts, cpus: int) -> None:
        super().__init__(mounts, cpus)
        self.burstable = f"{self.kubepods}/burstable"
        self.besteffort = f"{self.kubepods}/besteffort"
        self.service = f"{self.burstable}/pod{SERVICE_UID}/{SERVICE_CONTAINER}"
        self.hog = f"{self.besteffort}/pod{HOG_UID}/{HOG_CONTAINER}"
        self.elastic = tuple(
            f"{self.besteffort}/pod{pod.uid}/{pod.container}" for pod in ELASTIC_PODS
        )
        self.batch = tuple(f"{self.burstable}/pod{pod.uid}/{pod.container}" for pod in BATCH_PODS)
        self.client = f"{self.top}/client"
        self.agent = f"{self.top}/agent"

    def make(self) -> None:
        """All of it, with the weights that a kubelet gives."""
        try:
            batch = (self.hog, *self.elastic, *self.batch)
            for path in (self.service, *batch, self.client, self.agent):
                self._make(path)
            # Beside the machine's other groups the demo weighs what a kubelet's tree does.
            self._weigh(self.top, shares_of(MilliCpu(1000 * self.cpus)))
            self._weigh(self.kubepods, shares_of(MilliCpu(1000 * self.cpus)))
            self._weigh(self.client, shares_of(MilliCpu(1000 * self.cpus * _CLIENT_CPUS)))
            self._weigh_pod(self.service, shares_of(MilliCpu(SERVICE_REQUEST)))
            for path in (self.hog, *self.elastic):
                self._weigh_pod(path, SMALLEST_SHARES)
            self.apply(BatchControl.KUBELET)
        except OSError as error:
            where = error.filename or self.top
            raise CannotBuildTreeError(
                f"no cgroups can be made at {where}: {error.strerror}"
            ) from error

    def go_first(self) -> None:
        """Before all other work of this machine, for a benchmark on one that is not quiet."""
        self._weigh(self.top, LARGEST_SHARES)

    def apply(self, control: BatchControl) -> None:
        """How batch work is restricted from now on. Raises OSError if the kernel cannot."""
        tier = self.besteffort
        self._reset(tier)
        for container in self.elastic:
            for path in (container, container.rpartition("/")[0]):
                self._reset(path)
            self._weigh_pod(container, SMALLEST_SHARES)
        for container, pod in zip(self.batch, BATCH_PODS, strict=True):
            for path in (container, container.rpartition("/")[0]):
                self._reset(path)
            self._weigh_pod(container, shares_of(MilliCpu(pod.request)))
        if control in (BatchControl.DEFAULT_WEIGHT, BatchControl.STATIC_QUOTA):
            self._weigh_default(tier)
            self._weigh_default(self.burstable)
        else:
            batch = sum(pod.request for pod in BATCH_PODS) if control.runs_burstable() else 0
            self._weigh(tier, SMALLEST_SHARES)
            self._weigh(self.burstable, shares_of(MilliCpu(SERVICE_REQUEST + batch)))
        if control is BatchControl.STATIC_QUOTA:
            self._bound(tier, _PERIOD * self.cpus * STATIC_PERCENT // 100)
        if control is BatchControl.IDLE:
            self._put(tier, "cpu.idle", "1")

    def usage(self, path: str) -> int:
        """Exact CPU time in microseconds."""
        mount = self._mounts.mount(CgroupController.CPUACCT)
        if not isinstance(mount, Gap) and mount.version is CgroupVersion.V1:
            return int(read_file(f"{mount.directory}/{path}/cpuacct.usage")) // 1000
        words = read_file(f"{self._directory(path)}/cpu.stat").split()
        return int(words[words.index("usage_usec") + 1])

    def batch_usage(self) -> int:
        """Of all batch work, in microseconds."""
        return self.usage(self.besteffort) + sum(self.usage(path) for path in self.batch)

    def quota(self) -> float | None:
        """Of all batch work, in CPUs: the best-effort tier's, or the sum of the batch pods'; None
        is unlimited."""
        tier = self._quota_of(self.besteffort)
        if tier is not None:
            return tier
        pods = [self._quota_of_pod(path) for path in self.batch]
        bounded = [quota for quota in pods if quota is not None]
        return sum(bounded) if len(bounded) == len(pods) else None

    def is_demoted(self) -> bool:
        """Whether every batch pod is at the lowest weight, or runs only on idle CPUs."""
        return all(
            self._is_lowest(path) or self._is_lowest(path.rpartition("/")[0]) for path in self.batch
        )

    def _weigh_default(self, path: str) -> None:
        if self.version is CgroupVersion.V1:
            self._put(path, "cpu.shares", str(_DEFAULT_SHARES))
        else:
            self._put(path, "cpu.weight", str(_DEFAULT_WEIGHT))

    def _is_lowest(self, path: str) -> bool:
        idle = f"{self._directory(path)}/cpu.idle"
        if os.path.exists(idle) and read_file(idle) == "1":
            return True
        if self.version is CgroupVersion.V1:
            return int(read_file(f"{self._directory(path)}/cpu.shares")) <= SMALLEST_SHARES
        lowest = weight_of(SMALLEST_SHARES, WeightFormula.LINEAR)
        return int(read_file(f"{self._directory(path)}/cpu.weight")) <= lowest

    def _quota_of_pod(self, container: str) -> float | None:
        """The smaller of the container's and its pod's."""
        both = [self._quota_of(path) for path in (container, container.rpartition("/")[0])]
        return min((quota for quota in both if quota is not None), default=None)

    def _quota_of(self, path: str) -> float | None:
        if self.version is CgroupVersion.V1:
            quota = read_file(f"{self._directory(path)}/cpu.cfs_quota_us")
            period = read_file(f"{self._directory(path)}/cpu.cfs_period_us")
        else:
            quota, period = read_file(f"{self._directory(path)}/cpu.max").split()
        return None if quota in ("-1", "max") else int(quota) / int(period)

    def _reset(self, path: str) -> None:
        """Neither idle nor bounded."""
        if os.path.exists(f"{self._directory(path)}/cpu.idle"):
            self._put(path, "cpu.idle", "0")
        self._bound(path, None)

    def _bound(self, path: str, micros: int | None) -> None:
        if self.version is CgroupVersion.V1:
            self._put(path, "cpu.cfs_quota_us", str(-1 if micros is None else micros))
        else:
            self._put(path, "cpu.max", f"{'max' if micros is None else micros} {_PERIOD}")


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


def read_file(file: str) -> str:
    with open(file) as opened:
        return opened.read().strip()


def write_file(file: str, text: str) -> None:
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
        for pid in _list_pids(directory):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _list_pids(directory: str) -> Iterator[int]:
    """0 is a process that this one cannot see: never a pid to kill."""
    for word in read_file(f"{directory}/cgroup.procs").split():
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
    """Whether the process that made a tree still runs: its pid may have been reused."""
    pid, _, started = name.removeprefix(PREFIX).partition("-")
    return pid.isdigit() and started == _start_time(int(pid))


def _start_time(pid: int) -> str:
    """In ticks since boot; empty for a process that is gone."""
    # The name, in brackets, may hold blanks.
    try:
        return read_file(f"/proc/{pid}/stat").rpartition(")")[2].split()[19]
    except OSError:
        return ""
