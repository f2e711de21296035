"""The directory of each controller."""

from pathlib import Path

import pytest

from slackwater.model.cgroup import CgroupController, CgroupMounts, CgroupVersion, Mount
from slackwater.model.gap import Gap
from slackwater.observation.detection import VersionVerdict, detect_version, find_mounts
from tests.unit.observation.detection.host_picture import HostPicture

V1, V2 = CgroupVersion.V1, CgroupVersion.V2
OVERRIDE = "SLACKWATER_CGROUP_VERSION"


@pytest.fixture
def host(tmp_path: Path) -> HostPicture:
    return HostPicture(tmp_path)


def mounts_of(host: HostPicture, **environ: str) -> dict[str, tuple[CgroupVersion, str]]:
    """controller: (version, directory below the cgroup root)."""
    verdict = detect_version(host.roots, environ, host.magic_of)
    assert isinstance(verdict, VersionVerdict), verdict
    found = find_mounts(host.roots, verdict, host.magic_of)
    assert isinstance(found, CgroupMounts), found
    top = host.roots.cgroup
    return {
        controller.value: (mount.version, mount.directory.removeprefix(top))
        for controller, mount in found.by_controller.items()
    }


def test_v2_has_what_the_kernel_lists_and_cpuacct_with_cpu(host: HostPicture) -> None:
    host.mount_v2("", "cpuset cpu io memory pids")
    assert mounts_of(host) == dict.fromkeys(("cpu", "cpuacct", "cpuset", "memory"), (V2, ""))


def test_v2_without_a_controller_does_not_have_it(host: HostPicture) -> None:
    host.mount_v2("", "cpu")
    assert mounts_of(host) == {"cpu": (V2, ""), "cpuacct": (V2, "")}


def test_v2_without_cpu_has_no_cpuacct(host: HostPicture) -> None:
    host.mount_v2("", "memory cpuset")
    assert mounts_of(host) == {"cpuset": (V2, ""), "memory": (V2, "")}


def test_v2_that_lists_nothing_of_ours_is_a_gap(host: HostPicture) -> None:
    host.mount_v2("", "io pids")
    verdict = detect_version(host.roots, {}, host.magic_of)
    assert isinstance(verdict, VersionVerdict)
    assert find_mounts(host.roots, verdict) == Gap(
        f"no controller is mounted at {host.roots.cgroup}"
    )


def test_v1_by_name(host: HostPicture) -> None:
    for name in ("cpu", "cpuacct", "cpuset", "memory", "pids", "systemd"):
        host.mount_v1(name)
    assert mounts_of(host) == {
        name: (V1, f"/{name}") for name in ("cpu", "cpuacct", "cpuset", "memory")
    }


def test_v1_shared_hierarchies(host: HostPicture) -> None:
    host.mount_v1("cpu,cpuacct")
    host.mount_v1("memory")
    assert mounts_of(host) == {
        "cpu": (V1, "/cpu,cpuacct"),
        "cpuacct": (V1, "/cpu,cpuacct"),
        "memory": (V1, "/memory"),
    }


def test_v1_symbolic_links_to_a_shared_hierarchy(host: HostPicture) -> None:
    """As systemd leaves it: cpu -> cpu,cpuacct and cpuacct -> cpu,cpuacct."""
    host.mount_v1("cpu,cpuacct")
    for name in ("cpu", "cpuacct"):
        Path(f"{host.roots.cgroup}/{name}").symlink_to("cpu,cpuacct")
    assert mounts_of(host) == {"cpu": (V1, "/cpu,cpuacct"), "cpuacct": (V1, "/cpu,cpuacct")}


def test_a_folder_that_is_not_mounted_does_not_count(host: HostPicture) -> None:
    host.mount_v1("cpu")
    host.folder("cgroup/memory")
    assert mounts_of(host) == {"cpu": (V1, "/cpu")}


def test_a_link_that_loops_does_not_count(host: HostPicture) -> None:
    host.mount_v1("cpu")
    Path(f"{host.roots.cgroup}/memory").symlink_to("memory")
    assert mounts_of(host) == {"cpu": (V1, "/cpu")}


