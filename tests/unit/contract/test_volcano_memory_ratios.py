"""ColocationConfiguration objects, and which of them counts for a pod."""

import itertools
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.label_selector import LabelSelector
from slackwater.contract.volcano_memory_ratios import (
    MemoryQosRatios,
    PodConfiguration,
    ratios_for,
    read_colocation_configuration,
)
from slackwater.model.problem import InvalidError
from tests.unit.contract.documents import shaped

WHERE = "colo.yaml: ColocationConfiguration default/colo"
KEYS = [
    "spec", "selector", "matchLabels", "matchExpressions", "memoryQos", "highRatio", "lowRatio",
    "minRatio", "metadata", "creationTimestamp", "name", "apiVersion",
]  # fmt: skip
UNTIL = "one of In, NotIn, Exists, DoesNotExist; until then it is for no pod"
APP = {"app": "offline"}

# docs/design/colocation/memory-qos-design.md in Volcano.
DESIGN = """
apiVersion: config.volcano.sh/v1alpha1
kind: ColocationConfiguration
metadata:
  name: colo-config1
spec:
  selector:
    matchLabels:
      app: offline-test
  memoryQos:
    highRatio: 100 # Memory throttling ratio; default=100, range: 0~100
    lowRatio: 0
    minRatio: 0
"""


def document(spec: object = None, **metadata: object) -> dict[str, Any]:
    return {
        "apiVersion": "config.volcano.sh/v1alpha1",
        "kind": "ColocationConfiguration",
        "metadata": {"name": "colo", "namespace": "default", **metadata},
        "spec": spec,
    }


def selecting(labels: dict[str, str], **ratios: object) -> dict[str, Any]:
    return {"selector": {"matchLabels": labels}, "memoryQos": ratios}


def read(spec: object = None, **metadata: object) -> PodConfiguration:
    return read_colocation_configuration(document(spec, **metadata), "colo.yaml")


def test_the_designs_example() -> None:
    made = read_colocation_configuration(yaml.safe_load(DESIGN), "colo.yaml")
    assert (made.namespace, made.name, made.created) == ("default", "colo-config1", "")
    assert (made.ratios, made.warnings) == (MemoryQosRatios(100, 0, 0), ())
    assert made.is_for({"app": "offline-test", "x": "y"}, "default")
    assert not made.is_for({"app": "online"}, "default")
    assert not made.is_for({"app": "offline-test"}, "other")


@pytest.mark.parametrize(
    ("said", "ratios"),
    [
        (None, MemoryQosRatios()),
        ({}, MemoryQosRatios()),
        ({"highRatio": 80}, MemoryQosRatios(80)),
        ({"lowRatio": 20, "minRatio": 10}, MemoryQosRatios(100, 20, 10)),
        ({"highRatio": 0, "lowRatio": 100, "minRatio": 0}, MemoryQosRatios(0, 100, 0)),
    ],
)
def test_what_is_not_stated_is_the_default(said: object, ratios: MemoryQosRatios) -> None:
    assert read({"selector": {}, "memoryQos": said}).ratios == ratios


@pytest.mark.parametrize(
    ("selector", "labels", "selected"),
    [
        ({}, {}, True),
        ({}, APP, True),
        ({"matchLabels": APP}, APP, True),
        ({"matchLabels": APP}, {}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, APP, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}, {}, True),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a"]}]}, APP, False),
    ],
)
def test_selectors(selector: object, labels: dict[str, str], selected: bool) -> None:
    made = read({"selector": selector})
    assert made.is_for(labels, "default") is selected
    assert made.warnings == ()


