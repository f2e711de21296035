"""The timeline: what is told, what becomes one line, and that nothing that matters goes under."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.model.decision import Event
from slackwater.model.units import Micros, MilliCpu
from slackwater.record.journal import JournalEntry
from slackwater.simulation.timeline import FEW, MANY, SCENARIO, Timeline, TimelineRow, fold_rows

QUOTA = "quota of kubepods/besteffort"
SECOND = 1_000_000


def change(at: int, before: str, after: str, what: str = QUOTA) -> JournalEntry:
    return JournalEntry(at, Micros(at * SECOND), what, before, after, f"reason {at}", "applied")


def recorded(*entries: JournalEntry) -> Timeline:
    timeline = Timeline()
    for entry in entries:
        timeline.add_entry(entry)
    return timeline


def short(row: TimelineRow) -> tuple[float, float, str, str, int]:
    return row.at, row.until, row.before, row.after, row.changes


def test_a_ramp_is_one_line() -> None:
    ramp = [change(n, f"{1000 + 10 * n}m", f"{1010 + 10 * n}m") for n in range(50)]
    (row,) = recorded(*ramp).rows()
    assert short(row) == (0, 49, "1000m", "1500m", 50)
    assert (row.lowest, row.highest, row.because) == ("1000m", "1500m", "reason 49")


def test_the_first_throttle_and_the_release_are_lines_of_their_own() -> None:
    rows = recorded(
        change(1, "unlimited", "3000m"),
        change(2, "3000m", "2000m"),
        change(3, "2000m", "1000m"),
        change(4, "1000m", "unlimited"),
    ).rows(1)
    assert [short(row) for row in rows] == [
        (1, 1, "unlimited", "3000m", 1),
        (2, 3, "3000m", "1000m", 2),
        (4, 4, "1000m", "unlimited", 1),
    ]


def test_a_fight_is_few_lines() -> None:
    timeline = Timeline()
    for n in range(5):
        timeline.add_event(Micros(n * SECOND), QUOTA, "somebody else wrote unlimited")
        timeline.add_entry(change(n, "unlimited", "2000m"))
        timeline.add_entry(JournalEntry(n, Micros(n * SECOND), QUOTA, because="written again"))
    rows = timeline.rows()
    assert [(row.by, row.times, row.changes) for row in rows] == [
        (SCENARIO, 5, 0),
        ("agent", 1, 1),
        ("agent", 5, 0),
        ("agent", 1, 4),
    ]
    assert rows[0].until == 4


def test_the_same_much_later_is_told_again() -> None:
    timeline = Timeline()
    for at in (0, 30, 300):
        timeline.add_event(Micros(at * SECOND), "agent", "killed")
    assert [(row.at, row.times) for row in timeline.rows()] == [(0, 2), (300, 1)]


def moved(at: int, before: str, after: str) -> JournalEntry:
    what = "cpus of kubepods/podx/main"
    return JournalEntry(at, Micros(at * SECOND), what, before, after, "2 CPUs", "applied")


def test_another_change_for_the_same_reason_is_a_line_of_its_own() -> None:
    rows = recorded(moved(1, "0-7", "1-2"), moved(5, "1-2", "0-7"), moved(9, "0-7", "1-2")).rows()
    assert [(row.at, row.before, row.after, row.times) for row in rows] == [
        (1, "0-7", "1-2", 2),
        (5, "1-2", "0-7", 1),
    ]


def test_the_steps_of_a_move_are_one_line() -> None:
    """A set that moves is widened first, in the same tick; other sets are written in between."""
    between = JournalEntry(
        9, Micros(9 * SECOND), "cpus of kubepods/podb", "0", "0,2", "", "applied"
    )
    rows = recorded(moved(9, "1-2", "1-2,5"), between, moved(9, "1-2,5", "1,5")).rows()
    assert [(row.before, row.after, row.times) for row in rows] == [
        ("1-2", "1,5", 1),
        ("0", "0,2", 1),
    ]


def test_events_say_what_the_effect_says() -> None:
    event = Event("NodeCPUThrottleEvent", "cpu", MilliCpu(5))
    assert recorded(JournalEntry(1, Micros(1), "NodeCPUThrottleEvent", event=event)).rows() == []


def test_what_failed_says_so_and_does_not_fold() -> None:
    failed = JournalEntry(
        1, Micros(1), QUOTA, "1000m", "900m", "reason", "refused: Invalid argument"
    )
    (row,) = recorded(failed).rows()
    assert (row.result, row.changes, row.lowest) == ("refused: Invalid argument", 0, "")


def test_other_groups_do_not_fold_into_each_other() -> None:
    rows = recorded(
        change(1, "10m", "20m", "quota of a"), change(2, "20m", "30m", "quota of b")
    ).rows(1)
    assert [row.what for row in rows] == ["quota of a", "quota of b"]


def test_small_swings_go_under_before_large_ones() -> None:
    """A spike in the middle of noise stays visible."""
    levels = [5000 + 40 * (n % 3) for n in range(200)] + [500] + [600 + 30 * n for n in range(150)]
    entries = [
        change(n, f"{one}m", f"{other}m")
        for n, (one, other) in enumerate(itertools.pairwise(levels))
    ]
    rows = recorded(*entries).rows(8)
    assert len(rows) <= 8
    (cut,) = [row for row in rows if row.after == "500m"]
    assert row_span(cut) >= 4400
    assert short(rows[-1])[3] == "5070m"


def row_span(row: TimelineRow) -> int:
    return int(row.highest[:-1]) - int(row.lowest[:-1])


LEVELS = st.lists(st.integers(10, 20_000), min_size=2, max_size=300)


@settings(max_examples=60, deadline=None)
@given(LEVELS, st.integers(1, FEW))
def test_a_fold_keeps_ends_counts_and_range(levels: list[int], most: int) -> None:
    entries = [
        change(n, f"{one}m", f"{other}m")
        for n, (one, other) in enumerate(itertools.pairwise(levels))
    ]
    rows = recorded(*entries).rows(most)
    assert len(rows) <= most
    assert sum(row.changes for row in rows) == len(entries)
    assert (rows[0].before, rows[-1].after) == (f"{levels[0]}m", f"{levels[-1]}m")
    assert min(int(row.lowest[:-1]) for row in rows) == min(levels)
    assert max(int(row.highest[:-1]) for row in rows) == max(levels)
    for one, other in itertools.pairwise(rows):
        assert one.until < other.at
        assert one.after == other.before


def test_it_never_grows_without_bound() -> None:
    timeline = Timeline()
    for n in range(3 * MANY):
        timeline.add_entry(change(n, f"{1000 + n * 37 % 500}m", f"{1000 + (n + 1) * 37 % 500}m"))
    assert len(timeline._rows) < 2 * MANY
    assert len(timeline.rows()) <= MANY
    assert sum(row.changes for row in timeline.rows(FEW)) == 3 * MANY


@pytest.mark.parametrize("most", [1, 5])
def test_what_is_no_change_always_stays(most: int) -> None:
    rows = [TimelineRow(n, n, SCENARIO, f"pod {n}", because="it came") for n in range(9)]
    assert fold_rows(rows, most) == rows
