"""Where the kubelet's tree is."""

import os
from pathlib import Path

import pytest

from slackwater.model.cgroup import CgroupController, CgroupMounts, CgroupVersion, Driver, Mount
from slackwater.model.gap import Gap
from slackwater.observation.cgroups.paths import node_path
from slackwater.observation.detection import Clues, Kubepods, find_kubepods
from slackwater.observation.detection.kubepods import trees_below

CGROUPFS, SYSTEMD = Driver.CGROUPFS, Driver.SYSTEMD
KIND = "kubelet.slice/kubelet-kubepods.slice"


def mounts_at(directory: Path) -> CgroupMounts:
    return CgroupMounts({CgroupController.CPU: Mount(CgroupVersion.V2, str(directory))})


def make(directory: Path, *paths: str) -> CgroupMounts:
    for path in paths:
        (directory / path).mkdir(parents=True)
    return mounts_at(directory)


def find(
    directory: Path, *paths: str, clues: Clues | None = None, override: str = ""
) -> Kubepods | Gap:
    return find_kubepods(make(directory, *paths), clues or Clues(), override)


@pytest.mark.parametrize(
    ("path", "clues", "found"),
    [
        ("kubepods", Clues(), Kubepods("kubepods", CGROUPFS)),
        ("kubepods.slice", Clues(), Kubepods("kubepods.slice", SYSTEMD)),
        # A cgroup root.
        (
            "kubelet/kubepods",
            Clues(CGROUPFS, "/kubelet"),
            Kubepods("kubelet/kubepods", CGROUPFS, "kubelet"),
        ),
        (KIND, Clues(SYSTEMD, "kubelet"), Kubepods(KIND, SYSTEMD, "kubelet")),
        # Deeper than anybody looks.
        ("a/b/c/kubepods", Clues(CGROUPFS, "a/b/c"), Kubepods("a/b/c/kubepods", CGROUPFS, "a/b/c")),
        # The disk is right and what was said is wrong.
        ("kubepods.slice", Clues(CGROUPFS), Kubepods("kubepods.slice", SYSTEMD)),
        ("kubepods", Clues(SYSTEMD), Kubepods("kubepods", CGROUPFS)),
        ("kubepods", Clues(CGROUPFS, "kubelet"), Kubepods("kubepods", CGROUPFS)),
        (KIND, Clues(CGROUPFS, "kubelet"), Kubepods(KIND, SYSTEMD, "kubelet")),
        (KIND, Clues(cgroup_root=""), Kubepods(KIND, SYSTEMD, "kubelet")),
        # Nobody said so: found by looking.
        (KIND, Clues(), Kubepods(KIND, SYSTEMD, "kubelet")),
        ("x/kubepods", Clues(SYSTEMD), Kubepods("x/kubepods", CGROUPFS, "x")),
        # A root of the kubelet's that cannot be one does not stop the search.
        ("kubepods", Clues(CGROUPFS, "../.."), Kubepods("kubepods", CGROUPFS)),
        # We need not be in it.
        ("kubepods", Clues(own="system.slice/agent.service"), Kubepods("kubepods", CGROUPFS)),
    ],
)
def test_the_only_tree(tmp_path: Path, path: str, clues: Clues, found: Kubepods) -> None:
    assert find(tmp_path, path, clues=clues) == found


POD = "pod0b3cb4ac"
BY_ROOT = "the kubelet's cgroup root says so"
BY_DRIVER = "the cgroup driver is systemd"
BY_US = "this process is in it"
BY_PODS = "no other one has pods"


@pytest.mark.parametrize(
    ("paths", "clues", "found", "because"),
    [
        # Where we are wins over all that was found, the kubelet's cgroup root over the rest.
        (
            [f"a/kubepods/{POD}", f"z/kubepods/{POD}"],
            Clues(cgroup_root="z", own=f"a/kubepods/{POD}/x"),
            "a/kubepods",
            BY_US,
        ),
        (["z/kubepods", f"kubepods/{POD}"], Clues(cgroup_root="z"), "z/kubepods", BY_ROOT),
        ([f"{KIND}/x", f"kubepods/{POD}"], Clues(cgroup_root=""), "kubepods", BY_ROOT),
        (["a/b/c/kubepods", "kubepods"], Clues(cgroup_root="a/b/c"), "a/b/c/kubepods", BY_ROOT),
        # Its driver, where the root alone does not do.
        (["kubepods", "kubepods.slice"], Clues(SYSTEMD), "kubepods.slice", BY_DRIVER),
        (["kubepods", "kubepods.slice"], Clues(SYSTEMD, ""), "kubepods.slice", BY_DRIVER),
        ([KIND, f"a/kubepods/{POD}"], Clues(SYSTEMD), KIND, BY_DRIVER),
        # The one that we are in ourselves.
        (
            [f"a/kubepods/{POD}", f"z/kubepods/besteffort/{POD}"],
            Clues(own=f"z/kubepods/besteffort/{POD}/x"),
            "z/kubepods",
            BY_US,
        ),
        (
            [f"kubepods/{POD}", f"{KIND}/kubelet-kubepods-{POD}.slice"],
            Clues(own=f"{KIND}/kubelet-kubepods-{POD}.slice/x.scope"),
            KIND,
            BY_US,
        ),
        # Then the one with pods, at the top or not, of any tier.
        (["a/kubepods", f"z/kubepods/{POD}"], Clues(), "z/kubepods", BY_PODS),
        (["kubepods", f"z/kubepods/burstable/{POD}"], Clues(), "z/kubepods", BY_PODS),
        (["a/kubepods/besteffort", f"kubepods/besteffort/{POD}"], Clues(), "kubepods", BY_PODS),
        (
            ["kubepods.slice/x.slice", f"{KIND}/kubelet-kubepods-{POD}.slice"],
            Clues(),
            KIND,
            BY_PODS,
        ),
        # One clue after the other.
        (
            ["kubepods", "a/kubepods.slice", f"b/kubepods.slice/kubepods-{POD}.slice"],
            Clues(SYSTEMD),
            "b/kubepods.slice",
            BY_PODS,
        ),
        # A root that nobody has is no reason to give up, nor is a namespace of our own.
        (["a/kubepods", f"z/kubepods/{POD}"], Clues(cgroup_root="no"), "z/kubepods", BY_PODS),
        (["a/kubepods", f"z/kubepods/{POD}"], Clues(own=".."), "z/kubepods", BY_PODS),
    ],
)
def test_one_of_several(
    tmp_path: Path, paths: list[str], clues: Clues, found: str, because: str
) -> None:
    made = find(tmp_path, *paths, clues=clues)
    assert isinstance(made, Kubepods), made
    assert (made.path, made.because) == (found, because)


