"""The kubelet's CPU manager and reserved CPUs: where they are looked for, what is made of them."""

import json
import os
from pathlib import Path

import msgspec
import pytest

from slackwater.model.cpus import CpuSet, KubeletCpus
from slackwater.model.gap import Gap
from slackwater.model.units import MilliCpu
from slackwater.observation.detection import kubelet_cpus
from slackwater.observation.detection.kubelet_cpus import (
    KubeletCpuReport,
    find_places,
    read_kubelet_cpus,
)
from tests.unit.observation.detection.host_picture import HostPicture

CONFIG, STATE = "/var/lib/kubelet/config.yaml", "/var/lib/kubelet/cpu_manager_state"
UID = "5a0f8f3e-1111-2222-3333-444455556666"
#: As kubelet 1.34 writes it, with one exclusive container on CPUs 1 and 5.
PINNED = json.dumps(
    {
        "policyName": "static",
        "defaultCpuSet": "0,2-4,6-7",
        "entries": {UID: {"main": "1,5", "side": "2"}},
        "checksum": 1353318690,
    }
)
FREE = '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'


@pytest.fixture
def host(tmp_path: Path) -> HostPicture:
    return HostPicture(tmp_path)


def report(host: HostPicture, kubelet_config: str = "") -> KubeletCpuReport:
    roots = msgspec.structs.replace(host.roots, kubelet_config=kubelet_config)
    return read_kubelet_cpus(find_places(roots))


def reason(found: KubeletCpus | Gap) -> str:
    assert isinstance(found, Gap)
    return found.reason


def test_the_state_of_a_static_kubelet(host: HostPicture) -> None:
    host.process(7, "kubelet", "kubelet", f"--config={CONFIG}")
    host.kubelet_file(STATE, PINNED)
    found = report(host)
    given = {UID: {"main": CpuSet.of((1, 5)), "side": CpuSet.of((2,))}}
    assert found.cpus == KubeletCpus("static", given)
    assert found.cpus.all_assigned() == CpuSet.of((1, 2, 5))
    assert found.source == "cpu_manager_state"


def test_the_state_of_a_kubelet_without_a_policy(host: HostPicture) -> None:
    host.process(7, "kubelet", "kubelet")
    host.kubelet_file(STATE, FREE)
    host.kubelet_file(CONFIG, "cpuManagerPolicy: static\n")
    assert report(host).cpus == KubeletCpus("none"), "the state is what is in force"


def test_the_kubelets_own_view_and_root_directory_come_first(host: HostPicture) -> None:
    host.process(7, "kubelet", "kubelet", "--root-dir", "/data/kubelet")
    host.kubelet_file(STATE, PINNED)
    host.file("proc/7/root/data/kubelet/cpu_manager_state", FREE)
    assert report(host).cpus == KubeletCpus("none")
    host.kubelet_file("/data/kubelet/cpu_manager_state", PINNED)
    os.unlink(f"{host.top}/proc/7/root/data/kubelet/cpu_manager_state")
    assert report(host).cpus != KubeletCpus("none")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "banana",
        "[]",
        '{"defaultCpuSet": ""}',
        '{"policyName": 3}',
        '{"policyName": "static", "entries": {"4f2a": "1-2"}}',
        '{"policyName": "static", "entries": {"4f2a": {"main": "1-x"}}}',
        b'{"policyName": "stat\xffic"}',
        '{"policyName": "static", "entries": ' + "[" * 5000,
    ],
)
def test_a_state_that_is_none_is_one_sentence(host: HostPicture, text: str | bytes) -> None:
    host.process(7, "kubelet", "kubelet", "--cpu-manager-policy=none")
    host.kubelet_file(STATE, text)
    assert reason(report(host).cpus).startswith("the kubelet's cpu_manager_state")


def test_the_configuration_where_the_state_cannot_be_read(host: HostPicture) -> None:
    host.process(7, "kubelet", "kubelet", f"--config={CONFIG}")
    host.kubelet_file(CONFIG, "kind: KubeletConfiguration\n")
    assert report(host).cpus == KubeletCpus("none")
    host.kubelet_file(CONFIG, "cpuManagerPolicy: static\n")
    assert (report(host).cpus, report(host).source) == (KubeletCpus("static"), "its configuration")
    host.process(7, "kubelet", "kubelet", f"--config={CONFIG}", "--cpu-manager-policy=none")
    assert report(host).cpus == KubeletCpus("none"), "a flag beats the file"


def test_drop_ins_may_say_otherwise(host: HostPicture) -> None:
    host.process(7, "kubelet", "kubelet", f"--config={CONFIG}", "--config-dir=/etc/kubelet.d")
    host.kubelet_file(CONFIG, "cpuManagerPolicy: none\n")
    assert "--config-dir" in reason(report(host).cpus)
    host.kubelet_file(STATE, FREE)
    assert report(host).cpus == KubeletCpus("none")


def test_what_cannot_be_read_is_not_known(host: HostPicture) -> None:
    """As in a pod that mounts nothing of the kubelet's."""
    host.process(7, "kubelet", "kubelet", f"--config={CONFIG}")
    found = report(host)
    assert reason(found.cpus) == (
        "what the kubelet's CPU manager does is not known (its cpu_manager_state is not readable: "
        "No such file or directory, its configuration not readable: No such file or directory); "
        "name the kubelet's configuration with --kubelet-config (agent.kubeletConfig)"
    )
    assert found.reserved_source.startswith("not known: ")


