"""CPU sets and topology."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.cpus import LARGEST_CPU, Cpu, CpuListError, CpuSet, Topology

SETS = st.frozensets(st.integers(0, LARGEST_CPU), max_size=40)


@pytest.mark.parametrize(
    ("text", "cpus", "formatted"),
    [
        ("", set(), ""),
        ("\n", set(), ""),
        ("0", {0}, "0"),
        ("0-3", {0, 1, 2, 3}, "0-3"),
        ("0-1\n", {0, 1}, "0-1"),
        ("0,2,4", {0, 2, 4}, "0,2,4"),
        ("3,1-2,0", {0, 1, 2, 3}, "0-3"),
        ("0-3,2-5", set(range(6)), "0-5"),
        ("0, 8-9", {0, 8, 9}, "0,8-9"),
        ("5-5", {5}, "5"),
        ("8191", {8191}, "8191"),
    ],
)
def test_list_format(text: str, cpus: set[int], formatted: str) -> None:
    found = CpuSet.parse(text)
    assert set(found) == cpus
    assert len(found) == len(cpus)
    assert found.format() == formatted


@pytest.mark.parametrize(
    "text", ["a", "-1", "1-", "-", "3-1", "0,,1", "0;1", "8192", "0-4294967295", "1.5", "٣", "0x1"]
)
def test_what_is_no_list_is_named(text: str) -> None:
    with pytest.raises(CpuListError, match="is not a CPU list"):
        CpuSet.parse(text)


@given(SETS)
def test_parse_undoes_format(cpus: frozenset[int]) -> None:
    assert CpuSet.parse(CpuSet.of(cpus).format()) == CpuSet.of(cpus)


@given(st.text())
def test_any_text_is_a_set_or_a_sentence(text: str) -> None:
    try:
        CpuSet.parse(text)
    except CpuListError as error:
        assert "CPU list" in str(error)


@given(SETS, SETS)
def test_algebra_agrees_with_python_sets(one: frozenset[int], other: frozenset[int]) -> None:
    a, b = CpuSet.of(one), CpuSet.of(other)
    assert set(a | b) == one | other
    assert set(a & b) == one & other
    assert set(a - b) == one - other
    assert a.within(b) == (one <= other)
    assert list(a) == sorted(one)
    assert all(cpu in a for cpu in one)
    assert all(cpu not in a for cpu in other - one)


#: Two packages of two cores of two threads; core ids repeat in the second package.
EIGHT = Topology(
    tuple(Cpu(n, core=n % 2, package=n // 2 % 2, node=n // 2 % 2) for n in range(8)),
)


def test_siblings_are_threads_of_one_core_in_one_package() -> None:
    assert EIGHT.siblings(0).format() == "0,4"
    assert EIGHT.siblings(7).format() == "3,7"


def test_topology_counts() -> None:
    assert EIGHT.all().format() == "0-7"
    assert EIGHT.cores() == 4
    assert EIGHT.packages() == 2
    assert EIGHT.nodes() == (0, 1)
