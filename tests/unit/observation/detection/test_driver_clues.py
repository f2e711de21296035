"""What points to the kubelet's tree, and what must not."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.cgroup import CgroupController, CgroupMounts, CgroupVersion, Driver, Mount
from slackwater.observation.detection import Clues, DriverVerdict, clues_of
from slackwater.observation.detection.driver import own_cgroup
from slackwater.observation.host import Roots

V1, V2 = CgroupVersion.V1, CgroupVersion.V2
UNTOLD = DriverVerdict(Driver.SYSTEMD, "default", ())
HYBRID = b"2:memory:/m\n1:cpu,cpuacct:/kubepods/x\n0::/system.slice/y.service\n"


def roots_in(folder: Path) -> Roots:
    return Roots(*(f"{folder}/{name}" for name in ("cgroup", "proc", "sys", "host")))


def mounts_of(version: CgroupVersion) -> CgroupMounts:
    return CgroupMounts({CgroupController.CPU: Mount(version, "/nowhere")})


def in_self(folder: Path, data: bytes) -> Roots:
    file = folder / "proc/self/cgroup"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return roots_in(folder)


@pytest.mark.parametrize(
    ("version", "data", "own"),
    [
        (V2, b"0::/kubepods/besteffort/pod1/x\n", "kubepods/besteffort/pod1/x"),
        (V2, HYBRID, "system.slice/y.service"),
        (V1, HYBRID, "kubepods/x"),
        (V1, b"4:cpuset:/a\n3:cpuacct,cpu:/b\n", "b"),
        (V1, b"4:cpuset:/a\n0::/b\n", ""),
        (V2, b"4:cpu:/a\n", ""),
        # A named hierarchy of v1 is no controller.
        (V1, b"1:name=cpu:/a\n", ""),
        # A colon in the name of a group.
        (V2, b"0::/a:b/c\n", "a:b/c"),
        # Namespaces of our own: at their top, below it, outside of it.
        (V2, b"0::/\n", ""),
        (V2, b"0::/../other\n", "../other"),
        (V2, b"", ""),
        (V2, b"garbage\n\xff\xfe\n", ""),
    ],
)
def test_where_we_are(tmp_path: Path, version: CgroupVersion, data: bytes, own: str) -> None:
    assert own_cgroup(in_self(tmp_path, data), mounts_of(version)) == own


def test_nothing_to_read_is_nothing_known(tmp_path: Path) -> None:
    assert own_cgroup(roots_in(tmp_path), mounts_of(V2)) == ""
    assert own_cgroup(in_self(tmp_path, HYBRID), CgroupMounts({})) == ""


@given(st.binary(max_size=200))
def test_garbage_never_raises(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    roots = in_self(tmp_path_factory.mktemp("garbage"), data)
    for version in CgroupVersion:
        assert not own_cgroup(roots, mounts_of(version)).startswith("/")


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("/var/lib/kubelet/config.yaml", Driver.SYSTEMD),
        ("kubelet process", Driver.SYSTEMD),
        # Guesses, and what the trees say themselves, choose between no trees.
        ("cgroup tree", None),
        ("cgroup root", None),
        ("default", None),
    ],
)
def test_a_guess_at_the_driver_is_no_clue(tmp_path: Path, source: str, told: Driver | None) -> None:
    verdict = DriverVerdict(Driver.SYSTEMD, source, ())
    assert clues_of(roots_in(tmp_path), mounts_of(V2), verdict) == Clues(told)


def test_a_driver_that_a_person_named_is_an_order(tmp_path: Path) -> None:
    verdict = DriverVerdict(Driver.SYSTEMD, "CGROUP_DRIVER", ())
    expected = Clues(ordered_driver=Driver.SYSTEMD)
    assert clues_of(roots_in(tmp_path), mounts_of(V2), verdict) == expected


@pytest.mark.parametrize(
    ("config", "root"),
    [("cgroupRoot: /kubelet", "kubelet"), ("cgroupRoot: /", ""), ("x: y", None), ("", None)],
)
def test_a_cgroup_root_counts_where_somebody_says_it(
    tmp_path: Path, config: str, root: str | None
) -> None:
    file = tmp_path / "host/var/lib/kubelet/config.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(config)
    roots = in_self(tmp_path, b"0::/a/b\n")
    assert clues_of(roots, mounts_of(V2), UNTOLD) == Clues(None, root, "a/b")