@pytest.mark.parametrize(
    ("spec", "warning"),
    [
        (None, f"{WHERE}: spec has no selector and is for no pod"),
        ({"selector": None}, f"{WHERE}: spec has no selector and is for no pod"),
        (
            {"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}},
            f"{WHERE}: spec.selector.matchExpressions[0]: operator is 'Is', but must be {UNTIL}",
        ),
        (
            {"selector": {}, "memoryQoS": {"highRatio": 5}},
            f"{WHERE}: spec.memoryQoS is not known and has no effect",
        ),
        (
            {"selector": {}, "memoryQos": {"highratio": 5}},
            f"{WHERE}: spec.memoryQos.highratio is not known and has no effect",
        ),
    ],
)
def test_what_has_no_effect_is_told(spec: object, warning: str) -> None:
    made = read(spec)
    assert made.warnings == (warning,)
    assert made.ratios == MemoryQosRatios()


def test_without_a_usable_selector_it_is_for_no_pod() -> None:
    for spec in ({}, {"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}):
        assert not read(spec).is_for({"a": "b"}, "default")


@pytest.mark.parametrize(
    ("written", "created"),
    [
        ("'2026-01-31T12:00:00Z'", "2026-01-31T12:00:00"),
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00"),
        ("2026-01-31T12:00:00.5Z", "2026-01-31T12:00:00.5"),
        ("'2026-01-31T12:00:00.500Z'", "2026-01-31T12:00:00.5"),
        ("'2026-01-31T12:00:00.000Z'", "2026-01-31T12:00:00"),
        ("'2026-01-31T12:00:00+00:00'", "2026-01-31T12:00:00"),
        ("null", ""),
    ],
)
def test_creation_times_as_yaml_has_them(written: str, created: str) -> None:
    assert read({}, creationTimestamp=yaml.safe_load(written)).created == created


@pytest.mark.parametrize(
    ("made", "end"),
    [
        (document([]), "spec is a list, but must be a mapping"),
        (document({"selector": 5}), "spec.selector is 5, but must be a mapping"),
        (document({"memoryQos": "x"}), "spec.memoryQos is 'x', but must be a mapping"),
        (
            document({"memoryQos": {"highRatio": 101}}),
            "spec.memoryQos.highRatio is 101, but must be a whole number from 0 to 100 (percent)",
        ),
        (
            document({"memoryQos": {"minRatio": -1}}),
            "spec.memoryQos.minRatio is -1, but must be a whole number from 0 to 100 (percent)",
        ),
        (
            document({"memoryQos": {"lowRatio": "5"}}),
            "spec.memoryQos.lowRatio is '5', but must be a whole number",
        ),
        (
            {**document(), "apiVersion": "config.volcano.sh/v2"},
            "apiVersion is 'config.volcano.sh/v2', but must be config.volcano.sh/v1alpha1",
        ),
        (
            {**document(), "apiVersion": None},
            "apiVersion is missing, but must be config.volcano.sh/v1alpha1",
        ),
        (
            document(creationTimestamp="yesterday"),
            "metadata.creationTimestamp is 'yesterday', but must be a time of UTC such as 2026-",
        ),
        (
            document(creationTimestamp="2026-01-31T12:00:00+02:00"),
            "metadata.creationTimestamp is '2026-01-31T12:00:00+02:00', but must be a time of UTC",
        ),
        (
            document(creationTimestamp=yaml.safe_load("2026-01-31")),
            "metadata.creationTimestamp is a date, but must be a time of UTC",
        ),
        (document(creationTimestamp=5), "metadata.creationTimestamp is 5, but must be a time of"),
    ],
)
def test_bad_objects_are_named(made: object, end: str) -> None:
    with pytest.raises(InvalidError) as caught:
        read_colocation_configuration(made, "colo.yaml")
    assert str(caught.value).removeprefix(f"{WHERE}: ").startswith(end)


def test_an_object_needs_a_name() -> None:
    with pytest.raises(InvalidError, match=r"colo.yaml: metadata.name is missing"):
        read_colocation_configuration({"kind": "ColocationConfiguration"}, "colo.yaml")


def test_the_newest_that_selects_the_pod_counts() -> None:
    old = read(selecting(APP, highRatio=10), name="old", creationTimestamp="2025-12-31T23:59:59Z")
    new = read(selecting(APP, highRatio=20), name="new", creationTimestamp="2026-01-01T00:00:00Z")
    newest = read(selecting({"app": "x"}), name="x", creationTimestamp="2026-06-01T00:00:00Z")
    ageless = read(selecting(APP, highRatio=30), name="zzz")
    elsewhere = read(
        selecting(APP, highRatio=40), namespace="b", creationTimestamp="2026-07-01T00:00:00Z"
    )
    every = (old, new, newest, ageless, elsewhere)
    for order in itertools.permutations(every):
        assert ratios_for(order, APP, "default") == MemoryQosRatios(20)
    assert ratios_for(every, APP, "b") == MemoryQosRatios(40)
    assert ratios_for((ageless, old), APP, "default") == MemoryQosRatios(10)
    assert ratios_for(every, {"app": "y"}, "default") is None
    assert ratios_for((), APP, "default") is None


def configurations() -> st.SearchStrategy[PodConfiguration]:
    times = st.sampled_from(["", "2025-12-31T23:59:59", "2026-01-01T00:00:00"])
    return st.builds(
        PodConfiguration,
        st.sampled_from(["a", "b"]),
        st.sampled_from("xyz"),
        times,
        st.sampled_from([None, LabelSelector()]),
        st.builds(MemoryQosRatios, st.integers(0, 100)),
    )


@given(st.lists(configurations(), max_size=6, unique_by=lambda each: (each.namespace, each.name)))
def test_the_order_of_the_objects_does_not_matter(found: list[PodConfiguration]) -> None:
    chosen = ratios_for(found, {}, "a")
    assert ratios_for(reversed(found), {}, "a") == chosen
    usable = [each for each in found if each.is_for({}, "a")]
    assert (chosen is None) == (not usable)
    if usable:
        latest = max(each.created for each in usable)
        assert chosen in [each.ratios for each in usable if each.created == latest]


@given(shaped(KEYS), shaped(KEYS))
def test_any_object_reads_or_is_refused(spec: object, created: object) -> None:
    try:
        made = read(spec, creationTimestamp=created)
    except InvalidError as error:
        assert str(error).isprintable()
    else:
        assert all(0 <= each <= 100 for each in (made.ratios.high, made.ratios.low))
