"""A ledger on a disk without room: nothing new is touched, everything noted goes back."""

import subprocess
from collections.abc import Iterator

import pytest

from slackwater.execution.executor import Executor
from slackwater.execution.ledger import Ledger
from slackwater.model.cgroup import CgroupRef
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import Gap
from slackwater.model.knob import CPUS, IDLE, WEIGHT
from slackwater.model.plan import Result
from tests.kernel.bed import Bed
from tests.kernel.hand import (
    DONE,
    besteffort_tree,
    change_of,
    everything,
    executor_of,
    knob_files,
    opened,
    writer_of,
)


@pytest.fixture
def tree(bed: Bed) -> list[CgroupRef]:
    return besteffort_tree(bed)


@pytest.fixture
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = str(tmp_path_factory.mktemp("disk"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "none", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(folder: str) -> None:
    with open(f"{folder}/filler", "ab", buffering=0) as filler:
        try:
            while True:
                filler.write(b"x" * 4096)
        except OSError:
            return


def test_a_full_disk(bed: Bed, tree: list[CgroupRef], small_disk: str) -> None:
    before, folder = everything(bed, tree), f"{small_disk}/ledger"
    ledger = opened(folder)
    executor = executor_of(bed.mounts, ledger)
    tier, pod1 = tree[0], tree[1]
    writer = writer_of(bed.mounts)
    known = change_of(writer, tier, WEIGHT, 11)
    assert executor.apply([known])[0].result is Result.APPLIED
    fill(small_disk)
    _until_no_note_fits(executor, ledger, tier)
    for knob, value in ((WEIGHT, 5), (IDLE, True), (CPUS, CpuSet.of([0]))):
        (refused,) = executor.apply([change_of(writer, pod1, knob, value)])
        assert refused.result is Result.REFUSED, "a new knob stays untouched"
        assert "No space left" in refused.detail
    assert knob_files(bed, pod1.path).items() <= before.items()
    assert executor.apply([change_of(writer, tier, WEIGHT, 13)])[0].result is Result.APPLIED
    ledger.close()
    _assert_released(bed, folder)
    assert everything(bed, tree) == before


def _until_no_note_fits(executor: Executor, ledger: Ledger, ref: CgroupRef) -> None:
    """The ledger's last page still has room when the disk is full."""
    entry = ledger.entries[0]
    for _ in range(100):
        if isinstance(ledger.note(entry), Gap):
            return
    raise AssertionError("the disk is not full")


def _assert_released(bed: Bed, folder: str) -> None:
    """By another run, on the disk that is still full, and for good."""
    ledger = opened(folder)
    assert len(ledger.entries) == 1
    assert {o.result for o in executor_of(bed.mounts, ledger).release()} <= DONE
    ledger.close()
    again = opened(folder)
    assert again.entries == ()
    again.close()
