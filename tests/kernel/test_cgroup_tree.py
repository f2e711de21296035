"""Discovery of real cgroups: every level, ids, and a tree that changes while it is read."""

import os
import random
import time
from collections.abc import Iterator

import pytest

from slackwater.model.cgroup import CpuTimes, Level, Tier
from slackwater.model.gap import VANISHED, Gap
from slackwater.observation.cgroups.tree import CgroupTree, Depth
from tests.kernel.bed import Bed
from tests.kernel.pods import (
    AT,
    CONTAINER,
    EVERYTHING,
    TIMES,
    UID,
    make_pod,
    open_descriptors,
    pod_path,
    ref_of,
    remove_pod,
)


@pytest.fixture
def tree(bed: Bed) -> Iterator[CgroupTree]:
    bed.make(bed.kubepods)
    made = CgroupTree(bed.mounts, bed.kubepods)
    yield made
    made.close()


def test_a_link_for_each_child_group(bed: Bed) -> None:
    """What refresh() builds on; and the entry's inode number is the directory's."""
    top = bed.directory(bed.top)
    for children in range(4):
        assert os.stat(top).st_nlink == 2 + children
        bed.make(f"{bed.top}/{children}")
    bed.remove(f"{bed.top}/2")
    assert os.stat(top).st_nlink == 2 + 3
    with os.scandir(top) as entries:
        for entry in entries:
            assert entry.inode() == os.stat(entry.path).st_ino


def test_every_level_is_found(bed: Bed, tree: CgroupTree) -> None:
    for number, tier in enumerate(("", "/burstable", "/besteffort")):
        make_pod(bed, number, tier)
    bed.make(f"{bed.kubepods}/stranger/pod{UID.format(9)}")
    found = tree.scan()
    assert found.unread == ()
    assert [sum(ref.level is level for ref in found.refs) for level in Level] == [1, 2, 3, 6]
    for ref in found.refs:
        assert ref.id == bed.id(ref.path)
    guaranteed = ref_of(found, pod_path(bed, 0, ""))
    assert (guaranteed.tier, guaranteed.owner) == (Tier.GUARANTEED, UID.format(0))
    best_effort = [ref for ref in found.refs if ref.tier is Tier.BESTEFFORT]
    assert [ref.level for ref in best_effort] == [
        Level.TIER,
        Level.POD,
        Level.CONTAINER,
        Level.CONTAINER,
    ]


def test_a_refresh_follows_pods_and_containers(bed: Bed, tree: CgroupTree) -> None:
    make_pod(bed, 1)
    before = tree.scan()
    assert tree.refresh() is before
    make_pod(bed, 2, "")
    make_pod(bed, 3, "/besteffort")
    bed.make(f"{pod_path(bed, 1)}/{CONTAINER.format(199)}")
    assert set(tree.refresh().refs) == set(CgroupTree(bed.mounts, bed.kubepods).scan().refs)
    assert len(tree.refresh().refs) == len(before.refs) + 3 + 4 + 1
    remove_pod(bed, pod_path(bed, 1))
    assert {ref.owner for ref in tree.refresh().refs} == {"", UID.format(2), UID.format(3)}


def test_the_tiers_alone(bed: Bed) -> None:
    make_pod(bed, 1)
    make_pod(bed, 2, "")
    tree = CgroupTree(bed.mounts, bed.kubepods, Depth.TIERS)
    found = tree.scan()
    assert [ref.level for ref in found.refs] == [Level.NODE, Level.TIER]
    remove_pod(bed, pod_path(bed, 1))
    bed.remove(f"{bed.kubepods}/burstable")
    bed.make(f"{bed.kubepods}/burstable")
    again = tree.refresh()
    assert [ref.path for ref in again.refs] == [ref.path for ref in found.refs]
    assert again.refs[1].id != found.refs[1].id
    tree.close()


def test_one_out_one_in_keeps_the_link_count(bed: Bed, tree: CgroupTree) -> None:
    """Pods are looked at themselves; a container's end shows when it is read."""
    first = make_pod(bed, 1)[0]
    make_pod(bed, 2)
    found = tree.scan()
    remove_pod(bed, pod_path(bed, 2))
    make_pod(bed, 3)
    assert {ref.owner for ref in tree.refresh().refs} == {"", UID.format(1), UID.format(3)}
    bed.remove(first)
    bed.make(f"{pod_path(bed, 1)}/{CONTAINER.format(150)}")
    assert tree.read(ref_of(found, first), TIMES, AT).times is VANISHED
    assert set(tree.refresh().refs) == set(CgroupTree(bed.mounts, bed.kubepods).scan().refs)


def test_a_whole_tree_that_is_removed_and_made_again(bed: Bed, tree: CgroupTree) -> None:
    make_pod(bed, 1)
    before = tree.scan()
    remove_pod(bed, pod_path(bed, 1))
    bed.remove(f"{bed.kubepods}/burstable")
    bed.remove(bed.kubepods)
    assert tree.refresh().refs == ()
    make_pod(bed, 1)
    after = tree.refresh()
    assert [ref.path for ref in after.refs] == [ref.path for ref in before.refs]
    assert not {ref.id for ref in after.refs} & {ref.id for ref in before.refs}


def test_a_tree_that_changes_while_it_is_read(bed: Bed, tree: CgroupTree) -> None:
    """No exception at any time, and the truth soon after the changes end."""
    before = open_descriptors()
    make_pod(bed, 0)
    pid = os.fork()
    if not pid:
        _make_and_remove(bed, seconds=3.0)
    rounds = seen = 0
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        scan = tree.scan() if rounds % 5 == 4 else tree.refresh()
        for ref in scan.refs:
            reading = tree.read(ref, EVERYTHING, AT)
            assert isinstance(reading.times, CpuTimes | Gap)
        seen += len(scan.refs)
        rounds += 1
    assert rounds > 2
    assert seen > rounds
    for _ in range(2):
        for ref in tree.refresh().refs:
            tree.read(ref, TIMES, AT)
    truth = CgroupTree(bed.mounts, bed.kubepods).scan()
    assert set(tree.refresh().refs) == set(truth.refs)
    assert all(bed.id(ref.path) == ref.id for ref in truth.refs)
    tree.close()
    assert open_descriptors() == before


def _make_and_remove(bed: Bed, seconds: float) -> None:
    """Pods come and go at random, in a process of its own."""
    chance = random.Random(7)  # noqa: S311
    end, there = time.monotonic() + seconds, set[tuple[int, str]]()
    try:
        while time.monotonic() < end:
            pod = (chance.randrange(1, 8), chance.choice(("", "/burstable", "/besteffort")))
            if pod in there:
                remove_pod(bed, pod_path(bed, *pod))
                there.remove(pod)
            else:
                make_pod(bed, *pod, containers=chance.randrange(3) + 1)
                there.add(pod)
    finally:
        os._exit(0)


def test_descriptors_do_not_leak(bed: Bed) -> None:
    before = open_descriptors()
    tree = CgroupTree(bed.mounts, bed.kubepods)
    for number in range(10):
        make_pod(bed, number)
    for ref in tree.scan().refs:
        tree.read(ref, EVERYTHING, AT)
    held = open_descriptors() - before
    # v1: cpu.stat and cpuacct.usage; v2: cpu.stat and cpu.pressure.
    assert held == 2 * (1 + 1 + 10 + 20)
    for number in range(5):
        remove_pod(bed, pod_path(bed, number))
    tree.refresh()
    assert open_descriptors() - before == 2 * (1 + 1 + 5 + 10)
    tree.close()
    assert open_descriptors() == before
