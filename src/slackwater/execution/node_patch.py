"""Writes the agent's part of its Node (status condition and report annotation), and sends events.

The only module of the agent that changes API objects. A thread of its own writes the latest
NodeStatusPatch offered, so the agent's loop never waits and nothing piles up while the server is
away. A failed write is counted and retried with whatever is wanted by then.

When the Node is written is decided by pure functions (`due_at`, `differs`): once soon after the
start, then at most once a minute when something changed, every five minutes otherwise (as the
kubelet does), less often when the server refuses. A change that someone may be waiting for is
written before its minute is over, once a minute.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from slackwater.contract.node_report import (
    AgentCondition,
    NodeReport,
    NodeStatusPatch,
    status_patch_object,
)
from slackwater.contract.resources import NODES, Resource
from slackwater.http.errors import RequestError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.api_time import format_time
from slackwater.kube.events import KubeEvent
from slackwater.model.units import Micros, MilliCpu, Ratio, Unlimited

FIELD_MANAGER = "slackwater-agent"
WRITTEN, REFUSED, UNREACHABLE = "written", "refused", "unreachable"
#: The first decision needs two samples: before it there is nothing worth a write.
STARTUP_DELAY = Micros(3_000_000)
_SECOND = 1_000_000
#: The least time between two writes.
WRITE_INTERVAL = Micros(60 * _SECOND)
#: The same for a policy that was switched on or off, a problem that appeared or went, and a rule
#: that triggered or was restored.
URGENT_INTERVAL = Micros(5 * _SECOND)
#: As the kubelet's nodeStatusReportFrequency: readers can tell that an agent is gone.
HEARTBEAT_INTERVAL = Micros(300 * _SECOND)
FIRST_WAIT, LONGEST_WAIT = 2 * _SECOND, 300 * _SECOND
#: A change in the number of held values by less than this part of it is not worth a write.
_PART = Ratio(1, 10)


class WritePace(msgspec.Struct, frozen=True):
    """`written` is when this process last wrote the Node, `urgent` when it last did so before the
    interval was over."""

    written: Micros | None = None
    urgent: Micros | None = None
    failures: int = 0
    not_before: Micros = Micros(0)


def due_at(
    wanted: NodeStatusPatch, seen: NodeStatusPatch | None, pace: WritePace, grain: MilliCpu
) -> Micros:
    """When the Node is to be written if nothing else changes. `seen` is what it shows now."""
    if pace.written is None:
        return pace.not_before
    if wanted.report.released != (seen.report.released if seen else None):
        return pace.not_before  # somebody waits for it, and then this agent goes
    wait = WRITE_INTERVAL if seen is None or differs(wanted, seen, grain) else HEARTBEAT_INTERVAL
    due = pace.written + wait
    if seen is not None and is_urgent(wanted, seen):
        urgent = 0 if pace.urgent is None else pace.urgent + WRITE_INTERVAL
        due = min(due, max(pace.written + URGENT_INTERVAL, urgent))
    return Micros(max(due, pace.not_before))


def is_urgent(wanted: NodeStatusPatch, seen: NodeStatusPatch) -> bool:
    """Whether someone may be waiting for this change."""
    return (
        _exact_part(wanted.report) != _exact_part(seen.report)
        or wanted.condition.status != seen.condition.status
    )


def differs(wanted: NodeStatusPatch, seen: NodeStatusPatch, grain: MilliCpu) -> bool:
    """Whether it is worth a write."""
    one, other = wanted.condition, seen.condition
    if (one.status, one.reason, one.message) != (other.status, other.reason, other.message):
        return True
    mine, theirs = wanted.report, seen.report
    return (
        _exact_part(mine) != _exact_part(theirs)
        or _has_moved(mine.quota, theirs.quota, grain)
        or _has_moved(mine.used, theirs.used, grain)
        or _has_moved(mine.holding, theirs.holding, _PART.of(mine.holding or 0))
    )


def _exact_part(report: NodeReport) -> tuple[object, ...]:
    """What is compared exactly. Not the times of rules: the time of day of one moment, by a clock
    that is read in each round, may be a second later in the next one."""
    rules = {
        title: [(each.rule, each.state, each.preview) for each in active]
        for title, active in report.rules.items()
    }
    return report.version, report.period, report.policies, report.problems, rules


def _has_moved(one: int | Unlimited | None, other: int | Unlimited | None, grain: int) -> bool:
    """By the grain at least; between none, some and unlimited any change counts."""
    if isinstance(one, int) and isinstance(other, int) and bool(one) == bool(other):
        return abs(one - other) >= max(grain, 1)
    return one != other


def pace_after_write(at: Micros, before: WritePace) -> WritePace:
    was_urgent = before.written is not None and at < before.written + WRITE_INTERVAL
    return WritePace(written=at, urgent=at if was_urgent else before.urgent)


def pace_after_failure(
    pace: WritePace, at: Micros, retry_after: float | None, chance: float
) -> WritePace:
    """Exponential backoff, and at least Retry-After. `chance` is from 0 to 1 and spreads the
    retries of a thousand agents."""
    wait = min(FIRST_WAIT << min(pace.failures, 20), LONGEST_WAIT)
    spread = int(wait * (0.5 + chance))
    asked = int((retry_after or 0) * _SECOND)
    later = Micros(at + max(spread, asked))
    return WritePace(pace.written, pace.urgent, pace.failures + 1, later)


class NodeApplying(Protocol):
    """The part of kube.client.Client that is needed here."""

    def apply(
        self,
        resource: Resource,
        name: str,
        body: object,
        *,
        manager: str,
        namespace: str = "",
        subresource: str = "",
    ) -> bytes: ...


class EventSending(Protocol):
    """The part of kube.events.EventRecorder that is needed here."""

    def start(self) -> None: ...

    def stop(self, patience: float = 2.0) -> None: ...

    def send(self, event: KubeEvent) -> None: ...

    def problem(self) -> str: ...

    def dropped(self) -> int: ...


class WriteAttempts(msgspec.Struct, frozen=True):
    """`attempts` by how they ended; `problem` is why the last one failed."""

    attempts: Mapping[str, int]
    problem: str = ""


class NodeWriter:
    """Guards the thread that writes the Node."""

    def __init__(
        self,
        client: NodeApplying,
        sender: EventSending,
        node: str,
        *,
        clock: Callable[[], Micros],
        jitter: random.Random,
    ) -> None:
        self._client = client
        self._sender = sender
        self._node = node
        self._clock = clock
        self._jitter = jitter
        self._pace = WritePace(not_before=Micros(clock() + STARTUP_DELAY))
        self._wanted: NodeStatusPatch | None = None
        self._last: NodeStatusPatch | None = None
        self._attempts: Counter[str] = Counter()
        self._problem = ""
        self._ended = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="node-writer", daemon=True)

    def start(self) -> None:
        self._sender.start()
        self._thread.start()

    def offer(self, wanted: NodeStatusPatch, seen: NodeStatusPatch | None, grain: MilliCpu) -> None:
        """Called by the loop in each round; never waits. `seen` is what the Node shows now."""
        with self._changed:
            if due_at(wanted, seen, self._pace, grain) <= self._clock():
                self._wanted = _with_transition(wanted, seen)
                self._changed.notify()

    def leave(self, last: NodeStatusPatch, seen: NodeStatusPatch | None) -> None:
        """Sets what is written once at the end, whatever the pace."""
        with self._changed:
            self._last = _with_transition(last, seen)

    def send(self, event: KubeEvent) -> None:
        self._sender.send(event)

    def tried(self) -> WriteAttempts:
        with self._changed:
            return WriteAttempts(dict(self._attempts), self._problem)

    def unsent(self) -> tuple[str, int]:
        """Why the last event failed, and how many were lost."""
        return self._sender.problem(), self._sender.dropped()

    def stop(self, patience: float) -> None:
        """Writes the last patch, if one was set, and waits for a write in progress."""
        if not self._thread.is_alive():
            return  # a dry run never began
        with self._changed:
            self._ended = True
            self._changed.notify()
        self._thread.join(patience)
        self._sender.stop(patience)

    def write_due(self) -> None:
        """Writes what is wanted now, if anything is; what the thread does."""
        with self._changed:
            status_patch = self._wanted
        if status_patch is not None:
            self._carry_out(status_patch)

    def _run(self) -> None:
        while (status_patch := self._next_patch()) is not None:
            self._carry_out(status_patch)

    def _carry_out(self, status_patch: NodeStatusPatch) -> None:
        result, problem, retry_after = self._write(status_patch)
        with self._changed:
            at = self._clock()
            self._attempts[result] += 1
            self._problem = problem
            # What was offered meanwhile was offered by the old pace.
            self._wanted = None
            self._pace = (
                pace_after_failure(self._pace, at, retry_after, self._jitter.random())
                if problem
                else pace_after_write(at, self._pace)
            )

    def _next_patch(self) -> NodeStatusPatch | None:
        with self._changed:
            self._changed.wait_for(lambda: self._wanted is not None or self._ended)
            if not self._ended:
                return self._wanted
            last, self._last = self._last, None
            return last

    def _write(self, status_patch: NodeStatusPatch) -> tuple[str, str, float | None]:
        """The result, the problem, and the server's Retry-After.

        The annotation goes with the status: a Node's status strategy resets nothing but the spec
        (pkg/registry/core/node/strategy.go), so one write is enough for both.
        """
        body = status_patch_object(self._node, status_patch, _time_of_day())
        try:
            self._client.apply(NODES, self._node, body, manager=FIELD_MANAGER, subresource="status")
        except HttpStatusError as error:
            return REFUSED, str(error), error.retry_after
        except RequestError as error:
            return UNREACHABLE, str(error), None
        return WRITTEN, "", None


def _with_transition(wanted: NodeStatusPatch, seen: NodeStatusPatch | None) -> NodeStatusPatch:
    """A condition that keeps its status keeps its transition time."""
    if seen is None or seen.condition.status != wanted.condition.status:
        return wanted
    condition: AgentCondition = msgspec.structs.replace(
        wanted.condition, since=seen.condition.since
    )
    return msgspec.structs.replace(wanted, condition=condition)


def _time_of_day() -> str:
    return format_time(time.time())
