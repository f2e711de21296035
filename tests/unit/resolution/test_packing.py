"""Which CPUs a container gets of those that are free."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.cpus import CpuSet, Topology
from slackwater.resolution.packing import CpuLayout, FreeCpus
from tests.unit.resolution.kubelet_packing import pack
from tests.unit.resolution.machines import DUAL, SINGLE, cpus, machine


def chosen(topology: Topology, free: str, count: int) -> str:
    found = CpuLayout(topology)
    pool = topology.all() if free == "all" else cpus(free)
    return CpuSet(FreeCpus(found, pool.mask).choose(count, found.online.mask)).format()


#: Two sockets with two NUMA nodes each, ten cores on each node, two threads on each core.
FOUR_NODES = machine(2, 20, 2, nodes=2)
#: As AMD's: last-level caches of four cores, two of them on each NUMA node.
CACHES = machine(2, 16, 2, nodes=2, cache=4)


@pytest.mark.parametrize(
    ("topology", "free", "count", "want"),
    [
        # Rows 37 and 39 of the facts about Crane, which are the kubelet's.
        (SINGLE, "all", 1, "0"),
        (SINGLE, "all", 2, "0,4"),
        (SINGLE, "all", 8, "0-7"),
        (DUAL, "all", 6, "0,2,4,6,8,10"),
        (DUAL, "all", 3, "0,2,6"),
        (DUAL, "1-5,7-11", 1, "2"),
        # The thread of a core in use; a core that is free as a whole.
        (SINGLE, "1,3,5-7", 1, "6"),
        (SINGLE, "0-3,6", 2, "2,6"),
        (DUAL, "1-11", 1, "6"),
        # Not enough.
        (SINGLE, "0,2", 3, ""),
        (SINGLE, "", 1, ""),
        # Whole sockets and NUMA nodes, where the request fills them.
        (DUAL, "all", 8, "0-2,4,6-8,10"),
        (DUAL, "all", 12, "0-11"),
        (FOUR_NODES, "all", 20, "0-9,40-49"),
        (FOUR_NODES, "all", 40, "0-19,40-59"),
        (FOUR_NODES, "all", 60, "0-29,40-69"),
        (FOUR_NODES, "10-39,50-79", 20, "10-19,50-59"),
        (FOUR_NODES, "1-39,41-79", 60, "10-39,50-79"),
        (FOUR_NODES, "all", 64, "0-31,40-71"),
        # The fullest node that still fits, before one that is free as a whole.
        (FOUR_NODES, "all", 2, "0,40"),
        (FOUR_NODES, "0-37,40-77", 4, "30-31,70-71"),
        (FOUR_NODES, "0-30,40-70", 4, "20-21,60-61"),
        # One cache before two, the fullest that still fits.
        (CACHES, "all", 8, "0-3,32-35"),
        (CACHES, "1-31,33-63", 6, "1-3,33-35"),
        (CACHES, "1-31,33-63", 8, "4-7,36-39"),
        (CACHES, "1-31,33-63", 2, "1,33"),
        (CACHES, "1-31,33-63", 12, "1-2,4-7,33-34,36-39"),
        (CACHES, "all", 16, "0-7,32-39"),
        (CACHES, "all", 24, "0-11,32-43"),
        # As many whole cores as there are, though another socket is fuller; then what is near.
        (machine(2, 4, 2), "1,3-8,10,14", 4, "4-6,14"),
        (machine(3, 4, 2), "2,8-9,15-16,19-20", 5, "2,8-9,15,20"),
        # Without enough whole cores threads of several, still close together.
        (SINGLE, "0,1,6,7", 2, "0-1"),
        (SINGLE, "0,1,2,6,7", 4, "0-2,6"),
        # Machines of 1 to 8 sockets of 4 cores with 2 threads: one of them, and one and a half.
        *(
            (machine(sockets, 4, 2), "all", 8, f"0-3,{4 * sockets}-{4 * sockets + 3}")
            for sockets in range(2, 9)
        ),
        *(
            (machine(sockets, 4, 2), "all", 12, f"0-5,{4 * sockets}-{4 * sockets + 5}")
            for sockets in range(2, 9)
        ),
        # And without hyper-threads.
        *((machine(sockets, 8), "all", 8, "0-7") for sockets in range(1, 9)),
        *((machine(sockets, 8), "3-63", 6, "8-13") for sockets in range(2, 9)),
        *((machine(sockets, 8), "3-63", 5, "3-7") for sockets in range(2, 9)),
    ],
)
def test_chosen_cpus(topology: Topology, free: str, count: int, want: str) -> None:
    assert chosen(topology, free, count) == want


def test_one_after_another_fills_cores_then_caches() -> None:
    found = CpuLayout(CACHES)
    free = FreeCpus(found, found.online.mask)
    one_by_one = [free.take(free.choose(1, found.online.mask)).bit_length() - 1 for _ in range(16)]
    assert one_by_one == [0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39]


def test_more_cpus_are_close_to_those_that_are_there() -> None:
    found = CpuLayout(CACHES)
    free = FreeCpus(found, cpus("1-31,33-63").mask)
    beside = free.choose_beside(cpus("9,41").mask, 2, cpus("0-8,10-40,42-63").mask)
    assert CpuSet(beside).format() == "8,40"


def test_cores_of_different_sizes() -> None:
    """Two cores with two threads, four with one: a single CPU leaves the large ones whole."""
    sizes = machine(1, 6, 1).cpus
    extra = tuple(type(sizes[0])(6 + core, core, 0, 0, 6 + core) for core in range(2))
    mixed = Topology((*sizes, *extra))
    assert chosen(mixed, "all", 2) == "0,6"
    assert chosen(mixed, "all", 4) == "0-1,6-7"
    assert chosen(mixed, "all", 8) == "0-7"
    assert len(cpus(chosen(mixed, "1-5,7", 5))) == 5


MACHINES = st.builds(
    lambda sockets, cores, threads, nodes, cache: machine(
        sockets, cores * nodes, threads, nodes=nodes, cache=cache
    ),
    st.integers(1, 3),
    st.sampled_from((2, 4)),
    st.integers(1, 3),
    st.integers(1, 2),
    st.sampled_from((0, 2)),
)


@given(MACHINES, st.data())
def test_laws(topology: Topology, data: st.DataObject) -> None:
    found = CpuLayout(topology)
    pool = data.draw(st.sets(st.sampled_from([cpu.number for cpu in topology.cpus])))
    count = data.draw(st.integers(1, len(topology.cpus)))
    free = FreeCpus(found, CpuSet.of(pool).mask)
    got = CpuSet(free.choose(count, found.online.mask))
    assert len(got) == (count if count <= len(pool) else 0)
    assert got.within(CpuSet.of(pool))
    assert not free.take(got.mask) & free.mask
    whole = [core for core in found.cores if CpuSet(core).within(CpuSet.of(pool))]
    used = [core for core in found.cores if core & got.mask]
    if got and len(whole) * found.threads >= count:
        # Only what does not fill a core is on cores with others.
        assert sum(bool(core & ~got.mask) for core in used) <= count % found.threads


@pytest.mark.parametrize("sockets", range(1, 9))
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("nodes", [1, 2])
def test_on_an_empty_machine_the_order_is_the_kubelets(
    sockets: int, threads: int, nodes: int
) -> None:
    """Of 1 to 8 sockets, for every number of CPUs."""
    topology = machine(sockets, 4, threads, nodes=nodes)
    for count in range(1, len(topology.cpus) + 1):
        assert chosen(topology, "all", count) == pack(topology, topology.all(), count).format()


@given(st.integers(1, 4), st.integers(1, 2), st.integers(1, 2), st.data())
def test_never_more_torn_cores_or_sockets_than_the_kubelets(
    sockets: int, threads: int, nodes: int, data: st.DataObject
) -> None:
    """Whatever is in use. It is on one NUMA node wherever the kubelet's is."""
    topology = machine(sockets, 4, threads, nodes=nodes)
    numbers = st.sampled_from([cpu.number for cpu in topology.cpus])
    free = CpuSet.of(data.draw(st.sets(numbers, min_size=1)))
    count = data.draw(st.integers(1, len(free)))
    ours, theirs = cpus(chosen(topology, free.format(), count)), pack(topology, free, count)
    assert torn(topology, ours) <= torn(topology, theirs)
    assert len({c.package for c in topology.cpus if c.number in ours}) <= len(
        {c.package for c in topology.cpus if c.number in theirs}
    )
    if len({c.node for c in topology.cpus if c.number in theirs}) == 1:
        assert len({c.node for c in topology.cpus if c.number in ours}) == 1


def torn(topology: Topology, used: CpuSet) -> int:
    """Cores of which it has only a part."""
    cores = CpuLayout(topology).cores
    return sum(bool(core & used.mask and core & ~used.mask) for core in cores)
