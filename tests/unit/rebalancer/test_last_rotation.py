"""The annotation that keeps the last rotation."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kube.api_time import format_time
from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.rebalancer.last_rotation import (
    decode_last_rotation,
    encode_last_rotation,
    judge_rotation,
    pause_after,
    realised_improvement,
    record_rotation,
)
from slackwater.rebalancer.observed import Cores, LastRotation, PercentOf, WorkloadName
from slackwater.rebalancer.selection import propose
from slackwater.rebalancer.sources.cluster_reader import timestamp
from slackwater.settings.rebalancer import MoveSettings
from tests.unit.rebalancer.workloads import F6, NAME, NOON, at, measured, numbered, rotated

WEB = WorkloadName("shop", "Deployment", "web")
LAST = LastRotation(at("2026-11-17T10:00:00Z"), Cores(1.15), Cores(0.73), PercentOf(34.8), 4, 1)
TEXT = encode_last_rotation(LAST, format_time)
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
    assert decode_last_rotation(encode_last_rotation(last, format_time), WEB, timestamp) == last


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
        f"annotation slackwater.io/last-rotation of Deployment shop/web cannot be read ({why}), "
        "so it is not known when it was rotated; remove it: kubectl annotate deployment/web -n "
        "shop slackwater.io/last-rotation-"
    )


@given(st.text(max_size=60))
def test_any_text_is_a_rotation_or_a_gap(text: str) -> None:
    read = decode_last_rotation(text, WEB, timestamp)
    assert isinstance(read, Gap)
    assert "slackwater.io/last-rotation-" in read.reason


def test_a_tower_of_brackets_is_a_gap() -> None:
    assert isinstance(decode_last_rotation("[" * 100_000, WEB, timestamp), Gap)


SEED = MoveSettings()
MINUTE = 60_000_000
DAY = 1440 * MINUTE
EVEN = numbered(0.75, 0.75, 0.75, 0.75, 0.7, 0.7)
AT = NOON


def test_what_is_noted_of_the_seed_s_example() -> None:
    found = record_rotation(propose(measured(), SEED), measured(), None, AT)
    assert found is not None
    assert (found.at, found.pods, found.hot, found.misses) == (AT, 4, 2, 0)
    assert (found.judged, found.realised) == (False, None)
    assert [found.top, found.mean] == pytest.approx([1.15, 4.4 / 6])
    assert found.improvement == pytest.approx(34.7826087)


def test_hot_ones_are_counted_apart() -> None:
    one = measured({**F6, "B": 1.0})
    found = record_rotation(propose(one, SEED), one, None, AT)
    assert found is not None
    assert (found.pods, found.hot) == (3, 1)


def test_misses_are_carried_on() -> None:
    proposal = propose(measured(), SEED)
    for last, misses in ((rotated(misses=3), 3), (Gap("not JSON"), 0), (None, 0)):
        found = record_rotation(proposal, measured(), last, AT)
        assert found is not None
        assert found.misses == misses


@pytest.mark.parametrize("usages", [numbered(0.9, 0.8), numbered(1.3, 1.3, 1.3), {}])
def test_nothing_is_noted_where_nobody_goes(usages: dict[str, float]) -> None:
    assert record_rotation(propose(measured(usages), SEED), measured(usages), None, AT) is None


def test_the_note_survives_the_annotation() -> None:
    found = record_rotation(propose(measured(), SEED), measured(), rotated(misses=1), AT)
    assert found is not None
    text = encode_last_rotation(found, format_time)
    assert decode_last_rotation(text, NAME, timestamp) == found
    # Of a version that did not count the hot ones.
    older = '{"at":"2026-11-17T12:00:00Z","top":1,"mean":0.5,"improvement":20,"pods":4}'
    read = decode_last_rotation(older, NAME, timestamp)
    assert isinstance(read, LastRotation)
    assert read.hot == 1


@pytest.mark.parametrize(
    ("usages", "realised"),
    [
        # The same skew: nothing was won; all even: as much as there was.
        (F6, 0.0),
        (dict.fromkeys(F6, 0.7), 100 * (1 - 1 / (1.15 / (4.4 / 6)))),
        # Twice the load on a bad or a good fleet: only the skew counts.
        ({name: 2 * used for name, used in F6.items()}, 0.0),
        (dict.fromkeys(F6, 1.4), 100 * (1 - 1 / (1.15 / (4.4 / 6)))),
        # Worse than before.
        (numbered(2.0, 2.0, 0.1, 0.1, 0.1, 0.1), 100 * (1 - (2 / (4.4 / 6)) / (1.15 / (4.4 / 6)))),
        # Fewer than were hot.
        (numbered(0.5), 100 * (1 - 1 / (1.15 / (4.4 / 6)))),
        # It cannot be said.
        ({}, None),
        (numbered(0.0, 0.0), None),
        (dict.fromkeys(F6, Gap("no series")), None),
    ],
)
def test_realised(usages: dict[str, float], realised: float | None) -> None:
    found = realised_improvement(rotated(), measured(usages))
    assert found == (None if realised is None else pytest.approx(realised, abs=1e-9))


@pytest.mark.parametrize("broken", [{"top": 0.0}, {"mean": 0.0}, {"mean": -1.0}, {"hot": 0}])
def test_a_note_that_means_nothing_is_not_divided_by(broken: dict[str, float]) -> None:
    assert realised_improvement(msgspec.structs.replace(rotated(), **broken), measured()) is None


def test_pods_that_carry_nothing_are_not_in_it() -> None:
    flat = {**EVEN, "gone": 9.0, "starting": 9.0}
    found = measured(flat, gone={"terminating": True}, starting={"ready": False})
    assert realised_improvement(rotated(), found) == realised_improvement(rotated(), measured(EVEN))


@pytest.mark.parametrize(
    ("usages", "before", "misses"),
    [
        (EVEN, 0, 0),
        (EVEN, 3, 0),
        (F6, 0, 1),
        (F6, 1, 2),
        # Predicted were 34.8 %, so 18.3 are no miss, and 17.39 are one.
        (numbered(1.0, 0.88, 0.8, 0.6, 0.4, 0.72), 0, 0),
        (numbered(1.0, 0.9, 0.8, 0.6, 0.4, 0.7), 0, 1),
    ],
)
def test_judging(usages: dict[str, float], before: int, misses: int) -> None:
    last = rotated(misses=before)
    found = judge_rotation(last, measured(usages), SEED, NOON)
    assert found is not None
    assert (found.judged, found.misses) == (True, misses)
    assert found.realised == realised_improvement(last, measured(usages))
    assert (found.realised < last.improvement / 2) is (misses > 0)  # type: ignore[operator]
    # The rest of the note stays, and nobody is judged twice.
    assert msgspec.structs.replace(found, judged=False, misses=before, realised=None) == last
    assert judge_rotation(found, measured(usages), SEED, NOON + 900) is None


@pytest.mark.parametrize(("predicted", "misses"), [(50.0, 0), (50.1, 1), (25.0, 0), (0.0, 0)])
def test_half_of_what_was_predicted_is_no_miss(predicted: float, misses: int) -> None:
    """From twice the mean to one and a half times: 25 %."""
    last = LastRotation(NOON - 3600, Cores(2.0), Cores(1.0), PercentOf(predicted), pods=2)
    found = judge_rotation(last, measured(numbered(1.5, 0.5)), SEED, NOON)
    assert found is not None
    assert (found.realised, found.misses) == (25.0, misses)


@pytest.mark.parametrize(
    ("at", "age", "too_early"),
    [
        ("2026-11-17T11:55:00Z", 3600.0, False),
        ("2026-11-17T11:55:01Z", 3600.0, True),
        ("2026-11-17T12:10:00Z", 3600.0, True),
        # The last batch came late.
        ("2026-11-17T11:50:00Z", 299.0, True),
        ("2026-11-17T11:50:00Z", 300.0, False),
    ],
)
def test_when_it_is_judged(at: str, age: float, too_early: bool) -> None:
    found = judge_rotation(rotated(at), measured(EVEN, p1={"age": age}), SEED, NOON)
    assert (found is None) is too_early


def test_who_is_going_does_not_keep_it_from_being_judged() -> None:
    going = measured(EVEN, p1={"age": 1.0, "terminating": True})
    assert judge_rotation(rotated(), going, SEED, NOON) is not None


@pytest.mark.parametrize(
    ("misses", "pause", "found"),
    [
        (0, 10 * MINUTE, 10 * MINUTE),
        (1, 10 * MINUTE, 10 * MINUTE),
        (2, 10 * MINUTE, 40 * MINUTE),
        (3, 10 * MINUTE, 80 * MINUTE),
        (7, 10 * MINUTE, 1280 * MINUTE),
        (8, 10 * MINUTE, DAY),
        # From an annotation: no number there may cost memory or time.
        (10**18, 10 * MINUTE, DAY),
        (10**18, 1, DAY),
        (-5, 10 * MINUTE, 10 * MINUTE),
        (5, 0, 0),
        # A pause of more than a day is never made shorter.
        (5, 2 * DAY, 2 * DAY),
    ],
)
def test_the_pause(misses: int, pause: int, found: int) -> None:
    settings = MoveSettings(cooldown=Micros(pause))
    assert pause_after(rotated(misses=misses), settings) == found


def test_the_pause_is_two_windows_where_none_is_named() -> None:
    assert pause_after(rotated(), SEED) == 10 * MINUTE
    assert pause_after(rotated(), MoveSettings(window=Micros(MINUTE))) == 2 * MINUTE


@pytest.mark.parametrize(
    ("at", "found"),
    [
        ("2026-11-17T12:00:00Z", NOON),
        ("2026-11-17T12:00:00.250000Z", NOON + 0.25),
        ("2026-11-17T13:00:00+01:00", NOON),
        ("noon", None),
    ],
)
def test_times_of_the_annotation(at: str, found: float | None) -> None:
    assert timestamp(at) == found
