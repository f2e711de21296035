"""Counting: each tick once, each outcome once, and never backwards."""

import threading

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.plan import Result
from slackwater.model.story import Course, NoteKind
from slackwater.record.tally import BUCKETS, Tally
from tests.unit.policies.nodes import KUBEPODS, node
from tests.unit.record.tick_records import SHARE, note, outcome, record, told


def test_nothing_happened_yet() -> None:
    counts = Tally().counts()
    assert (counts.ticks, counts.early_ticks, counts.blind_rounds, counts.problems) == (0, 0, 0, 0)
    assert counts.durations == (0,) * (len(BUCKETS) + 1)
    for named in (counts.changes, counts.notes, counts.courses, counts.events, counts.asked):
        assert not named


def test_ticks_are_regular_or_early() -> None:
    tally = Tally()
    tally.add(record())
    tally.add(record(msgspec.structs.replace(node(tick=2), early=True)))
    assert (tally.counts().ticks, tally.counts().early_ticks) == (2, 1)


@pytest.mark.parametrize(
    ("took", "bucket"),
    [(0, 0), (1_000, 0), (1_001, 1), (5_000, 1), (100_000, 3), (1_000_000, 4), (1_000_001, 5)],
)
def test_a_duration_is_in_the_bucket_whose_bound_it_does_not_pass(took: int, bucket: int) -> None:
    tally = Tally()
    tally.add(record(took=took))
    durations = tally.counts().durations
    assert [number for number, count in enumerate(durations) if count] == [bucket]
    assert tally.counts().duration_sum == took


def test_changes_by_knob_level_and_result() -> None:
    tally = Tally()
    refused = outcome(Result.REFUSED)
    tally.add(record(outcomes=(outcome(), outcome(), refused, outcome(ref=KUBEPODS))))
    assert tally.counts().changes == {
        ("quota", "tier", "applied"): 2,
        ("quota", "tier", "refused"): 1,
        ("quota", "node", "applied"): 1,
    }


def test_a_release_is_no_tick_and_counts_as_a_change() -> None:
    tally = Tally()
    tally.add_outcomes([outcome()])
    assert (tally.counts().ticks, tally.counts().changes) == (0, {("quota", "tier", "applied"): 1})


def test_repairs_and_yields() -> None:
    tally = Tally()
    tally.add(record(notes=(note(NoteKind.REPAIR), note(NoteKind.YIELD))))
    tally.add(record(notes=(note(NoteKind.REPAIR),)))
    assert tally.counts().notes == {
        ("quota", "tier", NoteKind.REPAIR): 2,
        ("quota", "tier", NoteKind.YIELD): 1,
    }


def test_courses_and_events() -> None:
    tally = Tally()
    for line in (told(claim=600), told(), told(claim=500), told(Course.HELD)):
        tally.add(record(lines=(line,)))
    counts = tally.counts()
    assert counts.courses == {(SHARE, "acted"): 3, (SHARE, "held"): 1}
    assert counts.events == {("NodeCPUThrottleEvent", "cpu"): 2}
    assert counts.asked == {(SHARE, "NodeCPUThrottleEvent", "cpu"): 500}


def test_blind_rounds_and_problems() -> None:
    tally = Tally()
    tally.add_blind_round()
    tally.add_problems({"a", "b"})
    tally.add_problems(set())
    assert (tally.counts().blind_rounds, tally.counts().problems) == (1, 2)


def test_counts_are_a_picture_not_a_window() -> None:
    tally = Tally()
    tally.add(record(outcomes=(outcome(),)))
    before = tally.counts()
    tally.add(record(outcomes=(outcome(), outcome(Result.REFUSED))))
    assert before.changes == {("quota", "tier", "applied"): 1}


@given(st.lists(st.integers(0, 10_000_000), max_size=30))
def test_every_tick_is_in_one_bucket(durations: list[int]) -> None:
    tally = Tally()
    for took in durations:
        tally.add(record(took=took))
    counts = tally.counts()
    assert sum(counts.durations) == counts.ticks == len(durations)
    assert counts.duration_sum == sum(durations)


def test_readers_in_other_threads_never_fail() -> None:
    """A scrape copies the counts while the loop adds kinds that were never seen before."""
    tally, done, failures = Tally(), threading.Event(), []

    def read() -> None:
        while not done.is_set():
            seen = tally.counts()
            if sum(seen.durations) != seen.ticks:
                failures.append(seen)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(2_000):
        tally.add(record(lines=(told(policy=f"policy-{number}"),)))
    done.set()
    reader.join()
    assert failures == []
    assert tally.counts().ticks == 2_000
