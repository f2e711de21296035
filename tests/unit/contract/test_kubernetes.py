"""What every object has, nodes, ConfigMaps, Go's bools."""

import pytest
from hypothesis import given

from slackwater.contract.decoding import parse_bool
from slackwater.contract.document import Field
from slackwater.contract.kubernetes import (
    is_true,
    kind_of,
    milli_cpu,
    objects_in,
    read_config_map,
    read_head,
    read_node,
    size,
)
from slackwater.model.gap import Gap
from slackwater.model.problem import InvalidError
from tests.unit.contract.documents import ANYTHING, POD_KEYS, shaped


@pytest.mark.parametrize(
    ("value", "meaning"),
    [
        *((value, True) for value in ("1", "t", "T", "TRUE", "true", "True")),
        *((value, False) for value in ("0", "f", "F", "FALSE", "false", "False")),
        *((value, None) for value in ("", "yes", "tRUE", " true", "true ", "2", "on")),
    ],
)
def test_gos_bools(value: str, meaning: bool | None) -> None:
    assert parse_bool(value) is meaning
    assert is_true({"k": value}, "k") is (meaning is True)


def test_an_absent_label_is_not_true() -> None:
    assert not is_true({}, "k")


def test_a_list_is_its_items() -> None:
    pods = [{"kind": "Pod"}, {"kind": "Node"}]
    assert objects_in({"kind": "List", "items": pods}, "x") == tuple(pods)
    assert objects_in({"kind": "List"}, "x") == ()
    assert objects_in(pods[0], "x") == (pods[0],)
    assert objects_in({"globalConfig": {}}, "x") == ({"globalConfig": {}},)


@pytest.mark.parametrize(
    ("document", "kind"), [({"kind": "Pod"}, "Pod"), ({}, ""), ({"kind": None}, "")]
)
def test_kinds(document: object, kind: str) -> None:
    assert kind_of(document, "x") == kind


def test_a_head() -> None:
    metadata = {
        "name": "web",
        "namespace": "shop",
        "uid": "abc",
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    }
    head, field = read_head({"kind": "Pod", "metadata": metadata}, "p.yaml")
    assert (head.kind, head.namespace, head.name, head.uid) == ("Pod", "shop", "web", "abc")
    assert (head.labels, head.annotations, head.terminating) == ({"a": "b"}, {"c": "d"}, True)
    assert field.where() == "p.yaml: Pod shop/web"


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ([], "p.yaml is a list, but must be a mapping"),
        ({}, "p.yaml: metadata.name is missing, but must be the object's name"),
        ({"metadata": {}}, "p.yaml: metadata.name is missing, but must be the object's name"),
        ({"metadata": {"name": ""}}, "p.yaml: metadata.name is missing, but must be the object's"),
        ({"metadata": {"name": 5}}, "p.yaml: metadata.name is 5, but must be a text"),
        ({"metadata": 5}, "p.yaml: metadata is 5, but must be a mapping"),
        ({"kind": 5}, "p.yaml: kind is 5, but must be a text"),
        (
            {"kind": "Node", "metadata": {"name": "n", "labels": {"a": True}}},
            "p.yaml: Node n: metadata.labels.a is true, but must be a text",
        ),
        (
            {"kind": "Node", "metadata": {"name": "n\n", "labels": []}},
            r"p.yaml: Node 'n\n': metadata.labels is a list, but must be a mapping",
        ),
    ],
)
def test_bad_heads(document: object, sentence: str) -> None:
    with pytest.raises(InvalidError) as caught:
        read_head(document, "p.yaml")
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("value", "milli"),
    [("250m", 250), ("2", 2000), (2, 2000), (0.5, 500), ("0", 0), (1e-7, 1), ("1u", 1)],
)
def test_cpu(value: object, milli: int) -> None:
    assert milli_cpu(Field("x", "cpu", value)) == milli


