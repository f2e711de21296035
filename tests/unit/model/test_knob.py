"""The knob table and how its values are spelled."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.cgroup import CgroupController, CgroupRef, CgroupVersion, Level
from slackwater.model.cpus import LARGEST_CPU, CpuSet
from slackwater.model.gap import Gap
from slackwater.model.knob import (
    BURST,
    CPU_QOS_LEVEL,
    CPUS,
    IDLE,
    KNOBS,
    LARGEST_QUOTA,
    MEMORY_HIGH,
    MEMORY_LOW,
    MEMORY_MAX,
    MEMORY_MIN,
    MEMORY_QOS_LEVEL,
    QUOTA,
    WEIGHT,
    Encoding,
    Knob,
    KnobFile,
    KnobValue,
)
from slackwater.model.knob_text import KnobRangeError, decode, encode, settle_in_file, whole_number
from slackwater.model.snapshot import WritePrecision
from slackwater.model.units import UNLIMITED, Bandwidth, Micros

V1, V2 = CgroupVersion.V1, CgroupVersion.V2


def names(knob: Knob) -> tuple[str | None, str | None]:
    return (knob.v1.name if knob.v1 else None, knob.v2.name if knob.v2 else None)


@pytest.mark.parametrize(
    ("knob", "v1", "v2"),
    [
        (WEIGHT, "cpu.shares", "cpu.weight"),
        (QUOTA, "cpu.cfs_quota_us", "cpu.max"),
        (BURST, "cpu.cfs_burst_us", "cpu.max.burst"),
        (MEMORY_MAX, "memory.limit_in_bytes", "memory.max"),
        (MEMORY_HIGH, None, "memory.high"),
        (MEMORY_LOW, None, "memory.low"),
        (MEMORY_MIN, None, "memory.min"),
        (IDLE, "cpu.idle", "cpu.idle"),
        (CPUS, "cpuset.cpus", "cpuset.cpus"),
        (CPU_QOS_LEVEL, "cpu.qos_level", "cpu.qos_level"),
        (MEMORY_QOS_LEVEL, "memory.qos_level", "memory.qos_level"),
    ],
)
def test_every_row_of_the_seeds_mapping(knob: Knob, v1: str | None, v2: str | None) -> None:
    assert names(knob) == (v1, v2)
    assert knob in KNOBS


def test_names_are_unique_and_disturbed_knobs_exist() -> None:
    known = [knob.name for knob in KNOBS]
    assert len(set(known)) == len(known)
    assert all(knob.disturbs in (None, *known) for knob in KNOBS)


def test_a_knob_without_a_v1_face_says_so() -> None:
    assert MEMORY_HIGH.file(V1) == Gap("memory-high does not exist on cgroup v1")


@pytest.mark.parametrize(
    ("knob", "version", "value", "text"),
    [
        (QUOTA, V1, Bandwidth(Micros(50_000)), "50000 100000"),
        (QUOTA, V1, Bandwidth(UNLIMITED), "-1 100000"),
        (QUOTA, V2, Bandwidth(Micros(200_000)), "200000 100000"),
        (QUOTA, V2, Bandwidth(UNLIMITED), "max 100000"),
        (QUOTA, V2, Bandwidth(Micros(1_000), Micros(10_000)), "1000 10000"),
        (WEIGHT, V1, 2, "2"),
        (WEIGHT, V2, 10_000, "10000"),
        (BURST, V1, 0, "0"),
        (BURST, V2, 100_000, "100000"),
        (IDLE, V2, True, "1"),
        (IDLE, V1, False, "0"),
        (CPUS, V1, CpuSet.of([0, 1, 4]), "0-1,4"),
        (CPUS, V2, CpuSet(), ""),
        (MEMORY_MAX, V1, UNLIMITED, "-1"),
        (MEMORY_MAX, V2, UNLIMITED, "max"),
        (MEMORY_MAX, V2, 10_737_418_240, "10737418240"),
        (MEMORY_LOW, V2, 0, "0"),
        (CPU_QOS_LEVEL, V1, -1, "-1"),
        (MEMORY_QOS_LEVEL, V2, 0, "0"),
    ],
)
def test_spelling(knob: Knob, version: CgroupVersion, value: KnobValue, text: str) -> None:
    assert encode(knob, version, value) == text
    assert decode(knob, version, text + "\n") == value


@pytest.mark.parametrize(
    ("knob", "version", "value", "sentence"),
    [
        (QUOTA, V2, Bandwidth(Micros(999)), "quota (cpu.max) is 999; it must lie in 1000.."),
        (QUOTA, V1, 50_000, "50000 is no value for quota"),
        (WEIGHT, V1, 1, "weight (cpu.shares) is 1; it must lie in 2..262144"),
        (WEIGHT, V2, 10_001, "weight (cpu.weight) is 10001; it must lie in 1..10000"),
        (WEIGHT, V2, UNLIMITED, "weight (cpu.weight) has no unlimited value"),
        (BURST, V2, -1, "burst (cpu.max.burst) is -1; it must lie in 0.."),
        (IDLE, V2, 2, "2 is no value for idle"),
        (CPUS, V2, 3, "3 is no value for cpus"),
        (MEMORY_HIGH, V1, 4096, "memory-high does not exist on cgroup v1"),
        (CPU_QOS_LEVEL, V2, 3, "cpu-qos-level (cpu.qos_level) is 3; it must lie in -1..2"),
    ],
)
def test_what_the_kernel_would_refuse_or_clamp_is_refused_here(
    knob: Knob, version: CgroupVersion, value: KnobValue, sentence: str
) -> None:
    with pytest.raises(KnobRangeError) as caught:
        encode(knob, version, value)
    assert str(caught.value).startswith(sentence)


def test_v1_shows_no_memory_limit_as_a_huge_number() -> None:
    assert decode(MEMORY_MAX, V1, "9223372036854771712\n") is UNLIMITED
    assert decode(MEMORY_MAX, V1, "9223372036854710272\n") is UNLIMITED  # 64 KiB pages


@pytest.mark.parametrize(
    ("knob", "text"),
    [
        (QUOTA, ""),
        (QUOTA, "max 0"),
        (QUOTA, "max -5"),
        (QUOTA, "1 2 3"),
        (QUOTA, "many 100000"),
        (WEIGHT, "max"),
        (WEIGHT, "1 2"),
        (WEIGHT, "٣"),
        (WEIGHT, "1_0"),
        (IDLE, "2"),
        (CPUS, "0-"),
        (MEMORY_MAX, "9" * 30),
    ],
)
def test_garbage_is_a_gap_that_quotes_it(knob: Knob, text: str) -> None:
    found = decode(knob, V2, text)
    assert isinstance(found, Gap)
    assert repr(text) in found.reason


def values(knob: Knob, file: KnobFile) -> st.SearchStrategy[Any]:
    number = st.integers(file.low, file.high)
    unlimited = st.just(UNLIMITED) if file.unlimited else st.nothing()
    match knob.encoding:
        case Encoding.BANDWIDTH:
            limit = st.integers(file.low, LARGEST_QUOTA) | unlimited
            return st.builds(Bandwidth, limit, st.integers(1_000, 1_000_000))
        case Encoding.CPU_LIST:
            return st.frozensets(st.integers(0, LARGEST_CPU), max_size=20).map(CpuSet.of)
        case Encoding.FLAG:
            return st.booleans()
        case Encoding.PAGES:
            # Above this v1 cannot tell a limit from none.
            return st.integers(0, 2**62) | unlimited
        case Encoding.NUMBER:
            return number


FACES = [(k, v, f) for k in KNOBS for v, f in ((V1, k.v1), (V2, k.v2)) if f is not None]


@given(st.data())
def test_decode_undoes_encode(data: st.DataObject) -> None:
    knob, version, file = data.draw(st.sampled_from(FACES))
    value = data.draw(values(knob, file))
    assert decode(knob, version, encode(knob, version, value) + "\n") == value


@given(st.sampled_from(FACES), st.text(max_size=200))
def test_any_text_decodes_to_a_value_or_a_gap(
    face: tuple[Knob, CgroupVersion, KnobFile], text: str
) -> None:
    knob, version, _ = face
    found = decode(knob, version, text)
    if not isinstance(found, Gap | Bandwidth | CpuSet):
        assert isinstance(found, int) or found is UNLIMITED


def test_a_megabyte_of_digits_is_no_number() -> None:
    assert isinstance(decode(WEIGHT, V2, "9" * 10**6), Gap)
    assert whole_number("9" * 21) is None
    assert whole_number("-17") == -17


@pytest.mark.parametrize("page", [4096, 16384, 65536])
def test_memory_settles_on_whole_pages(page: int) -> None:
    assert settle_in_file(MEMORY_MAX, 10 * page + 1, page) == 10 * page
    assert settle_in_file(MEMORY_MAX, UNLIMITED, page) is UNLIMITED
    assert settle_in_file(MEMORY_MAX, 2**63 - page, page) is UNLIMITED
    assert settle_in_file(MEMORY_MAX, 2**63 - page - 1, page) == 2**63 - 2 * page
    assert settle_in_file(WEIGHT, 4097, page) == 4097


def test_only_the_memory_and_cpu_controllers_hold_quota_weight_and_limits() -> None:
    assert {knob.controller for knob in KNOBS} == {
        CgroupController.CPU,
        CgroupController.CPUSET,
        CgroupController.MEMORY,
    }


def test_memory_settles_on_whole_pages_through_a_unit_too() -> None:
    """systemd hands bytes on as they are; 90 % of 64 MiB are no whole pages."""
    precision = WritePrecision(page_size=4096, unit_knobs=frozenset({"memory-high"}))
    scope = CgroupRef("a.slice/b.scope", 7, Level.CONTAINER)
    assert precision.settle(scope, MEMORY_HIGH, 60_397_977) == 60_395_520
