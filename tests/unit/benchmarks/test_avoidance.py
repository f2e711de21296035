"""What an onset above a waterline did, from a series of samples."""

import pytest

from benchmarks._avoidance import END, Avoidance, avoidance, steps_time
from benchmarks._series import UNLIMITED, Sample
from benchmarks.avoidance import Plan, onset_line, rows
from benchmarks.cgroup_reads import Row

SECOND = 1_000_000
WATERLINE = 1500.0
PLAN = Plan(rounds=1, period=1.0, cool_down=5, watched=15.0, noise=100.0)


def series(quotas: dict[int, int], usage: float = 1450.0, until: int = 40) -> list[Sample]:
    """One sample each half second; the quota changes in these seconds."""
    quota, found = UNLIMITED, []
    for half in range(2 * until):
        if half % 2 == 0:
            quota = quotas.get(half // 2, quota)
        at = half * SECOND // 2
        found.append(Sample(at, quota, round(at * usage / 1000), 0))
    return found


def judge(quotas: dict[int, int], usage: float = 1450.0) -> Avoidance:
    return avoidance(series(quotas, usage), 5 * SECOND, 20 * SECOND, 39 * SECOND, WATERLINE)


STEPS = {7: 900, 8: 810, 9: 729, 10: 656, 11: 590, 12: 531, 13: 478}


def test_a_whole_onset() -> None:
    found = judge({**STEPS, 26: 526, 30: 770, 33: UNLIMITED})
    assert found.first_throttle == 2
    assert found.ended == pytest.approx(1450, rel=0.01)
    assert (found.swings, found.lowest) == (0, 478)
    assert found.restored == 13
    assert found.path == tuple(STEPS.values())


def test_nothing_happened() -> None:
    found = judge({})
    assert (found.first_throttle, found.restored, found.path) == (None, None, ())


def test_not_restored() -> None:
    assert judge(STEPS).restored is None


def test_a_reversal_beyond_the_band_is_a_swing() -> None:
    assert judge({7: 900, 9: 500, 12: 700, 15: 500}).swings == 2
    assert judge({7: 900, 9: 500, 12: 600, 15: 500}).swings == 0


def test_how_long_steps_take() -> None:
    assert steps_time(478, 1000, 10, 1.0) == 8
    assert steps_time(1000, 1000, 10, 0.5) == 0.5
    assert steps_time(-1, 1000, 10, 1.0) == 1


def by_name(found: list[Row]) -> dict[str, Row]:
    return {row.what: row for row in found}


def test_the_bars() -> None:
    good = judge({**STEPS, 26: 526, 30: 770, 33: UNLIMITED})
    assert not [row.what for row in rows([good], PLAN) if row.missed()]
    late = judge({9: 900, **{at + 2: quota for at, quota in STEPS.items()}}, usage=1800.0)
    missed = {row.what for row in rows([late], PLAN) if row.missed()}
    assert missed == {
        "first throttle after the onset, median",
        "usage at the end away from the waterline, median",
        "usage at the end away from the waterline, worst",
        "onsets whose throttle was not restored",
        "restored later than cool-down and steps take, median",
    }


def test_a_line_of_an_onset() -> None:
    assert "900 810" in onset_line(1, 12.0, judge(STEPS))
    assert PLAN.watched * SECOND > END
