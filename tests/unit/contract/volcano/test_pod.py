"""A pod's Volcano annotations: level, burst and memory ratios, good and bad."""

import itertools
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.label_selector import LabelSelector
from slackwater.contract.volcano.pod import (
    COLOCATION_CONFIG,
    ENABLE_QUOTA_BURST,
    QOS_LEVEL,
    QUOTA_BURST_TIME,
    PodConfiguration,
    QosLevel,
    memory_qos,
    qos_level,
    quota_burst,
    ratios_for,
    read_colocation_configuration,
)
from slackwater.model.gap import Gap
from slackwater.model.knob import LARGEST_QUOTA
from slackwater.model.problem import InvalidError
from slackwater.model.units import Micros
from slackwater.model.workload import BurstRequest, MemoryRatios
from tests.unit.contract.documents import shaped

RATIO = "a whole number, 0 % to 100 %"


def test_the_keys_are_volcanos() -> None:
    """facts/volcano.md section 3.1."""
    assert QOS_LEVEL == "volcano.sh/qos-level"
    assert ENABLE_QUOTA_BURST == "volcano.sh/enable-quota-burst"
    assert QUOTA_BURST_TIME == "volcano.sh/quota-burst-time"
    assert COLOCATION_CONFIG == "volcano.sh/colocation-config"


@pytest.mark.parametrize(
    ("word", "level", "number"),
    [
        ("LC", QosLevel.LC, 2),
        ("HLS", QosLevel.HLS, 2),
        ("LS", QosLevel.LS, 1),
        ("", QosLevel.NONE, 0),
        ("BE", QosLevel.BE, -1),
    ],
)
def test_levels(word: str, level: QosLevel, number: int) -> None:
    assert qos_level({QOS_LEVEL: word}) is level
    assert level.number == number


def test_no_level() -> None:
    assert qos_level({}) is QosLevel.NONE
    assert qos_level({"other": "BE"}) is QosLevel.NONE


@pytest.mark.parametrize("word", ["be", "Be", " BE", "BestEffort", "-1", "2", "NONE", "LCs"])
def test_unknown_levels(word: str) -> None:
    assert qos_level({QOS_LEVEL: word}) == Gap(
        f"the annotation volcano.sh/qos-level is '{word}', but must be one of LC, HLS, LS, BE"
    )


@pytest.mark.parametrize("said", ["1", "t", "T", "TRUE", "true", "True"])
def test_burst_is_on(said: str) -> None:
    assert quota_burst({ENABLE_QUOTA_BURST: said}) == BurstRequest()


@pytest.mark.parametrize("said", ["0", "f", "F", "FALSE", "false", "False", ""])
def test_burst_is_off(said: str) -> None:
    """Row 33: whatever the time says."""
    assert quota_burst({ENABLE_QUOTA_BURST: said}) is None
    assert quota_burst({ENABLE_QUOTA_BURST: said, QUOTA_BURST_TIME: "x"}) is None


def test_a_time_alone_is_no_burst() -> None:
    assert quota_burst({QUOTA_BURST_TIME: "100000"}) is None
    assert quota_burst({}) is None


@pytest.mark.parametrize("said", ["yes", "on", "tRUE", " true", "2", "null"])
def test_neither_on_nor_off(said: str) -> None:
    assert quota_burst({ENABLE_QUOTA_BURST: said}) == Gap(
        f"the annotation volcano.sh/enable-quota-burst is '{said}', but must be true or false "
        "(1, t, T, TRUE and True are true, their opposites false)"
    )


def burst(time: str) -> BurstRequest:
    made = quota_burst({ENABLE_QUOTA_BURST: "true", QUOTA_BURST_TIME: time})
    assert isinstance(made, BurstRequest)
    return made


@pytest.mark.parametrize(
    ("said", "time"),
    [
        ("100000", 100_000),
        ("+7", 7),
        ("007", 7),
        ("1", 1),
        (str(LARGEST_QUOTA), LARGEST_QUOTA),
    ],
)
def test_times(said: str, time: int) -> None:
    assert burst(said) == BurstRequest(Micros(time))


def test_no_time_is_as_much_as_the_quota() -> None:
    """Row 35: absent."""
    assert quota_burst({ENABLE_QUOTA_BURST: "true"}) == BurstRequest()


BAD_TIMES = (
    *("x", "abc", "-1", "-100000", "1.5", "1e5", "0x10", "1_0", " 1", "1ms", "٣"),
    *("9" * 18, "9" * 40, str(LARGEST_QUOTA + 1)),
    # Row 35: as much as the quota, in Volcano too; who writes this may have meant none.
    *("", "0", "00", "-0", "+0"),
)


@pytest.mark.parametrize("said", BAD_TIMES)
def test_a_bad_time_has_the_effect_of_none_and_is_told(said: str) -> None:
    """Row 35, "x": as much as the quota, as in Volcano; but somebody hears of it."""
    assert burst(said) == BurstRequest(
        None,
        f"the annotation volcano.sh/quota-burst-time is '{said}', but must be a whole number from "
        "1 to 17592186044 (microseconds); the quota counts instead",
    )


@given(st.text(max_size=30))
def test_a_burst_is_a_time_of_the_kernels_or_none(said: str) -> None:
    made = burst(said)
    assert made.complaint.isprintable()
    assert made.time is None or (0 < made.time <= LARGEST_QUOTA and not made.complaint)


