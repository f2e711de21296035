"""Everything back, whatever happened: kill -9 at any write, a full disk, groups that went."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from slackwater.execution.executor import Executor
from slackwater.model.cgroup import CgroupController, CgroupMounts, CgroupRef, Mount
from slackwater.model.cpus import CpuSet
from slackwater.model.knob import BURST, CPUS, IDLE, MEMORY_MAX, QUOTA, WEIGHT
from slackwater.model.plan import Change, Ownership, Result
from tests.kernel.bed import Bed
from tests.kernel.hand import (
    DONE,
    besteffort_tree,
    change_of,
    everything,
    executor_of,
    in_a_child,
    knob_files,
    opened,
    quota,
    writer_of,
)


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("ledger"))


@pytest.fixture
def tree(bed: Bed) -> list[CgroupRef]:
    return besteffort_tree(bed)


def plan(bed: Bed, tree: list[CgroupRef]) -> list[Change]:
    """Something of everything: narrower, wider, moved, idle, and weights with and without it."""
    tier, pod1, pod2, box1, box2 = tree
    writer = writer_of(bed.mounts)
    return [
        change_of(writer, tier, QUOTA, quota(30_000)),
        change_of(writer, pod1, QUOTA, quota(20_000)),
        change_of(writer, pod2, QUOTA, quota(20_000)),
        change_of(writer, box1, QUOTA, quota(10_000, 50_000)),
        change_of(writer, box2, QUOTA, quota(10_000)),
        change_of(writer, box1, BURST, 0),
        change_of(writer, box2, BURST, 10_000),
        change_of(writer, pod1, BURST, 100),
        change_of(writer, pod2, BURST, 100),
        change_of(writer, tier, WEIGHT, 11),
        change_of(writer, pod1, IDLE, True),
        change_of(writer, pod2, IDLE, True),
        change_of(writer, pod2, WEIGHT, 12),
        change_of(writer, box1, CPUS, CpuSet.of([0])),
        change_of(writer, pod1, CPUS, CpuSet.of([0])),
        change_of(writer, box2, MEMORY_MAX, 2**27),
    ]


def applied(bed: Bed, folder: str, changes: list[Change]) -> Callable[[], None]:
    def act() -> None:
        outcomes = executor_of(bed.mounts, opened(folder)).apply(changes)
        assert {o.result for o in outcomes} <= DONE, outcomes

    return act


@pytest.mark.cgroupfs
def test_killed_between_any_two_writes_then_released(
    bed: Bed, tree: list[CgroupRef], folder: str
) -> None:
    before, changes = everything(bed, tree), plan(bed, tree)
    write = 0
    finished = False
    while not finished:
        write += 1
        finished = in_a_child(applied(bed, folder, changes), write)
        ledger = opened(folder)
        executor = executor_of(bed.mounts, ledger)
        adoption = executor.adopt()
        assert adoption.dropped == ()
        assert {o.result for o in executor.release()} <= DONE
        assert everything(bed, tree) == before, f"killed before write {write}"
        assert ledger.entries == ()
        assert ledger.problems == ()
        ledger.close()
    assert write > 2 * len(changes), "each change is at least a note and a write"


@pytest.mark.cgroupfs
def test_killed_between_any_two_writes_then_adopted_and_finished(
    bed: Bed, tree: list[CgroupRef], folder: str
) -> None:
    """The next run sees its own values as its own, goes on to the goal, and can undo it all."""
    before, changes = everything(bed, tree), plan(bed, tree)
    write = 0
    finished = False
    while not finished:
        write += 1
        finished = in_a_child(applied(bed, folder, changes), write)
        ledger = opened(folder)
        executor = executor_of(bed.mounts, ledger)
        for adopted in executor.adopt().live:
            assert adopted.ownership in (Ownership.OURS, Ownership.BASELINE), adopted
        assert {o.result for o in executor.apply(plan(bed, tree))} <= DONE
        assert {o.result for o in executor.release()} <= DONE
        assert everything(bed, tree) == before, f"killed before write {write}"
        ledger.close()


@pytest.mark.cgroupfs
def test_killed_while_releasing(bed: Bed, tree: list[CgroupRef], folder: str) -> None:
    before, changes = everything(bed, tree), plan(bed, tree)
    write = 0
    finished = False
    while not finished:
        write += 2
        assert in_a_child(applied(bed, folder, changes), 0)

        def release() -> None:
            outcomes = executor_of(bed.mounts, opened(folder)).release()
            assert {o.result for o in outcomes} <= DONE

        finished = in_a_child(release, write)
        ledger = opened(folder)
        assert {o.result for o in executor_of(bed.mounts, ledger).release()} <= DONE
        assert everything(bed, tree) == before, f"killed before write {write}"
        ledger.close()


def test_what_went_meanwhile_is_dropped_and_what_replaced_it_left_alone(
    bed: Bed, tree: list[CgroupRef], folder: str
) -> None:
    changes = plan(bed, tree)
    assert in_a_child(applied(bed, folder, changes), 0)
    _, _, _, box1, box2 = tree
    bed.remove(box1.path)
    bed.remove(box2.path)
    bed.make(box2.path)
    fresh = knob_files(bed, box2.path)
    ledger = opened(folder)
    executor = executor_of(bed.mounts, ledger)
    adoption = executor.adopt()
    assert {e.ref for e in adoption.dropped} == {box1, box2}
    assert {a.entry.ref for a in adoption.live} == set(tree[:3])
    assert {o.result for o in executor.release()} <= DONE
    assert knob_files(bed, box2.path) == fresh
    ledger.close()


def test_a_group_that_goes_while_it_is_released_is_forgotten(
    bed: Bed, tree: list[CgroupRef], folder: str
) -> None:
    ledger = opened(folder)
    executor = executor_of(bed.mounts, ledger)
    executor.apply(plan(bed, tree))
    bed.remove(tree[3].path)
    results = {(o.change.ref.path, o.result) for o in executor.release()}
    assert (tree[3].path, Result.VANISHED) in results
    assert ledger.entries == ()
    ledger.close()


def test_a_strangers_value_is_drift_and_release_leaves_it(
    bed: Bed, tree: list[CgroupRef], folder: str
) -> None:
    before = everything(bed, tree)
    ledger = opened(folder)
    executor = executor_of(bed.mounts, ledger)
    executor.apply(plan(bed, tree))
    memory = writer_of(bed.mounts)
    memory.write(change_of(memory, tree[4], MEMORY_MAX, 2**28))  # by somebody else
    (drifted,) = (a for a in executor.adopt().live if a.ownership is Ownership.DRIFT)
    assert (drifted.entry.ref, drifted.entry.knob) == (tree[4], "memory-max")
    (left,) = (o for o in executor.release() if o.detail.startswith("left"))
    assert left.change.new == 2**28
    assert ledger.entries == ()
    memory.write(change_of(memory, tree[4], MEMORY_MAX, 40_000 * 4096))
    assert everything(bed, tree) == before
    ledger.close()


def test_a_resize_by_the_kubelet_is_the_new_baseline(
    bed: Bed, tree: list[CgroupRef], folder: str
) -> None:
    ledger = opened(folder)
    executor, writer, box = executor_of(bed.mounts, ledger), writer_of(bed.mounts), tree[3]
    executor.apply([change_of(writer, box, QUOTA, quota(10_000))])
    writer.write(change_of(writer, box, QUOTA, quota(45_000)))  # the kubelet
    executor.apply([change_of(writer, box, QUOTA, quota(20_000))])
    assert {o.result for o in executor.release()} == {Result.APPLIED}
    assert writer.read(box, QUOTA) == quota(45_000)
    ledger.close()


def test_a_weight_under_a_strangers_idle_is_kept_for_later(
    bed: Bed, tree: list[CgroupRef], folder: str
) -> None:
    ledger = opened(folder)
    executor, writer, box = executor_of(bed.mounts, ledger), writer_of(bed.mounts), tree[3]
    before = everything(bed, tree)
    executor.apply([change_of(writer, box, WEIGHT, 33)])
    bed.write(box.path, "cpu.idle", "1")
    assert {o.result for o in executor.release()} == {Result.REFUSED}
    assert [e.knob for e in ledger.entries] == ["weight"]
    bed.write(box.path, "cpu.idle", "0")
    assert {o.result for o in executor.release()} == {Result.APPLIED}
    assert everything(bed, tree) == before
    ledger.close()


def test_another_mount_of_the_same_hierarchy_is_the_same_and_another_root_is_not(
    bed: Bed, tree: list[CgroupRef], folder: str, tmp_path: Path
) -> None:
    ledger, writer = opened(folder), writer_of(bed.mounts)
    executor_of(bed.mounts, ledger).apply([change_of(writer, tree[3], QUOTA, quota(10_000))])
    here = bed.mounts.by_controller[CgroupController.CPU].directory

    def below(directory: str) -> Executor:
        mount = Mount(bed.version, directory)
        return executor_of(CgroupMounts(dict.fromkeys(CgroupController, mount)), ledger)

    for astray in (f"{here}/{bed.top}", str(tmp_path), f"{tmp_path}/none"):
        executor = below(astray)
        assert {a.ownership for a in executor.adopt().live} == {Ownership.UNREAD}
        assert {o.result for o in executor.release()} == {Result.REFUSED}
    subprocess.run(["mount", "--bind", here, str(tmp_path)], check=True)
    try:
        assert {o.result for o in below(str(tmp_path)).release()} == {Result.APPLIED}
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)
    assert ledger.entries == ()
    assert writer.read(tree[3], QUOTA) == quota(50_000)
    ledger.close()
