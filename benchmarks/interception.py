"""How long a container's start waits for the agent, and what being asked costs it.

Run as root: `.venv/bin/python benchmarks/interception.py [--quick]`. A container runtime's side of
NRI, played here, asks an agent over its socket about containers of real pods with a CPU limit, on a
node with a ratio and every policy on; each answer is timed from the first byte of the question to
the last one of the answer. The agent ticks meanwhile as it always does. Its memory and threads are
compared with those of an agent that is not asked. Exit code 0: measured, also where a bar was
missed; 1: could not measure.
"""

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

import msgspec

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from benchmarks._pods import POLICIES, BenchPod, write_folder
from benchmarks._running import CannotMeasureError, RunningAgent, make_tiers, new_bed
from benchmarks.cgroup_reads import Row, describe, mounts_here
from slackwater.contract.koordinator.normalization import RATIO_ANNOTATION
from slackwater.model.cgroup import CgroupVersion
from slackwater.model.gap import Gap
from slackwater.nri.messages import ContainerRequest, CpuRequest, Sandbox
from tests.kernel.bed import Bed
from tests.unit.nri.runtime_side import FakeRuntime, adjusted_quota, encode_creation

#: Milliseconds: the 99th of a hundred answers.
BAR = 5.0
#: MiB of an agent with 250 pods and every policy on; and what being asked may add.
MEMORY_BAR, ADDED_BAR = 40.0, 1.0
#: A limit of 1 CPU is 100 ms, which the ratio divides.
ASKED, QUOTA = 100_000, 83_334
SETTLING = 5.0
_POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: web-{number}, namespace: default, uid: {uid}}}
spec: {{containers: [{boxes}]}}
status: {{phase: Running, qosClass: Burstable, containerStatuses: [{states}]}}
"""


class LimitedPod(BenchPod, frozen=True):
    """A burstable pod whose containers have a limit of 1 CPU."""

    @property
    def tier(self) -> str:
        return "burstable"

    def text(self) -> str:
        ids = list(enumerate(self.container_ids()))
        resources = '{limits: {cpu: "1"}}'
        boxes = ", ".join(f"{{name: c{number}, resources: {resources}}}" for number, _ in ids)
        states = ", ".join(f'{{name: c{n}, containerID: "containerd://{id_}"}}' for n, id_ in ids)
        return _POD.format(number=self.number, uid=self.uid, boxes=boxes, states=states)


class Measured(msgspec.Struct, frozen=True):
    """Answers in milliseconds; MiB; threads."""

    answers: list[float]
    memory: float
    threads: int


def measure(bed: Bed, pods: int, questions: int, gap: float, *, asked: bool) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        runtime = FakeRuntime(Path(folder))
        _write_objects(f"{folder}/node", pods, asked=asked)
        objects = ["--standalone", f"{folder}/node", "--nri-socket", runtime.path]
        agent = RunningAgent(bed, folder, objects, [])
        try:
            agent.wait_for_quota(f"{bed.kubepods}/besteffort")
            if asked:
                runtime.register()
            time.sleep(SETTLING)
            answers = _ask(runtime, pods, questions, gap) if asked else []
            agent.check()
            threads = len(os.listdir(f"/proc/{agent.pid}/task"))
            return Measured(answers, agent.memory()[0], threads)
        finally:
            agent.end()
            runtime.close()


def _write_objects(folder: str, pods: int, *, asked: bool) -> None:
    """As in agent_footprint, with the node's ratio, and whether the agent is to be asked."""
    made = [LimitedPod(number) for number in range(pods)]
    write_folder(folder, made, os.cpu_count() or 1, POLICIES)
    file = Path(folder, "node.yaml")
    text = file.read_text()
    switch = f"agent: {{interceptStarts: {str(asked).lower()}}}, "
    text = text.replace("spec: {", f"spec: {{{switch}", 1)
    annotated = f'metadata: {{name: here, annotations: {{{RATIO_ANNOTATION}: "1.20"}}}}'
    file.write_text(text.replace("metadata: {name: here}", annotated))


def _ask(runtime: FakeRuntime, pods: int, questions: int, gap: float) -> list[float]:
    """At random times, so that ticks come in between as they do."""
    chance = random.Random(1)  # noqa: S311 - the same times in each run
    found: list[float] = []
    for number in range(questions):
        pod = LimitedPod(number % pods)
        sandbox = Sandbox(
            f"{number:064x}",
            f"web-{pod.number}",
            pod.uid,
            "default",
            {f"label-{one}": "value" for one in range(8)},
            {f"annotation-{one}": "value" * 20 for one in range(8)},
        )
        cpu = CpuRequest(1024, ASKED, 100_000)
        request = ContainerRequest(sandbox, f"{number + (1 << 60):064x}", "c0", cpu)
        time.sleep(chance.uniform(0, 2 * gap))
        began = time.perf_counter()
        answer = runtime.call("CreateContainer", encode_creation(request))
        found.append(1000 * (time.perf_counter() - began))
        if adjusted_quota(answer) != QUOTA:
            raise CannotMeasureError(f"question {number} was answered by {adjusted_quota(answer)}")
    return found


def rows(asked: Measured, alone: Measured, pods: int) -> list[Row]:
    parts = statistics.quantiles(asked.answers, n=100)
    added, times = asked.memory - alone.memory, len(asked.answers)
    return [
        Row(f"answer with {pods} pods, median", statistics.median(asked.answers), "ms"),
        Row(f"answer with {pods} pods, 99th percentile", parts[98], "ms", BAR),
        Row(f"answer with {pods} pods, worst", max(asked.answers), "ms"),
        Row(f"RSS with {pods} pods, asked {times} times", asked.memory, "MiB", MEMORY_BAR),
        Row("RSS above that of an agent that is not asked", added, "MiB", ADDED_BAR),
        Row("threads more", asked.threads - alone.threads, "", 1),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--pods", type=int, default=250)
    # A tick forgets those that never start after minutes: fewer than the ledger keeps.
    parser.add_argument("--questions", type=int, default=900)
    parser.add_argument("--gap", type=float, default=0.05, help="seconds between two, on average")
    parser.add_argument("--quick", action="store_true", help="200 questions")
    said = parser.parse_args()
    questions = 200 if said.quick else said.questions
    mounts = mounts_here()
    cpu = mounts.identity()
    version = CgroupVersion.V1 if isinstance(cpu, Gap) else cpu.version
    print(describe(mounts))
    try:
        with new_bed(version, "interception") as bed:
            make_tiers(bed, os.cpu_count() or 1)
            for number in range(said.pods):
                for path in LimitedPod(number).paths(bed.kubepods):
                    bed.make(path)
            alone = measure(bed, said.pods, 0, said.gap, asked=False)
            asked = measure(bed, said.pods, questions, said.gap, asked=True)
    except CannotMeasureError as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 1
    print(f"load average of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    for row in rows(asked, alone, said.pods):
        print(row.line())
    return 0


if __name__ == "__main__":
    sys.exit(main())
