"""What the demo shows: its phases, the service's load, the objects and settings of the agent.

Every parameter of the demo and of benchmarks/colocation.py, as values. The load is open loop: send
times are Poisson arrivals fixed in advance, so a slow answer delays no later request.
"""

import enum
import random
from collections.abc import Sequence

import msgspec

#: CPU time of one request's own work, in seconds.
WORK = 0.0025
#: The pod's request, in milliCPU: it gives the burstable tier its weight.
SERVICE_REQUEST = 1000
STATIC_PERCENT = 50
#: What all work together may use, in percent of the node. The agent's default keeps 20 % free for
#: peaks; on two CPUs, where weights already protect, 5 % is enough.
THRESHOLD = 95
SERVICE_UID = "5e41ce00-0000-4000-8000-000000000001"
HOG_UID = "ba7c4000-0000-4000-8000-000000000002"
SERVICE_CONTAINER = "5e" * 32
HOG_CONTAINER = "ba" * 32
#: The agent's settings: the one place to switch a policy on for demo and benchmark.
AGENT_SETTINGS = f"""\
apiVersion: slackwater.io/v1
kind: AgentSettings
spec:
  bestEffortShare: {{enabled: true, threshold: {THRESHOLD}}}
"""
_POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  namespace: demo
  uid: {uid}
  annotations: {{volcano.sh/qos-level: "{level}"}}
spec:
  containers:
  - name: main
    resources: {resources}
status:
  phase: Running
  qosClass: {qos}
  containerStatuses:
  - {{name: main, containerID: "containerd://{container}"}}
"""


class BatchControl(enum.Enum):
    """How batch work is restricted, if it is there at all."""

    ABSENT = "no hog"
    DEFAULT_WEIGHT = "the kernel's default weight"
    KUBELET = "the kubelet's weight"
    STATIC_QUOTA = "a fixed quota at the default weight"
    IDLE = "cpu.idle"
    SLACKWATER = "the kubelet's weight and the agent"


class PhaseTitle(msgspec.Struct, frozen=True):
    """`hint` says in a few words what one sees."""

    name: str
    title: str
    hint: str


class DemoPhase(PhaseTitle, frozen=True):
    """A phase: how the batch work is held back in it."""

    control: BatchControl


ALONE = DemoPhase(
    "alone", "service alone", "most of the CPU is paid for and idle", BatchControl.ABSENT
)
DEFAULT_WEIGHT = DemoPhase(
    "default", "batch at default weight", "batch and service as equals", BatchControl.DEFAULT_WEIGHT
)
KUBELET = DemoPhase(
    "kubelet",
    "batch at kubelet's weight",
    "batch gives way, and is not bounded",
    BatchControl.KUBELET,
)
STATIC_QUOTA = DemoPhase(
    "static", "batch at quota of 50 %", "batch is bounded, busy or not", BatchControl.STATIC_QUOTA
)
IDLE = DemoPhase(
    "idle", "batch at cpu.idle", "batch runs when nobody else wants to", BatchControl.IDLE
)
SLACKWATER = DemoPhase(
    "slackwater",
    "batch under Slackwater",
    "batch gives way, within a budget",
    BatchControl.SLACKWATER,
)

DEMO = (ALONE, DEFAULT_WEIGHT, KUBELET, SLACKWATER)
BENCHMARK = (ALONE, DEFAULT_WEIGHT, KUBELET, STATIC_QUOTA, IDLE, SLACKWATER)


class LoadPart(msgspec.Struct, frozen=True):
    """A part of each phase: its share of the time, and the service's own load in CPUs."""

    name: str
    share: float
    load: float


CALM = LoadPart("calm", 0.4, 0.20)
BUSY = LoadPart("busy", 0.6, 0.55)
#: The same in each phase, so that latencies compare; about 0.4 of one CPU on average.
LOAD = (CALM, BUSY)


def node_folder(cpus: int) -> dict[str, str]:
    """What the agent's folder holds: text by file name."""
    node = (
        "apiVersion: v1\nkind: Node\nmetadata: {name: demo}\n"
        f'status: {{allocatable: {{cpu: "{cpus}"}}}}\n'
    )
    service = _POD.format(
        name="service", uid=SERVICE_UID, level="LS", qos="Burstable", container=SERVICE_CONTAINER,
        resources=f"{{requests: {{cpu: {SERVICE_REQUEST}m}}}}",
    )  # fmt: skip
    hog = _POD.format(
        name="hog", uid=HOG_UID, level="BE", qos="BestEffort", container=HOG_CONTAINER,
        resources="{}",
    )  # fmt: skip
    return {
        "settings.yaml": AGENT_SETTINGS,
        "node.yaml": node,
        "service.yaml": service,
        "hog.yaml": hog,
    }


def intended_times(
    parts: Sequence[LoadPart], seconds: float, cost: float, seed: int
) -> list[float]:
    """Seconds after the start, ascending. `cost` is the CPU time of one request in seconds, so a
    part's load in CPUs asks for load / cost requests a second."""
    chance = random.Random(seed)  # noqa: S311 - arrivals, not secrets
    times: list[float] = []
    start = 0.0
    for part in parts:
        end = start + part.share * seconds
        at = start
        while (at := at + chance.expovariate(part.load / cost)) < end:
            times.append(at)
        start = end
    return times


def part_times(parts: Sequence[LoadPart], seconds: float) -> list[tuple[LoadPart, float, float]]:
    """Each part with its first and its last second."""
    found, start = [], 0.0
    for part in parts:
        found.append((part, start, start + part.share * seconds))
        start += part.share * seconds
    return found
