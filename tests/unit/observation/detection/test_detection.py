"""Whole machines, from their files to the place of a pod: what a program calls, in its order."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.model.cgroup import CgroupController, CgroupMounts, CgroupVersion, Driver, Tier
from slackwater.model.gap import Gap
from slackwater.observation.cgroups.paths import KubepodsLayout, container_directory, pod_path
from slackwater.observation.detection import (
    Clues,
    DriverVerdict,
    Kubepods,
    VersionVerdict,
    clues_of,
    detect_driver,
    detect_version,
    find_kubepods,
    find_mounts,
)
from tests.unit.observation.detection.host_picture import HostPicture

UID = "d2988e14-83bc-4d3d-931a-59f8a3174396"
ESCAPED = UID.replace("-", "_")
ID = "0123456789abcdef" * 4


class Found:
    """The answers of one machine."""

    def __init__(self, host: HostPicture, **environ: str) -> None:
        version = detect_version(host.roots, environ, host.magic_of)
        assert isinstance(version, VersionVerdict), version
        mounts = find_mounts(host.roots, version, host.magic_of)
        assert isinstance(mounts, CgroupMounts), mounts
        self.version, self.mounts = version, mounts
        self.driver: DriverVerdict = detect_driver(host.roots, environ, mounts)
        tree = find_kubepods(mounts, clues_of(host.roots, mounts, self.driver))
        assert isinstance(tree, Kubepods), tree
        self.tree = tree

    def container(self, tier: Tier, controller: CgroupController, container_id: str) -> str:
        pod = pod_path(self.tree.layout(), tier, UID)
        path = f"{pod}/{container_directory(self.tree.driver, container_id)}"
        directory = self.mounts.directory(controller, path)
        assert isinstance(directory, str)
        return directory


@pytest.fixture
def host(tmp_path: Path) -> HostPicture:
    return HostPicture(tmp_path)


def test_kubeadm_on_cgroup_v2_with_systemd(host: HostPicture) -> None:
    host.mount_v2("", "cpuset cpu io memory pids")
    host.folder("cgroup/system.slice")
    there = host.folder(
        "cgroup/kubepods.slice/kubepods-burstable.slice/"
        f"kubepods-burstable-pod{ESCAPED}.slice/cri-containerd-{ID}.scope"
    )
    host.kubelet_file("/var/lib/kubelet/config.yaml", "cgroupDriver: systemd\n")
    host.process(1, "systemd", "/sbin/init")
    host.process(700, "kubelet", "kubelet", "--config=/var/lib/kubelet/config.yaml")
    found = Found(host)
    assert found.version.label == "v2"
    assert (found.driver.driver, found.driver.source) == (Driver.SYSTEMD, "cgroup tree")
    assert found.driver.conflict is None
    assert {f.found for f in found.driver.findings if f.found} == {"systemd", "cgroupfs"}
    assert found.container(Tier.BURSTABLE, CgroupController.MEMORY, f"containerd://{ID}") == there


def test_a_plain_kubelet_on_cgroup_v1(host: HostPicture) -> None:
    for name in ("cpu,cpuacct", "cpuset", "memory"):
        host.mount_v1(name)
    path = f"kubepods/besteffort/pod{UID}/{ID}"
    host.folder(f"cgroup/cpu,cpuacct/{path}")
    there = host.folder(f"cgroup/memory/{path}")
    found = Found(host)
    assert found.version.label == "v1"
    assert found.tree == Kubepods("kubepods", Driver.CGROUPFS)
    assert found.container(Tier.BESTEFFORT, CgroupController.MEMORY, f"containerd://{ID}") == there


def test_a_kind_node(host: HostPicture) -> None:
    host.mount_v2("", "cpuset cpu memory")
    there = host.folder(
        "cgroup/kubelet.slice/kubelet-kubepods.slice/"
        f"kubelet-kubepods-pod{ESCAPED}.slice/cri-containerd-{ID}.scope"
    )
    host.kubelet_file(
        "/var/lib/kubelet/config.yaml", "cgroupDriver: systemd\ncgroupRoot: /kubelet\n"
    )
    found = Found(host)
    assert found.tree.cgroup_root == "kubelet"
    assert found.container(Tier.GUARANTEED, CgroupController.CPU, f"containerd://{ID}") == there


def test_a_kind_node_whose_files_cannot_be_seen(host: HostPicture) -> None:
    """The agent's container mounts the cgroups and nothing else."""
    host.mount_v2("", "cpuset cpu memory")
    host.folder("cgroup/kubelet.slice/kubelet-kubepods.slice")
    found = Found(host)
    assert found.driver.driver is Driver.SYSTEMD
    assert found.tree.layout() == KubepodsLayout(Driver.SYSTEMD, "kubelet")


