"""What the machine itself says, below /proc, /sys and the root cgroup: topology, model, SMT, turbo,
NUMA, pressure, and the CPU time of the whole node.

Owns where the host's file systems are seen and the choice of the source of CPU time, made at the
first reading and kept, because usages of different sources do not compare. /proc/stat is the last
resort: it is sampled at ticks, and overstates work under short quota periods (0.70 cores were shown
as 1.40). A file that is not there, as in most virtual machines, is a Gap.
"""

import os
import re

import msgspec

from slackwater.bounded_read import read_start
from slackwater.model.cgroup import CgroupController, CgroupMounts, CgroupVersion, CpuPressure
from slackwater.model.cpus import Cpu, CpuSet, Topology
from slackwater.model.gap import VANISHED, Gap
from slackwater.model.machine import (
    Machine,
    MachineTicks,
    NodeUsage,
    NodeUsageSource,
    NumaNode,
    Processor,
)
from slackwater.model.units import Micros
from slackwater.observation import kernel_text
from slackwater.observation.cgroups.files import GroupFolders, HeldFiles


class Roots(msgspec.Struct, frozen=True):
    """Absolute directories without a trailing slash; `host` is "" for the machine's own root."""

    cgroup: str = "/sys/fs/cgroup"
    proc: str = "/proc"
    sys: str = "/sys"
    host: str = ""
    #: The kubelet's configuration file by its path on the host; "" where none was named.
    kubelet_config: str = ""


_CPUS = "devices/system/cpu"
_NODES = "devices/system/node"
_NODE_NAME = re.compile(r"node([0-9]{1,4})", re.ASCII)
_CACHE_NAME = re.compile(r"index[0-9]{1,2}", re.ASCII)
#: Two files that say the same with the opposite sign; both show the present state.
_NO_TURBO = f"{_CPUS}/intel_pstate/no_turbo"
_BOOST = f"{_CPUS}/cpufreq/boost"
#: amd-pstate from Linux 6.11 on, and acpi-cpufreq on AMD machines, have a switch for each CPU.
_BOOST_OF_ONE = ("cpufreq/boost", "cpufreq/cpb")


def read_machine(roots: Roots) -> Machine:
    """All of it, once at the start: nothing here changes each tick but `psi`."""
    cpus = read_online(roots)
    nodes = _read_nodes(roots)
    topology = cpus if isinstance(cpus, Gap) else _read_topology(roots, cpus, nodes)
    processor = _read_processor(roots)
    return Machine(
        cpus,
        topology,
        processor if isinstance(processor, Gap) else processor.model,
        processor if isinstance(processor, Gap) else processor.vendor,
        _read_smt(roots, topology),
        _read_turbo(roots, CpuSet() if isinstance(cpus, Gap) else cpus),
        nodes,
        read_pressure(roots),
    )


def read_online(roots: Roots) -> CpuSet | Gap:
    """The CPUs that are on now."""
    text = _read(f"{roots.sys}/{_CPUS}/online", kernel_text.LONGEST_CPU_LIST)
    cpus = text if isinstance(text, Gap) else kernel_text.cpu_list("the list of online CPUs", text)
    return cpus if isinstance(cpus, Gap) or cpus.mask else Gap("the list of online CPUs is empty")


def read_ticks(roots: Roots) -> MachineTicks | Gap:
    """/proc/stat. Sampled at ticks: an exact usage comes from node_usage."""
    text = _read(f"{roots.proc}/stat", kernel_text.LONGEST_TICKS)
    return text if isinstance(text, Gap) else kernel_text.ticks(text)


def read_pressure(roots: Roots) -> CpuPressure | Gap:
    """The whole machine's CPU pressure. EOPNOTSUPP: the kernel has PSI, but it is off."""
    text = _read(_pressure_file(roots), kernel_text.LONGEST_COUNTERS)
    return text if isinstance(text, Gap) else kernel_text.pressure(text)


def _pressure_file(roots: Roots) -> str:
    return f"{roots.proc}/pressure/cpu"


def _read_processor(roots: Roots) -> Processor | Gap:
    text = _read(f"{roots.proc}/cpuinfo", kernel_text.LONGEST_PROCESSOR)
    return text if isinstance(text, Gap) else kernel_text.processor(text)