@pytest.mark.parametrize(
    ("said", "ratios"),
    [
        # Row 41: "{}" is a reset.
        ("{}", MemoryRatios(100, 0, 0)),
        ("null", MemoryRatios()),
        ('{"memoryQos":null}', MemoryRatios()),
        ('{"memoryQos":{}}', MemoryRatios()),
        (
            '{"memoryQos":{"highRatio":80,"lowRatio":30,"minRatio":10}}',
            MemoryRatios(80, 30, 10),
        ),
        # Weakness 23: Volcano makes a memory.high of 0 of an absent highRatio.
        ('{"memoryQos":{"lowRatio":30}}', MemoryRatios(100, 30, 0)),
        ('{"memoryQos":{"highRatio":null,"minRatio":5}}', MemoryRatios(100, 0, 5)),
        ('{"memoryQos":{"highRatio":0}}', MemoryRatios(0, 0, 0)),
        (
            '{"memoryQos":{"highRatio":100,"lowRatio":100,"minRatio":100}}',
            MemoryRatios(min=100, low=100),
        ),
        # Go's JSON takes keys in any case and leaves out those that it does not know.
        ('{"MEMORYQOS":{"highratio":50}}', MemoryRatios(50)),
        ('{"other":1,"memoryQos":{"highRatio":50,"x":2}}', MemoryRatios(50)),
        (' {"memoryQos": {"highRatio": 50}} ', MemoryRatios(50)),
    ],
)
def test_ratios(said: str, ratios: MemoryRatios) -> None:
    assert memory_qos({COLOCATION_CONFIG: said}) == ratios


def test_no_ratios() -> None:
    assert memory_qos({}) is None
    assert memory_qos({COLOCATION_CONFIG: ""}) is None


@pytest.mark.parametrize(
    ("said", "end"),
    [
        # Row 41.
        ("{invalid}", " is '{invalid}', but must be JSON (JSON is malformed"),
        (" ", " is ' ', but must be JSON (Input data was truncated)"),
        ("[]", " is a list, but must be a mapping"),
        ("5", " is 5, but must be a mapping"),
        ('{"memoryQos":[]}', ": memoryQos is a list, but must be a mapping"),
        ('{"memoryQos":{"highRatio":101}}', f": memoryQos.highRatio is 101, but must be {RATIO}"),
        ('{"memoryQos":{"lowRatio":-1}}', f": memoryQos.lowRatio is -1, but must be {RATIO}"),
        ('{"memoryQos":{"minRatio":150}}', f": memoryQos.minRatio is 150, but must be {RATIO}"),
        ('{"memoryQos":{"highRatio":"50"}}', ": memoryQos.highRatio is '50', but must be a whole"),
        ('{"memoryQos":{"highRatio":50.0}}', ": memoryQos.highRatio is 50.0, but must be a whole"),
        ('{"memoryQos":{"highRatio":true}}', ": memoryQos.highRatio is true, but must be a whole"),
    ],
)
def test_bad_ratios(said: str, end: str) -> None:
    found = memory_qos({COLOCATION_CONFIG: said})
    assert isinstance(found, Gap)
    assert found.reason.startswith(f"the annotation volcano.sh/colocation-config{end}")


@given(st.text(max_size=40))
def test_any_annotations_are_read_or_told_in_one_line(said: str) -> None:
    keys = (QOS_LEVEL, ENABLE_QUOTA_BURST, QUOTA_BURST_TIME, COLOCATION_CONFIG)
    annotations = dict.fromkeys(keys, said)
    for found in (qos_level(annotations), quota_burst(annotations), memory_qos(annotations)):
        if isinstance(found, Gap):
            assert found.reason.startswith("the annotation volcano.sh/")
            assert found.reason.isprintable()


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
    assert (made.ratios, made.warnings) == (MemoryRatios(100, 0, 0), ())
    assert made.is_for({"app": "offline-test", "x": "y"}, "default")
    assert not made.is_for({"app": "online"}, "default")
    assert not made.is_for({"app": "offline-test"}, "other")


@pytest.mark.parametrize(
    ("said", "ratios"),
    [
        (None, MemoryRatios()),
        ({}, MemoryRatios()),
        ({"highRatio": 80}, MemoryRatios(80)),
        ({"lowRatio": 20, "minRatio": 10}, MemoryRatios(100, 20, 10)),
        ({"highRatio": 0, "lowRatio": 100, "minRatio": 0}, MemoryRatios(0, 100, 0)),
    ],
)
def test_what_is_not_stated_is_the_default(said: object, ratios: MemoryRatios) -> None:
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
    assert made.ratios == MemoryRatios()


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
            "spec.memoryQos.highRatio is 101, but must be a whole number, 0 % to 100 %",
        ),
        (
            document({"memoryQos": {"minRatio": -1}}),
            "spec.memoryQos.minRatio is -1, but must be a whole number, 0 % to 100 %",
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
        assert ratios_for(order, APP, "default") == MemoryRatios(20)
    assert ratios_for(every, APP, "b") == MemoryRatios(40)
    assert ratios_for((ageless, old), APP, "default") == MemoryRatios(10)
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
        st.builds(MemoryRatios, st.integers(0, 100)),
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
