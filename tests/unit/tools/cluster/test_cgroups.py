"""A node's cgroups: made in every hierarchy, and removed from all."""

from pathlib import Path

import pytest

from tools.cluster import places
from tools.cluster.places import hierarchies, make_root, remove_root
from tools.cluster.processes import ClusterError
from tools.host_kernel import Mount

TABLE = """\
30 22 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / {0}/cpuset rw,relatime - cgroup cgroup rw,cpuset
32 30 0:28 / {0}/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct
33 30 0:29 / {0}/unified rw,relatime - cgroup2 cgroup2 rw
"""


@pytest.fixture
def mounts(tmp_path: Path) -> list[Mount]:
    for name in ("cpuset", "cpu", "unified"):
        (tmp_path / name).mkdir()
    (tmp_path / "cpuset/cpuset.cpus").write_text("0-1\n")
    (tmp_path / "cpuset/cpuset.mems").write_text("0\n")
    (tmp_path / "unified/cgroup.controllers").write_text("cpu memory\n")
    (tmp_path / "unified/cgroup.subtree_control").write_text("cpu\n")
    (tmp_path / "table").write_text(TABLE.format(tmp_path))
    return hierarchies(tmp_path / "table")


def test_every_hierarchy_of_both_versions_is_found(mounts: list[Mount]) -> None:
    assert [Path(mount.point).name for mount in mounts] == ["cpuset", "cpu", "unified"]


def test_a_root_is_in_each_with_processors_to_run_on(mounts: list[Mount], tmp_path: Path) -> None:
    make_root("mine", mounts)
    assert (tmp_path / "cpuset/mine/cpuset.cpus").read_text() == "0-1\n"
    assert (tmp_path / "cpuset/mine/cpuset.mems").read_text() == "0\n"
    assert [*(tmp_path / "cpu/mine").iterdir()] == []
    assert (tmp_path / "unified/mine").is_dir()


def test_on_v2_only_what_is_missing_is_asked_of_the_parent(
    mounts: list[Mount], tmp_path: Path
) -> None:
    make_root("mine", mounts)
    assert (tmp_path / "unified/cgroup.subtree_control").read_text() == "+memory"


def test_a_root_is_removed_with_all_below_it(mounts: list[Mount], tmp_path: Path) -> None:
    for mount in mounts[1:]:
        Path(mount.point, "mine/kubepods/besteffort/pod1").mkdir(parents=True)
        Path(mount.point, "other").mkdir()
    remove_root("mine", mounts)
    remove_root("mine", mounts)
    assert not (tmp_path / "cpu/mine").exists()
    assert not (tmp_path / "unified/mine").exists()
    assert (tmp_path / "cpu/other").is_dir()


def test_a_busy_cgroup_is_waited_for_and_then_told(
    mounts: list[Mount], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(mounts[1].point, "mine").mkdir()
    answers = iter([False, False, True])
    monkeypatch.setattr(places, "_POLL_SECONDS", 0.0)
    monkeypatch.setattr(places, "_removed", lambda _: next(answers))
    remove_root("mine", mounts)
    assert next(answers, "all asked") == "all asked"
    monkeypatch.setattr(places, "_PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(places, "_removed", lambda _: False)
    with pytest.raises(ClusterError, match="/mine cannot be removed: processes are left in it"):
        remove_root("mine", mounts)
