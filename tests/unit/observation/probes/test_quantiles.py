"""Quantiles and rates between two looks. What a real Prometheus makes of the same buckets is
compared in tests/cluster/test_probes.py."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.gap import Gap
from slackwater.model.metric import Sample
from slackwater.observation.probes.quantiles import (
    derive,
    interpolate,
    series_needed,
    split_suffix,
)

Series = dict[str, tuple[Sample, ...]]


def histogram(counts: dict[str, float], **labels: str) -> tuple[Sample, ...]:
    return tuple(Sample(count, {**labels, "le": bound}) for bound, count in counts.items())


@pytest.mark.parametrize(
    ("name", "parts", "needed"),
    [
        ("a", ("a", ""), {"a"}),
        ("a:p99", ("a", "p99"), {"a:p99", "a_bucket"}),
        ("job:a:p50", ("job:a", "p50"), {"job:a:p50", "job:a_bucket"}),
        ("a:rate", ("a", "rate"), {"a:rate", "a"}),
        ("a:p42", ("a:p42", ""), {"a:p42"}),
        (":p99", (":p99", ""), {":p99"}),
    ],
)
def test_names(name: str, parts: tuple[str, str], needed: set[str]) -> None:
    assert split_suffix(name) == parts
    assert series_needed(name) == needed


TEN = {0.1: 5.0, 0.2: 9.0, 0.4: 10.0, math.inf: 10.0}


@pytest.mark.parametrize(
    ("quantile", "buckets", "value"),
    [
        (0.5, TEN, 0.1),
        (0.25, TEN, 0.05),  # the lowest bucket begins at 0
        (0.9, TEN, 0.2),
        (0.95, TEN, 0.3),
        (0.99, TEN, 0.38),
        (0.99, {0.1: 0.0, math.inf: 7.0}, 0.1),  # beyond all bounds: the highest finite one
        (0.5, {-1.0: 8.0, 1.0: 10.0, math.inf: 10.0}, -1.0),
        (0.9, {-1.0: 0.0, 1.0: 10.0, math.inf: 10.0}, 0.8),
        (0.5, {0.1: 6.0, 0.2: 5.0, math.inf: 6.0}, 0.05),  # read while it counted
    ],
)
def test_interpolation(quantile: float, buckets: dict[float, float], value: float) -> None:
    assert interpolate(quantile, buckets) == pytest.approx(value)


@pytest.mark.parametrize(
    ("buckets", "clause"),
    [
        ({0.1: 1.0, 0.2: 2.0}, "has no bucket +Inf, or no other"),
        ({math.inf: 2.0}, "has no bucket +Inf, or no other"),
        ({}, "has no bucket +Inf, or no other"),
        ({0.1: 0.0, math.inf: 0.0}, "had no observations between the last two looks"),
    ],
)
def test_without_a_quantile(buckets: dict[float, float], clause: str) -> None:
    assert interpolate(0.5, buckets) == Gap(clause, is_idle="no observations" in clause)


def test_a_quantile_is_of_what_was_observed_in_between() -> None:
    """Before, everything was slow; that does not count any more."""
    before = {"t_bucket": histogram({"0.1": 0, "1": 1000, "+Inf": 1000}, code="200")}
    now = {"t_bucket": histogram({"0.1": 100, "1": 1100, "+Inf": 1100}, code="200")}
    assert derive("t:p99", before, now, 1.0) == (Sample(0.1 * 0.99, {"code": "200"}),)


def test_each_set_of_labels_has_its_own() -> None:
    """One is new, one began anew, one was not called: they are left out, the fourth counts."""
    before = {
        "t_bucket": (
            *histogram({"1": 5, "+Inf": 5}, who="again"),
            *histogram({"1": 5, "+Inf": 5}, who="quiet"),
            *histogram({"1": 5, "+Inf": 5}, who="busy"),
        )
    }
    now = {
        "t_bucket": (
            *histogram({"1": 4, "+Inf": 4}, who="again"),
            *histogram({"1": 5, "+Inf": 5}, who="quiet"),
            *histogram({"1": 7, "+Inf": 7}, who="busy"),
            *histogram({"1": 5, "+Inf": 5}, who="new"),
        )
    }
    assert derive("t:p50", before, now, 1.0) == (Sample(0.5, {"who": "busy"}),)


@pytest.mark.parametrize(
    ("before", "now", "reason"),
    [
        (None, {"1": 1, "+Inf": 1}, "'t' was seen only once so far"),
        ({}, {"1": 1, "+Inf": 1}, "'t' was seen only once so far"),
        ({"1": 1, "+Inf": 1}, {}, "the answer has no histogram 't'"),
        ({"1": 9, "+Inf": 9}, {"1": 1, "+Inf": 1}, "the histogram 't' began anew"),
        ({"1": 1, "+Inf": 1}, {"2": 1, "+Inf": 1}, "the histogram 't' changed its buckets"),
        (
            {"1": 1, "+Inf": 1},
            {"1": 1, "+Inf": 1},
            "the histogram 't' had no observations between the last two looks",
        ),
        ({"x": 1}, {"x": 2}, "the histogram 't' has no buckets"),
    ],
)
def test_why_a_quantile_is_missing(
    before: dict[str, float] | None, now: dict[str, float], reason: str
) -> None:
    def look(counts: dict[str, float] | None) -> Series:
        return {"t_bucket": histogram(counts)} if counts else {}

    earlier = None if before is None else look(before)
    assert derive("t:p99", earlier, look(now), 1.0) == Gap(
        reason, is_idle="no observations" in reason
    )


def test_rates() -> None:
    before: Series = {"n": (Sample(10.0, {"a": "1"}), Sample(50.0, {"a": "2"}))}
    now: Series = {
        "n": (Sample(40.0, {"a": "1"}), Sample(5.0, {"a": "2"}), Sample(1.0, {"a": "3"}))
    }
    assert derive("n:rate", before, now, 2.0) == (Sample(15.0, {"a": "1"}),)
    assert derive("n:rate", None, now, 2.0) == Gap("'n' was seen only once so far")
    assert derive("n:rate", now, before, 0.0) == Gap("'n' was seen only once, or began anew")
    assert derive("m:rate", before, now, 2.0) == Gap("the answer has no counter 'm'")


@given(
    st.lists(st.floats(0.001, 100), min_size=1, max_size=8, unique=True),
    st.lists(st.integers(0, 1000), min_size=9, max_size=9),
    st.sampled_from([0.5, 0.9, 0.95, 0.99]),
)
def test_a_quantile_lies_in_its_bucket(
    bounds: list[float], counts: list[int], quantile: float
) -> None:
    buckets, total = {}, 0
    for bound, count in zip([*sorted(bounds), math.inf], counts, strict=False):
        total += count
        buckets[bound] = float(total)
    found = interpolate(quantile, buckets)
    if total == 0:
        assert isinstance(found, Gap)
        return
    assert isinstance(found, float)
    rank = quantile * total
    edges = sorted(buckets)
    upper = next(each for each in edges if buckets[each] >= rank)
    if upper == math.inf:
        assert found == edges[-2]
        return
    lower = max((each for each in edges if each < upper), default=0.0)
    assert lower <= found * (1 + 1e-9)
    assert found <= upper * (1 + 1e-9)
