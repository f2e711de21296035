"""What the demo shows: its phases, its pods and the service's load.

Every parameter of the demo and of the benchmarks that use its parts, as values. The load is open
loop: send times are Poisson arrivals fixed in advance, so a slow answer delays no later request.
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


class BatchPod(msgspec.Struct, frozen=True):
    """A pod of batch work. `request` is in milliCPU."""

    name: str
    uid: str
    container: str
    request: int


#: As people usually run them: with a CPU request, so Burstable, and of low priority. Together they
#: weigh as much as the service.
BATCH_PODS = (
    BatchPod("batch-1", "ba7c4000-0000-4000-8000-000000000011", "b1" * 32, SERVICE_REQUEST // 2),
    BatchPod("batch-2", "ba7c4000-0000-4000-8000-000000000012", "b2" * 32, SERVICE_REQUEST // 2),
)

#: They ask for elastic CPU alone, so they are best effort.
ELASTIC_PODS = (
    BatchPod("elastic-1", "e1a50000-0000-4000-8000-000000000021", "e1" * 32, 1000),
    BatchPod("elastic-3", "e1a50000-0000-4000-8000-000000000023", "e3" * 32, 3000),
)


class BatchControl(enum.Enum):
    """How batch work is restricted, if it is there at all."""

    ABSENT = "no hog"
    DEFAULT_WEIGHT = "the kernel's default weight"
    KUBELET = "the kubelet's weight"
    STATIC_QUOTA = "a fixed quota at the default weight"
    IDLE = "cpu.idle"
    BEST_EFFORT_SHARE = "the kubelet's weight and the agent's share for best-effort work"
    ELASTIC = "the same, in pods with elastic resources"
    #: From here on batch runs in Burstable pods.
    UNPROTECTED = "no rule"
    WATERLINE = "a waterline of the node's CPU usage"
    LATENCY_OBJECTIVE = "an objective of the service's own latency"

    def runs_burstable(self) -> bool:
        """Whether batch work runs in Burstable pods, with CPU requests of their own."""
        return self in (self.UNPROTECTED, self.WATERLINE, self.LATENCY_OBJECTIVE)

    def needs_agent(self) -> bool:
        return self.bounds_best_effort() or self in (self.WATERLINE, self.LATENCY_OBJECTIVE)

    def bounds_best_effort(self) -> bool:
        """Whether the agent sets the best-effort tier's quota."""
        return self in (self.BEST_EFFORT_SHARE, self.ELASTIC)


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
SHARE = DemoPhase(
    "share",
    "batch at Slackwater's share",
    "batch gives way, within a budget",
    BatchControl.BEST_EFFORT_SHARE,
)
ELASTIC = DemoPhase(
    "elastic",
    "elastic pods, Slackwater",
    "batch of 1 and 3 elastic CPUs, within a budget",
    BatchControl.ELASTIC,
)
UNPROTECTED = DemoPhase(
    "unprotected",
    "batch unprotected",
    "batch pods with requests, as people run them",
    BatchControl.UNPROTECTED,
)
WATERLINE = DemoPhase(
    "waterline",
    "batch below a waterline",
    "batch throttled by the node's CPU usage",
    BatchControl.WATERLINE,
)
SLACKWATER = DemoPhase(
    "slackwater",
    "batch under Slackwater",
    "batch gives way while the objective is at risk",
    BatchControl.LATENCY_OBJECTIVE,
)

DEMO = (ALONE, UNPROTECTED, SLACKWATER)
COLOCATION = (ALONE, DEFAULT_WEIGHT, KUBELET, STATIC_QUOTA, IDLE, SHARE, ELASTIC)
LATENCY_OBJECTIVE = (ALONE, UNPROTECTED, WATERLINE, SLACKWATER)
#: Each phase of the demo comes in so many slices, so that drift of the machine hits all alike.
DEMO_ROUNDS = 2
#: The objective is so many times the p90 of the service alone.
OBJECTIVE_RATIO = 2.0
#: Seconds: in the demo a slice must see the end of it; elsewhere longer is cheap.
DEMO_COOL_DOWN, COOL_DOWN = 3, 15


class LoadPart(msgspec.Struct, frozen=True):
    """A part of each phase: its share of the time, and the service's own load in CPUs."""

    name: str
    share: float
    load: float


CALM = LoadPart("calm", 0.4, 0.20)
BUSY = LoadPart("busy", 0.6, 0.55)
#: The same in each phase, so that latencies compare; about 0.4 of one CPU on average.
LOAD = (CALM, BUSY)
#: As much as a service of one process can take and be fast alone.
DEMO_BUSY = LoadPart("busy", 0.6, 0.70)
#: The demo's: it shows that everything is given back when the service is calm again.
DEMO_LOAD = (DEMO_BUSY, CALM)


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
