"""The scratch cgroup: nothing stays, however it ends."""

import os
from pathlib import Path

import pytest

from slackwater.execution.folder_lock import Taken, lock_directory
from slackwater.execution.scratch import scratch_group
from slackwater.model.cgroup import CgroupController, CgroupMounts, CgroupRef, CgroupVersion, Mount
from slackwater.model.gap import Gap


@pytest.fixture
def mounts(tmp_path: Path) -> CgroupMounts:
    found = {}
    for controller in CgroupController:
        folder = tmp_path / controller.value
        folder.mkdir()
        found[controller] = Mount(CgroupVersion.V1, str(folder))
    return CgroupMounts(found)


def everything(mounts: CgroupMounts) -> list[str]:
    return sorted(
        name for mount in mounts.by_controller.values() for name in os.listdir(mount.directory)
    )


def test_it_is_made_in_every_hierarchy_and_removed(mounts: CgroupMounts) -> None:
    with scratch_group(mounts) as ref:
        assert isinstance(ref, CgroupRef)
        assert everything(mounts) == [ref.path] * len(CgroupController)
    assert everything(mounts) == []


def test_it_is_removed_when_the_block_fails(mounts: CgroupMounts) -> None:
    with pytest.raises(RuntimeError, match="inside"), scratch_group(mounts):
        raise RuntimeError("inside")
    assert everything(mounts) == []


def test_one_hierarchy_with_two_controllers_gets_one_group(tmp_path: Path) -> None:
    mount = Mount(CgroupVersion.V1, str(tmp_path))
    shared = CgroupMounts({CgroupController.CPU: mount, CgroupController.CPUACCT: mount})
    with scratch_group(shared) as ref:
        assert isinstance(ref, CgroupRef)
        assert len(os.listdir(tmp_path)) == 1
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("after", range(1, len(CgroupController) + 1))
def test_a_signal_while_it_is_made_leaves_nothing(
    mounts: CgroupMounts, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """A KeyboardInterrupt right after any mkdir, before the next line of ours runs."""
    made, mkdir = [], os.mkdir

    def interrupted(path: str, mode: int = 0o777) -> None:
        mkdir(path, mode)
        made.append(path)
        if len(made) == after:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "mkdir", interrupted)
    with pytest.raises(KeyboardInterrupt), scratch_group(mounts):
        pytest.fail("the block must not run")
    assert len(made) == after
    assert everything(mounts) == []


def test_a_place_where_none_can_be_made_is_a_gap(mounts: CgroupMounts, tmp_path: Path) -> None:
    (tmp_path / "memory" / f"slackwater-scratch-{os.getpid()}").write_text("in the way")
    with scratch_group(mounts) as ref:
        assert isinstance(ref, Gap)
        assert ref.reason.endswith("File exists")


def test_without_a_cpu_hierarchy_there_is_no_identity(tmp_path: Path) -> None:
    with scratch_group(CgroupMounts({})) as ref:
        assert ref == Gap("the cpu controller is mounted nowhere")


def test_one_of_another_container_stays_while_it_is_used(
    mounts: CgroupMounts, tmp_path: Path
) -> None:
    """Its process has a number that nobody has here."""
    foreign = tmp_path / "cpu" / "slackwater-scratch-4194305"
    foreign.mkdir()
    held = lock_directory(str(foreign))
    assert isinstance(held, int)
    with scratch_group(mounts):
        assert foreign.exists()
    os.close(held)
    with scratch_group(mounts):
        assert not foreign.exists()


def test_whoever_looks_sees_that_ours_is_used(mounts: CgroupMounts, tmp_path: Path) -> None:
    with scratch_group(mounts) as ref:
        assert isinstance(ref, CgroupRef)
        assert isinstance(lock_directory(str(tmp_path / "cpu" / ref.path)), Taken)
