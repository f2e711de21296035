"""Extended resources: whole amounts or a Gap that says what to write, never a silent 1."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.document import Field
from slackwater.contract.extended_resources import NO_AMOUNTS, read_amounts, read_requests
from slackwater.model.gap import Gap
from slackwater.model.problem import InvalidError
from tests.unit.contract.documents import ANYTHING

CPU, MEMORY, OTHER = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory", "example.com/gpu"
LARGEST = 2**63 - 1
MILLI = "a whole number of milliCPU, zero or more, such as"
SIZE = "a whole number of bytes, zero or more, such as 2Gi"
WHOLE = "a whole number, zero or more, such as 2"


def field(value: object) -> Field:
    return Field("pod.yaml", "limits", value)


def sentence(name: str, seen: str, wanted: str) -> Gap:
    return Gap(f"pod.yaml: limits['{name}'] is {seen}, but must be {wanted}")


@pytest.mark.parametrize(
    ("name", "value", "amount"),
    [
        (CPU, "500", 500),
        (CPU, 500, 500),
        (CPU, "0", 0),
        (CPU, "1k", 1000),
        (CPU, "1.5k", 1500),
        (CPU, "2000m", 2),
        (CPU, 500.0, 500),
        (CPU, "+5", 5),
        (CPU, "-0", 0),
        (MEMORY, "5Gi", 5368709120),  # facts row 27
        (MEMORY, "1.5Gi", 1610612736),
        (MEMORY, 10737418240, 10737418240),  # facts row 25
        (OTHER, "1", 1),
        (OTHER, str(LARGEST), LARGEST),
    ],
)
def test_whole_amounts(name: str, value: object, amount: int) -> None:
    assert read_amounts(field({name: value})) == {name: amount}


@pytest.mark.parametrize(
    ("name", "value", "seen", "wanted"),
    [
        # volcano issue 4625: Value() of it is 1, a quota of a thousandth of a CPU.
        (CPU, "200m", "'200m'", f"{MILLI} 200"),
        (CPU, "0.5", "'0.5'", f"{MILLI} 500"),
        (CPU, 1.5, "1.5", f"{MILLI} 1500"),
        (CPU, "0.3m", "'0.3m'", f"{MILLI} 1"),
        (CPU, "1u", "'1u'", f"{MILLI} 1"),
        (CPU, "-200m", "'-200m'", f"{MILLI} 500"),
        (CPU, "-5", "'-5'", f"{MILLI} 500"),
        (CPU, "x", "'x'", f"{MILLI} 500"),
        (CPU, "", "''", f"{MILLI} 500"),
        (CPU, True, "true", f"{MILLI} 500"),
        (CPU, ["1"], "a list", f"{MILLI} 500"),
        (CPU, math.nan, "nan", f"{MILLI} 500"),
        (CPU, str(LARGEST + 1), f"'{2**63}'", f"{MILLI} 500"),
        (CPU, 10**80, "a number beyond 64 bits", f"{MILLI} 500"),
        (MEMORY, "0.5", "'0.5'", SIZE),
        (MEMORY, "200m", "'200m'", SIZE),
        (MEMORY, "-1Gi", "'-1Gi'", SIZE),
        (OTHER, "500m", "'500m'", WHOLE),
        (OTHER, {}, "a mapping", WHOLE),
    ],
)
def test_other_amounts(name: str, value: object, seen: str, wanted: str) -> None:
    assert read_amounts(field({name: value})) == {name: sentence(name, seen, wanted)}


@pytest.mark.parametrize("name", ["koordinator.sh/batch-cpu", "a.b.c/batch-cpu"])
def test_batch_cpu_of_any_domain_counts_milli_cpu(name: str) -> None:
    assert read_amounts(field({name: "200m"})) == {name: sentence(name, "'200m'", f"{MILLI} 200")}


@pytest.mark.parametrize(
    "stated",
    [None, {}, {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "4Mi"}, {CPU: None}],
)
def test_without_extended_resources_one_mapping_serves_all(stated: object) -> None:
    found = None if stated is None else field(stated)
    assert read_amounts(found) is NO_AMOUNTS
    assert read_requests(found, NO_AMOUNTS) is NO_AMOUNTS


def test_one_bad_amount_leaves_the_others() -> None:
    found = read_amounts(field({CPU: "abc", MEMORY: "1Ki", OTHER: 2}))
    assert found == {CPU: sentence(CPU, "'abc'", f"{MILLI} 500"), MEMORY: 1024, OTHER: 2}


BAD = Gap("bad")


@pytest.mark.parametrize(
    ("stated", "limits", "requests"),
    [
        (None, {CPU: 5}, {CPU: 5}),
        ({}, {CPU: 5, MEMORY: 7}, {CPU: 5, MEMORY: 7}),
        ({CPU: "3"}, {CPU: 5}, {CPU: 3}),
        ({CPU: "3"}, {MEMORY: 5}, {MEMORY: 5, CPU: 3}),
        ({CPU: "0"}, {CPU: 5}, {CPU: 0}),
        ({CPU: "3"}, {}, {CPU: 3}),
        ({CPU: None}, {CPU: 5}, {CPU: 5}),
        (None, {CPU: BAD}, {CPU: BAD}),
        ({CPU: "3"}, {CPU: BAD}, {CPU: 3}),
        ({CPU: "x"}, {CPU: 5}, {CPU: sentence(CPU, "'x'", f"{MILLI} 500")}),
        ({CPU: "6"}, {CPU: 5}, {CPU: sentence(CPU, "'6'", "at most the limit, which is 5")}),
    ],
)
def test_requests_default_to_limits(
    stated: object, limits: dict[str, int | Gap], requests: dict[str, int | Gap]
) -> None:
    assert read_requests(None if stated is None else field(stated), limits) == requests


def test_requests_like_the_limits_are_the_limits() -> None:
    limits = read_amounts(field({CPU: "5"}))
    assert read_requests(None, limits) is limits
    assert read_requests(field({CPU: 5}), limits) is limits


@given(st.integers(0, LARGEST))
def test_every_whole_number_reads_back(number: int) -> None:
    assert read_amounts(field({CPU: str(number)})) == {CPU: number}
    assert read_amounts(field({CPU: number})) == {CPU: number}


@given(st.integers(1, 10**15))
def test_what_the_sentence_says_to_write_can_be_written(milli: int) -> None:
    """A part of a CPU is refused with the number of milliCPU that was meant."""
    found = read_amounts(field({CPU: f"{milli}m"}))[CPU]
    if milli % 1000:
        assert isinstance(found, Gap)
        meant = found.reason.rpartition(" ")[2]
        assert read_amounts(field({CPU: meant})) == {CPU: milli}
    else:
        assert found == milli // 1000


@given(st.sampled_from([CPU, MEMORY, OTHER]), ANYTHING)
def test_any_amount_is_a_number_or_one_line(name: str, value: object) -> None:
    for found in read_amounts(field({name: value})).values():
        if isinstance(found, Gap):
            assert found.reason.isprintable()
        else:
            assert 0 <= found <= LARGEST


@given(st.dictionaries(st.text(max_size=5) | st.integers(), ANYTHING) | ANYTHING)
def test_any_mapping_reads_or_is_refused(value: object) -> None:
    try:
        found = read_amounts(field(value))
    except InvalidError as error:
        assert str(error).isprintable()
    else:
        assert all("/" in name for name in found)
