"""The node's own metrics: their values in their units, and what is missing."""

from pathlib import Path

import pytest

from slackwater.contract.crane.metrics import METRICS
from slackwater.model.cgroup import Tier
from slackwater.model.gap import Gap
from slackwater.model.metric import Sample
from slackwater.model.units import MilliCpu
from slackwater.model.workload import Workload
from slackwater.observation.host import Roots
from slackwater.observation.metrics.collector import MetricCollector, node_families
from slackwater.observation.metrics.tick_view import NEEDS_SECOND, TickView
from tests.unit.observation.metrics.hosts import NO_GROUPS, PlainHost, look, values
from tests.unit.observation.metrics.test_proc_text import DISKSTATS, NET_DEV

NODE_NAMES = [name for name in METRICS if "container" not in name]
GIB = 2**30


@pytest.fixture
def host(tmp_path: Path) -> PlainHost:
    return PlainHost(tmp_path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cpu_total_usage", 1234.0),
        ("cpu_total_utilization", 30.85),
        ("cpu_core_numbers", 4.0),
        ("cpu_load_1_min", 1.5),
        ("cpu_load_5_min", 2.25),
        ("cpu_load_15_min", 3.0),
        ("memory_total", 16393216 * 1024.0),
        ("memory_total_usage", (16393216 - 8196608) * 1024.0),
        ("memory_total_utilization", 50.0),
    ],
)
def test_what_is_read_at_once(host: PlainHost, name: str, value: float) -> None:
    found = look(host.collector(), 1, [name], TickView(usage=MilliCpu(1234)))
    assert values(found[name]) == [pytest.approx(value)]
    assert found == {name: (Sample(values(found[name])[0]),)}


def test_usage_is_never_more_than_all_cpus(host: PlainHost) -> None:
    found = look(host.collector(), 1, ["cpu_total_utilization"], TickView(usage=MilliCpu(4010)))
    assert values(found["cpu_total_utilization"]) == [100.0]


def test_usage_that_is_not_known_is_a_gap(host: PlainHost) -> None:
    gap = Gap("the node was read only once so far")
    names = ["cpu_total_usage", "cpu_total_utilization"]
    assert look(host.collector(), 1, names, TickView(usage=gap)) == dict.fromkeys(names, gap)


@pytest.mark.parametrize(
    ("name", "device", "value"),
    [
        # In 2 s: 400 reads of 8 sectors, 100 writes of 16 sectors, busy for 500 ms.
        ("disk_read_kibps", "nvme0n1", 400 * 8 / 2 / 2),
        ("disk_write_kibps", "nvme0n1", 100 * 16 / 2 / 2),
        ("disk_read_iops", "nvme0n1", 200),
        ("disk_write_iops", "nvme0n1", 50),
        ("disk_read_utilization", "nvme0n1", 25),
        ("disk_read_iops", "loop0", 0),
        # In 2 s: 250000 bytes in 500 packets came, 125000 in 100 went, 4 and 6 were dropped.
        ("network_receive_kibps", "eth0", 1000),
        ("network_sent_kibps", "eth0", 500),
        ("network_receive_pckps", "eth0", 250),
        ("network_sent_pckps", "eth0", 50),
        ("network_drop_in", "eth0", 2),
        ("network_drop_out", "eth0", 3),
    ],
)
def test_counters_become_rates(host: PlainHost, name: str, device: str, value: float) -> None:
    collector = host.collector()
    assert look(collector, 1, [name]) == {name: NEEDS_SECOND}
    host.put("proc/diskstats", _grown(DISKSTATS, b"nvme0n1 ", (400, 0, 3200, 0, 100, 0, 1600)))
    host.put(
        "proc/1/net/dev",
        NET_DEV.replace(
            b"125000 1000 1 7 0 0 0 0 250000 2000 0 9",
            b"375000 1500 1 11 0 0 0 0 375000 2100 0 15",
        ),
    )
    found = look(collector, 3, [name])[name]
    assert not isinstance(found, Gap)
    label = "diskName" if name.startswith("disk") else "NetInterface"
    assert {each.labels[label]: each.value for each in found}[device] == pytest.approx(value)
    assert all(each.labels.keys() == {label} for each in found)
    assert "lo" not in {each.labels[label] for each in found}


def _grown(text: bytes, name: bytes, grown: tuple[int, ...]) -> bytes:
    """The line of a disk with its first counters grown, and 500 ms more of being busy."""
    [line] = [each for each in text.splitlines() if name in each]
    words = line.split()
    for place, more in enumerate((*grown, 0, 0, 500), 3):
        words[place] = str(int(words[place]) + more).encode()
    return text.replace(line, b" ".join(words))