def _read_nodes(roots: Roots) -> tuple[NumaNode, ...] | Gap:
    """Ascending by number. A kernel without NUMA has no such folder."""
    folder = f"{roots.sys}/{_NODES}"
    try:
        names = [match for name in os.listdir(folder) if (match := _NODE_NAME.fullmatch(name))]
    except OSError as error:
        return Gap(f"{folder}: {error.strerror}")
    nodes: list[NumaNode] = []
    for match in names:
        file = f"{folder}/{match[0]}/cpulist"
        text = _read(file, kernel_text.LONGEST_CPU_LIST)
        cpus = text if isinstance(text, Gap) else kernel_text.cpu_list(file, text)
        if isinstance(cpus, Gap):
            return cpus
        nodes.append(NumaNode(int(match[1]), cpus))
    return tuple(sorted(nodes, key=lambda node: node.number)) or Gap(f"{folder} has no nodes")


def read_topology(roots: Roots, online: CpuSet) -> Topology | Gap:
    """Where these CPUs sit."""
    return _read_topology(roots, online, _read_nodes(roots))


def _read_topology(
    roots: Roots, online: CpuSet, nodes: tuple[NumaNode, ...] | Gap
) -> Topology | Gap:
    """Where every online CPU sits; without NUMA all of them are on node 0."""
    node_of = {} if isinstance(nodes, Gap) else {cpu: n.number for n in nodes for cpu in n.cpus}
    cache_of = _read_caches(roots, online)
    cpus: list[Cpu] = []
    for number in online:
        folder = f"{roots.sys}/{_CPUS}/cpu{number}/topology"
        core = _read_core(folder)
        package = _read_number(f"{folder}/physical_package_id")
        if isinstance(core, Gap):
            return core
        if isinstance(package, Gap):
            return package
        # -1: the firmware told of no packages (drivers/base/arch_topology.c); they are one then.
        node = node_of.get(number, 0)
        cpus.append(Cpu(number, core, max(package, 0), node, cache_of[number]))
    return Topology(tuple(cpus))


def _read_caches(roots: Roots, online: CpuSet) -> dict[int, int]:
    """The lowest of those that share each CPU's last-level cache. Many virtual machines, and a
    Linux without cacheinfo, tell of none: then each CPU is by itself."""
    lowest: dict[int, int] = {}
    for number in online:
        if number in lowest:  # the first of a group told of all of them
            continue
        shared = _read_last_level(f"{roots.sys}/{_CPUS}/cpu{number}/cache") & online
        for cpu in shared | CpuSet.of((number,)):
            lowest.setdefault(cpu, number)
    return lowest


def _read_last_level(folder: str) -> CpuSet:
    """Who shares the highest of a CPU's caches, in Documentation/ABI/testing/sysfs-devices-
    system-cpu's words; nobody where that cannot be read."""
    try:
        names = [name for name in os.listdir(folder) if _CACHE_NAME.fullmatch(name)]
    except OSError:
        return CpuSet()
    levels = [(_read_number(f"{folder}/{name}/level"), name) for name in names]
    known = [(level, name) for level, name in levels if not isinstance(level, Gap)]
    if not known:
        return CpuSet()
    file = f"{folder}/{max(known)[1]}/shared_cpu_list"
    text = _read(file, kernel_text.LONGEST_CPU_LIST)
    cpus = text if isinstance(text, Gap) else kernel_text.cpu_list(file, text)
    return CpuSet() if isinstance(cpus, Gap) else cpus


def _read_core(folder: str) -> int | Gap:
    """The core's number: the lowest of its hyper-threads, as lscpu does it, or else core_id.

    core_id alone repeats in every cluster of an arm64 machine with a device tree, and would
    make strangers into siblings.
    """
    file = f"{folder}/thread_siblings_list"
    text = _read(file, kernel_text.LONGEST_CPU_LIST)
    siblings = text if isinstance(text, Gap) else kernel_text.cpu_list(file, text)
    if isinstance(siblings, CpuSet) and siblings.mask:
        return next(iter(siblings))
    core = _read_number(f"{folder}/core_id")
    return Gap(f"{folder}/core_id is unknown to the kernel") if core == -1 else core


def _read_smt(roots: Roots, topology: Topology | Gap) -> bool | Gap:
    """smt/active; kernels before 4.19 do not have it, but the siblings tell."""
    active = _read_flag(f"{roots.sys}/{_CPUS}/smt/active")
    if isinstance(active, bool) or isinstance(topology, Gap):
        return active
    return topology.cores() < len(topology.cpus)


