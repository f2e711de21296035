"""Measures: runs kernels in processes that are pinned to a CPU each, in slices, in turns.

Kernels and modes alternate from slice to slice, so that a machine that slows down meanwhile slows
all of them alike. A process for each CPU: threads of one interpreter would share its lock.
"""

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

import msgspec

from slackwater.calibration.kernels import KERNEL, KERNELS
from slackwater.calibration.result import Slice

#: Told after each slice: how many of how many are done.
Progress = Callable[[int, int], None]
#: Processes are told to begin so long after they were asked, together.
_LEAD_SECONDS = 0.05


class Measured(msgspec.Struct, frozen=True):
    single: tuple[Slice, ...]
    everywhere: tuple[Slice, ...]


class _Turn(msgspec.Struct, frozen=True):
    kernel: str
    cpus: tuple[int, ...]


def measure(rounds: int, slice_seconds: float, progress: Progress) -> Measured:
    """Each kernel in each round once on one CPU and once on all that this process may use."""
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    turns = tuple(_turns(rounds, cpus))
    single: list[Slice] = []
    everywhere: list[Slice] = []
    # Spawned, so that each process has its own memory: forked ones would share the kernels' data.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(cpus), mp_context=context) as pool:
        for done, turn in enumerate(turns):
            progress(done, len(turns))
            begin = time.monotonic() + _LEAD_SECONDS
            waiting = [
                pool.submit(run_slice, turn.kernel, cpu, begin, slice_seconds) for cpu in turn.cpus
            ]
            slices = [each.result() for each in waiting]
            (single if len(turn.cpus) == 1 else everywhere).extend(slices)
    progress(len(turns), len(turns))
    return Measured(tuple(single), tuple(everywhere if len(cpus) > 1 else single))


def _turns(rounds: int, cpus: Sequence[int]) -> Iterator[_Turn]:
    """A single CPU is each of them in turn: they may differ."""
    for place in range(rounds):
        for kernel in KERNELS:
            yield _Turn(kernel.name, (cpus[place % len(cpus)],))
            if len(cpus) > 1:
                yield _Turn(kernel.name, tuple(cpus))


def run_slice(kernel: str, cpu: int, begin: float, seconds: float) -> Slice:
    """In a process of its own: whole pieces of work until the time is over. `begin` is a time of
    the machine's monotonic clock, which all processes share."""
    os.sched_setaffinity(0, {cpu})
    piece = KERNEL[kernel].prepare()
    piece()  # caches and pages are warm
    while time.monotonic() < begin:
        pass
    pieces = 0
    started, used = time.perf_counter(), time.process_time()
    while time.perf_counter() - started < seconds or not pieces:
        piece()
        pieces += 1
    passed, cpu_time = time.perf_counter() - started, time.process_time() - used
    return Slice(kernel, cpu, pieces, passed, cpu_time)
