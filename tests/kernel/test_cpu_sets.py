"""CPU sets on real kernels: what each kernel does with them, and processes that really move.

The same on two CPUs and on eight, in two packages: sizes follow from the machine.
"""

import os
import random
from collections.abc import Iterator

import pytest

from slackwater.model.cgroup import CgroupController, CgroupRef, CgroupVersion
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import Gap
from slackwater.model.knob import CPUS
from slackwater.model.plan import Change
from slackwater.resolution.ordering import order_for_kernel
from tests.kernel.bed import Bed
from tests.kernel.cpu_threads import EVERY, allowed, running_on, threads_in
from tests.kernel.hand import DONE, change_of, ref_of, until, writer_of
from tests.kernel.pods import CONTAINER, make_pod, pod_path
from tests.kernel.units import MOUNTS, Node, unit_writer

V1 = CgroupVersion.V1
CPUSET = CgroupController.CPUSET
FIRST, LAST = CpuSet.of([0]), CpuSet.of([max(EVERY)])
TRANSITIONS = 4000
#: systemd answers in milliseconds, under emulation in hundreds of them.
UNIT_TRANSITIONS = 40


def put(bed: Bed, path: str, cpus: CpuSet) -> None:
    writer = writer_of(bed.mounts)
    outcome = writer.write(change_of(writer, ref_of(bed, path), CPUS, cpus))
    assert outcome.result in DONE, outcome


def test_running_threads_move_at_once(bed: Bed) -> None:
    """When the write returns the kernel has changed what every thread may use; each is moved from
    a CPU that it runs on, and may not use any more, before the write returns or soon after."""
    container, _ = make_pod(bed, 1)
    pid = threads_in(bed, container, 3)
    for cpus in (FIRST, LAST, EVERY, LAST):
        put(bed, container, cpus)
        assert allowed(pid) == {cpus}
        until(lambda cpus=cpus: running_on(pid) <= set(cpus))  # type: ignore[misc]


def test_a_pods_set_bounds_its_containers(bed: Bed) -> None:
    """v1: the kernel takes them in the order of resolution.ordering alone; v2: in any."""
    container, other = make_pod(bed, 1)
    pids = [bed.rest(container), bed.rest(other)]
    pod = ref_of(bed, pod_path(bed, 1))
    writer = writer_of(bed.mounts)
    refused = writer.write(Change(pod, CPUS, EVERY, FIRST)).result not in DONE
    assert refused is (bed.version is V1), "its containers have more"
    for path in (container, other):
        put(bed, path, FIRST)
    put(bed, pod.path, FIRST)
    assert [allowed(pid) for pid in pids] == [{FIRST}, {FIRST}]


def test_a_new_group_is_within_its_parents_set(bed: Bed) -> None:
    """What a runtime makes in a pod: on v2 it has the pod's CPUs without a set of its own; on v1 it
    copies what the pod has then, and keeps that when the pod's grows."""
    pod = bed.make(pod_path(bed, 1))
    put(bed, pod, LAST)
    late = bed.make(f"{pod}/{CONTAINER.format(7)}")
    pid = bed.rest(late)
    assert allowed(pid) == {LAST}
    assert bed.read(late, "cpuset.cpus", CPUSET) == (LAST.format() if bed.version is V1 else "")
    put(bed, pod, EVERY)
    assert allowed(pid) == {LAST if bed.version is V1 else EVERY}


@pytest.mark.v1
def test_memory_nodes_need_no_write_of_ours(bed: Bed) -> None:
    """A v1 group takes tasks only with memory nodes, which whoever makes a group fills in; a change
    of its CPUs leaves them as they are, and the groups of others take tasks afterwards, too."""
    container, _ = make_pod(bed, 1)
    before = bed.read(container, "cpuset.mems", CPUSET)
    for cpus in (FIRST, LAST, EVERY):
        put(bed, container, cpus)
        assert bed.read(container, "cpuset.mems", CPUSET) == before
    assert allowed(bed.rest(container)) <= {EVERY, FIRST, LAST}
    bare = f"{container}/bare"
    os.mkdir(bed.directory(bare, CPUSET))
    assert bed.read(bare, "cpuset.mems", CPUSET) == "", "the kernel fills in nothing"
    os.rmdir(bed.directory(bare, CPUSET))


def tree_of(bed: Bed) -> list[CgroupRef]:
    """Tiers, pods, containers and sandboxes, parents first; each of the last two has a process."""
    leaves = [
        leaf
        for number, tier in enumerate(("", "/burstable", "/burstable", "/besteffort"))
        for leaf in make_pod(bed, number, tier)
    ]
    for leaf in leaves:
        bed.rest(leaf)
    tops = [f"{bed.kubepods}/burstable", f"{bed.kubepods}/besteffort"]
    pods = sorted({leaf.rpartition("/")[0] for leaf in leaves})
    return [ref_of(bed, path) for path in (*tops, *pods, *leaves)]


def nested_sets(
    chance: random.Random, tree: list[CgroupRef], inherit: float
) -> dict[CgroupRef, CpuSet]:
    """Any set for each group within that of the group above; or none, where the kernel has that."""
    sets: dict[str, CpuSet] = {}
    state: dict[CgroupRef, CpuSet] = {}
    for ref in tree:
        above = sets.get(ref.path.rpartition("/")[0], EVERY)
        if chance.random() < inherit:
            sets[ref.path], state[ref] = above, CpuSet()
            continue
        cpus = list(above)
        mine = CpuSet.of(chance.sample(cpus, chance.randint(1, len(cpus))))
        sets[ref.path] = state[ref] = mine
    return state


def transitions(
    tree: list[CgroupRef], state: dict[CgroupRef, CpuSet], number: int, inherit: float
) -> Iterator[list[Change]]:
    """From each state to the next, in the order that is promised to be taken."""
    chance = random.Random(15)  # noqa: S311
    for _ in range(number):
        new = nested_sets(chance, tree, inherit)
        changes = [
            Change(ref, CPUS, state[ref], new[ref]) for ref in tree if state[ref] != new[ref]
        ]
        chance.shuffle(changes)
        yield order_for_kernel(changes)
        state = new


@pytest.mark.cgroupfs
def test_no_transition_is_ever_refused(bed: Bed) -> None:
    tree = tree_of(bed)
    writer = writer_of(bed.mounts)
    inherit = 0.0 if bed.version is V1 else 0.2
    start = {ref: EVERY if bed.version is V1 else CpuSet() for ref in tree}
    for step, changes in enumerate(transitions(tree, start, TRANSITIONS, inherit)):
        outcomes = [writer.write(change) for change in changes]
        assert {o.result for o in outcomes} <= DONE, (step, outcomes)


@pytest.mark.systemd
def test_no_transition_of_units_is_ever_refused() -> None:
    """Slices and the scope of a container, by AllowedCPUs."""
    node = Node()
    try:
        writer = unit_writer()
        tree = [node.ref(path) for path in (node.tier, node.pod, node.container)]
        start = dict.fromkeys(tree, CpuSet())
        before = node.picture()
        for changes in transitions(tree, start, UNIT_TRANSITIONS, 0.2):
            outcomes = [writer.write(change) for change in changes]
            assert {o.result for o in outcomes} <= DONE, outcomes
            for each in tree:
                assert not isinstance(writer_of(MOUNTS).read(each, CPUS), Gap)
        for each in tree:
            writer.restore(Change(each, CPUS, EVERY, CpuSet()), "AllowedCPUs=0")
        assert node.picture() == before
        assert allowed(node.process) == {EVERY}
    finally:
        node.close()
