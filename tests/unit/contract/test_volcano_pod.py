"""A pod's Volcano annotations: level, burst and memory ratios, good and bad."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.volcano_memory_ratios import MemoryQosRatios
from slackwater.contract.volcano_pod import (
    COLOCATION_CONFIG,
    ENABLE_QUOTA_BURST,
    QOS_LEVEL,
    QUOTA_BURST_TIME,
    QosLevel,
    memory_qos,
    qos_level,
    quota_burst,
)
from slackwater.model.gap import Gap
from slackwater.model.knob import LARGEST_QUOTA
from slackwater.model.units import Micros
from slackwater.model.workload import BurstRequest

RATIO = "a whole number from 0 to 100 (percent)"


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
        ("{}", MemoryQosRatios(100, 0, 0)),
        ("null", MemoryQosRatios()),
        ('{"memoryQos":null}', MemoryQosRatios()),
        ('{"memoryQos":{}}', MemoryQosRatios()),
        (
            '{"memoryQos":{"highRatio":80,"lowRatio":30,"minRatio":10}}',
            MemoryQosRatios(80, 30, 10),
        ),
        # Weakness 23: Volcano makes a memory.high of 0 of an absent highRatio.
        ('{"memoryQos":{"lowRatio":30}}', MemoryQosRatios(100, 30, 0)),
        ('{"memoryQos":{"highRatio":null,"minRatio":5}}', MemoryQosRatios(100, 0, 5)),
        ('{"memoryQos":{"highRatio":0}}', MemoryQosRatios(0, 0, 0)),
        (
            '{"memoryQos":{"highRatio":100,"lowRatio":100,"minRatio":100}}',
            MemoryQosRatios(min=100, low=100),
        ),
        # Go's JSON takes keys in any case and leaves out those that it does not know.
        ('{"MEMORYQOS":{"highratio":50}}', MemoryQosRatios(50)),
        ('{"other":1,"memoryQos":{"highRatio":50,"x":2}}', MemoryQosRatios(50)),
        (' {"memoryQos": {"highRatio": 50}} ', MemoryQosRatios(50)),
    ],
)
def test_ratios(said: str, ratios: MemoryQosRatios) -> None:
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