@pytest.mark.parametrize(
    ("paths", "clues", "left"),
    [
        (["a/kubepods", "b/kubepods"], Clues(), "a/kubepods, b/kubepods"),
        ([f"a/kubepods/{POD}", f"b/kubepods/{POD}"], Clues(), "a/kubepods, b/kubepods"),
        ([f"kubepods/{POD}", f"b/kubepods/{POD}"], Clues(), "b/kubepods, kubepods"),
        ([f"kubepods/{POD}", f"{KIND}/kubelet-kubepods-{POD}.slice"], Clues(), f"{KIND}, kubepods"),
        (["kubepods", "kubepods.slice"], Clues(), "kubepods, kubepods.slice"),
        (
            ["kubepods", "kubepods.slice", "z/kubepods"],
            Clues(cgroup_root=""),
            "kubepods, kubepods.slice",
        ),
        # What has no pods is out; what has is in doubt.
        (
            ["a/kubepods", f"b/kubepods/{POD}", f"c/kubepods/{POD}"],
            Clues(),
            "b/kubepods, c/kubepods",
        ),
        # To be beside a tree, or of a longer name, is not to be in it.
        (["a/kubepods", "b/kubepods"], Clues(own="a/kubepods2/x"), "a/kubepods, b/kubepods"),
        (["a/kubepods", "b/kubepods"], Clues(own="a/kubepods"), "a/kubepods, b/kubepods"),
        (["a/kubepods", "b/kubepods"], Clues(own="../a/kubepods/x"), "a/kubepods, b/kubepods"),
    ],
)
def test_doubt_is_never_a_guess(tmp_path: Path, paths: list[str], clues: Clues, left: str) -> None:
    assert find(tmp_path, *paths, clues=clues) == Gap(
        f"several trees look like the kubelet's ({left}), and nothing tells which one is: name it "
        "with --kubepods (in the chart agent.paths.kubepods), or the kubelet's configuration with "
        "--kubelet-config (agent.kubeletConfig)"
    )


def test_of_many_trees_some_are_named(tmp_path: Path) -> None:
    found = find(tmp_path, *(f"{number}/kubepods" for number in range(9)))
    assert isinstance(found, Gap)
    assert "4/kubepods)" in found.reason
    assert "5/kubepods" not in found.reason


def test_what_was_asked_for_ends_all_doubt(tmp_path: Path) -> None:
    clues = Clues(SYSTEMD, "b", f"b/kubepods/{POD}/x")
    found = find(tmp_path, "a/kubepods", f"b/kubepods/{POD}", clues=clues, override="a/kubepods")
    assert found == Kubepods("a/kubepods", CGROUPFS, "a")


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
    found = find_kubepods(CgroupMounts({}), Clues())
    assert found == Gap("the cpu controller is mounted nowhere")


def test_no_such_mount_is_a_gap(tmp_path: Path) -> None:
    found = find_kubepods(mounts_at(tmp_path / "absent"), Clues())
    assert isinstance(found, Gap)


@pytest.mark.parametrize(
    ("override", "found"),
    [
        ("mine/kubepods", Kubepods("mine/kubepods", CGROUPFS, "mine")),
        ("/mine/kubepods/", Kubepods("mine/kubepods", CGROUPFS, "mine")),
        ("a/b/c/kubepods", Kubepods("a/b/c/kubepods", CGROUPFS, "a/b/c")),
        ("x.slice/x-kubepods.slice", Kubepods("x.slice/x-kubepods.slice", SYSTEMD, "x")),
        # Another name: what it ends with tells the driver, the kubelet its root.
        ("mine/pods", Kubepods("mine/pods", CGROUPFS, "hinted")),
        ("mine/pods.slice", Kubepods("mine/pods.slice", SYSTEMD, "hinted")),
    ],
)
def test_the_tree_that_was_asked_for(tmp_path: Path, override: str, found: Kubepods) -> None:
    clues = Clues(SYSTEMD, "hinted")
    made = find(tmp_path, "kubepods", override.strip("/"), clues=clues, override=override)
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
    assert find_kubepods(made, Clues()) == Kubepods("z/kubepods", CGROUPFS, "z")