def _read_turbo(roots: Roots, online: CpuSet) -> bool | Gap:
    """Whether CPUs may run above their base frequency; on where any CPU may."""
    no_turbo = _read_flag(f"{roots.sys}/{_NO_TURBO}")
    if isinstance(no_turbo, bool):
        return not no_turbo
    boost = _read_flag(f"{roots.sys}/{_BOOST}")
    if isinstance(boost, bool):
        return boost
    files = [f"{roots.sys}/{_CPUS}/cpu{cpu}/{file}" for cpu in online for file in _BOOST_OF_ONE]
    each = [found for file in files if isinstance(found := _read_flag(file), bool)]
    if not each:
        return Gap("the frequency driver, if there is one, shows no turbo or boost switch")
    return any(each)


def _read_number(file: str) -> int | Gap:
    text = _read(file, kernel_text.LONGEST_COUNTERS)
    return text if isinstance(text, Gap) else kernel_text.number(file, text)


def _read_flag(file: str) -> bool | Gap:
    text = _read(file, kernel_text.LONGEST_COUNTERS)
    return text if isinstance(text, Gap) else kernel_text.flag(file, text)


def _read(file: str, longest: int) -> bytes | Gap:
    """One byte more than `longest`, so that kernel_text sees that a longer file is longer."""
    match read_start(file, longest + 1):
        case Gap(reason):
            return Gap(f"{file} is {reason}")
        case contents:
            return contents.data


_MICROS_PER_SECOND = 1_000_000


class NodeUsageMeter:
    """Guards the descriptors behind the node's usage and pressure."""

    def __init__(self, mounts: CgroupMounts, roots: Roots) -> None:
        self._roots = roots
        self._source: _RootGroup | _TopGroups | None = _exact_source(mounts)
        #: Opened when it is first asked for. A Gap stays: PSI is switched at boot.
        self._pressure: int | Gap | None = None

    def read(self) -> NodeUsage | Gap:
        """Never less than at the reading before."""
        if self._source is None:
            return _from_ticks(self._roots)
        return self._source.read()

    def read_pressure(self) -> CpuPressure | Gap:
        """The whole machine's, on either cgroup version. Without the full line: it is undefined for
        a machine, and reads zero for compatibility (Documentation/accounting/psi.rst)."""
        if self._pressure is None:
            self._pressure = _open_pressure(self._roots)
        if isinstance(self._pressure, Gap):
            return self._pressure
        try:
            text = os.pread(self._pressure, kernel_text.LONGEST_COUNTERS, 0)
        except OSError as error:
            return Gap(f"{_pressure_file(self._roots)}: {error.strerror}")
        found = kernel_text.pressure(text)
        return found if isinstance(found, Gap) else CpuPressure(found.some)

    def close(self) -> None:
        if self._source is not None:
            self._source.close()
        if isinstance(self._pressure, int):
            os.close(self._pressure)
            self._pressure = None


class _RootGroup:
    """cgroup v1: cpuacct.usage of the root counts every task, kernel threads too."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def read(self) -> NodeUsage | Gap:
        try:
            usage = kernel_text.usage_v1(os.pread(self._fd, kernel_text.LONGEST_COUNTERS, 0))
        except OSError as error:
            return Gap(f"cpuacct.usage: {error.strerror}")
        return usage if isinstance(usage, Gap) else NodeUsage(usage, NodeUsageSource.ROOT_GROUP)

    def close(self) -> None:
        os.close(self._fd)


class _TopGroups:
    """cgroup v2: the sum over the root's children.

    The root's own cpu.stat is not used: root_cgroup_cputime in kernel/cgroup/rstat.c fills it
    from the same tick samples as /proc/stat. The sum leaves out what runs in the root group
    itself: kernel threads, and init where nothing moved it. What a child used after it was last
    read and before it was removed is lost; its last value is carried on, so the sum never falls.
    """

    def __init__(self, mounts: CgroupMounts, directory: str) -> None:
        self._directory = directory
        self._held = HeldFiles(GroupFolders(mounts), {"cpu.stat": CgroupController.CPU})
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
        return NodeUsage(total, NodeUsageSource.TOP_GROUPS)

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
    accounting, cpu = mounts.mount(CgroupController.CPUACCT), mounts.identity()
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


def _open_pressure(roots: Roots) -> int | Gap:
    try:
        return os.open(_pressure_file(roots), os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        return Gap(f"{_pressure_file(roots)}: {error.strerror}")


def _from_ticks(roots: Roots) -> NodeUsage | Gap:
    ticks = read_ticks(roots)
    if isinstance(ticks, Gap):
        return ticks
    micros = ticks.total.busy() * _MICROS_PER_SECOND // os.sysconf("SC_CLK_TCK")
    return NodeUsage(Micros(micros), NodeUsageSource.TICKS)
