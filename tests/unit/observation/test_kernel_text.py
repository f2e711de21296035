"""Kernel text into numbers: texts of real kernels, and the laws behind them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.cgroup import CpuPressure, CpuTimes, PressureLine
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import Gap
from slackwater.model.machine import CpuTicks, MachineTicks, Processor
from slackwater.model.units import Micros
from slackwater.observation import kernel_text
from tests.unit.observation.kernel_texts import (
    ARM_CPUINFO,
    PRESSURE,
    PROC_STAT,
    STAT_V1,
    STAT_V1_OLD,
    STAT_V2,
    STAT_V2_BARE,
    X86_CPUINFO,
)


def test_cpu_stat_of_v1_is_in_nanoseconds() -> None:
    assert kernel_text.times_v1(STAT_V1, b"6021093999\n") == CpuTimes(
        usage=Micros(6021093),
        periods=71,
        throttled_periods=70,
        throttled=Micros(13345261),
        bursts=3,
        burst_time=Micros(4000),
    )


def test_an_old_kernel_has_no_bursts() -> None:
    assert kernel_text.times_v1(STAT_V1_OLD, b"0\n") == CpuTimes(
        Micros(0), periods=5, throttled_periods=1, throttled=Micros(90)
    )


def test_cpu_stat_of_v2_is_in_microseconds() -> None:
    assert kernel_text.times_v2(STAT_V2) == CpuTimes(
        usage=Micros(1003581),
        periods=21,
        throttled_periods=20,
        throttled=Micros(3991532),
        bursts=1,
        burst_time=Micros(1234),
    )


def test_without_the_cpu_controller_there_is_the_usage_alone() -> None:
    assert kernel_text.times_v2(STAT_V2_BARE) == CpuTimes(Micros(77))
    assert kernel_text.usage_v2(STAT_V2_BARE) == 77


@pytest.mark.parametrize(
    "stat",
    [
        b"",
        b"\n",
        b"usage_usec\n",
        b"usage_usec -5\n",
        b"usage_usec 5.0\n",
        b"usage_usec 1_000\n",
        b"usage_usec 0x10\n",
        "usage_usec \u0663\n".encode(),
        b"user_usec 5\nsystem_usec 6\n",
        b"usage_usec 5 nr_periods\n",
        b"usage_usec 999999999999999999999\n",
        STAT_V1,
    ],
)
def test_what_is_no_cpu_stat_of_v2_is_a_gap(stat: bytes) -> None:
    assert isinstance(kernel_text.times_v2(stat), Gap)
    assert isinstance(kernel_text.usage_v2(stat), Gap)


@pytest.mark.parametrize("stat", [b"", b"nr_throttled 4\n", b"nr_periods x\n", STAT_V2_BARE])
def test_what_is_no_cpu_stat_of_v1_is_a_gap(stat: bytes) -> None:
    assert isinstance(kernel_text.times_v1(stat, b"1\n"), Gap)


@pytest.mark.parametrize("usage", [b"", b"-1\n", b"1 2\n", b"max\n", b"1e9\n"])
def test_what_is_no_cpuacct_usage_is_a_gap(usage: bytes) -> None:
    assert isinstance(kernel_text.times_v1(STAT_V1, usage), Gap)


def test_pressure_is_in_hundredths_of_a_percent() -> None:
    assert kernel_text.pressure(PRESSURE) == CpuPressure(
        some=PressureLine(215, 1207, 10_000, Micros(13479353)),
        full=PressureLine(0, 1, 10, Micros(9)),
    )


def test_before_linux_5_13_cpu_pressure_has_no_full_line() -> None:
    some = PRESSURE.splitlines(keepends=True)[0]
    assert kernel_text.pressure(some) == CpuPressure(
        PressureLine(215, 1207, 10_000, Micros(13479353))
    )


@pytest.mark.parametrize(
    "text",
    [
        b"",
        PRESSURE.replace(b"some", b"none"),
        PRESSURE.replace(b"some", b"full"),
        PRESSURE.replace(b"2.15", b"2"),
        PRESSURE.replace(b"2.15", b"-2.15"),
        PRESSURE.replace(b" total=9", b""),
        PRESSURE + b"more\n",
    ],
)
def test_what_is_no_pressure_is_a_gap(text: bytes) -> None:
    assert isinstance(kernel_text.pressure(text), Gap)


def test_guest_time_is_not_counted_twice() -> None:
    found = kernel_text.ticks(PROC_STAT)
    assert isinstance(found, MachineTicks)
    assert found.total == CpuTicks(16725, 3, 3799, 179099, 473, 1, 109, 27)
    assert found.total.busy() == 16725 + 3 + 3799 + 1 + 109
    assert sorted(found.each) == [0, 1]
    assert found.total.busy() == sum(ticks.busy() for ticks in found.each.values())


def test_a_cut_line_of_proc_stat_is_left_out() -> None:
    found = kernel_text.ticks(PROC_STAT[: PROC_STAT.index(b"88100") + 3])
    assert isinstance(found, MachineTicks)
    assert sorted(found.each) == [0]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"cpu  1 2 3 4",
        b"cpu  1 2 3\n",
        b"cpu  1 2 -3 4\n",
        b"cpu0 1 2 3 4\n",
        b"cpu  1 2 3 4\ncpu0 1 x 3 4\n",
        b"intr 5\ncpu 1 2 3 4\n",
    ],
)
def test_what_is_no_proc_stat_is_a_gap(text: bytes) -> None:
    assert isinstance(kernel_text.ticks(text), Gap)


def test_an_x86_processor_has_names() -> None:
    assert kernel_text.processor(X86_CPUINFO) == Processor(
        "Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz", "GenuineIntel"
    )


@pytest.mark.parametrize(
    ("implementer", "part", "model", "vendor"),
    [
        ("0x41", "0xd0c", "ARM Neoverse-N1", "ARM"),
        ("0x6d", "0xd49", "Microsoft Azure-Cobalt-100", "Microsoft"),
        ("0xc0", "0xac3", "Ampere Ampere-1", "Ampere"),
        ("0x41", "0xfff", "ARM part 0xfff", "ARM"),
        ("0x07", "0x003", "implementer 0x07 part 0x003", "implementer 0x07"),
    ],
)
def test_an_arm64_processor_has_ids(implementer: str, part: str, model: str, vendor: str) -> None:
    text = ARM_CPUINFO.replace(b"0x41", implementer.encode()).replace(b"0xd0c", part.encode())
    assert kernel_text.processor(text) == Processor(model, vendor)


def test_a_processor_without_a_vendor_has_an_unknown_one() -> None:
    assert kernel_text.processor(b"model name\t: only a model\n") == Processor(
        "only a model", "unknown"
    )


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"processor : 0\n",
        ARM_CPUINFO.replace(b"0xd0c", b"0xdonkey"),
        ARM_CPUINFO.replace(b"0x41", b"-1"),
        ARM_CPUINFO.replace(b"0x41", b"0x" + b"4" * 100),
    ],
)
def test_an_unnamed_processor_is_a_gap(text: bytes) -> None:
    assert isinstance(kernel_text.processor(text), Gap)


def test_lists_numbers_and_flags() -> None:
    assert kernel_text.cpu_list("online", b"0-3,8\n") == CpuSet.of((0, 1, 2, 3, 8))
    assert kernel_text.cpu_list("cpulist", b"\n") == CpuSet()
    assert kernel_text.number("core_id", b"-1\n") == -1
    assert kernel_text.flag("no_turbo", b"0\n") is False
    assert isinstance(kernel_text.flag("no_turbo", b"2\n"), Gap)


counters = st.integers(0, 2**63 - 1)


@given(usage=counters, periods=counters, throttled=counters, stopped=st.integers(0, 2**50))
def test_v1_and_v2_tell_the_same(usage: int, periods: int, throttled: int, stopped: int) -> None:
    common = f"nr_periods {periods}\nnr_throttled {throttled}\n"
    v1 = kernel_text.times_v1(
        f"{common}throttled_time {stopped * 1000 + 999}\n".encode(), f"{usage}\n".encode()
    )
    v2 = kernel_text.times_v2(
        f"usage_usec {usage // 1000}\n{common}throttled_usec {stopped}\n".encode()
    )
    assert v1 == v2
    assert v1 == CpuTimes(Micros(usage // 1000), periods, throttled, Micros(stopped))


@given(st.lists(st.tuples(st.integers(0, 10_000), counters), min_size=2, max_size=2))
def test_pressure_as_the_kernel_prints_it_comes_back(lines: list[tuple[int, int]]) -> None:
    (some, stalled), (full, fully) = lines
    text = "".join(
        f"{kind} avg10={a // 100}.{a % 100:02} avg60=0.00 avg300=1.50 total={total}\n"
        for kind, a, total in (("some", some, stalled), ("full", full, fully))
    )
    assert kernel_text.pressure(text.encode()) == CpuPressure(
        PressureLine(some, 0, 150, Micros(stalled)), PressureLine(full, 0, 150, Micros(fully))
    )


@given(st.lists(st.lists(counters, min_size=8, max_size=8), min_size=1, max_size=9))
def test_proc_stat_as_the_kernel_prints_it_comes_back(rows: list[list[int]]) -> None:
    heads = ["cpu ", *(f"cpu{number}" for number in range(len(rows) - 1))]
    text = "".join(
        f"{head} {' '.join(map(str, row))} 0 0\n" for head, row in zip(heads, rows, strict=True)
    )
    assert kernel_text.ticks((text + "intr 1 2\n").encode()) == MachineTicks(
        CpuTicks(*rows[0]), {number: CpuTicks(*row) for number, row in enumerate(rows[1:])}
    )
