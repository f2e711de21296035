"""What is known of the machine's CPUs, and when it is read again."""

import os
import shutil
from pathlib import Path

import pytest

from slackwater.model.cpus import CpuSet, KubeletCpus, Topology
from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.observation import cpu_inventory
from slackwater.observation.cpu_inventory import SEARCH_AGAIN, CpuInventory
from tests.unit.observation.detection.host_picture import HostPicture

CPU = "sys/devices/system/cpu"
STATE = "/var/lib/kubelet/cpu_manager_state"
CONFIG = "/var/lib/kubelet/config.yaml"
FREE = '{"policyName":"none","defaultCpuSet":""}'
SECOND = 1_000_000


@pytest.fixture
def host(tmp_path: Path) -> HostPicture:
    """Two packages of two cores of two threads; a kubelet without a CPU manager."""
    made = HostPicture(tmp_path)
    made.file(f"{CPU}/online", "0-7\n")
    for number in range(8):
        low = number % 4
        made.file(f"{CPU}/cpu{number}/topology/thread_siblings_list", f"{low},{low + 4}\n")
        made.file(f"{CPU}/cpu{number}/topology/physical_package_id", f"{low // 2}\n")
    made.process(7, "kubelet", "kubelet", f"--config={CONFIG}")
    made.kubelet_file(STATE, FREE)
    made.kubelet_file(CONFIG, "")
    return made


def at(seconds: int) -> Micros:
    return Micros(seconds * SECOND)


def test_what_a_snapshot_gets(host: HostPicture) -> None:
    found = CpuInventory(host.roots).read(at(1))
    assert isinstance(found.topology, Topology)
    assert found.topology.all() == CpuSet(0xFF)
    assert found.kubelet == KubeletCpus("none")
    assert found.reserved == CpuSet.of((0,)), "the first CPU is never anybody's alone"


@pytest.mark.parametrize(
    ("config", "reserved"),
    [
        ("reservedSystemCPUs: 2-3\n", (0, 2, 3)),
        ("kubeReserved: {cpu: 100m}\n", (0,)),
        ("kubeReserved: {cpu: 1100m}\n", (0, 4)),
        ("kubeReserved: {cpu: 2500m}\n", (0, 1, 4)),
        ("kubeReserved: {cpu: 5}\n", (0, 1, 2, 4, 5)),
        ("kubeReserved: {cpu: 99}\n", range(8)),
    ],
)
def test_reserved_amounts_are_taken_core_by_core(
    host: HostPicture, config: str, reserved: tuple[int, ...]
) -> None:
    host.kubelet_file(CONFIG, config)
    assert CpuInventory(host.roots).read(at(1)).reserved == CpuSet.of(reserved)


def test_the_same_object_while_nothing_changes(
    host: HostPicture, monkeypatch: pytest.MonkeyPatch
) -> None:
    inventory = CpuInventory(host.roots)
    first = inventory.read(at(1))
    for name in ("read_topology", "find_places", "read_kubelet_cpus"):
        monkeypatch.setattr(cpu_inventory, name, None)
    assert inventory.read(at(2)) is first
    assert inventory.read(at(99)) is first


def test_a_cpu_goes_offline_and_comes_back(host: HostPicture) -> None:
    inventory = CpuInventory(host.roots)
    first = inventory.read(at(1))
    host.file(f"{CPU}/online", "0-2,4-7\n")
    second = inventory.read(at(2))
    assert isinstance(second.topology, Topology)
    assert second.topology.all() == CpuSet.of((0, 1, 2, 4, 5, 6, 7))
    host.file(f"{CPU}/online", "0-7\n")
    assert inventory.read(at(3)) == first


def test_a_topology_that_could_not_be_read_is_read_again(host: HostPicture) -> None:
    file = f"{host.top}/{CPU}/cpu3/topology/physical_package_id"
    os.unlink(file)
    inventory = CpuInventory(host.roots)
    found = inventory.read(at(1))
    assert isinstance(found.topology, Gap)
    assert file in found.topology.reason
    host.file(f"{CPU}/cpu3/topology/physical_package_id", "1\n")
    assert isinstance(inventory.read(at(2)).topology, Topology)


def test_the_kubelet_writes_its_state_anew(host: HostPicture) -> None:
    inventory = CpuInventory(host.roots)
    inventory.read(at(1))
    fresh = host.kubelet_file(f"{STATE}.new", FREE.replace("none", "static"))
    os.rename(fresh, f"{host.roots.host}{STATE}")
    assert inventory.read(at(2)).kubelet == KubeletCpus("static")


def test_a_kubelet_with_other_flags_is_searched_at_once(host: HostPicture) -> None:
    inventory = CpuInventory(host.roots)
    inventory.read(at(1))
    os.unlink(f"{host.roots.host}{STATE}")
    host.process(7, "kubelet", "kubelet", "--cpu-manager-policy=static")
    assert inventory.read(at(2)).kubelet == KubeletCpus("static"), "its flags are others"


def test_where_there_was_no_kubelet_one_is_searched_now_and_then(host: HostPicture) -> None:
    shutil.rmtree(f"{host.top}/proc/7")
    os.unlink(f"{host.roots.host}{STATE}")
    inventory = CpuInventory(host.roots)
    assert inventory.read(at(3)).kubelet == KubeletCpus("none"), "by the usual configuration"
    host.process(8, "kubelet", "kubelet", "--cpu-manager-policy=static")
    before = at(3) + SEARCH_AGAIN - 1
    assert inventory.read(Micros(before)).kubelet == KubeletCpus("none")
    assert inventory.read(Micros(before + 1)).kubelet == KubeletCpus("static")


def test_a_kubelet_that_restarts_keeps_its_places(host: HostPicture) -> None:
    """Its root directory is in its flags, and the usual one says something else."""
    arguments = ("kubelet", "--root-dir=/data", "--config=/data/config.yaml")
    host.process(7, "kubelet", *arguments)
    host.kubelet_file("/data/cpu_manager_state", FREE.replace("none", "static"))
    inventory = CpuInventory(host.roots)
    assert inventory.read(at(1)).kubelet == KubeletCpus("static")
    shutil.rmtree(f"{host.top}/proc/7")
    for second in (2, 3, 60):
        assert inventory.read(at(second)).kubelet == KubeletCpus("static")
    host.kubelet_file("/data/cpu_manager_state", FREE)
    host.process(9, "kubelet", *arguments)
    assert inventory.read(at(61)).kubelet == KubeletCpus("none")
