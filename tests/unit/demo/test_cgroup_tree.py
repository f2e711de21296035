"""What of the tree can be tried in plain folders; tests/kernel/test_demo.py has the rest."""

import os
from pathlib import Path

import pytest

from slackwater.demo.cgroup_tree import (
    PREFIX,
    CannotBuildTreeError,
    DemoTree,
    clear_leftovers,
    remove_tree,
    write_file,
)
from slackwater.model.cgroup import CgroupController, CgroupMounts, CgroupVersion, Mount


def mounts(folder: Path, version: CgroupVersion = CgroupVersion.V1) -> CgroupMounts:
    found = {}
    for controller in CgroupController:
        directory = folder if version is CgroupVersion.V2 else folder / controller.value
        directory.mkdir(exist_ok=True)
        found[controller] = Mount(version, str(directory))
    return CgroupMounts(found)


def test_a_tree_is_named_after_its_process(tmp_path: Path) -> None:
    tree = DemoTree(mounts(tmp_path), 2)
    assert tree.top.startswith(f"{PREFIX}{os.getpid()}-")
    assert tree.top == DemoTree(mounts(tmp_path), 2).top
    assert tree.service.startswith(f"{tree.top}/kubepods/burstable/pod")
    assert tree.hog.startswith(f"{tree.top}/kubepods/besteffort/pod")
    assert all(each.startswith(f"{tree.top}/kubepods/burstable/pod") for each in tree.batch)
    assert "kubepods" not in tree.client + tree.agent


def test_without_a_cpu_controller_there_is_no_tree() -> None:
    with pytest.raises(CannotBuildTreeError, match="cpu controller is mounted nowhere"):
        DemoTree(CgroupMounts({}), 2)


def test_plain_folders_are_no_cgroups_and_one_sentence_says_where(tmp_path: Path) -> None:
    tree = DemoTree(mounts(tmp_path), 2)
    with pytest.raises(CannotBuildTreeError, match=r"no cgroups can be made at .*: No such file"):
        tree.make()


def test_leftovers_are_those_of_processes_that_are_gone(tmp_path: Path) -> None:
    found = mounts(tmp_path)
    alive = DemoTree(found, 2).top
    reused = f"{PREFIX}{os.getpid()}-1"  # this pid, but another process
    for name in (alive, reused, f"{PREFIX}4194999-77", f"{PREFIX}nonsense", "kubepods"):
        (tmp_path / "cpu" / name / "inner").mkdir(parents=True)
    cleared = clear_leftovers(found)
    assert {Path(each).name for each in cleared} == {
        reused, f"{PREFIX}4194999-77", f"{PREFIX}nonsense",
    }  # fmt: skip
    assert sorted(os.listdir(tmp_path / "cpu")) == sorted([alive, "kubepods"])


def test_a_leftover_that_cannot_be_removed_stops_nobody(tmp_path: Path) -> None:
    found = mounts(tmp_path)
    stuck = tmp_path / "cpu" / f"{PREFIX}4194999-77"
    stuck.mkdir()
    (stuck / "file").write_text("a folder with a file cannot be removed")
    assert clear_leftovers(found) == []


def test_removing_what_is_not_there_is_fine(tmp_path: Path) -> None:
    remove_tree(str(tmp_path / "nothing"))
    assert list(tmp_path.iterdir()) == []


def test_a_refused_write_names_its_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as refused:
        write_file(str(tmp_path / "cpu.max"), "1")
    assert refused.value.filename == str(tmp_path / "cpu.max")


