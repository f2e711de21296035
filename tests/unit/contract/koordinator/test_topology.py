"""A node's NodeResourceTopology: as it is written, read back, compared and put right."""

import copy
from typing import Any

import msgspec
import pytest

from slackwater.contract.koordinator.normalization import CpuBasicInfo, Hundredths
from slackwater.contract.koordinator.topology import (
    SeenTopology,
    TopologyFacts,
    ZoneFacts,
    format_basic_info,
    read_reported_info,
    read_seen_topology,
    topology_object,
    zone_ratio,
)
from slackwater.contract.kubernetes import ObjectHeader
from slackwater.contract.topology import read_node_topology
from slackwater.model.gap import Gap
from slackwater.model.units import Bytes

NODE = ObjectHeader("node-a", uid="u-1")
INFO = CpuBasicInfo("Fake 2000 CPU @ 2.50GHz", True, True, "7ff", "FakeVendor")
GIB = 1 << 30
ZONES = (
    ZoneFacts(0, 8, Bytes(16 * GIB), {"hugepages-2Mi": Bytes(GIB), "hugepages-1Gi": Bytes(0)}),
    ZoneFacts(1, 8, Bytes(16 * GIB)),
)
FACTS = TopologyFacts(INFO, ZONES)
RATIO = "node.koordinator.sh/cpu-normalization-ratio"
AMPLIFICATION = "node.koordinator.sh/resource-amplification-ratio"


def made(ratio: int = 100, facts: TopologyFacts = FACTS) -> dict[str, Any]:
    return topology_object(NODE, facts, Hundredths(ratio))


def row(document: dict[str, Any], zone: int, name: str) -> dict[str, str]:
    return next(each for each in document["zones"][zone]["resources"] if each["name"] == name)


def test_the_object_is_koordinators_but_for_its_manager() -> None:
    metadata = made()["metadata"]
    assert metadata["labels"] == {"app.kubernetes.io/managed-by": "Slackwater"}
    assert metadata["annotations"] == {
        "node.koordinator.sh/cpu-basic-info": '{"cpuModel":"Fake 2000 CPU @ 2.50GHz",'
        '"hyperThreadEnabled":true,"turboEnabled":true,"catL3CbmMask":"7ff",'
        '"vendorID":"FakeVendor"}'
    }
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Node", "node-a", "u-1")
    assert made()["topologyPolicies"] == ["None"]
    assert [(each["name"], each["type"]) for each in made()["zones"]] == [
        ("node-0", "Node"),
        ("node-1", "Node"),
    ]


def test_without_a_ratio_zones_have_what_is_there() -> None:
    told = made()
    assert set(row(told, 0, "cpu").values()) == {"cpu", "8"}
    assert row(told, 0, "memory") == {
        "name": "memory",
        "capacity": str(16 * GIB),
        "allocatable": str(15 * GIB),
        "available": str(15 * GIB),
    }
    assert row(told, 0, "hugepages-2Mi")["capacity"] == str(GIB)
    assert row(told, 0, "hugepages-1Gi")["capacity"] == "0"
    assert "attributes" not in told["zones"][0]


@pytest.mark.parametrize(
    ("ratio", "cpu", "annotation"),
    [
        (150, "12", '{"cpu":1.50}'),
        (120, "9600m", '{"cpu":1.20}'),
        (113, "9040m", '{"cpu":1.13}'),
        (500, "40", '{"cpu":5.00}'),
    ],
)
def test_with_a_ratio_cpus_are_amplified_and_the_raw_number_is_kept(
    ratio: int, cpu: str, annotation: str
) -> None:
    told = made(ratio)
    assert set(row(told, 1, "cpu").values()) == {"cpu", cpu}
    assert told["zones"][1]["attributes"] == [{"name": "slackwater.io/raw-cpu", "value": "8"}]
    assert row(told, 1, "memory")["allocatable"] == str(16 * GIB)
    # Koordinator's scheduler amplifies zones itself, unless this is there.
    assert told["metadata"]["annotations"][AMPLIFICATION] == annotation


