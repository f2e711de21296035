"""Equal work for the same limit: a CPU-bound job limited to 1 CPU on a fast and on a slow machine.

Run as root: `.venv/bin/python benchmarks/normalization.py [--quick]`. Both machines are this one:
on the slow one a job takes 1.5 times as many cycles, which is 1.5 times the work here. The agent
runs as a user starts it, on real cgroups, and divides the fast machine's quota by the ratio in its
Node's annotation; the kernel enforces it. The job is timed on the fast machine without and with
normalization and on the slow one, in turn, and medians are compared. The group of the measurement
has the machine's highest weight, so that other work disturbs less. Exit code 0: measured, also
where a bar was missed; 1: could not measure.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from benchmarks._running import CannotMeasureError, RunningAgent, make_tiers, new_bed, quota_file
from benchmarks.cgroup_reads import Row, describe, mounts_here
from slackwater.contract.koordinator.normalization import RATIO_ANNOTATION
from slackwater.model.cgroup import CgroupVersion
from slackwater.model.gap import Gap
from tests.kernel.bed import Bed, get
from tests.kernel.in_process import NODE, Box, pod_object
from tests.kernel.pods import CONTAINER, UID, limit, pod_path

RATIO = 1.5
#: Work of the fast machine's job, in seconds of one of its CPUs.
SECONDS, QUICK_SECONDS = 4.0, 1.5
ROUNDS, QUICK_ROUNDS = 3, 1
WITHIN = 5.0
PATIENCE = 60.0
_MICROS = 100_000
_SCALED = 66_667
#: Rounds of a hash over a block that fits into the first cache.
_JOB = """\
import hashlib, sys, time
block = bytes(8192)
sys.stdin.readline()
began = time.monotonic()
for _ in range(int(sys.argv[1])):
    hashlib.sha256(block).digest()
print(time.monotonic() - began)
"""


class Machine:
    """A pod with a limit of 1 CPU, and the objects that its agent reads."""

    def __init__(self, bed: Bed, folder: str) -> None:
        self._bed = bed
        self._objects = Path(folder, "node")
        self._objects.mkdir()
        self.pod = pod_path(bed, 1)
        self.container = bed.make(f"{self.pod}/{CONTAINER.format(1)}")
        for path in (self.pod, self.container):
            limit(bed, path, _MICROS)
        box = Box(CONTAINER.format(1), {"cpu": "1"}, {"cpu": "1"})
        self._put("pod", pod_object(UID.format(1), [box]))
        self.set_ratio(1.0)

    @property
    def objects(self) -> str:
        return str(self._objects)

    def set_ratio(self, ratio: float) -> None:
        annotations = {RATIO_ANNOTATION: f"{ratio:.2f}"}
        self._put("this", {"kind": "Node", "metadata": {"name": NODE, "annotations": annotations}})

    def wait_for(self, micros: int, agent: RunningAgent) -> None:
        deadline = time.monotonic() + PATIENCE
        while int(get(quota_file(self._bed, self.container)).split()[0]) != micros:
            agent.check()
            if time.monotonic() > deadline:
                raise CannotMeasureError(f"no quota of {micros} us after {PATIENCE:g} s")
            time.sleep(0.05)

    def time_job(self, rounds: int) -> float:
        """Seconds from its first instruction to its last."""
        job = subprocess.Popen(
            [sys.executable, "-c", _JOB, str(rounds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._bed.write(self.container, "cgroup.procs", str(job.pid))
        told, _ = job.communicate("\n")
        return float(told)

    def _put(self, name: str, document: dict[str, object]) -> None:
        unfinished = self._objects.parent / f"{name}.unfinished"
        unfinished.write_text(json.dumps(document))
        unfinished.rename(self._objects / f"{name}.json")


def measure(bed: Bed, folder: str, seconds: float, rounds: int) -> dict[str, float]:
    """Medians of the three, in seconds."""
    make_tiers(bed, os.cpu_count() or 1)
    weigh(bed)
    machine = Machine(bed, folder)
    agent = RunningAgent(
        bed, folder, ["--standalone", machine.objects, "--node", NODE], ["--listen", ""]
    )
    try:
        machine.time_job(100)
        work = int(20_000 * seconds / machine.time_job(20_000))
        found: dict[str, list[float]] = {"fast": [], "slow": [], "normalized": []}
        for _ in range(rounds):
            machine.set_ratio(1.0)
            machine.wait_for(_MICROS, agent)
            found["fast"].append(machine.time_job(work))
            found["slow"].append(machine.time_job(int(work * RATIO)))
            machine.set_ratio(RATIO)
            machine.wait_for(_SCALED, agent)
            found["normalized"].append(machine.time_job(work))
        return {name: statistics.median(times) for name, times in found.items()}
    finally:
        agent.end()


def weigh(bed: Bed) -> None:
    if bed.version is CgroupVersion.V1:
        bed.write(bed.top, "cpu.shares", "262144")
    else:
        bed.write(bed.top, "cpu.weight", "10000")


def rows(found: dict[str, float]) -> list[Row]:
    fast, slow, normalized = (found[name] for name in ("fast", "slow", "normalized"))
    apart = abs(normalized / slow - 1) * 100
    missing = abs(slow / fast / RATIO - 1) * 100
    return [
        Row("fast machine, without normalization", fast, "s"),
        Row("slow machine", slow, "s"),
        Row("fast machine, with normalization", normalized, "s"),
        Row("fast and slow machine apart, with normalization", apart, "%", WITHIN),
        Row(f"apart without it, beside the ratio of {RATIO:g}", missing, "%", WITHIN),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="one short round")
    quick = parser.parse_args().quick
    try:
        mounts = mounts_here()
        cpu = mounts.identity()
        if isinstance(cpu, Gap):
            raise CannotMeasureError(cpu.reason)
        seconds, rounds = (QUICK_SECONDS, QUICK_ROUNDS) if quick else (SECONDS, ROUNDS)
        with new_bed(cpu.version, "normalization") as bed, tempfile.TemporaryDirectory() as folder:
            found = measure(bed, folder, seconds, rounds)
    except (CannotMeasureError, OSError) as error:
        print(f"could not measure: {error}", file=sys.stderr)
        return 1
    print(describe(mounts))
    for row in rows(found):
        print(row.line())
    return 0


if __name__ == "__main__":
    sys.exit(main())
