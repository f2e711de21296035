"""What deciding costs: 200 workloads of 50 pods, from what was read to who goes, caps included.

`.venv/bin/python benchmarks/rebalancer.py [--workloads 200] [--pods 50] [--rounds 5]`. Each round
is a fresh process; the median of the times counts, and the largest memory.
Exit code 0: within the bars; 1: a bar was missed, or nothing could be measured.
"""

import argparse
import os
import statistics
import subprocess
import sys

import msgspec

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from benchmarks._rebalancer_decisions import Decided
from benchmarks.cgroup_reads import Row

#: Seconds, and MiB: the bars of issue 7.
BAR_SECONDS, BAR_PEAK = 2.0, 150.0
_PATIENCE = 300.0


class CannotMeasureError(Exception):
    """One sentence about what is missing."""


def run(workloads: int, pods: int) -> Decided:
    name = "benchmarks._rebalancer_decisions"
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    command = [sys.executable, "-m", name, str(workloads), str(pods)]
    try:
        done = subprocess.run(
            command, cwd=root, capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        raise CannotMeasureError(f"no decision after {_PATIENCE:g} s") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise CannotMeasureError(f"the deciding process ended with {done.returncode}: {last}")
    return msgspec.json.decode(done.stdout, type=Decided)


def rows(rounds: list[Decided]) -> list[Row]:
    pods = rounds[0].pods
    seconds = statistics.median(each.seconds for each in rounds)
    return [
        Row(f"deciding about {pods} pods", seconds, "s", BAR_SECONDS),
        Row("CPU time of it", statistics.median(each.cpu for each in rounds), "s"),
        Row("a pod", seconds / pods * 1e6, "us"),
        Row("peak memory, with what was read", max(each.peak for each in rounds), "MiB", BAR_PEAK),
        Row("pods to rotate", rounds[0].going, ""),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--workloads", type=int, default=200)
    parser.add_argument("--pods", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    said = parser.parse_args()
    for flag, value in (("--workloads", said.workloads), ("--pods", said.pods)):
        if value < 1:
            parser.error(f"{flag} is {value}, which has to be at least 1")
    if said.rounds < 1:
        parser.error(f"--rounds is {said.rounds}, which has to be at least 1")
    try:
        rounds = [run(said.workloads, said.pods) for _ in range(said.rounds)]
    except CannotMeasureError as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 1
    found = rows(rounds)
    for row in found:
        print(row.line())
    for word, count in sorted(rounds[0].reasons.items()):
        print(f"  {count:>4} workloads: {word}")
    return 1 if any(row.missed() for row in found) else 0


if __name__ == "__main__":
    sys.exit(main())
