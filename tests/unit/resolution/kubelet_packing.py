"""The order of the kubelet's CPU manager, policy static, without its options: to compare ours with.

Full NUMA nodes and sockets that are needed as a whole, then full cores, then single CPUs; of each
those in groups with the fewest free CPUs first (takeByTopologyNUMAPacked of Kubernetes).
"""

from collections.abc import Callable, Iterable

from slackwater.model.cpus import Cpu, CpuSet, Topology

_Key = Callable[[Cpu], object]


def pack(topology: Topology, free: CpuSet, count: int) -> CpuSet:
    """None where there are not enough."""
    if len(free) < count:
        return CpuSet()
    nodes, sockets = ({key(cpu) for cpu in topology.cpus} for key in (_node, _socket))
    outer = (_node,) if len(sockets) >= len(nodes) else (_socket, _node)
    levels: tuple[_Key, ...] = (*outer, *({_node, _socket} - set(outer)))
    taken: list[Cpu] = []
    for level in (*levels, _core):
        for group in _ordered(topology, free - _set(taken), (*outer, _core), level):
            whole = [cpu for cpu in topology.cpus if level(cpu) == level(group[0])]
            if len(group) == len(whole) <= count - len(taken):
                taken += group
    for group in _ordered(topology, free - _set(taken), (*outer, _core), _core):
        taken += group[: count - len(taken)]
    return _set(taken)


def _ordered(
    topology: Topology, free: CpuSet, outer: tuple[_Key, ...], level: _Key
) -> Iterable[list[Cpu]]:
    """The free CPUs of each group of that level; groups around them with few free ones first."""
    there = [cpu for cpu in topology.cpus if cpu.number in free]

    def rank(cpu: Cpu) -> list[tuple[int, int]]:
        keys = outer if level is _core else (level,)
        return [
            (len(same), min(each.number for each in topology.cpus if key(each) == key(cpu)))
            for key in keys
            for same in [[each for each in there if key(each) == key(cpu)]]
        ]

    groups: dict[object, list[Cpu]] = {}
    for cpu in there:
        groups.setdefault(level(cpu), []).append(cpu)
    return sorted(groups.values(), key=lambda group: rank(group[0]))


def _set(cpus: Iterable[Cpu]) -> CpuSet:
    return CpuSet.of(cpu.number for cpu in cpus)


def _node(cpu: Cpu) -> object:
    return cpu.node


def _socket(cpu: Cpu) -> object:
    return cpu.package


def _core(cpu: Cpu) -> object:
    return cpu.package, cpu.core
