"""What the reaction benchmark says of a series: cut, settled, swings, formula, budget."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks._series import (
    NOT_LOOKED_AT,
    UNLIMITED,
    Sample,
    between,
    formula,
    quota_changes,
    reaction,
    recovery,
    shares_of_budget,
    swings,
)

ONSET = 1_000_000
END = 5_000_000
ALLOWED = 1600.0


def series(quotas: dict[int, int], load: int = 1000, tier: int = 400) -> list[Sample]:
    """A sample every 10 ms, usage in every fifth; `quotas` are milliCPU by millisecond. Others use
    `load` from the onset on, the tier `tier` all the time."""
    samples = []
    quota = 0
    for at in range(0, END + 1, 10_000):
        quota = quotas.get(at // 1000, quota)
        others = max(at - ONSET, 0) * load // 1000
        mine = at * tier // 1000
        looked = at % 50_000 == 0
        used = (others + mine, mine) if looked else (NOT_LOOKED_AT, NOT_LOOKED_AT)
        samples.append(Sample(at, quota, *used))
    return samples


@pytest.mark.parametrize(
    ("quotas", "cut", "settled", "count"),
    [
        pytest.param({0: 1600, 1500: 600}, 0.5, 0.5, 0, id="at once"),
        pytest.param({0: 1600, 1500: 1200, 2500: 610}, 0.5, 1.5, 0, id="in two steps"),
        pytest.param({0: 1600, 1500: 300, 2500: 600}, 0.5, 1.5, 1, id="too deep, then back"),
        pytest.param({0: 1600, 1500: 600, 3000: 900}, 0.5, None, 1, id="not for good"),
        pytest.param({0: 1600, 1500: 600, 3000: 620, 4000: 590}, 0.5, 0.5, 0, id="inside the band"),
        pytest.param({0: 1600}, None, None, 0, id="never"),
        pytest.param({0: 600}, None, None, 0, id="no cut was due"),
        pytest.param({0: 1000, 1200: 1100, 1500: 600}, 0.5, 0.5, 0, id="a raise is no cut"),
        pytest.param({0: UNLIMITED, 1500: 600}, 0.5, 0.5, 0, id="from no limit"),
    ],
)
def test_what_an_onset_did(
    quotas: dict[int, int], cut: float | None, settled: float | None, count: int
) -> None:
    found = reaction(series(quotas), ONSET, END, ALLOWED)
    assert (found.first_cut, found.settled, found.swings) == (cut, settled, count)
    assert found.formula == pytest.approx(600)


def test_a_change_in_the_sample_after_the_onset_is_a_cut() -> None:
    samples = [sample for sample in series({0: 1600, 1010: 600}) if sample.at != ONSET]
    found = reaction(samples, ONSET, END, ALLOWED)
    assert (found.before, found.first_cut) == (1600, 0.01)


def test_an_exhausted_budget_is_the_smallest_quota() -> None:
    assert formula(series({0: 10}, load=2000), 800.0) == 10.0


@pytest.mark.parametrize(
    ("path", "count"),
    [
        ((), 0),
        ((600,), 0),
        ((900, 600, 500), 0),
        ((900, 600, 620, 600), 0),
        ((600, 700), 1),
        ((600, 620, 640), 1),  # little by little, but by more than the band in all
        ((600, 700, 600, 700), 3),
        ((600, 700, 800, 690), 2),
    ],
)
def test_swings(path: tuple[int, ...], count: int) -> None:
    assert swings(path, 30) == count


@pytest.mark.parametrize(
    ("quotas", "recovered", "count"),
    [
        pytest.param({0: 10, 1500: 400, 2500: 1500}, 1.5, 0, id="in two steps"),
        pytest.param({0: 10, 1500: 1439, 2500: 1440}, 1.5, 0, id="nine tenths are enough"),
        pytest.param({0: 10, 1500: 400}, None, 0, id="never"),
        pytest.param(
            {0: 10, 1500: 1600, 2500: 800, 3500: 1600}, 2.5, 2, id="not for good at first"
        ),
        pytest.param({0: 10, 1500: UNLIMITED}, 0.5, 0, id="to no limit"),
        pytest.param({0: 1600}, 0.0, 0, id="it was never less"),
    ],
)
def test_what_a_loads_end_did(quotas: dict[int, int], recovered: float | None, count: int) -> None:
    found = recovery(series(quotas, load=0), ONSET, END, ALLOWED)
    assert (found.recovered, found.swings) == (recovered, count)
    assert found.formula == pytest.approx(1600)


@given(st.lists(st.integers(10, 2000)))
def test_a_path_that_only_falls_never_swings(path: list[int]) -> None:
    assert swings(sorted(path, reverse=True), 30) == 0


def test_the_share_of_the_budget() -> None:
    overall, worst = shares_of_budget(series({0: 1600}, load=0, tier=1520), ALLOWED, 1_000_000)
    assert overall == pytest.approx(0.95)
    assert worst == pytest.approx(0.95)


def test_the_worst_window_is_worse_than_all() -> None:
    busy = series({0: 1600}, load=0, tier=1600)
    idle = [
        Sample(s.at + END, s.quota, *([busy[-1].all_used] * 2 if s.all_used >= 0 else [-1, -1]))
        for s in busy[1:]
    ]
    overall, worst = shares_of_budget([*busy, *idle], ALLOWED, 1_000_000)
    assert overall == pytest.approx(0.5)
    assert worst == 0


@given(st.lists(st.integers(0, 100)), st.integers(0, 100), st.integers(0, 100))
def test_between_keeps_all_and_only_what_is_between(times: list[int], start: int, end: int) -> None:
    samples = [Sample(at, 0, 0, 0) for at in sorted(times)]
    assert list(between(samples, start, end)) == [s for s in samples if start <= s.at <= end]


def test_quota_changes_start_with_what_stood_there() -> None:
    changes = quota_changes(series({0: 1600, 1500: 600, 2000: 600, 3000: 700}))
    assert changes == [(0, 1600), (1_500_000, 600), (3_000_000, 700)]