def test_hybrid_takes_v1_where_there_is_one_and_cgroup2_for_the_rest(host: HostPicture) -> None:
    host.mount_v1("cpu")
    host.mount_v1("cpuset")
    host.mount_v2("unified", "cpuset memory")
    assert mounts_of(host) == {
        "cpu": (V1, "/cpu"),
        "cpuset": (V1, "/cpuset"),
        "memory": (V2, "/unified"),
    }


def test_hybrid_with_cpu_in_cgroup2(host: HostPicture) -> None:
    host.mount_v1("memory")
    host.mount_v2("unified", "cpu")
    assert mounts_of(host) == {
        "cpu": (V2, "/unified"),
        "cpuacct": (V2, "/unified"),
        "memory": (V1, "/memory"),
    }


def test_hybrid_like_the_build_machines(host: HostPicture) -> None:
    """cgroup2 is mounted, and has nothing that we use."""
    for name in ("cpu", "cpuacct", "cpuset", "memory", "systemd"):
        host.mount_v1(name)
    host.mount_v2("unified", "hugetlb")
    assert {version for version, _ in mounts_of(host).values()} == {V1}


def test_hybrid_by_the_mount_table_where_statfs_is_unknown(host: HostPicture) -> None:
    for name in ("cpu", "unified"):
        host.folder(f"cgroup/{name}")
    host.file("cgroup/unified/cgroup.controllers", "memory\n")
    top = host.roots.cgroup
    host.file(
        "proc/self/mountinfo",
        f"1 0 0:1 / {top} rw - tmpfs tmpfs rw\n"
        f"2 1 0:2 / {top}/cpu rw - cgroup cgroup rw,cpu\n"
        f"3 1 0:3 / {top}/unified rw - cgroup2 cgroup2 rw\n",
    )

    def unknown(path: str) -> Gap:
        return Gap("statfs cannot be called")

    verdict = detect_version(host.roots, {}, unknown)
    assert isinstance(verdict, VersionVerdict)
    assert find_mounts(host.roots, verdict, unknown) == CgroupMounts(
        {
            CgroupController.CPU: Mount(V1, f"{top}/cpu"),
            CgroupController.MEMORY: Mount(V2, f"{top}/unified"),
        }
    )


@pytest.mark.parametrize("controller", ["cpu", "memory"])
def test_override_v1_takes_plain_folders(host: HostPicture, controller: str) -> None:
    host.folder(f"cgroup/{controller}")
    assert mounts_of(host, **{OVERRIDE: "v1"}) == {controller: (V1, f"/{controller}")}


def test_override_v2_takes_a_plain_folder_for_everything(host: HostPicture) -> None:
    assert set(mounts_of(host, **{OVERRIDE: "v2"})) == {"cpu", "cpuacct", "cpuset", "memory"}


def test_override_v2_keeps_to_a_list_where_there_is_one(host: HostPicture) -> None:
    host.file("cgroup/cgroup.controllers", "memory\n")
    assert mounts_of(host, **{OVERRIDE: "v2"}) == {"memory": (V2, "")}


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_override_without_a_folder_is_a_gap(host: HostPicture, version: str) -> None:
    Path(host.roots.cgroup).rmdir()
    verdict = detect_version(host.roots, {OVERRIDE: version}, host.magic_of)
    assert isinstance(verdict, VersionVerdict)
    assert isinstance(find_mounts(host.roots, verdict), Gap)


@pytest.mark.parametrize("garbage", [b"", b"\0\0", b"\xff" * 99, b"cpux memory2", b"c p u"])
def test_garbage_in_the_kernels_list_is_nothing(host: HostPicture, garbage: bytes) -> None:
    host.mount_v2("", "cpu")
    verdict = detect_version(host.roots, {}, host.magic_of)
    assert isinstance(verdict, VersionVerdict)
    host.file("cgroup/cgroup.controllers", garbage)
    assert isinstance(find_mounts(host.roots, verdict), Gap)
