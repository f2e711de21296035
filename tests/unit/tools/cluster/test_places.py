"""Folders of clusters: one owner each, known while it lives, swept when it died."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.cluster import places
from tools.cluster.places import (
    cgroup_root,
    clusters_in,
    first_free,
    owner,
    sole_owner,
    sweep_dead,
    swept,
)
from tools.cluster.processes import ClusterError

#: Owns the folder, says so, and ends with its standard input.
OWNER = """
import sys
from pathlib import Path
from tools.cluster import places
from tools.cluster.places import sole_owner
places.remove_root = lambda *_: None
with sole_owner(Path(sys.argv[1])):
    Path(sys.argv[1], "file").touch()
    print("owned", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def removed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of cgroups that would have been removed."""
    names: list[str] = []
    monkeypatch.setattr(places, "remove_root", lambda name, _mounts: names.append(name))
    return names


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that owns the cluster `a`."""
    command = [sys.executable, "-c", OWNER, str(tmp_path / "a")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "owned\n"
        yield process
        process.kill()


def test_a_folder_is_empty_private_and_gone_afterwards(tmp_path: Path, removed: list[str]) -> None:
    folder = tmp_path / "clusters/a"
    with sole_owner(folder):
        assert [*folder.iterdir()] == []
        assert folder.stat().st_mode & 0o077 == 0
        assert owner(folder) == os.getpid()
    assert not folder.exists()
    assert owner(folder) is None
    assert removed == [cgroup_root(folder)] * 2


def test_a_second_owner_is_refused(tmp_path: Path, other: subprocess.Popen[str]) -> None:
    assert owner(tmp_path / "a") == other.pid
    with pytest.raises(ClusterError, match="cluster a runs already"), sole_owner(tmp_path / "a"):
        pytest.fail("it is owned")
    assert (tmp_path / "a/file").exists()


def test_what_a_killed_owner_left_is_swept_and_the_living_are_left_alone(
    tmp_path: Path, other: subprocess.Popen[str], removed: list[str]
) -> None:
    sweep_dead(tmp_path)
    assert (tmp_path / "a/file").exists()
    other.kill()
    other.wait()
    assert owner(tmp_path / "a") is None
    sweep_dead(tmp_path)
    assert not (tmp_path / "a").exists()
    assert removed == [cgroup_root(tmp_path / "a")]
    sweep_dead(tmp_path / "nothing")


def test_only_what_was_killed_is_said_to_be_swept(
    tmp_path: Path, other: subprocess.Popen[str], removed: list[str]
) -> None:
    assert not swept(tmp_path / "never")
    assert not swept(tmp_path / "a")
    assert (tmp_path / "a/file").exists()
    other.kill()
    other.wait()
    assert swept(tmp_path / "a")
    assert not swept(tmp_path / "a")
    assert not (tmp_path / "a").exists()
    assert set(removed) == {cgroup_root(tmp_path / "a")}


def test_the_first_free_name_is_taken(tmp_path: Path) -> None:
    with first_free(tmp_path, "test") as first, first_free(tmp_path, "test") as second:
        assert (first.name, second.name) == ("test-0", "test-1")
    with first_free(tmp_path, "test") as again:
        assert again.name == "test-0"
    assert [folder.name for folder in clusters_in(tmp_path)] == ["test-0", "test-1"]


def test_cgroups_are_told_apart_by_folder_and_node() -> None:
    first = cgroup_root(Path("/one/a"))
    assert first.startswith("slackwater-a-")
    assert first == cgroup_root(Path("/one/a"), "node")
    others = {
        cgroup_root(Path("/two/a")),
        cgroup_root(Path("/one/b")),
        cgroup_root(Path("/one/a"), "b"),
    }
    assert len(others | {first}) == 4


def test_a_lock_that_nobody_holds_names_nobody(tmp_path: Path) -> None:
    (tmp_path / "a.lock").write_text(str(os.getpid()))
    assert owner(tmp_path / "a") is None
    assert owner(tmp_path / "b") is None
