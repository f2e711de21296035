"""What the agent costs where three policies meet at many pods: throttling, batch resources, burst.

Run as root: `.venv/bin/python benchmarks/crowd_footprint.py [--pods 100] [--seconds 20]`. It makes
real cgroups for best-effort pods of two containers that ask for batch resources and may burst, some
load that makes the tier's quota move, runs the agent as a user would, and removes everything. On
cgroup v1 each quota must be within the tier's, so that this is the mix in which most is written.
Exit code 0: measured, also where a bar was missed; 1: could not measure.
"""

import argparse
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from benchmarks._pods import BenchPod
from benchmarks._running import (
    CannotMeasureError,
    RunningAgent,
    free_address,
    make_tiers,
    new_bed,
)
from benchmarks.cgroup_reads import Row, describe, mounts_here
from slackwater.model.cgroup import CgroupVersion
from slackwater.model.gap import Gap
from tests.kernel.bed import Bed

#: MiB.
BAR_RSS = 40.0
SETTLING = 5.0
_SETTINGS = """\
apiVersion: slackwater.io/v1
kind: AgentSettings
spec: {{bestEffortShare: {{enabled: true}}, elasticResources: {{enabled: true}},
  quotaBurst: {{enabled: true}}}}
---
apiVersion: v1
kind: Node
metadata: {{name: here}}
status: {{allocatable: {{cpu: "{cpus}"}}}}
"""
_LIMITS = '{limits: {kubernetes.io/batch-cpu: "1000", kubernetes.io/batch-memory: "1Gi"}}'


def pod_text(pod: BenchPod) -> str:
    """A best-effort pod that may use a CPU in each of its containers, and burst."""
    ids = list(enumerate(pod.container_ids()))
    boxes = ", ".join(f"{{name: c{number}, resources: {_LIMITS}}}" for number, _ in ids)
    states = ", ".join(
        f'{{name: c{number}, containerID: "containerd://{id_}"}}' for number, id_ in ids
    )
    return (
        "apiVersion: v1\nkind: Pod\n"
        f"metadata: {{name: batch-{pod.number}, namespace: default, uid: {pod.uid},\n"
        '  annotations: {volcano.sh/enable-quota-burst: "true"}}\n'
        f"spec: {{containers: [{boxes}]}}\n"
        f"status: {{phase: Running, qosClass: BestEffort, containerStatuses: [{states}]}}\n"
    )


def make_node(bed: Bed, folder: str, pods: int) -> None:
    cpus = os.cpu_count() or 1
    make_tiers(bed, cpus)
    os.makedirs(folder)
    # One more than there are: the quota moves then also where the machine is never idle.
    _write(f"{folder}/node.yaml", _SETTINGS.format(cpus=cpus + 1))
    for pod in (BenchPod(number) for number in range(pods)):
        for id_ in pod.container_ids():
            bed.make(f"{bed.kubepods}/besteffort/pod{pod.uid}/{id_}")
        _write(f"{folder}/pod-{pod.number:04d}.yaml", pod_text(pod))


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def measure(bed: Bed, folder: str, pods: int, seconds: float) -> list[Row]:
    make_node(bed, f"{folder}/node", pods)
    bed.burn(f"{bed.kubepods}/burstable", 1)
    bed.burn(f"{bed.kubepods}/besteffort", 1)
    here = ["--standalone", f"{folder}/node"]
    agent = RunningAgent(bed, folder, here, ["--listen", free_address()])
    try:
        agent.wait_for_quota(f"{bed.kubepods}/besteffort")
        time.sleep(SETTLING)
        start, told, began = agent.cpu(), agent.lines(), time.monotonic()
        time.sleep(seconds)
        agent.check()
        took = time.monotonic() - began
        mix = f"{pods} pods, three policies"
        return [
            Row(f"CPU, {mix}", (agent.cpu() - start) / took / 1000, "m"),
            Row(f"RSS, {mix}", agent.memory()[0], "MiB", BAR_RSS),
            Row(f"lines told, {mix}", (agent.lines() - told) / took, "/s"),
        ]
    finally:
        agent.end()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--pods", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20.0)
    said = parser.parse_args()
    mounts = mounts_here()
    cpu = mounts.identity()
    version = CgroupVersion.V1 if isinstance(cpu, Gap) else cpu.version
    print(describe(mounts), flush=True)
    try:
        with new_bed(version, "crowd") as bed, tempfile.TemporaryDirectory() as folder:
            rows = measure(bed, folder, said.pods, said.seconds)
    except CannotMeasureError as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 1
    for row in rows:
        print(row.line())
    return 0


if __name__ == "__main__":
    sys.exit(main())
