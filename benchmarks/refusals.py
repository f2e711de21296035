"""What 500 knobs that are refused at each attempt cost: CPU time and bytes of the ledger in a tick.

Run: `.venv/bin/python benchmarks/refusals.py`. Plain files stand in for cgroups and answer EINVAL;
executor, writer and ledger are the agent's own; the planner is not part of it. The first two ticks
try all of them, as after any refusal, and have rows of their own without a bar. Exit code 0:
measured, also where a bar was missed.
"""

import errno
import os
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import pytest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from benchmarks.cgroup_reads import Row
from slackwater.execution.executor import Executor
from slackwater.execution.ledger import Ledger
from slackwater.model.cgroup import CgroupRef, CgroupVersion, Level
from slackwater.model.knob import QUOTA
from slackwater.model.plan import Change
from slackwater.model.units import UNLIMITED, Bandwidth, Micros
from tests.unit.execution.plain_kernel import PlainKernel

KNOBS = 500
TICKS = 120
BAR_MILLISECONDS, BAR_BYTES = 10.0, 1024.0


class RefusalCost(msgspec.Struct, frozen=True):
    """Of the ticks after the first two, and of those: CPU milliseconds and bytes of the ledger."""

    median_cpu: float
    most_bytes: float
    first_cpu: float
    first_bytes: float


class _CountedLedger:
    """Bytes that a ledger writes, since they were last asked for."""

    def __init__(self, ledger: Ledger, patch: pytest.MonkeyPatch) -> None:
        self._bytes = 0
        write = ledger._write

        def count(text: bytes) -> None:
            self._bytes += len(text)
            write(text)

        patch.setattr(ledger, "_write", count)

    def take(self) -> int:
        taken, self._bytes = self._bytes, 0
        return taken


def measure(folder: Path, knobs: int = KNOBS, ticks: int = TICKS) -> RefusalCost:
    with pytest.MonkeyPatch.context() as patch:
        root = folder / "cgroup"
        root.mkdir()
        kernel = PlainKernel(root, CgroupVersion.V2, patch)
        ledger = Ledger.open(str(folder / "ledger"), "boot")
        assert isinstance(ledger, Ledger), ledger
        counted, now = _CountedLedger(ledger, patch), [0]
        executor = Executor(ledger, kernel.writer(), None, lambda: Micros(now[0] * 1_000_000))
        new = Bandwidth(Micros(5_000))
        changes = [Change(_pod(root, n), QUOTA, Bandwidth(UNLIMITED), new) for n in range(knobs)]
        kernel.errors["cpu.max"] = errno.EINVAL
        costs: list[tuple[float, int]] = []
        for tick in range(ticks):
            now[0] = tick
            began = time.process_time()
            executor.apply(changes)
            costs.append(((time.process_time() - began) * 1000, counted.take()))
        ledger.close()
    later = costs[2:]
    return RefusalCost(
        sorted(cpu for cpu, _ in later)[len(later) // 2],
        max(size for _, size in later),
        max(cpu for cpu, _ in costs[:2]),
        max(size for _, size in costs[:2]),
    )


def _pod(root: Path, number: int) -> CgroupRef:
    folder = root / f"kubepods/pod{number}"
    folder.mkdir(parents=True)
    (folder / "cpu.max").write_text("max 100000\n")
    return CgroupRef(f"kubepods/pod{number}", folder.stat().st_ino, Level.POD)


def rows(cost: RefusalCost) -> list[Row]:
    return [
        Row(f"{KNOBS} refused knobs: CPU of a tick", cost.median_cpu, "ms", BAR_MILLISECONDS),
        Row(f"{KNOBS} refused knobs: ledger, most in a tick", cost.most_bytes, "B", BAR_BYTES),
        Row("the first two ticks, which try all: CPU", cost.first_cpu, "ms"),
        Row("the first two ticks, which try all: ledger", cost.first_bytes, "B"),
    ]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        cost = measure(Path(folder))
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    for row in rows(cost):
        print(row.line())


if __name__ == "__main__":
    main()
