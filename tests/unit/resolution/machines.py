"""Machines in a few words, for tests of packing and placement."""

from slackwater.model.cpus import Cpu, CpuSet, Topology


def machine(
    sockets: int = 1, cores: int = 4, threads: int = 1, *, nodes: int = 1, cache: int = 0
) -> Topology:
    """`cores` and NUMA `nodes` of each socket; `cache` is how many cores share one. Numbered as
    Linux does: first threads first, socket by socket."""
    all_cores = sockets * cores
    cpus = []
    for number in range(all_cores * threads):
        core = number % all_cores
        socket, place = divmod(core, cores)
        node = socket * nodes + place * nodes // cores
        shared = core - place % cache if cache else number
        cpus.append(Cpu(number, core, socket, node, shared))
    return Topology(tuple(cpus))


#: Crane's and the kubelet's own test machines: hyper-threads, and sockets that take turns.
SINGLE = Topology(tuple(Cpu(n, n % 4, 0, 0, n) for n in range(8)))
DUAL = Topology(tuple(Cpu(n, n % 6, n % 2, n % 2, n) for n in range(12)))


def cpus(text: str) -> CpuSet:
    return CpuSet.parse(text)
