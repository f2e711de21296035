"""When the Node is written: laws with a virtual clock, and what counts as news, row by row."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.node_report import ActiveRule, NodeStatusPatch
from slackwater.execution.node_patch import (
    FIRST_WAIT,
    HEARTBEAT_INTERVAL,
    LONGEST_WAIT,
    URGENT_INTERVAL,
    WRITE_INTERVAL,
    WritePace,
    differs,
    due_at,
    pace_after_failure,
    pace_after_write,
)
from slackwater.model.units import UNLIMITED, Micros
from tests.unit.execution.status_patches import GRAIN, status_patch

SECOND = 1_000_000

UP = ActiveRule("cpu", "triggered", "2026-11-17T10:00:00Z")
UP_A_SECOND_LATER = ActiveRule("cpu", "triggered", "2026-11-17T10:00:01Z")
DOWN = ActiveRule("cpu", "restoring", "2026-11-17T10:00:00Z")


def rules(*active: ActiveRule) -> dict[str, tuple[ActiveRule, ...]]:
    return {"NodeQOS/waterline1": active}


def at(second: float) -> Micros:
    return Micros(int(second * SECOND))


def test_that_everything_is_released_waits_for_nothing() -> None:
    """Who asked waits for it. Only a server that refuses is spared."""
    pace = WritePace(written=at(99), urgent=at(99))
    wanted, seen = status_patch(released="word"), status_patch()
    assert due_at(wanted, seen, pace, GRAIN) == 0
    assert due_at(wanted, wanted, pace, GRAIN) > at(99)
    refused = pace_after_failure(pace, at(100), None, 0.5)
    assert due_at(wanted, seen, refused, GRAIN) == refused.not_before > at(100)


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        (status_patch(quota=1000), status_patch(quota=1000)),
        (status_patch(quota=1099), status_patch(quota=1000)),
        (status_patch(quota=901), status_patch(quota=1000)),
        (status_patch(used=99), status_patch(used=1)),
        (status_patch(used=None), status_patch(used=None)),
        (status_patch(holding=105), status_patch(holding=100)),
        (status_patch(since="2026-01-01T00:00:00Z"), status_patch()),
        # The time of day of one moment may be a second later when it is worked out again.
        (status_patch(rules=rules(UP)), status_patch(rules=rules(UP_A_SECOND_LATER))),
    ],
)
def test_what_is_no_news(wanted: NodeStatusPatch, seen: NodeStatusPatch) -> None:
    assert not differs(wanted, seen, GRAIN)
    assert not differs(seen, wanted, GRAIN)


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        (status_patch(quota=1100), status_patch(quota=1000)),
        (status_patch(quota=900), status_patch(quota=1000)),
        (status_patch(quota=UNLIMITED), status_patch(quota=1000)),
        (status_patch(quota=None), status_patch(quota=1000)),
        (status_patch(quota=1), status_patch(quota=0)),
        (status_patch(used=100), status_patch(used=200)),
        (status_patch(used=None), status_patch(used=50)),
        (status_patch(holding=0), status_patch(holding=1)),
        (status_patch(holding=2), status_patch(holding=1)),
        (status_patch(holding=112), status_patch(holding=100)),
        (status_patch(holding=None), status_patch(holding=1)),
        (status_patch(status="False"), status_patch()),
        (status_patch(reason="Holding"), status_patch()),
        (status_patch(message="other words"), status_patch()),
        (status_patch(problems=("a sentence",)), status_patch()),
        (status_patch(policies={"share": ""}), status_patch(policies={"share": "no label"})),
        (status_patch(period="2s"), status_patch(period="1s")),
        (status_patch(rules=rules()), status_patch()),
        (status_patch(rules=rules(UP)), status_patch(rules=rules())),
        (status_patch(rules=rules(UP)), status_patch(rules=rules(DOWN))),
    ],
)
def test_what_is_news(wanted: NodeStatusPatch, seen: NodeStatusPatch) -> None:
    assert differs(wanted, seen, GRAIN)
    assert differs(seen, wanted, GRAIN)


def test_the_first_write_is_at_once_whatever_the_node_shows() -> None:
    """What an agent before this one left there may be hours old."""
    assert due_at(status_patch(), status_patch(), WritePace(), GRAIN) == 0
    assert due_at(status_patch(), None, WritePace(not_before=at(3)), GRAIN) == at(3)


@pytest.mark.parametrize(
    ("seen", "due"),
    [
        (status_patch(), at(100) + HEARTBEAT_INTERVAL),
        (status_patch(quota=1), at(100) + WRITE_INTERVAL),
        (None, at(100) + WRITE_INTERVAL),  # somebody removed it
    ],
)
def test_later_when_something_changed_or_after_five_minutes(
    seen: NodeStatusPatch | None, due: Micros
) -> None:
    assert due_at(status_patch(), seen, pace_after_write(at(100), WritePace()), GRAIN) == due


@pytest.mark.parametrize(
    "wanted",
    [
        status_patch(problems=("a sentence",)),
        status_patch(policies={"share": "no label"}),
        status_patch(status="False"),
        status_patch(rules=rules(UP)),
    ],
)
def test_what_people_wait_for_comes_before_its_minute_is_over_once(wanted: NodeStatusPatch) -> None:
    first = pace_after_write(at(100), WritePace())
    assert due_at(wanted, status_patch(), first, GRAIN) == at(100) + URGENT_INTERVAL
    second = pace_after_write(at(105), first)
    assert due_at(status_patch(), wanted, second, GRAIN) == at(105) + WRITE_INTERVAL
    assert (
        due_at(status_patch(), wanted, pace_after_write(at(165), second), GRAIN)
        == at(165) + URGENT_INTERVAL
    )


def test_what_was_refused_is_tried_later_and_later() -> None:
    pace, waits = WritePace(), []
    for _ in range(12):
        pace = pace_after_failure(pace, at(0), None, 0.5)
        waits.append(pace.not_before)
    assert waits[:4] == [FIRST_WAIT, 2 * FIRST_WAIT, 4 * FIRST_WAIT, 8 * FIRST_WAIT]
    assert waits[-1] == LONGEST_WAIT
    assert pace_after_write(at(9), pace) == WritePace(at(9))


@pytest.mark.parametrize(("asked", "waits"), [(None, 1.0), (0.5, 1.0), (30.0, 30.0)])
def test_a_server_that_asks_for_a_pause_gets_it(asked: float | None, waits: float) -> None:
    assert pace_after_failure(WritePace(), at(10), asked, 0.0).not_before == at(10 + waits)


def test_a_thousand_agents_do_not_come_back_together() -> None:
    waits = {
        pace_after_failure(WritePace(), at(0), None, chance / 1000).not_before
        for chance in range(1000)
    }
    assert len(waits) > 900
    assert (min(waits), max(waits)) >= (FIRST_WAIT // 2, FIRST_WAIT)
    assert max(waits) < FIRST_WAIT * 3 // 2


status_patches = st.builds(
    status_patch,
    quota=st.integers(0, 2000) | st.just(UNLIMITED),
    used=st.integers(0, 2000),
    holding=st.integers(0, 3),
)
changing = st.builds(
    status_patch, quota=st.integers(0, 2000), problems=st.sampled_from(((), ("it is bad",)))
)


@given(st.lists(status_patches, min_size=1, max_size=400))
def test_at_most_one_write_a_minute_and_one_in_five(course: list[NodeStatusPatch]) -> None:
    """The loop's own course: a face each second, the server says yes, the informer shows it."""
    pace, seen = WritePace(), None
    writes: list[int] = []
    for second, wanted in enumerate(course):
        if due_at(wanted, seen, pace, GRAIN) <= at(second):
            seen, pace = wanted, pace_after_write(at(second), pace)
            writes.append(second)
    assert writes[0] == 0
    assert all(later - one >= 60 for one, later in itertools.pairwise(writes))
    assert len(course) - writes[-1] <= 300


@given(st.lists(changing, min_size=1, max_size=400))
def test_whatever_happens_at_most_two_writes_a_minute(course: list[NodeStatusPatch]) -> None:
    pace, seen = WritePace(), None
    writes: list[int] = []
    for second, wanted in enumerate(course):
        if due_at(wanted, seen, pace, GRAIN) <= at(second):
            seen, pace = wanted, pace_after_write(at(second), pace)
            writes.append(second)
    assert all(third - one >= 60 for one, third in zip(writes, writes[2:], strict=False))


@given(status_patches, st.integers(301, 2000))
def test_in_a_steady_state_only_the_renewal_is_written(
    wanted: NodeStatusPatch, seconds: int
) -> None:
    pace, writes = pace_after_write(at(0), WritePace()), 0
    for second in range(seconds):
        if due_at(wanted, wanted, pace, GRAIN) <= at(second):
            pace, writes = pace_after_write(at(second), pace), writes + 1
    assert writes == (seconds - 1) // 300
