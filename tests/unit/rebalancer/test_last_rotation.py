"""The annotation that keeps the last rotation."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kube.time_of_day import whole_seconds
from slackwater.model.gap import Gap
from slackwater.rebalancer.cluster_reader import timestamp
from slackwater.rebalancer.last_rotation import decode_last_rotation, encode_last_rotation
from slackwater.rebalancer.observed import Cores, LastRotation, PercentOf, WorkloadName
from tests.unit.rebalancer.workloads import at

WEB = WorkloadName("shop", "Deployment", "web")
LAST = LastRotation(at("2026-11-17T10:00:00Z"), Cores(1.15), Cores(0.73), PercentOf(34.8), 4, 1)
TEXT = encode_last_rotation(LAST, whole_seconds)
AMOUNT = st.floats(0, 1e6, allow_nan=False)


def with_(**fields: object) -> str:
    return msgspec.json.encode({**msgspec.json.decode(TEXT), **fields}).decode()


def test_what_is_written_is_read() -> None:
    assert TEXT.startswith('{"at":"2026-11-17T10:00:00Z","top":1.15,')
    assert decode_last_rotation(TEXT, WEB, timestamp) == LAST


@given(AMOUNT, AMOUNT, AMOUNT, st.integers(0, 99), st.integers(0, 99), st.booleans())
def test_any_rotation_is_read_as_it_was_written(
    top: float, mean: float, improvement: float, pods: int, misses: int, judged: bool
) -> None:
    last = LastRotation(
        LAST.at, Cores(top), Cores(mean), PercentOf(improvement), pods, misses, judged
    )
    assert decode_last_rotation(encode_last_rotation(last, whole_seconds), WEB, timestamp) == last


def test_unknown_fields_of_a_newer_version_are_left() -> None:
    assert decode_last_rotation(with_(colour="blue"), WEB, timestamp) == LAST


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Input data was truncated"),
        ("{", "Input data was truncated"),
        ("yesterday", "JSON is malformed: invalid character (byte 0)"),
        ("[]", "Expected `object`, got `array`"),
        ("{}", "Object missing required field `at`"),
        (with_(top="1"), "Expected `float`, got `str` - at `$.top`"),
        (with_(at="four minutes ago"), "at is 'four minutes ago', but must be a time"),
        (with_(at=""), "at is '', but must be a time"),
        (with_(mean=-1.0), "mean is -1.0, but must be zero or more"),
        (with_(pods=-4), "pods is -4, but must be zero or more"),
        (with_(misses=-1), "misses is -1, but must be zero or more"),
        (with_(improvement=-0.5), "improvement is -0.5, but must be zero or more"),
    ],
)
def test_what_cannot_be_read_says_how_to_get_rid_of_it(text: str, why: str) -> None:
    assert decode_last_rotation(text, WEB, timestamp) == Gap(
        f"annotation slackwater.io/last-rotation of Deployment shop/web cannot be read ({why}), so "
        "nobody knows when it was rotated; remove it: kubectl annotate deployment/web -n shop "
        "slackwater.io/last-rotation-"
    )


@given(st.text(max_size=60))
def test_any_text_is_a_rotation_or_a_gap(text: str) -> None:
    read = decode_last_rotation(text, WEB, timestamp)
    assert isinstance(read, Gap)
    assert "slackwater.io/last-rotation-" in read.reason


def test_a_tower_of_brackets_is_a_gap() -> None:
    assert isinstance(decode_last_rotation("[" * 100_000, WEB, timestamp), Gap)