@pytest.mark.parametrize(
    ("ratio", "capacity", "allocatable", "raw"),
    [(100, "8", "7", []), (150, "12", "10500m", [{"name": "slackwater.io/raw-cpu", "value": "8"}])],
)
def test_row_43_what_the_kubelet_reserves_is_not_allocatable(
    ratio: int, capacity: str, allocatable: str, raw: list[dict[str, str]]
) -> None:
    """Of the facts about Crane: reservedSystemCPUs 0,9 on two nodes of eight CPUs."""
    told = made(
        ratio, TopologyFacts(INFO, (ZoneFacts(0, 8, reserved=1), ZoneFacts(1, 8, reserved=1)))
    )
    reserved = {"name": "slackwater.io/reserved-cpus", "value": "1"}
    for zone in (0, 1):
        assert row(told, zone, "cpu") == {
            "name": "cpu",
            "capacity": capacity,
            "allocatable": allocatable,
            "available": allocatable,
        }
        assert told["zones"][zone]["attributes"] == [*raw, reserved]
    back = seen(told).corrected(made(ratio))
    assert [each.get("attributes", []) for each in back["zones"]] == [raw, raw]


def test_row_59_a_zone_is_amplified() -> None:
    """Of the facts about Koordinator, section 7: 16 CPUs at 1.5."""
    told = made(150, TopologyFacts(INFO, (ZoneFacts(0, 16),)))
    assert set(row(told, 0, "cpu").values()) == {"cpu", "24"}


def test_it_is_a_good_object_of_both_versions() -> None:
    found = read_node_topology(made(120), "test")
    assert [each.name for each in found.zones] == ["node-0", "node-1"]


@pytest.mark.parametrize(
    ("info", "text"),
    [
        (CpuBasicInfo(), "{}"),
        (CpuBasicInfo("unknown"), '{"cpuModel":"unknown"}'),
        (
            CpuBasicInfo(vendor_id="ARM", turbo_enabled=True),
            '{"turboEnabled":true,"vendorID":"ARM"}',
        ),
        (CpuBasicInfo('say "8" é'), '{"cpuModel":"say \\"8\\" é"}'),
    ],
)
def test_empty_and_false_fields_are_left_out(info: CpuBasicInfo, text: str) -> None:
    assert format_basic_info(info) == text
    annotations = {"node.koordinator.sh/cpu-basic-info": text}
    raw = msgspec.json.encode({"metadata": {"name": "node-a", "annotations": annotations}})
    assert read_reported_info(raw).info == info


def test_what_cannot_be_read_is_a_gap_with_the_reason() -> None:
    bare = read_reported_info(b'{"metadata":{"name":"n"}}')
    assert isinstance(bare.info, Gap)
    assert "has no annotation" in bare.info.reason
    assert bare.managed_by == ""
    annotations = {"node.koordinator.sh/cpu-basic-info": '{"cpuModel":1}'}
    raw = msgspec.json.encode({"metadata": {"name": "n", "annotations": annotations}})
    bad = read_reported_info(raw)
    assert isinstance(bad.info, Gap)
    assert "cpuModel" in bad.info.reason


@pytest.mark.parametrize(
    ("annotations", "ratio"),
    [
        ({}, 100),
        ({RATIO: "1.00"}, 100),
        ({RATIO: "1.20"}, 120),
        ({RATIO: "1.20", AMPLIFICATION: '{"cpu":1.80,"memory":2.50}'}, 180),
        ({RATIO: "1.50", AMPLIFICATION: '{"cpu":1.20}'}, 120),
        ({RATIO: "1.20", AMPLIFICATION: '{"memory":2.50}'}, 120),
        ({RATIO: "1.20", AMPLIFICATION: "[}"}, 120),
        ({RATIO: "1.20", AMPLIFICATION: '{"cpu":0.5}'}, 120),
        ({RATIO: "1.20", AMPLIFICATION: '{"cpu":true}'}, 120),
        ({RATIO: "1.00", AMPLIFICATION: '{"cpu":1.80}'}, 100),
    ],
)
def test_zones_are_amplified_as_allocatable_is_while_normalization_is_on(
    annotations: dict[str, str], ratio: int
) -> None:
    assert zone_ratio(annotations, "node-a") == ratio


