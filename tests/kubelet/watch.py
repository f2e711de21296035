"""Watches one quota, sample by sample, while others write it.

Owns the samples and the spans in which no limit stood. Judges nothing.
"""

import itertools
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

SAMPLE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Sample:
    """`at` is CLOCK_MONOTONIC, which the agent's journal uses too; all processes share it."""

    at: float
    text: str

    @property
    def is_unlimited(self) -> bool:
        return self.text.startswith("max")


@dataclass(frozen=True, slots=True)
class Span:
    """From the first sample without a limit to the first one with a limit again."""

    begin: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.begin


class Watch:
    """Reads a cpu.max in a thread of its own, for as long as it is entered."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self.samples: list[Sample] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            self.samples.append(Sample(time.monotonic(), self._file.read_text().strip()))


def unlimited_spans(samples: Sequence[Sample]) -> list[Span]:
    """One that is still open at the end lasts to the last sample."""
    spans: list[Span] = []
    begin: float | None = None
    for sample in samples:
        if sample.is_unlimited and begin is None:
            begin = sample.at
        elif not sample.is_unlimited and begin is not None:
            spans.append(Span(begin, sample.at))
            begin = None
    if begin is not None:
        spans.append(Span(begin, samples[-1].at))
    return spans


def longest_pause(samples: Sequence[Sample]) -> float:
    """Seconds in which nobody looked."""
    times = [sample.at for sample in samples]
    return max(later - sooner for sooner, later in itertools.pairwise(times))
