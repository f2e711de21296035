"""Where the kubelet's tree is."""

import os
from pathlib import Path

import pytest

from slackwater.model.cgroup import CgroupMounts, CgroupVersion, Controller, Driver, Mount
from slackwater.model.gap import Gap
from slackwater.observation.cgroup_paths import KubepodsLayout, node_path
from slackwater.observation.detection import Kubepods, find_kubepods
from slackwater.observation.kubepods import trees_below

CGROUPFS, SYSTEMD = Driver.CGROUPFS, Driver.SYSTEMD
KIND = "kubelet.slice/kubelet-kubepods.slice"


def mounts_at(directory: Path) -> CgroupMounts:
    return CgroupMounts({Controller.CPU: Mount(CgroupVersion.V2, str(directory))})


def make(directory: Path, *paths: str) -> CgroupMounts:
    for path in paths:
        (directory / path).mkdir(parents=True)
    return mounts_at(directory)


def find(
    directory: Path, *paths: str, hint: KubepodsLayout | None = None, override: str = ""
) -> Kubepods | Gap:
    made = make(directory, *paths)
    return find_kubepods(made, hint or KubepodsLayout(CGROUPFS), override)


@pytest.mark.parametrize(
    ("paths", "hint", "found"),
    [
        (["kubepods"], KubepodsLayout(CGROUPFS), Kubepods("kubepods", CGROUPFS)),
        (["kubepods.slice"], KubepodsLayout(SYSTEMD), Kubepods("kubepods.slice", SYSTEMD)),
        # The disk is right and the hint is wrong.
        (["kubepods.slice"], KubepodsLayout(CGROUPFS), Kubepods("kubepods.slice", SYSTEMD)),
        (["kubepods"], KubepodsLayout(SYSTEMD), Kubepods("kubepods", CGROUPFS)),
        (["kubepods"], KubepodsLayout(CGROUPFS, "kubelet"), Kubepods("kubepods", CGROUPFS)),
        # A cgroup root.
        (
            ["kubelet/kubepods"],
            KubepodsLayout(CGROUPFS, "/kubelet"),
            Kubepods("kubelet/kubepods", CGROUPFS, "kubelet"),
        ),
        ([KIND], KubepodsLayout(SYSTEMD, "kubelet"), Kubepods(KIND, SYSTEMD, "kubelet")),
        ([KIND], KubepodsLayout(CGROUPFS, "kubelet"), Kubepods(KIND, SYSTEMD, "kubelet")),
        # Nobody said so: found by looking.
        ([KIND], KubepodsLayout(CGROUPFS), Kubepods(KIND, SYSTEMD, "kubelet")),
        (["x/kubepods"], KubepodsLayout(SYSTEMD), Kubepods("x/kubepods", CGROUPFS, "x")),
        # Both: the hint decides, then the shallower one.
        (
            ["kubepods", "kubepods.slice"],
            KubepodsLayout(SYSTEMD),
            Kubepods("kubepods.slice", SYSTEMD),
        ),
        (
            ["kubepods", "kubepods.slice"],
            KubepodsLayout(CGROUPFS),
            Kubepods("kubepods", CGROUPFS),
        ),
        (
            [KIND, "a/kubepods"],
            KubepodsLayout(SYSTEMD),
            Kubepods(KIND, SYSTEMD, "kubelet"),
        ),
        (
            [KIND, "z/kubepods", "b/kubepods"],
            KubepodsLayout(CGROUPFS),
            Kubepods("b/kubepods", CGROUPFS, "b"),
        ),
        # A root of the kubelet's that cannot be one does not stop the search.
        (["kubepods"], KubepodsLayout(CGROUPFS, "../.."), Kubepods("kubepods", CGROUPFS)),
    ],
    ids=lambda value: None if isinstance(value, list) else str(value),
)
def test_the_likeliest_tree(
    tmp_path: Path, paths: list[str], hint: KubepodsLayout, found: Kubepods
) -> None:
    assert find(tmp_path, *paths, hint=hint) == found


@pytest.mark.parametrize(
    "path",
    ["", "system.slice", "a/b/kubepods", "kubepods-burstable.slice", "akubepods", "kubepods2"],
)
def test_no_tree_is_a_gap(tmp_path: Path, path: str) -> None:
    (tmp_path / path).mkdir(parents=True, exist_ok=True)
    assert find(tmp_path) == Gap(f"there is no kubepods or kubepods.slice below {tmp_path}")


def test_a_file_called_kubepods_is_no_tree(tmp_path: Path) -> None:
    (tmp_path / "kubepods").write_text("")
    assert isinstance(find(tmp_path), Gap)


