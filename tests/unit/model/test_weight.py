"""Shares and weights: three formulas, and which one a node uses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.gap import Gap
from slackwater.model.units import MilliCpu
from slackwater.model.weight import (
    Shares,
    Weight,
    WeightFormula,
    evidence,
    milli_of,
    shares_from,
    shares_of,
    weight_for,
    weight_of,
)

SHARES = st.integers(2, 262_144).map(Shares)
FORMULAS = st.sampled_from(WeightFormula)
LINEAR, QUADRATIC = WeightFormula.LINEAR, WeightFormula.QUADRATIC


@pytest.mark.parametrize(
    ("milli", "shares"),
    [(0, 2), (1, 2), (2, 2), (3, 3), (250, 256), (500, 512), (1000, 1024), (4000, 4096),
     (256_000, 262_144), (10**6, 262_144)],
)  # fmt: skip
def test_shares_of_milli_cpu(milli: int, shares: int) -> None:
    assert shares_of(MilliCpu(milli)) == shares


@pytest.mark.parametrize(
    ("milli", "weight"),
    [(1, 1), (9, 1), (10, 1), (500, 50), (1000, 100), (4000, 400), (150_000, 10_000)],
)
def test_row_21_volcanos_weight(milli: int, weight: int) -> None:
    assert weight_for(MilliCpu(milli), WeightFormula.VOLCANO) == weight


@pytest.mark.parametrize(
    ("shares", "linear", "quadratic"),
    [
        (2, 1, 1),
        (1024, 39, 100),
        (262_144, 10_000, 10_000),
        (102, 4, 17),
        (256, 10, 35),
        (2048, 79, 174),
        (0, 1, 1),
        (10**9, 10_000, 10_000),
    ],
)
def test_known_points(shares: int, linear: int, quadratic: int) -> None:
    """The linear column is what a real kubelet and runc 1.1 wrote (real-parts section 9)."""
    assert weight_of(Shares(shares), LINEAR) == linear
    assert weight_of(Shares(shares), QUADRATIC) == quadratic


@given(SHARES, SHARES, FORMULAS)
def test_more_shares_never_weigh_less(one: Shares, other: Shares, formula: WeightFormula) -> None:
    low, high = sorted((one, other))
    assert 1 <= weight_of(low, formula) <= weight_of(high, formula) <= 10_000


@given(SHARES, FORMULAS)
def test_shares_from_finds_the_smallest(shares: Shares, formula: WeightFormula) -> None:
    weight = weight_of(shares, formula)
    smallest = shares_from(weight, formula)
    assert weight_of(smallest, formula) == weight
    assert smallest == 2 or weight_of(Shares(smallest - 1), formula) < weight


@given(st.integers(3, 262_144).map(Shares))
def test_milli_of_is_the_smallest_that_reaches_the_shares(shares: Shares) -> None:
    """Shares are finer than a milliCPU: some have no exact counterpart."""
    milli = milli_of(shares)
    assert shares_of(milli) >= shares
    assert shares_of(MilliCpu(milli - 1)) < shares


@given(st.lists(st.integers(100, 60_000).map(Shares), min_size=1), FORMULAS)
def test_exact_evidence_names_its_formula(shares: list[Shares], formula: WeightFormula) -> None:
    if formula is not WeightFormula.VOLCANO:
        assert evidence((s, weight_of(s, formula)) for s in shares) is formula


def test_rough_evidence_still_decides() -> None:
    """kubepods of a 2-CPU node with 30 % reserved: capacity is all that is known."""
    assert evidence([(Shares(2048), Weight(55))]) is LINEAR
    assert evidence([(Shares(2048), Weight(130))]) is QUADRATIC


def test_weights_of_one_are_no_evidence() -> None:
    assert evidence([(Shares(2), Weight(1))]) == Gap("no group with a CPU request was seen")
