"""Detection on real kernels: the version under test, its mounts, and a tree made by hand."""

import os
from pathlib import Path

import pytest

from slackwater.model.cgroup import (
    CgroupController,
    CgroupMounts,
    CgroupVersion,
    Driver,
    Mount,
    Tier,
)
from slackwater.model.gap import Gap
from slackwater.observation.cgroups.paths import (
    KubepodsLayout,
    container_directory,
    container_id,
    node_path,
    pod_path,
    pod_uid,
    tier_of,
    tier_path,
)
from slackwater.observation.detection import (
    Clues,
    Kubepods,
    VersionVerdict,
    detect_driver,
    detect_version,
    find_kubepods,
    find_mounts,
)
from slackwater.observation.detection.mounts import VERSION_BY_MAGIC, filesystem_magic
from slackwater.observation.host import Roots
from tests.kernel.bed import Bed

UID = "d2988e14-83bc-4d3d-931a-59f8a3174396"
ID = "0123456789abcdef" * 4
CLUES = Clues(Driver.SYSTEMD, "kubelet")


def failed_attempt(roots: Roots) -> VersionVerdict:
    found = detect_version(roots, {})
    assert isinstance(found, VersionVerdict), found
    return found


def mounts_of(roots: Roots) -> CgroupMounts:
    found = find_mounts(roots, failed_attempt(roots))
    assert isinstance(found, CgroupMounts), found
    return found


def below(bed: Bed) -> CgroupMounts:
    """The bed's own folder as if it were the hierarchy: nothing else on the machine counts."""
    return CgroupMounts({CgroupController.CPU: Mount(bed.version, bed.directory(bed.top))})


def test_the_version_under_test_is_found_by_its_magic_number(version: CgroupVersion) -> None:
    attempt = failed_attempt(Roots())
    assert (attempt.version, attempt.source) == (version, "file system magic")
    assert attempt.label in (("v2",) if version is CgroupVersion.V2 else ("v1", "hybrid"))


def test_the_mount_table_says_the_same(version: CgroupVersion) -> None:
    said = {finding.source: finding.found for finding in failed_attempt(Roots()).findings}
    assert said["mountinfo"] == said["file system magic"]


def test_the_mounts_are_the_beds(version: CgroupVersion, bed: Bed) -> None:
    found = mounts_of(Roots()).by_controller
    assert set(found) == set(bed.mounts.by_controller)
    for controller, mount in bed.mounts.by_controller.items():
        assert os.path.samefile(found[controller].directory, mount.directory)
        assert found[controller].version is version


def test_every_mount_has_its_controllers_files(version: CgroupVersion, bed: Bed) -> None:
    """In the group that the bed made: the root of a hierarchy lacks some of them."""
    files = {
        CgroupController.CPU: {CgroupVersion.V1: "cpu.shares", CgroupVersion.V2: "cpu.weight"},
        CgroupController.CPUACCT: {CgroupVersion.V1: "cpuacct.usage", CgroupVersion.V2: "cpu.stat"},
        CgroupController.CPUSET: {CgroupVersion.V1: "cpuset.cpus", CgroupVersion.V2: "cpuset.cpus"},
        CgroupController.MEMORY: {
            CgroupVersion.V1: "memory.limit_in_bytes",
            CgroupVersion.V2: "memory.max",
        },
    }
    mounts = mounts_of(Roots())
    for controller, names in files.items():
        assert os.path.exists(f"{mounts.directory(controller, bed.top)}/{names[version]}")


def test_a_container_sees_the_hosts_cgroups_elsewhere(
    version: CgroupVersion, tmp_path: Path
) -> None:
    (tmp_path / "cgroup").symlink_to("/sys/fs/cgroup")
    elsewhere = Roots(cgroup=f"{tmp_path}/cgroup")
    here, there = failed_attempt(Roots()), failed_attempt(elsewhere)
    assert (there.label, there.version, there.source) == (here.label, here.version, here.source)
    found = mounts_of(elsewhere).by_controller
    for controller, mount in mounts_of(Roots()).by_controller.items():
        assert os.path.samefile(found[controller].directory, mount.directory)