def test_a_counter_that_falls_is_missing_for_once(host: PlainHost) -> None:
    collector = host.collector()
    names = ["network_sent_pckps"]
    look(collector, 1, names)
    host.put("proc/1/net/dev", NET_DEV.replace(b"250000 2000", b"250 20"))
    assert look(collector, 2, names) == {
        "network_sent_pckps": Gap("a counter of eth0 went backwards")
    }
    assert values(look(collector, 3, names)["network_sent_pckps"]) == [0]


def test_a_new_disk_has_no_sample_yet_and_a_removed_one_none(host: PlainHost) -> None:
    collector = host.collector()
    look(collector, 1, ["disk_read_iops"])
    lines = DISKSTATS.splitlines(keepends=True)
    host.put("proc/diskstats", lines[1] + lines[1].replace(b"nvme0n1", b"nvme1n1"))
    found = look(collector, 2, ["disk_read_iops"])["disk_read_iops"]
    assert not isinstance(found, Gap)
    assert [each.labels["diskName"] for each in found] == ["nvme0n1"]


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("proc/loadavg", ["cpu_load_1_min"]),
        ("proc/meminfo", ["memory_total", "memory_total_usage"]),
        ("proc/diskstats", ["disk_read_iops"]),
        ("proc/1/net/dev", ["network_drop_in"]),
        ("sys/devices/system/cpu/online", ["cpu_core_numbers", "cpu_total_utilization"]),
    ],
)
def test_a_file_that_is_not_there_is_a_gap_with_its_name(
    host: PlainHost, file: str, names: list[str]
) -> None:
    host.remove(file)
    found = look(host.collector(), 1, names, TickView(usage=MilliCpu(1)))
    for each in found.values():
        assert isinstance(each, Gap)
        assert file in each.reason
        assert "No such file" in each.reason


def pod(name: str, **amounts: int | Gap) -> Workload:
    asked = {f"gocrane.io/{key}": amount for key, amount in amounts.items()}
    return Workload(name, name, "d", Tier.BESTEFFORT, Gap("none"), extended_requests=asked)


def test_how_much_elastic_cpu_is_handed_out(host: PlainHost) -> None:
    name = "ext_cpu_total_distribute"
    view = TickView(
        usage=MilliCpu(0),
        workloads=(pod("a", cpu=2), pod("b", memory=5), pod("c", cpu=1)),
        offered={"gocrane.io/cpu": 8},
    )
    assert values(look(host.collector(), 1, [name], view)[name]) == [37.5]


@pytest.mark.parametrize(
    ("offered", "reason"),
    [
        ({}, "the node offers no gocrane.io/cpu"),
        ({"gocrane.io/cpu": 0}, "the node offers no gocrane.io/cpu"),
        ({"gocrane.io/cpu": Gap("is 'x'")}, "is 'x'"),
    ],
)
def test_a_node_that_offers_none_has_no_share(
    host: PlainHost, offered: dict[str, int | Gap], reason: str
) -> None:
    view = TickView(usage=MilliCpu(0), workloads=(pod("a", cpu=2),), offered=offered)
    found = look(host.collector(), 1, ["ext_cpu_total_distribute"], view)
    assert found == {"ext_cpu_total_distribute": Gap(reason)}


def test_an_amount_that_cannot_be_read_is_not_taken_for_none(host: PlainHost) -> None:
    view = TickView(
        usage=MilliCpu(0), workloads=(pod("a", cpu=Gap("bad")),), offered={"gocrane.io/cpu": 8}
    )
    found = look(host.collector(), 1, ["ext_cpu_total_distribute"], view)
    assert found == {"ext_cpu_total_distribute": Gap("d/a: bad")}


def test_this_machine_measures_all_of_them() -> None:
    collector = MetricCollector(node_families(Roots(), NO_GROUPS))
    view = TickView(usage=MilliCpu(100), offered={"gocrane.io/cpu": 1})
    look(collector, 1, NODE_NAMES, view)
    found = look(collector, 2, NODE_NAMES, view)
    assert found.keys() == set(NODE_NAMES)
    missing = {name for name, each in found.items() if isinstance(each, Gap)}
    assert not missing
    for name, each in found.items():
        assert all(value >= 0 for value in values(each)), name
        if name.endswith("utilization"):
            assert all(value <= 100 for value in values(each)), name
