"""Which tree is taken beside other kubelets, real ones and those that only have the name."""

from pathlib import Path

import msgspec
import pytest

from slackwater.model.cgroup import CgroupController, CgroupMounts, CgroupVersion, Driver, Mount
from slackwater.model.gap import Gap
from slackwater.observation.detection import (
    Kubepods,
    clues_of,
    detect_driver,
    find_kubepods,
)
from slackwater.observation.detection.kubelet import SeveralKubelets, find_kubelet
from slackwater.observation.detection.kubepods import UnusableOrder
from tests.unit.observation.detection.host_picture import HostPicture

POD = "pod0b3cb4ac"
OURS, THEIRS = f"a/kubepods/{POD}", f"z/kubepods/{POD}"
NAMED = "/etc/k/kubelet.yaml"


@pytest.fixture
def host(tmp_path: Path) -> HostPicture:
    made = HostPicture(tmp_path)
    for path in (OURS, THEIRS):
        made.folder(f"cgroup/{path}")
    return made


def taken(host: HostPicture, override: str = "") -> Kubepods | Gap:
    mounts = CgroupMounts({CgroupController.CPU: Mount(CgroupVersion.V2, host.roots.cgroup)})
    verdict = detect_driver(host.roots, {}, mounts)
    return find_kubepods(mounts, clues_of(host.roots, mounts, verdict), override)


def named(host: HostPicture, config: str) -> None:
    host.kubelet_file(NAMED, config)
    host.roots = msgspec.structs.replace(host.roots, kubelet_config=NAMED)


def path_and_reason(found: Kubepods | Gap) -> tuple[str, str]:
    assert isinstance(found, Kubepods), found
    return found.path, found.because


def test_the_only_real_kubelet_tells(host: HostPicture) -> None:
    host.process(700, "kubelet", "kubelet", "--cgroup-root=/a")
    assert path_and_reason(taken(host)) == ("a/kubepods", "the kubelet's cgroup root says so")


def test_of_two_real_kubelets_none_tells(host: HostPicture) -> None:
    host.process(700, "kubelet", "kubelet", "--cgroup-root=/z")
    host.process(900, "kubelet", "kubelet", "--cgroup-root=/a")
    kubelet = find_kubelet(host.roots)
    assert kubelet == SeveralKubelets("2 kubelets run here (pids 700, 900): none tells")
    found = taken(host)
    assert isinstance(found, Gap)
    assert "a/kubepods, z/kubepods" in found.reason


def test_of_two_kubelets_files_drivers_and_pods_do_not_tell_either(host: HostPicture) -> None:
    """Each of those may be the other one's."""
    host.folder("cgroup/b/kubepods.slice")
    host.kubelet_file("/var/lib/kubelet/config.yaml", "cgroupRoot: /z\ncgroupDriver: systemd\n")
    for pid in (700, 900):
        host.process(pid, "kubelet", "kubelet")
    assert isinstance(taken(host), Gap)


def test_an_empty_tree_beside_another_kubelets_pods_is_in_doubt(tmp_path: Path) -> None:
    host = HostPicture(tmp_path)
    host.folder("cgroup/a/kubepods")
    host.folder(f"cgroup/{THEIRS}")
    assert path_and_reason(taken(host)) == ("z/kubepods", "no other one has pods")
    for pid in (700, 900):
        host.process(pid, "kubelet", "kubelet")
    assert isinstance(taken(host), Gap)


def test_a_child_of_the_kubelet_before_its_exec_is_no_second_one(host: HostPicture) -> None:
    for pid in (700, 702):
        host.process(pid, "kubelet", "kubelet", "--cgroup-root=/a")
    host.status(702, parent=700)
    assert path_and_reason(taken(host))[0] == "a/kubepods"


