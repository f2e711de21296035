"""Units: exact quantities, the rounding rule, and the seed's conversion."""

from decimal import Decimal
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.units import (
    SMALLEST_QUOTA,
    UNLIMITED,
    Bandwidth,
    Micros,
    MilliCpu,
    QuantityError,
    Ratio,
    bandwidth,
    left_over,
    parse_bytes,
    parse_milli_cpu,
    parse_quantity,
    percent,
    promised,
)

SUFFIXES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal("1e3"),
    "M": Decimal("1e6"),
    "G": Decimal("1e9"),
    "T": Decimal("1e12"),
    "P": Decimal("1e15"),
    "E": Decimal("1e18"),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ("1", 1000),
        ("0", 0),
        ("250m", 250),
        ("0.5", 500),
        (".5", 500),
        ("1.", 1000),
        ("+2", 2000),
        ("-1", -1000),
        ("100u", 1),  # rounded up, as Kubernetes' MilliValue does
        ("1n", 1),
        ("0.1m", 1),
        ("1500000n", 2),
        ("2k", 2_000_000),
        ("1e3", 1_000_000),
        ("1E-2", 10),
        ("1E", 10**21),
    ],
)
def test_cpu_quantities(text: str, milli: int) -> None:
    assert parse_milli_cpu(text) == milli


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("128974848", 128974848),
        ("129e6", 129_000_000),
        ("129M", 129_000_000),
        ("123Mi", 123 * 2**20),
        ("1.5Gi", 3 * 2**29),
        ("1Ki", 1024),
        ("7Ei", 7 * 2**60),
        ("1m", 1),
        ("0.1Ki", 103),
    ],
)
def test_memory_quantities(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    "text",
    ["", " ", ".", "m", "1 ", " 1", "1K", "1ki", "1mi", "1e", "1e3Mi", "1Mi3", "0x10", "1_000",
     "١", "1,5", "--1", "1e19", "1e-19", "9" * 65, "NaN", "inf", "1\n"],
)  # fmt: skip
def test_what_is_no_quantity_is_named(text: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)
    assert repr(text[:64]) in str(caught.value)
    assert "\n" not in str(caught.value)


@given(
    st.decimals(0, 10**9, allow_nan=False, allow_infinity=False, places=6),
    st.sampled_from(sorted(SUFFIXES)),
)
def test_every_suffix_is_exact(number: Decimal, suffix: str) -> None:
    exact = Fraction(number) * Fraction(SUFFIXES[suffix])
    found = parse_quantity(f"{number:f}{suffix}")
    assert Fraction(found.numerator, found.denominator) == exact
    assert found.of(1) == ceil(exact)


@given(st.text(max_size=80))
def test_any_text_is_a_quantity_or_a_sentence(text: str) -> None:
    try:
        found = parse_quantity(text)
    except QuantityError as error:
        assert str(error)
    else:
        assert found.denominator > 0


@given(st.integers(-(10**12), 10**12), st.integers(1, 10**6))
def test_promises_round_up_and_left_overs_down(numerator: int, denominator: int) -> None:
    up, down = promised(numerator, denominator), left_over(numerator, denominator)
    assert down * denominator <= numerator <= up * denominator
    assert 0 <= up - down <= 1


def test_a_part_of_an_amount() -> None:
    # facts/volcano.md row 13: 65 % of 7910 m, less 1333 m used, is a budget of 3808 m.
    assert percent(65).left_of(7910) - 1333 == 3808
    assert Ratio(1, 3).of(100) == 34


@pytest.mark.parametrize(
    ("milli", "limit"),
    [
        (500, 50_000),  # facts/volcano.md row 15
        (1, SMALLEST_QUOTA),
        (9, SMALLEST_QUOTA),
        (10, 1_000),
        (1200, 120_000),
        (150_000, 15_000_000),
    ],
)
def test_milli_cpu_as_bandwidth(milli: int, limit: int) -> None:
    assert bandwidth(MilliCpu(milli)) == Bandwidth(Micros(limit))


@pytest.mark.parametrize("milli", [0, -1, -1000])
def test_zero_or_less_is_unlimited_as_the_seed_says(milli: int) -> None:
    assert bandwidth(MilliCpu(milli)).limit is UNLIMITED


@given(st.integers(10, 10**7), st.sampled_from([10_000, 50_000, 100_000, 250_000, 1_000_000]))
def test_bandwidth_never_gives_less_than_was_promised(milli: int, period: int) -> None:
    given_back = bandwidth(MilliCpu(milli), Micros(period)).milli()
    assert isinstance(given_back, int)
    assert given_back >= milli


def test_unlimited_bandwidth_in_milli_is_unlimited() -> None:
    assert Bandwidth(UNLIMITED).milli() is UNLIMITED


BANDWIDTHS = st.builds(
    Bandwidth,
    st.one_of(st.just(UNLIMITED), st.integers(1_000, 10**6).map(Micros)),
    st.sampled_from([Micros(10_000), Micros(100_000)]),
)


@given(BANDWIDTHS, BANDWIDTHS)
def test_exceeds_is_a_strict_order(one: Bandwidth, other: Bandwidth) -> None:
    assert not (one.exceeds(other) and other.exceeds(one))
    assert not one.exceeds(one)


def test_exceeds_compares_across_periods() -> None:
    assert Bandwidth(Micros(20_000), Micros(10_000)).exceeds(Bandwidth(Micros(100_000)))
    assert not Bandwidth(Micros(10_000), Micros(10_000)).exceeds(Bandwidth(Micros(100_000)))
    assert Bandwidth(UNLIMITED).exceeds(Bandwidth(Micros(1_000)))
    assert not Bandwidth(UNLIMITED, Micros(10_000)).exceeds(Bandwidth(UNLIMITED))