@pytest.mark.parametrize("text", ["0.82", "NaN", "5.01", "", "[}"])
def test_a_bad_ratio_is_a_gap(text: str) -> None:
    assert isinstance(zone_ratio({RATIO: text}, "node-a"), Gap)


def seen(document: dict[str, Any]) -> SeenTopology:
    stored = copy.deepcopy(document)
    stored["metadata"] |= {"uid": "t-1", "resourceVersion": "7"}
    return read_seen_topology(msgspec.json.encode(stored))


def test_what_was_written_is_as_wanted() -> None:
    found = seen(made(120))
    assert found.is_ours
    assert found.uid == "t-1"
    assert not found.differs(made(120))


def changed(what: str) -> SeenTopology:
    document = copy.deepcopy(made(120))
    cpu = row(document, 0, "cpu")
    match what:
        case "an amount":
            cpu["allocatable"] = "16"
        case "no number":
            cpu["allocatable"] = "many"
        case "a zone less":
            document["zones"].pop()
        case "a zone more":
            document["zones"].append({"name": "node-9", "type": "Node"})
        case "an annotation":
            document["metadata"]["annotations"].popitem()
        case "an owner":
            document["metadata"]["ownerReferences"] = []
        case "a policy":
            document["topologyPolicies"] = ["BestEffort"]
        case "an attribute":
            document["zones"][0]["attributes"] = []
        case "no zones":
            document["zones"] = "none"
    return seen(document)


@pytest.mark.parametrize(
    "what",
    [
        "an amount",
        "no number",
        "a zone less",
        "a zone more",
        "an annotation",
        "an owner",
        "a policy",
        "an attribute",
        "no zones",
    ],
)
def test_what_somebody_changed_is_put_right(what: str) -> None:
    found = changed(what)
    assert found.differs(made(120))
    right = SeenTopology(found.corrected(made(120)))
    assert not right.differs(made(120))
    assert right.document["metadata"]["resourceVersion"] == "7"


def test_what_others_added_stays() -> None:
    document = copy.deepcopy(made(120))
    batch = {
        "name": "kubernetes.io/batch-cpu",
        "capacity": "3k",
        "allocatable": "3k",
        "available": "1",
    }
    document["zones"][0]["resources"].append(batch)
    document["zones"][0]["attributes"].append({"name": "theirs", "value": "1"})
    document["zones"][0]["costs"] = [{"name": "node-0", "value": 10}]
    document["metadata"]["labels"]["theirs"] = "1"
    document["metadata"]["annotations"]["node.koordinator.sh/pod-cpu-allocs"] = "[]"
    found = seen(document)
    assert not found.differs(made(120))
    back = found.corrected(made())
    assert back["zones"][0]["resources"][-1]["name"] == "cpu"
    assert batch in back["zones"][0]["resources"]
    assert back["zones"][0]["attributes"] == [{"name": "theirs", "value": "1"}]
    assert AMPLIFICATION not in back["metadata"]["annotations"]
    assert back["metadata"]["annotations"]["node.koordinator.sh/pod-cpu-allocs"] == "[]"


def test_another_spelling_of_an_amount_is_the_same() -> None:
    document = copy.deepcopy(made(120))
    row(document, 0, "cpu").update(capacity="9.6", allocatable="9600m")
    assert not seen(document).differs(made(120))


@pytest.mark.parametrize("label", ["Koordinator", "NFD", ""])
def test_an_object_of_others_is_not_ours(label: str) -> None:
    document = copy.deepcopy(made())
    document["metadata"]["labels"] = {"app.kubernetes.io/managed-by": label} if label else None
    assert not seen(document).is_ours