def test_a_cgroup_has_the_magic_number_of_its_hierarchy(version: CgroupVersion, bed: Bed) -> None:
    magic = filesystem_magic(bed.directory(bed.top))
    assert isinstance(magic, int)
    assert VERSION_BY_MAGIC[magic] is version


def test_a_plain_folder_has_no_version(version: CgroupVersion, tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    assert isinstance(detect_version(Roots(cgroup=str(tmp_path)), {}), Gap)


def test_the_override_beats_the_kernel(version: CgroupVersion) -> None:
    [other] = set(CgroupVersion) - {version}
    attempt = detect_version(Roots(), {"SLACKWATER_CGROUP_VERSION": other.value})
    assert isinstance(attempt, VersionVerdict)
    assert attempt.version is other


@pytest.mark.parametrize("absolute", ["", "/"])
def test_the_beds_tree_by_override(bed: Bed, absolute: str) -> None:
    bed.make(bed.kubepods)
    found = find_kubepods(mounts_of(Roots()), CLUES, f"{absolute}{bed.kubepods}")
    assert found == Kubepods(bed.kubepods, Driver.CGROUPFS, bed.top)
    assert node_path(found.layout()) == bed.kubepods


def test_an_override_that_is_not_there_is_a_gap(bed: Bed) -> None:
    assert isinstance(find_kubepods(mounts_of(Roots()), CLUES, f"{bed.top}/none"), Gap)


@pytest.mark.parametrize("driver", Driver)
def test_paths_of_both_drivers_are_real_cgroups(bed: Bed, driver: Driver) -> None:
    """Made where the rules say, then told back from their names alone."""
    layout = KubepodsLayout(driver)
    pod = pod_path(layout, Tier.BURSTABLE, UID)
    path = f"{pod}/{container_directory(driver, f'containerd://{ID}')}"
    bed.make(f"{bed.top}/{path}")
    assert find_kubepods(below(bed), CLUES) == Kubepods(node_path(layout), driver)
    tier = next(
        n for n in os.listdir(bed.directory(f"{bed.top}/{node_path(layout)}")) if tier_of(n)
    )
    assert tier_path(layout, Tier.BURSTABLE) == f"{node_path(layout)}/{tier}"
    inside = f"{bed.top}/{tier_path(layout, Tier.BURSTABLE)}"
    assert [pod_uid(n) for n in os.listdir(bed.directory(inside)) if pod_uid(n)] == [UID]
    inside = f"{bed.top}/{pod}"
    assert [container_id(n) for n in os.listdir(bed.directory(inside)) if container_id(n)] == [ID]


@pytest.mark.parametrize(
    ("path", "driver"),
    [("kubepods", "cgroupfs"), ("kubelet.slice/kubelet-kubepods.slice", "systemd")],
)
def test_a_tree_on_the_disk_decides_the_driver(bed: Bed, path: str, driver: str) -> None:
    bed.make(f"{bed.top}/{path}")
    attempt = detect_driver(Roots(), {}, below(bed))
    assert (attempt.driver.value, attempt.source) == (driver, "cgroup tree")


def test_the_environment_against_a_real_tree_is_a_conflict(bed: Bed) -> None:
    bed.make(bed.kubepods)
    attempt = detect_driver(Roots(), {"CGROUP_DRIVER": "systemd"}, below(bed))
    assert (attempt.driver, attempt.source) == (Driver.SYSTEMD, "CGROUP_DRIVER")
    assert attempt.conflict is not None
    assert bed.kubepods in attempt.conflict


@pytest.mark.systemd
def test_systemd_as_process_1_is_seen(bed: Bed) -> None:
    said = {f.source: f.found for f in detect_driver(Roots(), {}, below(bed)).findings}
    assert said["cgroup root"] == "systemd"
