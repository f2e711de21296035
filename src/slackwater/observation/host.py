"""What the machine itself tells, below /proc and /sys: topology, model, SMT, turbo, NUMA, PSI.

Owns the reading of those files. Refuses to guess: a file that is not there, as in most virtual
machines, is a Gap. Nothing here raises for what a file holds or for its absence.
"""

import os
import re

from slackwater.model.cgroup import CpuPressure
from slackwater.model.cpus import Cpu, CpuSet, Topology
from slackwater.model.gap import Gap
from slackwater.model.machine import Machine, MachineTicks, NumaNode, Processor
from slackwater.observation import kernel_text
from slackwater.observation.bounded_read import read_start
from slackwater.observation.roots import Roots

_CPUS = "devices/system/cpu"
_NODES = "devices/system/node"
_NODE_NAME = re.compile(r"node([0-9]{1,4})", re.ASCII)
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
    text = _read(f"{roots.proc}/pressure/cpu", kernel_text.LONGEST_COUNTERS)
    return text if isinstance(text, Gap) else kernel_text.pressure(text)


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


def _read_topology(
    roots: Roots, online: CpuSet, nodes: tuple[NumaNode, ...] | Gap
) -> Topology | Gap:
    """Where every online CPU sits; without NUMA all of them are on node 0."""
    node_of = {} if isinstance(nodes, Gap) else {cpu: n.number for n in nodes for cpu in n.cpus}
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
        cpus.append(Cpu(number, core, max(package, 0), node_of.get(number, 0)))
    return Topology(tuple(cpus))


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
