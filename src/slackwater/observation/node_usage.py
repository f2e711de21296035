"""CPU time of the whole node, as exact as this kernel has it.

Owns the choice of the source, made at the first reading and kept, because usages of different
sources do not compare. /proc/stat is the last resort: it is sampled at ticks, and overstates
work under short quota periods (0.70 cores were shown as 1.40).
"""

import os

from slackwater.model.cgroup import CgroupMounts, CgroupVersion, Controller
from slackwater.model.gap import VANISHED, Gap
from slackwater.model.machine import NodeUsage, UsageSource
from slackwater.model.units import Micros
from slackwater.observation import kernel_text
from slackwater.observation.cgroup_files import GroupFolders, HeldFiles
from slackwater.observation.host import read_ticks
from slackwater.observation.roots import Roots

_MICROS_PER_SECOND = 1_000_000


class NodeUsageMeter:
    """Guards the descriptors behind the node's usage."""

    def __init__(self, mounts: CgroupMounts, roots: Roots) -> None:
        self._roots = roots
        self._source: _RootGroup | _TopGroups | None = _exact_source(mounts)

    def read(self) -> NodeUsage | Gap:
        """Never less than at the reading before."""
        if self._source is None:
            return _from_ticks(self._roots)
        return self._source.read()

    def close(self) -> None:
        if self._source is not None:
            self._source.close()


class _RootGroup:
    """cgroup v1: cpuacct.usage of the root counts every task, kernel threads too."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def read(self) -> NodeUsage | Gap:
        try:
            usage = kernel_text.usage_v1(os.pread(self._fd, kernel_text.LONGEST_COUNTERS, 0))
        except OSError as error:
            return Gap(f"cpuacct.usage: {error.strerror}")
        return usage if isinstance(usage, Gap) else NodeUsage(usage, UsageSource.ROOT_GROUP)

    def close(self) -> None:
        os.close(self._fd)


class _TopGroups:
    """cgroup v2: the sum over the root's children.

    The root's own cpu.stat is no source: root_cgroup_cputime in kernel/cgroup/rstat.c fills it
    from the same tick samples as /proc/stat. The sum leaves out what runs in the root group
    itself: kernel threads, and init where nothing moved it. What a child used after it was last
    read and before it was removed is lost; its last value is carried on, so the sum never falls.
    """

    def __init__(self, mounts: CgroupMounts, directory: str) -> None:
        self._directory = directory
        self._held = HeldFiles(GroupFolders(mounts), {"cpu.stat": Controller.CPU})
        self._links = -1
        self._children: dict[int, str] = {}
        self._last: dict[int, Micros] = {}
        self._carried = 0

    def read(self) -> NodeUsage | Gap:
        try:
            self._refresh()
        except OSError as error:
            return Gap(f"{self._directory}: {error.strerror}")
        for identity, name in self._children.items():
            stat = self._held.text("cpu.stat", name, identity)
            usage = stat if isinstance(stat, Gap) else kernel_text.usage_v2(stat)
            if usage is VANISHED:
                self._links = -1
            elif isinstance(usage, Gap):
                return Gap(f"{name}: {usage.reason}")
            else:
                self._last[identity] = usage
        total = Micros(self._carried + sum(self._last.values()))
        return NodeUsage(total, UsageSource.TOP_GROUPS)

    def _refresh(self) -> None:
        """Lists the children again when their number changed, or one of them was gone."""
        if os.stat(self._directory).st_nlink == self._links:
            return
        with os.scandir(self._directory) as entries:
            found = {e.inode(): e.name for e in entries if e.is_dir(follow_symlinks=False)}
        for identity in self._last.keys() - found.keys():
            self._carried += self._last.pop(identity)
        self._children = found
        self._links = 2 + len(found)
        self._held.keep(frozenset(found))

    def close(self) -> None:
        self._held.close()


def _exact_source(mounts: CgroupMounts) -> _RootGroup | _TopGroups | None:
    """None where there is none: no hierarchy, or one that shows only our own part of the tree."""
    accounting, cpu = mounts.mount(Controller.CPUACCT), mounts.identity()
    if not isinstance(accounting, Gap) and accounting.version is CgroupVersion.V1:
        return _open_root(accounting.directory)
    if isinstance(cpu, Gap) or cpu.version is CgroupVersion.V1:
        return None
    # CFTYPE_NOT_ON_ROOT: in a cgroup namespace the mount's top is some inner group.
    inner = os.path.exists(f"{cpu.directory}/cgroup.events")
    there = os.path.exists(f"{cpu.directory}/cpu.stat")
    return _TopGroups(mounts, cpu.directory) if there and not inner else None


def _open_root(directory: str) -> _RootGroup | None:
    # CFTYPE_ONLY_ON_ROOT, for the same reason.
    if not os.path.exists(f"{directory}/cgroup.sane_behavior"):
        return None
    try:
        return _RootGroup(os.open(f"{directory}/cpuacct.usage", os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return None


def _from_ticks(roots: Roots) -> NodeUsage | Gap:
    ticks = read_ticks(roots)
    if isinstance(ticks, Gap):
        return ticks
    micros = ticks.total.busy() * _MICROS_PER_SECOND // os.sysconf("SC_CLK_TCK")
    return NodeUsage(Micros(micros), UsageSource.TICKS)
