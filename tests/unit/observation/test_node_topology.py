"""What a machine says for its NodeResourceTopology: kinds of machines as plain files."""

from pathlib import Path

import pytest

from slackwater.contract.koordinator.normalization import CpuBasicInfo
from slackwater.contract.koordinator.topology import TopologyFacts, ZoneFacts
from slackwater.model.gap import Gap
from slackwater.model.units import Bytes
from slackwater.observation.detection.kubelet_cpus import KubeletPlaces
from slackwater.observation.detection.kubelet_topology import read_topology_policy
from slackwater.observation.host import Roots
from slackwater.observation.node_topology import TopologyReader

CPU = "sys/devices/system/cpu"
NODE = "sys/devices/system/node"
ARM = "processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd0c\n"


class Host:
    """A machine of two NUMA nodes with two CPUs each, row 25 of the facts."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.reader = TopologyReader(Roots(proc=f"{top}/proc", sys=f"{top}/sys", host=str(top)))
        self.put("proc/cpuinfo", "model name\t: Fake 2000 CPU @ 2.50GHz\n")
        self.put(f"{CPU}/online", "0-3\n")
        self.put(f"{CPU}/smt/active", "1\n")
        self.put(f"{CPU}/intel_pstate/no_turbo", "0\n")
        for number in (0, 1):
            folder = f"{NODE}/node{number}"
            self.put(f"{folder}/cpulist", f"{2 * number}-{2 * number + 1}\n")
            self.put(
                f"{folder}/meminfo",
                f"\nNode {number} MemTotal:       16777216 kB\nNode {number} MemFree: 1 kB\n",
            )
            self.put(f"{folder}/hugepages/hugepages-2048kB/nr_hugepages", f"{512 * number}\n")

    def put(self, file: str, text: str) -> None:
        path = self.top / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def read(self) -> TopologyFacts:
        found = self.reader.read()
        assert isinstance(found, TopologyFacts)
        return found


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


GIB = 1 << 30


def test_a_server(host: Host) -> None:
    found = host.read()
    assert found.info == CpuBasicInfo("Fake 2000 CPU @ 2.50GHz", True, True, "", "unknown")
    assert found.zones == (
        ZoneFacts(0, 2, Bytes(16 * GIB), {"hugepages-2Mi": Bytes(0)}),
        ZoneFacts(1, 2, Bytes(16 * GIB), {"hugepages-2Mi": Bytes(GIB)}),
    )
    assert found.policy == "None"


def test_a_cpu_that_goes_offline_and_turbo_that_is_switched_off(host: Host) -> None:
    host.read()
    host.put(f"{NODE}/node1/cpulist", "2\n")
    host.put(f"{CPU}/intel_pstate/no_turbo", "1\n")
    found = host.read()
    assert [each.cpus for each in found.zones] == [2, 1]
    assert not found.info.turbo_enabled


@pytest.mark.parametrize(
    ("file", "text", "mask"),
    [
        ("sys/fs/resctrl/info/L3/cbm_mask", "7ff\n", "7ff"),
        ("sys/fs/resctrl/info/L3/cbm_mask", "many ways\n", ""),
        ("sys/fs/resctrl/info/L3/cbm_mask", "", ""),
        ("sys/fs/resctrl/info/L2/cbm_mask", "ff\n", ""),
    ],
)
def test_the_mask_of_the_cache(host: Host, file: str, text: str, mask: str) -> None:
    host.put(file, text)
    assert host.read().info.cat_l3_cbm_mask == mask


def test_an_arm_machine_is_named_by_its_ids(host: Host) -> None:
    host.put("proc/cpuinfo", ARM)
    info = host.read().info
    assert info.cpu_model == "ARM Neoverse-N1"
    assert info.vendor_id == "ARM"


def test_a_machine_that_tells_nothing_of_its_cpus(host: Host) -> None:
    host.put("proc/cpuinfo", "processor: 0\n")
    (host.top / f"{CPU}/smt/active").unlink()
    (host.top / f"{CPU}/intel_pstate/no_turbo").unlink()
    assert host.read().info == CpuBasicInfo("unknown", vendor_id="unknown")


def test_a_kernel_without_numa_is_one_zone(tmp_path: Path) -> None:
    bare = Host(tmp_path)
    for path in sorted((tmp_path / NODE).rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (tmp_path / NODE).rmdir()
    bare.put("proc/meminfo", "MemTotal:        2048 kB\nMemFree: 5 kB\n")
    bare.put("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0\n")
    bare.put("sys/kernel/mm/hugepages/hugepages-64kB/nr_hugepages", "2\n")
    bare.put("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "odd\n")
    (zone,) = bare.read().zones
    pages = {"hugepages-1Gi": Bytes(0), "hugepages-64Ki": Bytes(128 * 1024)}
    assert zone == ZoneFacts(0, 4, Bytes(2048 * 1024), pages)


@pytest.mark.parametrize(
    ("config", "reserved"),
    [
        ("reservedSystemCPUs: 0,9\n", [1, 1]),
        ("reservedSystemCPUs: 0-3\n", [4, 0]),
        ("reservedSystemCPUs: 99\n", [0, 0]),
        # An amount is the node's, and of no zone; a list that is none is doctor's to tell.
        ("systemReserved: {cpu: 2}\n", [0, 0]),
        ("reservedSystemCPUs: 3-1\n", [0, 0]),
    ],
)
def test_row_43_cpus_that_the_kubelet_reserves_by_number(
    host: Host, config: str, reserved: list[int]
) -> None:
    """Row 43 of the facts about Crane: two NUMA nodes of four cores with hyper-threads."""
    for number, cpus in enumerate(("0-3,8,10,12,14", "4-7,9,11,13,15")):
        host.put(f"{NODE}/node{number}/cpulist", f"{cpus}\n")
    host.put(f"{CPU}/online", "0-15\n")
    host.put("var/lib/kubelet/config.yaml", config)
    found = host.read()
    assert [(each.cpus, each.reserved) for each in found.zones] == [(8, each) for each in reserved]


def test_memory_that_cannot_be_read_is_left_out(host: Host) -> None:
    host.put(f"{NODE}/node0/meminfo", "odd\n")
    (host.top / f"{NODE}/node1/meminfo").unlink()
    assert [each.memory for each in host.read().zones] == [None, None]


def test_memory_that_moves_a_little_stays(host: Host) -> None:
    before = host.read()
    for total in (16777216 - 1000, 16777216 + 1600000, 16777216 - 1600000):
        host.put(f"{NODE}/node0/meminfo", f"Node 0 MemTotal: {total} kB\n")
        assert host.read() == before
    host.put(f"{NODE}/node0/meminfo", "Node 0 MemTotal: 8388608 kB\n")
    assert host.read().zones[0].memory == 8 * GIB


def test_without_any_cpus_it_is_a_gap(tmp_path: Path) -> None:
    roots = Roots(proc=f"{tmp_path}/proc", sys=f"{tmp_path}/sys", host=str(tmp_path))
    assert isinstance(TopologyReader(roots).read(), Gap)


@pytest.mark.parametrize(
    ("config", "arguments", "policy"),
    [
        ("", (), "None"),
        ("topologyManagerPolicy: none\n", (), "None"),
        ("topologyManagerPolicy: best-effort\n", (), "BestEffortContainerLevel"),
        (
            "topologyManagerPolicy: single-numa-node\ntopologyManagerScope: pod\n",
            (),
            "SingleNUMANodePodLevel",
        ),
        ('{"topologyManagerPolicy": "restricted"}', (), "RestrictedContainerLevel"),
        ("topologyManagerPolicy: odd\n", (), "None"),
        (
            "topologyManagerPolicy: none\n",
            ("kubelet", "--topology-manager-policy=restricted", "--topology-manager-scope", "pod"),
            "RestrictedPodLevel",
        ),
    ],
)
def test_the_kubelets_policy(
    tmp_path: Path, config: str, arguments: tuple[str, ...], policy: str
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(config)
    places = KubeletPlaces((), (str(tmp_path / "none"), str(file)), arguments)
    assert read_topology_policy(places) == policy