@pytest.mark.parametrize(
    ("user", "cgroup", "why"),
    [
        (1000, "0::/system.slice/x.service\n", "pid 50 is user '1000', not root"),
        (0, f"0::/z/kubepods/besteffort/{POD}/x\n", "pid 50 is in a pod"),
        (0, f"4:memory:/\n3:cpu,cpuacct:/kubepods/{POD}/x\n", "pid 50 is in a pod"),
        (0, "0::/kubepods.slice/kubepods-podab_c.slice/x.scope\n", "pid 50 is in a pod"),
        # As a pod with a cgroup namespace of its own sees another pod.
        (0, f"0::/../../besteffort/{POD}/x\n", "pid 50 is in a pod"),
    ],
)
def test_a_name_alone_makes_no_kubelet(host: HostPicture, user: int, cgroup: str, why: str) -> None:
    host.process(50, "kubelet", "/tmp/kubelet", "--cgroup-root=/z")
    host.status(50, user=user)
    host.file("proc/50/cgroup", cgroup)
    found = find_kubelet(host.roots)
    assert isinstance(found, Gap)
    assert found.reason.endswith(f" counts: {why}")
    assert isinstance(taken(host), Gap)
    host.process(700, "kubelet", "kubelet", "--cgroup-root=/a")
    host.file("proc/700/cgroup", "0::/../../../system.slice/kubelet.service\n")
    assert path_and_reason(taken(host))[0] == "a/kubepods"


@pytest.mark.parametrize("status", ["", "Uid:\n", "Name:\tkubelet\n"])
def test_a_process_of_nobody_knows_whom_is_no_kubelet(host: HostPicture, status: str) -> None:
    host.process(50, "kubelet", "kubelet", "--cgroup-root=/z")
    host.file("proc/50/status", status)
    assert isinstance(find_kubelet(host.roots), Gap)


def test_where_we_are_beats_a_process_with_a_name(host: HostPicture) -> None:
    host.process(700, "kubelet", "kubelet", "--cgroup-root=/z")
    host.file("proc/self/cgroup", f"0::/{OURS}/x\n")
    assert path_and_reason(taken(host)) == ("a/kubepods", "this process is in it")


def test_a_named_configuration_beats_process_and_place(host: HostPicture) -> None:
    host.process(700, "kubelet", "kubelet", "--cgroup-root=/z")
    host.file("proc/self/cgroup", f"0::/{THEIRS}/x\n")
    named(host, "cgroupRoot: /a\n")
    because = "the kubelet's configuration that was named says so"
    assert path_and_reason(taken(host)) == ("a/kubepods", because)
    host.process(900, "kubelet", "kubelet")
    assert path_and_reason(taken(host)) == ("a/kubepods", because)
    assert path_and_reason(taken(host, override="z/kubepods")) == ("z/kubepods", "")


def test_the_driver_of_a_named_configuration_beats_our_place(host: HostPicture) -> None:
    host.folder("cgroup/kubepods.slice")
    host.file("proc/self/cgroup", f"0::/{THEIRS}/x\n")
    named(host, "cgroupDriver: systemd\n")
    found = taken(host)
    assert path_and_reason(found) == ("kubepods.slice", "the cgroup driver is systemd")
    assert isinstance(found, Kubepods)
    assert found.driver is Driver.SYSTEMD


def test_a_named_root_where_no_tree_is_never_another_one(host: HostPicture) -> None:
    named(host, "cgroupRoot: /b\n")
    host.file("proc/self/cgroup", f"0::/{THEIRS}/x\n")
    found = taken(host)
    assert isinstance(found, Gap)
    assert "cgroup root 'b', and of several trees (a/kubepods, z/kubepods) none" in found.reason


def test_a_named_configuration_that_cannot_be_read_is_one_sentence(host: HostPicture) -> None:
    host.roots = msgspec.structs.replace(host.roots, kubelet_config=NAMED)
    assert taken(host) == UnusableOrder(
        "the kubelet's configuration '/etc/k/kubelet.yaml' (--kubelet-config) is not readable: "
        "No such file or directory"
    )
    assert path_and_reason(taken(host, override="a/kubepods"))[0] == "a/kubepods"


def test_a_named_configuration_that_says_nothing_of_it_leaves_the_other_clues(
    host: HostPicture,
) -> None:
    named(host, "kind: KubeletConfiguration\n")
    host.process(700, "kubelet", "kubelet", "--cgroup-root=/a")
    assert path_and_reason(taken(host)) == ("a/kubepods", "the kubelet's cgroup root says so")
