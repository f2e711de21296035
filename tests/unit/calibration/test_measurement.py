"""Kernels really run, each in a process that is pinned to its CPU. How fast is not asserted."""

import os
import time

import pytest

from slackwater.calibration.kernels import KERNELS, Kernel
from slackwater.calibration.measurement import measure, run_slice


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda each: each.name)
def test_a_piece_of_work_is_the_same_each_time(kernel: Kernel) -> None:
    piece, again = kernel.prepare(), kernel.prepare()
    assert piece() == piece() == again()


def test_each_kernel_runs_on_one_cpu_and_on_all() -> None:
    told: list[tuple[int, int]] = []
    found = measure(1, 0.01, lambda done, of: told.append((done, of)))
    cpus = os.sched_getaffinity(0)
    names = [kernel.name for kernel in KERNELS]
    assert [each.kernel for each in found.single] == names
    assert {(each.kernel, each.cpu) for each in found.everywhere} >= {
        (name, cpu) for name in names for cpu in (cpus if len(cpus) > 1 else ())
    }
    assert all(each.pieces >= 1 and each.cpu_seconds > 0 for each in found.everywhere)
    turns = len(names) * (2 if len(cpus) > 1 else 1)
    assert told == [(done, turns) for done in range(turns + 1)]


def test_a_slice_is_pinned_to_its_cpu() -> None:
    before = os.sched_getaffinity(0)
    last = max(before)
    try:
        found = run_slice("interpreter", last, time.monotonic(), 0.0)
        assert os.sched_getaffinity(0) == {last}
    finally:
        os.sched_setaffinity(0, before)
    assert (found.cpu, found.pieces) == (last, 1)
