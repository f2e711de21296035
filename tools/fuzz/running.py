"""Calls a reader with mutated inputs and judges what comes back.

A finding is an error that is not in the reader's contract, a sentence that could not be printed on
one line, or work out of proportion to the input: calls and memory are counted, on every hundredth
input, so that a slow machine changes nothing.
"""

import random
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import msgspec

from slackwater.model.gap import Gap
from slackwater.model.problem import InvalidError
from tools.fuzz.mutation import Mutator, size_of

#: One in so many inputs is counted.
_COUNTED = 100
_MOST_CALLS, _CALLS_PER_BYTE = 60_000, 120
#: A kubeconfig may have 8 MiB, and Python makes room for them first.
_MOST_MEMORY, _MEMORY_PER_BYTE = 10 << 20, 500
_LONGEST_SENTENCE = 16_000


class Reader(msgspec.Struct, frozen=True):
    """One row of the table. `make` mutates a seed; `covers` are the functions of src that it is
    about, by module and name."""

    name: str
    call: Callable[[Any], object]
    seeds: tuple[object, ...]
    make: Callable[[Mutator, Any], object]
    covers: tuple[str, ...]
    contract: tuple[type[BaseException], ...] = ()


class Finding(msgspec.Struct, frozen=True):
    """An input that broke a reader, and what it takes to make it again."""

    reader: str
    seed: int
    number: int
    told: str
    error: BaseException | None = None

    def __str__(self) -> str:
        return f"{self.told} (--replay {self.reader}:{self.seed}:{self.number})"


def input_of(reader: Reader, seed: int, number: int) -> object:
    """The same one for the same three."""
    chance = random.Random(f"{reader.name}/{seed}/{number}")  # noqa: S311 - no secret
    return reader.make(Mutator(chance), chance.choice(reader.seeds))


def run(reader: Reader, seed: int, numbers: range) -> Iterator[Finding]:
    for number in numbers:
        found = try_input(reader, seed, number)
        if found is not None:
            yield found


def try_input(reader: Reader, seed: int, number: int) -> Finding | None:
    counted = number % _COUNTED == 0
    value = input_of(reader, seed, number)
    size = size_of(value) if counted else 0
    try:
        if not counted:
            flaw = _flaw(_result(reader, value))
        else:
            with _counting() as count:
                result = _result(reader, value)
            flaw = _flaw(result) or count.flaw(size)
    except Exception as error:  # noqa: BLE001 - that is a finding
        return Finding(reader.name, seed, number, f"{type(error).__name__}: {error!a}"[:300], error)
    return Finding(reader.name, seed, number, flaw) if flaw else None


def _result(reader: Reader, value: object) -> object:
    try:
        return reader.call(value)
    except reader.contract as error:
        return error


def _flaw(result: object) -> str:
    """What is wrong with the sentence that a refusal is."""
    match result:
        case Gap(reason):
            sentence = reason
        case InvalidError():
            sentence = str(result)
        case _:
            return ""
    if len(sentence) > _LONGEST_SENTENCE:
        return f"a sentence of {len(sentence)} characters"
    try:
        sentence.encode()
    except UnicodeEncodeError:
        return f"a sentence that cannot be printed: {sentence!a}"[:300]
    return f"a sentence of several lines: {sentence!a}"[:300] if "\n" in sentence else ""


class _Count:
    """Guards the profiler's count of calls, and the peak of memory."""

    def __init__(self) -> None:
        self.calls = 0
        self.memory = 0

    def on_event(self, _frame: FrameType, event: str, _value: object) -> None:
        self.calls += event in ("call", "c_call")

    def flaw(self, size: int) -> str:
        if self.calls > _MOST_CALLS + _CALLS_PER_BYTE * size:
            return f"{self.calls} calls for an input of {size}"
        if self.memory > _MOST_MEMORY + _MEMORY_PER_BYTE * size:
            return f"{self.memory} bytes of memory for an input of {size}"
        return ""


@contextmanager
def _counting() -> Iterator[_Count]:
    count, before = _Count(), sys.getprofile()
    tracemalloc.start()
    sys.setprofile(count.on_event)
    try:
        yield count
    finally:
        sys.setprofile(before)
        count.memory = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