def test_a_write_ends_with_a_line(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("")
    write_file(str(tmp_path / "cpu.max"), "max 100000")
    assert (tmp_path / "cpu.max").read_text() == "max 100000\n"


@pytest.mark.parametrize(
    ("version", "files", "quota"),
    [
        (CgroupVersion.V1, {"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"}, None),
        (CgroupVersion.V1, {"cpu.cfs_quota_us": "150000\n", "cpu.cfs_period_us": "100000\n"}, 1.5),
        (CgroupVersion.V2, {"cpu.max": "max 100000\n"}, None),
        (CgroupVersion.V2, {"cpu.max": "10000 50000\n"}, 0.2),
    ],
)
def test_the_quota_in_cpus(
    tmp_path: Path, version: CgroupVersion, files: dict[str, str], quota: float | None
) -> None:
    tree = DemoTree(mounts(tmp_path, version), 2)
    top = tmp_path if version is CgroupVersion.V2 else tmp_path / "cpu"
    fill(top, tree, files)
    assert tree.quota() is None
    for name, text in files.items():
        (top / tree.besteffort / name).write_text(text)
    assert tree.quota() == quota


@pytest.mark.parametrize(
    ("version", "files", "quota"),
    [
        (CgroupVersion.V1, {"cpu.cfs_quota_us": "50000\n", "cpu.cfs_period_us": "100000\n"}, 1.0),
        (CgroupVersion.V2, {"cpu.max": "50000 100000\n"}, 1.0),
    ],
)
def test_the_quota_of_batch_pods_is_their_sum(
    tmp_path: Path, version: CgroupVersion, files: dict[str, str], quota: float
) -> None:
    """On v1 the containers are throttled, on v2 the pods may be."""
    tree = DemoTree(mounts(tmp_path, version), 2)
    top = tmp_path if version is CgroupVersion.V2 else tmp_path / "cpu"
    fill(top, tree, files)
    for path in (tree.batch[0], tree.batch[1].rpartition("/")[0]):
        assert tree.quota() is None
        for name, text in files.items():
            (top / path / name).write_text(text)
    assert tree.quota() == quota


@pytest.mark.parametrize(
    ("version", "usual", "lowest"),
    [
        (CgroupVersion.V1, {"cpu.shares": "512\n"}, {"cpu.shares": "2\n"}),
        (CgroupVersion.V1, {"cpu.shares": "512\n"}, {"cpu.idle": "1\n"}),
        (CgroupVersion.V2, {"cpu.weight": "20\n"}, {"cpu.weight": "1\n"}),
        (CgroupVersion.V2, {"cpu.weight": "20\n", "cpu.idle": "0\n"}, {"cpu.idle": "1\n"}),
    ],
)
def test_batch_is_demoted_where_every_pod_is(
    tmp_path: Path, version: CgroupVersion, usual: dict[str, str], lowest: dict[str, str]
) -> None:
    tree = DemoTree(mounts(tmp_path, version), 2)
    top = tmp_path if version is CgroupVersion.V2 else tmp_path / "cpu"
    fill(top, tree, usual)
    for path in (tree.batch[0], tree.batch[1].rpartition("/")[0]):
        assert not tree.is_demoted()
        for name, text in lowest.items():
            (top / path / name).write_text(text)
    assert tree.is_demoted()


def fill(top: Path, tree: DemoTree, files: dict[str, str]) -> None:
    """Groups without a quota, with these files where they say something else."""
    unlimited = {
        "cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n", "cpu.max": "max 100000\n",
    }  # fmt: skip
    pods = [container.rpartition("/")[0] for container in tree.batch]
    for path in (tree.besteffort, *pods, *tree.batch):
        (top / path).mkdir(parents=True, exist_ok=True)
        for name, text in {**files, **unlimited}.items():
            (top / path / name).write_text(text)


@pytest.mark.parametrize(
    ("version", "controller", "file", "text"),
    [
        (CgroupVersion.V1, "cpuacct", "cpuacct.usage", "1234567890\n"),
        (CgroupVersion.V2, "", "cpu.stat", "usage_usec 1234567\nuser_usec 1\n"),
    ],
)
def test_usage_in_microseconds(
    tmp_path: Path, version: CgroupVersion, controller: str, file: str, text: str
) -> None:
    tree = DemoTree(mounts(tmp_path, version), 2)
    folder = tmp_path / controller / tree.hog
    folder.mkdir(parents=True)
    (folder / file).write_text(text)
    assert tree.usage(tree.hog) == 1_234_567
