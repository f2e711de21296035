"""Lines on stdout: the time first, in order, and no reader can stall the agent."""

import json
import os
import threading
import time
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.cli.json_lines import QUEUE_SIZE, JsonLinesWriter, clock_offset, encode_line
from slackwater.model.units import Micros
from slackwater.record.journal import JournalEntry

EPOCH = Micros(1_794_894_069_123_456)


class Pipe:
    """Stdout, and who reads it."""

    def __init__(self) -> None:
        self.ear, self.mouth = os.pipe()
        self._open = {"ear", "mouth"}
        self.lines = JsonLinesWriter(self.mouth, lambda: Micros(7))

    def fill(self) -> int:
        """Until no more fits: how many bytes that was."""
        os.set_blocking(self.mouth, False)
        count = 0
        try:
            while True:
                count += os.write(self.mouth, b" " * 4096)
        except BlockingIOError:
            os.set_blocking(self.mouth, True)
        return count

    def close(self, name: str) -> None:
        """Once: a number that was given back may be somebody else's by now."""
        if name in self._open:
            self._open.remove(name)
            os.close(getattr(self, name))

    def read_lines(self) -> list[dict[str, object]]:
        """All that was said, once nobody says any more."""
        self.close("mouth")
        return _drain(self.ear)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.close("ear")  # a writer that is stuck is told so, and ends
    made.lines.close(3600)
    made.close("mouth")


def entry(number: int) -> JournalEntry:
    return JournalEntry(number, Micros(number), "quota of kubepods/besteffort")


@pytest.mark.parametrize(
    ("at", "base", "stamp"),
    [
        (0, EPOCH, "2026-11-17T05:41:09.123Z"),
        (877_000, EPOCH, "2026-11-17T05:41:10.000Z"),
        (0, Micros(0), "1970-01-01T00:00:00.000Z"),
    ],
)
def test_the_time_of_day_comes_first(at: int, base: Micros, stamp: str) -> None:
    line = encode_line(JournalEntry(1, Micros(at), "survey", because="gone"), base)
    said = {"time": stamp, "tick": 1, "at": at, "what": "survey", "because": "gone"}
    assert line == msgspec.json.encode(said) + b"\n"


def test_the_offset_leads_to_now() -> None:
    now = time.monotonic_ns() // 1000 + clock_offset()
    assert abs(now - time.time_ns() // 1000) < 1_000_000


@given(st.text(), st.text(), st.integers(0, 2**40))
def test_one_object_a_line(what: str, because: str, at: int) -> None:
    line = encode_line(JournalEntry(1, Micros(at), what, because=because), EPOCH)
    assert line.count(b"\n") == 1
    assert list(json.loads(line))[:4] == ["time", "tick", "at", "what"]


def test_all_lines_in_their_order(pipe: Pipe) -> None:
    for number in range(50):
        pipe.lines.write(entry(number))
    pipe.lines.close(3600)
    assert [line["tick"] for line in pipe.read_lines()] == list(range(50))


def test_a_reader_that_stalls_stalls_nobody_and_hears_what_it_missed(pipe: Pipe) -> None:
    stuffing = pipe.fill()
    pipe.lines.write(entry(0))
    _wait_until_empty(pipe.lines)  # it is on its way, and stuck
    for number in range(1, 2 * QUEUE_SIZE):  # would block for ever
        pipe.lines.write(entry(number))
    assert os.read(pipe.ear, stuffing)
    reader = threading.Thread(target=lambda: heard.extend(_drain(pipe.ear)))
    heard: list[dict[str, object]] = []
    reader.start()
    pipe.lines.close(3600)
    pipe.close("mouth")
    reader.join()
    ticks = [int(str(line["tick"])) for line in heard if line["what"] != "stdout"]
    assert ticks == list(range(len(ticks)))  # the oldest, without a hole
    assert len(ticks) == QUEUE_SIZE + 1
    missed = 2 * QUEUE_SIZE - len(ticks)
    assert heard[-1]["because"] == f"{missed} lines were dropped here: stdout was not read"


def _drain(ear: int) -> list[dict[str, object]]:
    read = b""
    while chunk := os.read(ear, 65_536):
        read += chunk
    return [json.loads(line) for line in read.split(b"\n") if line.strip()]


def test_what_was_missed_is_told_where_it_is_missing(pipe: Pipe) -> None:
    stuffing = pipe.fill()
    for number in range(QUEUE_SIZE + 10):
        pipe.lines.write(entry(number))
    heard: list[dict[str, object]] = []
    assert os.read(pipe.ear, stuffing)
    reader = threading.Thread(target=lambda: heard.extend(_drain(pipe.ear)))
    reader.start()
    _wait_until_empty(pipe.lines)
    pipe.lines.write(entry(9_999))
    pipe.lines.close(3600)
    pipe.close("mouth")
    reader.join()
    at = [line["what"] for line in heard].index("stdout")
    # A writer that woke up late made room for some of the last: the hole is before those.
    ticks = [int(str(line["tick"])) for line in heard[:at] + heard[at + 1 :]]
    assert ticks[:at] == list(range(at))
    assert ticks[at] > at
    assert ticks == sorted(ticks)
    assert ticks[-1] == 9_999


def _wait_until_empty(lines: JsonLinesWriter) -> None:
    while lines._waiting:
        time.sleep(0.01)


def test_the_end_does_not_wait_for_a_reader_that_is_gone_astray(pipe: Pipe) -> None:
    pipe.fill()
    pipe.lines.write(entry(1))
    pipe.lines.close(0.2)


def test_a_log_that_cannot_be_written_is_told_once(
    pipe: Pipe, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe.close("ear")
    for number in range(20):
        pipe.lines.write(entry(number))
    pipe.lines.close(3600)
    assert capsys.readouterr().err == "slackwater: no more entries on stdout: Broken pipe\n"


def test_a_full_disk_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    lines = JsonLinesWriter(full, lambda: Micros(7))
    for number in range(20):
        lines.write(entry(number))
    lines.close(3600)
    os.close(full)
    said = capsys.readouterr().err
    assert said == "slackwater: no more entries on stdout: No space left on device\n"


def test_many_threads_may_tell(pipe: Pipe) -> None:
    def tell_all() -> None:
        for each in range(40):
            pipe.lines.write(entry(each))

    threads = [threading.Thread(target=tell_all) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pipe.lines.close(3600)
    assert sorted(str(line["tick"]) for line in pipe.read_lines()) == sorted(
        str(number) for number in range(40) for _ in range(5)
    )