def test_no_cpu_hierarchy_is_a_gap() -> None:
    found = find_kubepods(CgroupMounts({}), KubepodsLayout(CGROUPFS))
    assert found == Gap("the cpu controller is mounted nowhere")


def test_no_such_mount_is_a_gap(tmp_path: Path) -> None:
    found = find_kubepods(mounts_at(tmp_path / "absent"), KubepodsLayout(CGROUPFS))
    assert isinstance(found, Gap)


@pytest.mark.parametrize(
    ("override", "found"),
    [
        ("mine/kubepods", Kubepods("mine/kubepods", CGROUPFS, "mine")),
        ("/mine/kubepods/", Kubepods("mine/kubepods", CGROUPFS, "mine")),
        ("a/b/c/kubepods", Kubepods("a/b/c/kubepods", CGROUPFS, "a/b/c")),
        ("x.slice/x-kubepods.slice", Kubepods("x.slice/x-kubepods.slice", SYSTEMD, "x")),
        # Another name: what it ends with tells the driver, the hint the kubelet's root.
        ("mine/pods", Kubepods("mine/pods", CGROUPFS, "hinted")),
        ("mine/pods.slice", Kubepods("mine/pods.slice", SYSTEMD, "hinted")),
    ],
)
def test_the_tree_that_was_asked_for(tmp_path: Path, override: str, found: Kubepods) -> None:
    hint = KubepodsLayout(SYSTEMD, "hinted")
    made = find(tmp_path, "kubepods", override.strip("/"), hint=hint, override=override)
    assert made == found


def test_an_absolute_path_inside_the_mount_counts(tmp_path: Path) -> None:
    found = find(tmp_path, "mine/kubepods", override=f"{tmp_path}/mine/kubepods")
    assert found == Kubepods("mine/kubepods", CGROUPFS, "mine")


def test_a_tree_that_was_asked_for_and_is_not_there_is_never_replaced(tmp_path: Path) -> None:
    """Another tree may belong to somebody else."""
    found = find(tmp_path, "kubepods", override="mine/kubepods")
    assert found == Gap(f"there is no directory 'mine/kubepods' below {tmp_path}")


@pytest.mark.parametrize("override", ["/", "//", "..", "../x", "a/../../x", "a//b", "./a"])
def test_an_override_never_leaves_the_mount(tmp_path: Path, override: str) -> None:
    (tmp_path / "x").mkdir()
    mount = tmp_path / "mount"
    found = find(mount, "a/b", "kubepods", override=override)
    assert found == Gap(f"{override!r} is not a path inside {mount}")


@pytest.mark.parametrize("override", ["a\0b", "\udc80", "x" * 5000])
def test_a_garbage_override_is_one_clear_line(tmp_path: Path, override: str) -> None:
    found = find(tmp_path, "kubepods", override=override)
    assert isinstance(found, Gap)
    assert found.reason.encode().isascii()
    assert len(found.reason) < 300 + len(str(tmp_path))


@pytest.mark.parametrize(
    "paths",
    [
        ["kubepods"],
        [KIND],
        ["kubepods.slice"],
        ["kubelet/kubepods"],
        ["x_y.slice/x_y-kubepods.slice"],
    ],
)
def test_the_layout_that_was_found_leads_back_to_the_tree(tmp_path: Path, paths: list[str]) -> None:
    found = find(tmp_path, *paths)
    assert isinstance(found, Kubepods)
    assert node_path(found.layout()) == found.path


def test_all_trees_near_the_top(tmp_path: Path) -> None:
    make(tmp_path, "kubepods/kubepods", KIND, "a/kubepods.slice", "a/b/kubepods")
    assert trees_below(str(tmp_path)) == ["a/kubepods.slice", KIND, "kubepods"]


def test_loops_garbage_names_and_files_do_not_break_the_search(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "up").symlink_to("..")
    (tmp_path / "again").symlink_to(".")
    (tmp_path / "file").write_text("")
    os.mkdir(os.fsencode(tmp_path) + b"/\xff\xfe")
    os.mkdir(os.fsencode(tmp_path) + b"/\xff\xfe/kubepods")
    assert isinstance(find(tmp_path), Gap)
    make(tmp_path, "a/kubepods")
    assert trees_below(str(tmp_path)) == ["a/kubepods"]


def test_an_unreadable_folder_does_not_break_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand, as root may read everything."""
    scan = os.scandir

    def refuse(path: str) -> object:
        if path.endswith("/secret"):
            raise PermissionError(13, "Permission denied")
        return scan(path)

    made = make(tmp_path, "secret/kubepods", "z/kubepods")
    monkeypatch.setattr(os, "scandir", refuse)
    assert find_kubepods(made, KubepodsLayout(CGROUPFS)) == Kubepods("z/kubepods", CGROUPFS, "z")
