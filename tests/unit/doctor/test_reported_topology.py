"""What doctor shows of the node's topology: what an agent in a cluster would report."""

from pathlib import Path

from slackwater.doctor.doctor_report import TopologySection, ZoneRow
from slackwater.doctor.reported_topology import describe_topology
from slackwater.observation.host import Roots
from tests.unit.observation.test_node_topology import GIB, Host


def test_the_annotation_and_the_zones(tmp_path: Path) -> None:
    Host(tmp_path)
    roots = Roots(proc=f"{tmp_path}/proc", sys=f"{tmp_path}/sys", host=str(tmp_path))
    found = describe_topology(roots)
    assert found.cpu_basic_info == (
        '{"cpuModel":"Fake 2000 CPU @ 2.50GHz","hyperThreadEnabled":true,"turboEnabled":true,'
        '"vendorID":"unknown"}'
    )
    assert found.zones == (
        ZoneRow("node-0", 2, 16 * GIB, {"hugepages-2Mi": 0}),
        ZoneRow("node-1", 2, 16 * GIB, {"hugepages-2Mi": GIB}),
    )
    assert (found.policy, found.problem) == ("None", "")


def test_a_machine_that_tells_nothing(tmp_path: Path) -> None:
    roots = Roots(proc=f"{tmp_path}/proc", sys=f"{tmp_path}/sys", host=str(tmp_path))
    found = describe_topology(roots)
    assert found == TopologySection(None, "None", (), found.problem)
    assert "online" in found.problem
