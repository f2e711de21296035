"""A thousand agents' reports, with the agent's own pace, a clock of the test's, and a real server.

The usage and the quota of each node wander as they do on a node with a service and batch work: a
little all the time, and now and then a lot. What is written, and when, is decided by the agent's
own code; what a node shows is what the API server answered.
"""

import random
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import msgspec

from slackwater.contract.node_report import (
    AgentCondition,
    NodeReport,
    NodeStatusPatch,
    read_status_patch,
    status_patch_object,
)
from slackwater.contract.resources import NODES
from slackwater.execution.node_patch import FIELD_MANAGER, WritePace, due_at, pace_after_write
from slackwater.kube.client import Client
from slackwater.model.units import Micros, MilliCpu

SECOND = 1_000_000
#: Of a played node.
ALLOCATABLE = 32_000
GRAIN = MilliCpu(ALLOCATABLE // 20)
#: Seconds between two looks of an agent; each one could be a write.
STEP = 2
#: Parts of the machine by which usage wanders in one step, and by which it leaps.
_WANDERS, _LEAPS = 0.004, 0.3
_LEAP_CHANCE = 1 / 900


class Reporter:
    """One node's agent, as far as its cluster hears of it."""

    def __init__(self, node: str, seed: int) -> None:
        self.node = node
        self._chance = random.Random(seed)  # noqa: S311 - the same wandering each time
        self._mean = self._chance.uniform(0.1, 0.4)
        self._used = self._mean
        # Agents do not start together.
        self._pace = WritePace(not_before=Micros(self._chance.randrange(60 * SECOND)))
        self.seen: NodeStatusPatch | None = None

    def look(self, at: Micros) -> NodeStatusPatch | None:
        """What is to be written now; None where nothing is."""
        self._wander()
        wanted = self._face()
        return wanted if due_at(wanted, self.seen, self._pace, GRAIN) <= at else None

    def wrote(self, answer: bytes, at: Micros) -> None:
        self.seen = read_status_patch(msgspec.json.decode(answer))
        self._pace = pace_after_write(at, self._pace)

    def _wander(self) -> None:
        if self._chance.random() < _LEAP_CHANCE:
            self._mean = min(max(self._mean + self._chance.uniform(-1, 1) * _LEAPS, 0.02), 0.6)
        pull = (self._mean - self._used) * 0.05
        self._used = max(self._used + pull + self._chance.gauss(0, _WANDERS), 0.0)

    def _face(self) -> NodeStatusPatch:
        used = int(self._used * ALLOCATABLE)
        report = NodeReport(
            version="0.1.0",
            since="2026-11-17T10:00:00Z",
            period="1s",
            quota=MilliCpu(int(ALLOCATABLE * 0.8) - used),
            used=MilliCpu((used + GRAIN // 2) // GRAIN * GRAIN),
            holding=3,
            policies={"best_effort_share": "", "quota_burst": "not asked for"},
        )
        return NodeStatusPatch(
            report, AgentCondition("True", "Acting", "values are held by best_effort_share")
        )


def run(
    reporters: Iterable[Reporter], minutes: int, client_of: Callable[[int], Client], threads: int
) -> int:
    """So many minutes of the test's clock, with a client for each of them; how many writes."""
    writes = 0
    everybody = list(reporters)
    with ThreadPoolExecutor(threads) as pool:
        for minute in range(minutes):
            client = client_of(minute)
            for second in range(0, 60, STEP):
                at = Micros((minute * 60 + second) * SECOND)
                due = [
                    (each, status_patch) for each in everybody if (status_patch := each.look(at))
                ]
                answers = [pool.submit(_write, client, *one) for one in due]
                for (each, _), answer in zip(due, answers, strict=True):
                    each.wrote(answer.result(), at)
                writes += len(due)
    return writes


def _write(client: Client, reporter: Reporter, status_patch: NodeStatusPatch) -> bytes:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    body = status_patch_object(reporter.node, status_patch, now)
    return client.apply(NODES, reporter.node, body, manager=FIELD_MANAGER, subresource="status")