def test_cri_o_on_cgroup_v1_with_systemd(host: HostPicture) -> None:
    for name in ("cpu,cpuacct", "memory", "systemd"):
        host.mount_v1(name)
    host.process(1, "systemd")
    there = host.folder(
        "cgroup/cpu,cpuacct/kubepods.slice/kubepods-besteffort.slice/"
        f"kubepods-besteffort-pod{ESCAPED}.slice/crio-{ID}.scope"
    )
    found = Found(host)
    assert found.driver.driver is Driver.SYSTEMD
    assert found.container(Tier.BESTEFFORT, CgroupController.CPU, f"cri-o://{ID}") == there


def test_a_hybrid_machine_without_systemd(host: HostPicture) -> None:
    for name in ("cpu", "cpuacct", "cpuset", "memory", "systemd"):
        host.mount_v1(name)
    host.mount_v2("unified", "hugetlb")
    host.process(1, "process_api")
    host.folder("cgroup/cpu/kubepods/burstable")
    found = Found(host)
    assert (found.version.label, found.version.version) == ("hybrid", CgroupVersion.V1)
    assert found.driver.driver is Driver.CGROUPFS


def test_after_a_switch_of_drivers_the_config_decides_between_two_trees(host: HostPicture) -> None:
    host.mount_v2("", "cpu memory")
    host.folder("cgroup/kubepods")
    host.folder("cgroup/kubepods.slice")
    host.kubelet_file("/var/lib/kubelet/config.yaml", 'cgroupDriver: "systemd" # since May\n')
    because = "the cgroup driver is systemd"
    assert Found(host).tree == Kubepods("kubepods.slice", Driver.SYSTEMD, because=because)


def test_a_tests_plain_folders_with_the_override(host: HostPicture) -> None:
    host.folder("cgroup/cpu/kubepods")
    host.folder("cgroup/memory/kubepods")
    found = Found(host, VOLCANO_TEST_CGROUP_VERSION="v1")
    assert found.mounts.directory(CgroupController.MEMORY, found.tree.path) == (
        f"{host.roots.cgroup}/memory/kubepods"
    )


def test_no_kubelet_yet_is_a_gap_and_not_a_guess(host: HostPicture) -> None:
    host.mount_v2("", "cpu memory")
    verdict = detect_version(host.roots, {}, host.magic_of)
    assert isinstance(verdict, VersionVerdict)
    mounts = find_mounts(host.roots, verdict, host.magic_of)
    assert isinstance(mounts, CgroupMounts)
    assert isinstance(find_kubepods(mounts, Clues(Driver.SYSTEMD)), Gap)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.binary(max_size=120), min_size=7, max_size=7))
def test_garbage_in_everything_that_is_parsed_never_raises(garbage: list[bytes]) -> None:
    paths = (
        "proc/self/mountinfo",
        "cgroup/cgroup.controllers",
        "host/var/lib/kubelet/config.yaml",
        "host/etc/kubernetes/kubelet.conf",
        "host/var/lib/kubelet/kubeadm-flags.env",
        "proc/1/comm",
        "proc/42/cmdline",
    )
    with tempfile.TemporaryDirectory() as top:
        host = HostPicture(top)
        host.mount_v2("", "")
        host.folder("cgroup/kubepods")
        host.file("proc/42/comm", "kubelet\n")
        for path, content in zip(paths, garbage, strict=True):
            host.file(path, content)
        verdict = detect_version(host.roots, {}, host.magic_of)
        assert isinstance(verdict, VersionVerdict)
        assert isinstance(find_mounts(host.roots, verdict, host.magic_of), CgroupMounts | Gap)
        driver = detect_driver(host.roots, {}, None)
        assert driver.source == "cgroup tree"
        assert all(finding.note.encode() for finding in driver.findings)