def test_no_kubelet(host: HostPicture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host's root that is somewhere else may hide one: k3s has it in a process of its own name.
    On the machine's own root nothing is hidden."""
    assert "no process named kubelet" in reason(report(host).cpus)
    host.kubelet_file(STATE, PINNED)
    assert isinstance(report(host).cpus, KubeletCpus)
    own = msgspec.structs.replace(host.roots, host="")
    places = find_places(own)
    assert places.states == (STATE,)
    monkeypatch.setattr(kubelet_cpus, "read_start", lambda _path: Gap("not readable"))
    assert read_kubelet_cpus(places).cpus == KubeletCpus("none")


def test_of_several_kubelets_the_named_configuration_chooses(host: HostPicture) -> None:
    host.process(7, "kubelet", "kubelet", "--config=/one.yaml", "--root-dir=/one")
    host.process(8, "kubelet", "kubelet", "--config=/two.yaml", "--root-dir=/two")
    host.kubelet_file("/one/cpu_manager_state", PINNED)
    host.kubelet_file("/two/cpu_manager_state", FREE)
    host.kubelet_file("/two.yaml", "reservedSystemCPUs: 0-1\n")
    assert "2 kubelets run here" in reason(report(host).cpus)
    found = report(host, "/two.yaml")
    assert (found.cpus, found.reserved) == (KubeletCpus("none"), CpuSet.of((0, 1)))


def test_a_kubelet_with_another_configuration_is_a_strangers(host: HostPicture) -> None:
    host.process(7, "kubelet", "kubelet", "--config=/one.yaml", "--cpu-manager-policy=static")
    host.kubelet_file("/two.yaml", "cpuManagerPolicy: none\n")
    assert report(host).cpus == KubeletCpus("static")
    assert report(host, "/two.yaml").cpus == KubeletCpus("none")
    host.process(7, "kubelet", "kubelet", "--cpu-manager-policy=static")
    assert report(host, "/two.yaml").cpus == KubeletCpus("static"), "it has no configuration"


def test_a_mounted_file_that_was_replaced_is_history(
    host: HostPicture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container's mount of one file keeps the old one; its link count tells."""
    host.process(7, "kubelet", "kubelet")
    file = host.kubelet_file(STATE, FREE)
    real = os.stat

    def unlinked(path: str) -> os.stat_result:
        found = real(path)
        return os.stat_result((*found[:3], 0, *found[4:])) if path == file else found

    monkeypatch.setattr(os, "stat", unlinked)
    assert "was replaced since it was mounted" in reason(report(host).cpus)


@pytest.mark.parametrize(
    ("config", "arguments", "reserved", "source"),
    [
        ("", (), MilliCpu(0), "the kubelet reserves none"),
        ("reservedSystemCPUs: 0,2-3\n", (), CpuSet.of((0, 2, 3)), "reservedSystemCPUs"),
        ('reservedSystemCPUs: "1"  # one\n', (), CpuSet.of((1,)), "reservedSystemCPUs"),
        ("# reservedSystemCPUs: 1\n", (), MilliCpu(0), "the kubelet reserves none"),
        (
            '{"a": 1, "reservedSystemCPUs": "0-1", "kubeReserved": {"cpu": "3"}}',
            (),
            CpuSet.of((0, 1)),
            "reservedSystemCPUs",
        ),
        ("reservedSystemCPUs: 0\n", ("--reserved-cpus=4,5",), CpuSet.of((4, 5)), "--reserved-cpus"),
        (
            "kubeReserved:\n  memory: 1Gi\n  cpu: 200m\nsystemReserved:\n  cpu: '1.1'\nother: 1\n",
            (),
            MilliCpu(1300),
            "kubeReserved and systemReserved",
        ),
        ("kubeReserved:\n  memory: 1Gi\nsystem:\n  cpu: 3\n", (), MilliCpu(0), None),
        ('{"kubeReserved": {"memory": "1Gi",\n "cpu": "2"}}', (), MilliCpu(2000), "kubeReserved"),
        ("kubeReserved: {cpu: 500m, memory: 1Gi}\n", (), MilliCpu(500), "kubeReserved"),
        (
            "systemReserved:\n  cpu: 100m\n",
            ("--system-reserved=memory=1Gi,cpu=2",),
            MilliCpu(2000),
            "systemReserved",
        ),
    ],
)
def test_reserved_cpus(
    host: HostPicture,
    config: str,
    arguments: tuple[str, ...],
    reserved: CpuSet | MilliCpu,
    source: str | None,
) -> None:
    host.process(7, "kubelet", "kubelet", f"--config={CONFIG}", *arguments)
    host.kubelet_file(CONFIG, config)
    found = report(host)
    assert found.reserved == reserved
    assert source is None or found.reserved_source == source


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ("reservedSystemCPUs: 0-9999\n", "'0-9999' is not a CPU list"),
        ("kubeReserved:\n  cpu: two\n", "'two' is not a quantity"),
    ],
)
def test_reserved_cpus_that_make_no_sense(host: HostPicture, config: str, sentence: str) -> None:
    host.process(7, "kubelet", "kubelet", f"--config={CONFIG}")
    host.kubelet_file(CONFIG, config)
    assert reason(report(host).cpus).startswith(f"the kubelet's reserved CPUs: {sentence}")
