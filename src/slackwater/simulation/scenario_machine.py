"""The machine of a scenario: sockets, cores, threads, caches and NUMA nodes, as Linux counts them.

Linux numbers the first threads of all cores before the second ones, socket by socket: on two
sockets of four cores with two threads CPU 1 and CPU 9 are one core, and CPUs 4 to 7 and 12 to 15
are the second socket.
"""

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from slackwater.contract.schema import BOUND, CHECK, Count, SettingsStruct
from slackwater.model.cpus import Cpu, CpuListError, CpuSet, Topology
from slackwater.model.problem import Problem, ProblemCode, quoted

MOST_CPUS = 512


def _is_cpu_list(text: str) -> bool:
    try:
        CpuSet.parse(text)
    except CpuListError:
        return False
    return True


_CpuList = Annotated[str, Meta(extra={BOUND: "a CPU list such as 0-1,8", CHECK: _is_cpu_list})]
_Number = Annotated[Count, Meta(ge=1, le=MOST_CPUS)]


class ScenarioMachine(SettingsStruct, frozen=True):
    """`cores` are those of a socket, `threads` those of a core, `l3` the CPUs that share a cache
    (a socket's where it is not stated), `numa` the machine's NUMA nodes (one for each socket)."""

    cores: _Number
    sockets: _Number = 1
    threads: Annotated[Count, Meta(ge=1, le=8)] = 1
    l3: _Number | None = None
    numa: _Number | None = None
    #: What no container may hold alone.
    reserved: _CpuList = "0"

    def cpus(self) -> int:
        return self.sockets * self.cores * self.threads

    def conflicts(self) -> Iterator[Problem]:
        """Parts that do not make up a machine."""
        if self.cpus() > MOST_CPUS:
            seen = f"{self.sockets} × {self.cores} × {self.threads}"
            yield Problem("cores", seen, f"at most {MOST_CPUS} CPUs", ProblemCode.CONFLICT)
        socket = self.cores * self.threads
        if self.l3 is not None and (socket % self.l3 or self.l3 % self.threads):
            bound = f"whole cores that divide the {socket} CPUs of a socket"
            yield Problem("l3", str(self.l3), bound, ProblemCode.CONFLICT)
        cores = self.sockets * self.cores
        if self.numa is not None and cores % self.numa:
            bound = f"nodes that divide the machine's {cores} cores"
            yield Problem("numa", str(self.numa), bound, ProblemCode.CONFLICT)
        reserved = CpuSet.parse(self.reserved)
        if not reserved or max(reserved) >= self.cpus():
            bound = f"at least one of CPUs 0 to {self.cpus() - 1}"
            yield Problem("reserved", quoted(self.reserved), bound, ProblemCode.CONFLICT)


def plain_machine(cpus: int) -> ScenarioMachine:
    """One socket of cores with one thread each."""
    return ScenarioMachine(cores=cpus)


def build_topology(machine: ScenarioMachine) -> Topology:
    """Every CPU of a machine without conflicts."""
    cores = machine.sockets * machine.cores
    cores_per_cache = (machine.l3 or machine.cores * machine.threads) // machine.threads
    cores_per_node = cores // (machine.numa or machine.sockets)
    return Topology(
        tuple(
            Cpu(
                number=thread * cores + core,
                core=core % machine.cores,
                package=core // machine.cores,
                node=core // cores_per_node,
                cache=core // cores_per_cache * cores_per_cache,
            )
            for thread in range(machine.threads)
            for core in range(cores)
        )
    )
