"""Days of an agent's life: whether it grows while pods, settings, policies and servers come and go.

Run: `.venv/bin/python benchmarks/soak.py [--days 7]`, in virtual time, on a kernel of files
(tests/unit/soak/virtual_node.py). A virtual day costs about 12 minutes of CPU, and five with
`--period 10`: the agent looks every ten seconds then, and pods come and go as fast. Or as root
`--real 2h`: the same in real time, on real cgroups, with a real API server.

A line for each virtual hour, or real minute; at the end one with the figures and their bars. Exit
code 0: held; 1: it grew, or could not be measured; 2: wrong usage.
"""

import argparse
import math
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from benchmarks._running import CannotMeasureError
from tests.unit.soak.footprint import take_footprint
from tests.unit.soak.virtual_node import VirtualNode, memory_folder

HOUR, DAY = 3600, 86_400
#: In MiB of resident memory a day, in descriptors.
BAR_GROWTH, BAR_DESCRIPTORS = 1.0, 0
#: Twice the live lines and 200 more, of some 250 bytes: 40 groups with seven knobs each.
BAR_LEDGER = 192 << 10
#: As many ticks as agent.keptTicks says.
BAR_JOURNAL = 60
#: What is learned, cached and queued has its size by then; memory that was freed is used again.
WARM_UP_HOURS = 6
_REAL_WARM_UP = 600
#: In less nothing shows but noise.
_SHORTEST_REAL = 1800
_DURATION = re.compile(r"([0-9]+)([smh])")
_UNITS = {"s": 1, "m": 60, "h": HOUR}


class Sample(msgspec.Struct, frozen=True):
    """One moment: seconds since the start, MiB, and what the agent holds."""

    at: int
    resident: float
    descriptors: int
    ledger: int
    journal: int = 0


class SoakResult(msgspec.Struct, frozen=True):
    """What the samples after the warm-up say."""

    seconds: int
    growth: float
    descriptors: int
    ledger: int
    journal: int

    def held(self) -> bool:
        grew = self.growth > BAR_GROWTH or self.descriptors > BAR_DESCRIPTORS
        return not grew and self.ledger <= BAR_LEDGER and self.journal <= BAR_JOURNAL

    def line(self) -> str:
        return (
            f"soak: {self.seconds / DAY:.2f} days, a pod a second: "
            f"RSS {self.growth:+.2f} MiB a day (at most {BAR_GROWTH:g}), "
            f"descriptors {self.descriptors:+d} (at most {BAR_DESCRIPTORS:+d}), "
            f"ledger {self.ledger / 1024:.0f} KiB (at most {BAR_LEDGER >> 10}), "
            f"journal {self.journal} ticks (at most {BAR_JOURNAL}): "
            f"{'held' if self.held() else 'MISSED'}"
        )


def growth_of(samples: Sequence[Sample]) -> float:
    """MiB a day, by the line through the samples. A peak that was there for a moment, as while a
    list is read, counts as little as any other one."""
    if len(samples) < 2:
        return math.inf
    points = [each.at / DAY for each in samples], [each.resident for each in samples]
    return statistics.linear_regression(*points).slope


def result_of(samples: Sequence[Sample], warm_up: int) -> SoakResult:
    """By the samples after the warm-up."""
    warm = [each for each in samples if each.at >= warm_up]
    if len(warm) < 2:
        return SoakResult(samples[-1].at if samples else 0, math.inf, 0, 0, 0)
    return SoakResult(
        seconds=warm[-1].at,
        growth=growth_of(warm),
        descriptors=warm[-1].descriptors - warm[0].descriptors,
        ledger=max(each.ledger for each in warm),
        journal=max(each.journal for each in warm),
    )


def resident_of(pid: int | str) -> float:
    """In MiB."""
    text = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(text) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def soak_virtually(hours: int, period: int) -> Iterator[Sample]:
    """A sample for each virtual hour, printed as it comes."""
    with memory_folder() as folder, pytest.MonkeyPatch.context() as patch:
        node = VirtualNode(folder, patch, period)
        for hour in range(1, hours + 1):
            began, told = time.process_time(), node.told
            node.run(HOUR)
            seen = take_footprint(node)
            sample = Sample(
                node.seconds,
                resident_of("self"),
                seen.descriptors,
                seen.ledger_bytes,
                seen.journal_ticks,
            )
            cost = 1000 * (time.process_time() - began) / HOUR
            print(
                f"hour {hour:>4}  RSS {sample.resident:7.2f} MiB  blocks {seen.blocks:>8}  "
                f"descriptors {seen.descriptors:>4}  ledger {seen.ledger_bytes:>7} B  "
                f"told {node.told - told:>6}  {cost:5.1f} ms of CPU a second",
                flush=True,
            )
            yield sample
        node.end()


def soak_really(seconds: int) -> Iterator[Sample]:
    """A sample for each minute."""
    from benchmarks._soak_on_cgroups import real_node

    with tempfile.TemporaryDirectory() as folder, real_node(folder) as node:
        while node.seconds < seconds:
            node.run(60)
            sample = Sample(
                node.seconds, resident_of(node.agent.pid), node.agent.descriptors(), node.ledger()
            )
            print(
                f"minute {node.seconds // 60:>4}  RSS {sample.resident:6.2f} MiB  "
                f"descriptors {sample.descriptors:>4}  ledger {sample.ledger:>7} B  "
                f"pods {node.pods:>5}  told {node.agent.lines():>7}",
                flush=True,
            )
            yield sample


def seconds_in(text: str) -> int:
    """Of 7200s, 30m or 2h."""
    found = _DURATION.fullmatch(text)
    seconds = int(found[1]) * _UNITS[found[2]] if found else 0
    if seconds < _SHORTEST_REAL:
        sentence = f"{text!r} is no duration of half an hour or more, such as 30m or 2h"
        raise argparse.ArgumentTypeError(sentence)
    return seconds


def _days(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not WARM_UP_HOURS / 24 < found <= 365:
        sentence = f"{text!r} is no number of days from {(WARM_UP_HOURS + 2) / 24:.2f} to 365"
        raise argparse.ArgumentTypeError(sentence)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--days", type=_days, default=1.0, help="virtual ones; default 1")
    parser.add_argument("--real", type=seconds_in, metavar="DURATION", help="in real time: 30m, 2h")
    parser.add_argument(
        "--period", type=int, default=1, choices=(1, 2, 5, 10), help="seconds of a tick; default 1"
    )
    said = parser.parse_args()
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}", flush=True)
    samples: list[Sample] = []
    try:
        if said.real:
            samples.extend(soak_really(said.real))
        else:
            samples.extend(soak_virtually(math.ceil(said.days * 24), said.period))
    except CannotMeasureError as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("soak: ended early; what was measured so far:", file=sys.stderr)
    warm_up = _REAL_WARM_UP if said.real else WARM_UP_HOURS * HOUR
    result = result_of(samples, warm_up)
    print(result.line())
    return 0 if result.held() else 1


if __name__ == "__main__":
    sys.exit(main())
