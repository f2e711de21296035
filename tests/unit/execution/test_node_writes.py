"""When the Node is written: laws with a virtual clock, and what counts as news, row by row."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.node_condition import NodeFace
from slackwater.execution.node_writes import (
    APART,
    FIRST_WAIT,
    HASTE,
    LONGEST_WAIT,
    RENEWED,
    Pace,
    differs,
    due_at,
    refused,
    written,
)
from slackwater.model.units import UNLIMITED, Micros
from tests.unit.execution.faces import GRAIN, face

SECOND = 1_000_000


def at(second: float) -> Micros:
    return Micros(int(second * SECOND))


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        (face(quota=1000), face(quota=1000)),
        (face(quota=1099), face(quota=1000)),
        (face(quota=901), face(quota=1000)),
        (face(used=99), face(used=1)),
        (face(used=None), face(used=None)),
        (face(holding=105), face(holding=100)),
        (face(since="2026-01-01T00:00:00Z"), face()),
    ],
)
def test_what_is_no_news(wanted: NodeFace, seen: NodeFace) -> None:
    assert not differs(wanted, seen, GRAIN)
    assert not differs(seen, wanted, GRAIN)


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        (face(quota=1100), face(quota=1000)),
        (face(quota=900), face(quota=1000)),
        (face(quota=UNLIMITED), face(quota=1000)),
        (face(quota=None), face(quota=1000)),
        (face(quota=1), face(quota=0)),
        (face(used=100), face(used=200)),
        (face(used=None), face(used=50)),
        (face(holding=0), face(holding=1)),
        (face(holding=2), face(holding=1)),
        (face(holding=112), face(holding=100)),
        (face(holding=None), face(holding=1)),
        (face(status="False"), face()),
        (face(reason="Holding"), face()),
        (face(message="other words"), face()),
        (face(problems=("a sentence",)), face()),
        (face(policies={"share": ""}), face(policies={"share": "no label"})),
        (face(period="2s"), face(period="1s")),
    ],
)
def test_what_is_news(wanted: NodeFace, seen: NodeFace) -> None:
    assert differs(wanted, seen, GRAIN)
    assert differs(seen, wanted, GRAIN)


def test_the_first_write_is_at_once_whatever_the_node_shows() -> None:
    """What an agent before this one left there may be hours old."""
    assert due_at(face(), face(), Pace(), GRAIN) == 0
    assert due_at(face(), None, Pace(not_before=at(3)), GRAIN) == at(3)


@pytest.mark.parametrize(
    ("seen", "due"),
    [
        (face(), at(100) + RENEWED),
        (face(quota=1), at(100) + APART),
        (None, at(100) + APART),  # somebody removed it
    ],
)
def test_later_when_something_changed_or_after_five_minutes(
    seen: NodeFace | None, due: Micros
) -> None:
    assert due_at(face(), seen, written(at(100), Pace()), GRAIN) == due


@pytest.mark.parametrize(
    "wanted",
    [face(problems=("a sentence",)), face(policies={"share": "no label"}), face(status="False")],
)
def test_what_people_wait_for_comes_before_its_minute_is_over_once(wanted: NodeFace) -> None:
    first = written(at(100), Pace())
    assert due_at(wanted, face(), first, GRAIN) == at(100) + HASTE
    second = written(at(105), first)
    assert due_at(face(), wanted, second, GRAIN) == at(105) + APART
    assert due_at(face(), wanted, written(at(165), second), GRAIN) == at(165) + HASTE


def test_what_was_refused_is_tried_later_and_later() -> None:
    pace, waits = Pace(), []
    for _ in range(12):
        pace = refused(pace, at(0), None, 0.5)
        waits.append(pace.not_before)
    assert waits[:4] == [FIRST_WAIT, 2 * FIRST_WAIT, 4 * FIRST_WAIT, 8 * FIRST_WAIT]
    assert waits[-1] == LONGEST_WAIT
    assert written(at(9), pace) == Pace(at(9))


@pytest.mark.parametrize(("asked", "waits"), [(None, 1.0), (0.5, 1.0), (30.0, 30.0)])
def test_a_server_that_asks_for_a_pause_gets_it(asked: float | None, waits: float) -> None:
    assert refused(Pace(), at(10), asked, 0.0).not_before == at(10 + waits)


def test_a_thousand_agents_do_not_come_back_together() -> None:
    waits = {refused(Pace(), at(0), None, chance / 1000).not_before for chance in range(1000)}
    assert len(waits) > 900
    assert (min(waits), max(waits)) >= (FIRST_WAIT // 2, FIRST_WAIT)
    assert max(waits) < FIRST_WAIT * 3 // 2


faces = st.builds(
    face,
    quota=st.integers(0, 2000) | st.just(UNLIMITED),
    used=st.integers(0, 2000),
    holding=st.integers(0, 3),
)
changing = st.builds(
    face, quota=st.integers(0, 2000), problems=st.sampled_from(((), ("it is bad",)))
)


@given(st.lists(faces, min_size=1, max_size=400))
def test_at_most_one_write_a_minute_and_one_in_five(course: list[NodeFace]) -> None:
    """The loop's own course: a face each second, the server says yes, the informer shows it."""
    pace, seen = Pace(), None
    writes: list[int] = []
    for second, wanted in enumerate(course):
        if due_at(wanted, seen, pace, GRAIN) <= at(second):
            seen, pace = wanted, written(at(second), pace)
            writes.append(second)
    assert writes[0] == 0
    assert all(later - one >= 60 for one, later in itertools.pairwise(writes))
    assert len(course) - writes[-1] <= 300


@given(st.lists(changing, min_size=1, max_size=400))
def test_whatever_happens_at_most_two_writes_a_minute(course: list[NodeFace]) -> None:
    pace, seen = Pace(), None
    writes: list[int] = []
    for second, wanted in enumerate(course):
        if due_at(wanted, seen, pace, GRAIN) <= at(second):
            seen, pace = wanted, written(at(second), pace)
            writes.append(second)
    assert all(third - one >= 60 for one, third in zip(writes, writes[2:], strict=False))


@given(faces, st.integers(301, 2000))
def test_in_a_steady_state_only_the_renewal_is_written(wanted: NodeFace, seconds: int) -> None:
    pace, writes = written(at(0), Pace()), 0
    for second in range(seconds):
        if due_at(wanted, wanted, pace, GRAIN) <= at(second):
            pace, writes = written(at(second), pace), writes + 1
    assert writes == (seconds - 1) // 300
