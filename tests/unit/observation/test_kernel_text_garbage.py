"""Every parser on random bytes, on damaged real texts and on megabytes: values or Gaps, in time."""

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slackwater.model.gap import Gap
from slackwater.observation import kernel_text
from tests.unit.observation.kernel_texts import (
    ARM_CPUINFO,
    PRESSURE,
    PROC_STAT,
    STAT_V1,
    STAT_V2,
    X86_CPUINFO,
)

Parser = Callable[[bytes], object]
PARSERS: dict[str, tuple[Parser, bytes]] = {
    "stat v1": (lambda text: kernel_text.times_v1(text, b"1000\n"), STAT_V1),
    "usage beside stat v1": (lambda text: kernel_text.times_v1(STAT_V1, text), b"1000\n"),
    "stat v2": (kernel_text.times_v2, STAT_V2),
    "usage v1": (kernel_text.usage_v1, b"6021093211\n"),
    "usage v2": (kernel_text.usage_v2, STAT_V2),
    "pressure": (kernel_text.pressure, PRESSURE),
    "ticks": (kernel_text.ticks, PROC_STAT),
    "x86 processor": (kernel_text.processor, X86_CPUINFO),
    "arm64 processor": (kernel_text.processor, ARM_CPUINFO),
    "number": (lambda text: kernel_text.number("core_id", text), b"-1\n"),
    "flag": (lambda text: kernel_text.flag("smt/active", text), b"1\n"),
    "cpu list": (lambda text: kernel_text.cpu_list("online", text), b"0-3,8\n"),
}
each_parser = pytest.mark.parametrize(
    ("parse", "real"), [pytest.param(*row, id=name) for name, row in PARSERS.items()]
)


@each_parser
def test_the_real_text_is_no_gap(parse: Parser, real: bytes) -> None:
    assert not isinstance(parse(real), Gap)


@each_parser
@given(text=st.binary(max_size=300))
@example(text=b"\x00" * 50)
@example(text=b"\xff\xfe" * 50)
@example(text=b"\n" * 300)
def test_random_bytes_raise_nothing(parse: Parser, real: bytes, text: bytes) -> None:
    parse(text)


@each_parser
@given(data=st.data())
def test_mutated_real_texts_raise_nothing(parse: Parser, real: bytes, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(real)))
    end = data.draw(st.integers(start, min(start + 20, len(real))))
    inserted = data.draw(st.one_of(st.binary(max_size=20), st.text(max_size=9).map(str.encode)))
    parse(real[:start] + inserted + real[end:])


@each_parser
@pytest.mark.parametrize(
    "unit",
    [b"9", b" ", b"\n", b"a 1\n", b"cpu 1 2 3 4\n", b"0,", b"some ", b"model name: x\n", b"a" * 39],
)
def test_megabytes_are_looked_at_within_a_bound(parse: Parser, real: bytes, unit: bytes) -> None:
    text = unit * (8_000_000 // len(unit))
    parse(text)


@each_parser
@given(text=st.binary(min_size=60, max_size=5000))
def test_a_gap_quotes_at_most_forty_characters(parse: Parser, real: bytes, text: bytes) -> None:
    match parse(text):
        case Gap(reason):
            # repr() may show one byte as \x00; the words around the quote are fewer than 60.
            assert len(reason) <= 60 + 40 * 4