@pytest.mark.parametrize(
    ("value", "count"), [("2Gi", 2 * 2**30), (1024, 1024), ("1e3", 1000), ("0.5", 1)]
)
def test_memory(value: object, count: int) -> None:
    assert size(Field("x", "memory", value)) == count


@pytest.mark.parametrize(
    ("value", "end"),
    [
        ("abc", "cpu is 'abc', but must be a quantity such as 250m, 0.5 or 2Gi"),
        ("", "cpu is '', but must be a quantity such as 250m, 0.5 or 2Gi"),
        (True, "cpu is true, but must be a quantity such as 250m, 0.5 or 2Gi"),
        ([], "cpu is a list, but must be a quantity such as 250m, 0.5 or 2Gi"),
        (float("nan"), "cpu is nan, but must be a quantity such as 250m, 0.5 or 2Gi"),
        ("-1", "cpu is '-1', but must be a quantity from 0 to what 64 bits hold"),
        (-1, "cpu is -1, but must be a quantity from 0 to what 64 bits hold"),
        ("9E", "cpu is '9E', but must be a quantity from 0 to what 64 bits hold"),
        pytest.param(10**5000, "cpu is a number beyond 64 bits, but must be a quantity", id="big"),
    ],
)
def test_bad_quantities(value: object, end: str) -> None:
    with pytest.raises(InvalidError) as caught:
        milli_cpu(Field("x", "cpu", value))
    assert str(caught.value).removeprefix("x: ").startswith(end)


def test_a_node() -> None:
    amounts = {"cpu": "7910m", "memory": "16Gi", "pods": "110"}
    status = {"allocatable": amounts, "capacity": {"cpu": 8}}
    metadata = {"name": "n1", "labels": {"volcano.sh/colocation": "true"}}
    node = read_node({"kind": "Node", "metadata": metadata, "status": status}, "n.yaml")
    assert node.name == "n1"
    assert node.labels == {"volcano.sh/colocation": "true"}
    assert node.allocatable_cpu == 7910


@pytest.mark.parametrize("status", [None, {}, {"allocatable": None}, {"allocatable": {}}])
def test_what_a_node_does_not_state_is_a_gap(status: object) -> None:
    node = read_node({"kind": "Node", "metadata": {"name": "n"}, "status": status}, "x")
    assert node.allocatable_cpu == Gap("the Node object states no allocatable cpu")


def test_a_bad_node_is_named() -> None:
    document = {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "x"}}}
    with pytest.raises(InvalidError, match=r"^x: Node n: status\.allocatable\.cpu is 'x', but"):
        read_node(document, "x")


def test_a_config_map() -> None:
    document = {"kind": "ConfigMap", "metadata": {"name": "m", "namespace": "s"}, "data": {"a": ""}}
    found = read_config_map(document, "x")
    assert (found.namespace, found.name, found.data) == ("s", "m", {"a": ""})
    assert read_config_map({**document, "data": None}, "x").data == {}
    with pytest.raises(InvalidError, match=r"^x: ConfigMap s/m: data\.a is a mapping, but"):
        read_config_map({**document, "data": {"a": {}}}, "x")


@given(ANYTHING | shaped(POD_KEYS))
def test_any_document_reads_or_is_refused(document: object) -> None:
    for read in (read_head, read_node, read_config_map, objects_in, kind_of):
        try:
            read(document, "x")
        except InvalidError as error:
            assert str(error).isprintable()


def test_extended_resources_of_a_node() -> None:
    amounts = {"cpu": "4", "gocrane.io/cpu": "2", "gocrane.io/memory": "1Gi", "x.io/bad": "half"}
    made = read_node({"metadata": {"name": "n"}, "status": {"allocatable": amounts}}, "n")
    assert made.allocatable_extended["gocrane.io/cpu"] == 2000
    assert made.allocatable_extended["gocrane.io/memory"] == 2**30
    assert isinstance(made.allocatable_extended["x.io/bad"], Gap)
    assert "cpu" not in made.allocatable_extended
    assert read_node({"metadata": {"name": "n"}}, "n").allocatable_extended == {}
