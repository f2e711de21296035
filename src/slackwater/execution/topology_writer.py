"""Keeps the NodeResourceTopology of the agent's own node as the machine and the Node are.

A thread of its own compares what the machine says with what the API server has, and writes the
object only where they differ: when CPUs or NUMA nodes change, with the Node's ratio, and when
somebody changed it, less and less often if that goes on. An object that another program manages is
left alone, unless a setting says otherwise. The agent's loop never waits for any of it.
"""

import enum
import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from slackwater.contract.koordinator.normalization import ONE, Hundredths
from slackwater.contract.koordinator.topology import (
    SeenTopology,
    TopologyFacts,
    read_seen_topology,
    shown_ratio,
    topology_object,
)
from slackwater.contract.kubernetes import ObjectHeader
from slackwater.contract.resources import NODE_TOPOLOGIES, Resource
from slackwater.http.errors import Backoff, RequestError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.informer import InformerView
from slackwater.model.gap import Gap
from slackwater.model.units import Micros

WRITTEN, REPAIRED, REFUSED, UNREACHABLE = "written", "repaired", "refused", "unreachable"
_SECOND = 1_000_000
#: How often the machine is read: turbo and hyper-threads have no event (Koordinator: the same).
LOOK_EVERY = Micros(60 * _SECOND)
#: After a write the informer shows the object as it was for a moment.
SETTLE = Micros(5 * _SECOND)
FIRST_WAIT, LONGEST_WAIT = 5.0, 300.0
#: So long after the last pause a repair is the first one again.
_PEACE = Micros(600 * _SECOND)
_MANY_TIMES = 3
_NOT_FOUND = 404
_KIND = NODE_TOPOLOGIES.kind
_NO_FACTS = Gap("the machine was not read yet")


class TopologyClient(Protocol):
    """The part of kube.client.Client that is needed here."""

    def get(self, resource: Resource, name: str, namespace: str = "") -> bytes: ...

    def create(self, resource: Resource, body: object, namespace: str = "") -> bytes: ...

    def replace(
        self,
        resource: Resource,
        name: str,
        body: object,
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> bytes: ...

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_seconds: int | None = None,
    ) -> None: ...


class TopologyOrder(msgspec.Struct, frozen=True):
    """What is wanted of the object of this Node; with `wanted` false, that it goes if it is ours.
    `cpus` are those that the loop saw: when they change, the machine is read again at once."""

    node: ObjectHeader
    ratio: Hundredths | Gap = ONE
    wanted: bool = True
    may_take_over: bool = False
    cpus: object = None


class StepKind(enum.Enum):
    NOTHING = "nothing"
    CREATE = "create"
    REPLACE = "replace"
    DELETE = "delete"


class TopologyStep(msgspec.Struct, frozen=True):
    """What has to be done; `problem` is why nothing is, where something should."""

    kind: StepKind = StepKind.NOTHING
    body: dict[str, Any] = {}
    uid: str = ""
    problem: str = ""


class TopologyState(msgspec.Struct, frozen=True):
    """`attempts` to write by how they ended, `problem` why the object is not as wanted. `is_left`:
    it is not wanted any more, and ours may be there."""

    attempts: Mapping[str, int] = {}
    problem: str = ""
    is_left: bool = False


def decide_step(
    order: TopologyOrder, facts: TopologyFacts | Gap, seen: SeenTopology | None
) -> TopologyStep:
    """A ratio that cannot be read leaves the amplification of the object as it is."""
    ours = seen is not None and seen.is_ours
    if not order.wanted:
        return TopologyStep(StepKind.DELETE, uid=seen.uid) if seen and ours else TopologyStep()
    if seen is not None and not ours and not order.may_take_over:
        manager = seen.managed_by or "another program"
        return TopologyStep(
            problem=f"{_KIND} {order.node.name} is managed by {manager} and left alone; with "
            "agent.topologyReport: takeOver it becomes ours"
        )
    if isinstance(facts, Gap):
        return TopologyStep(problem=f"{_KIND} {order.node.name} cannot be made: {facts.reason}")
    ratio = shown_ratio(seen) if isinstance(order.ratio, Gap) else order.ratio
    body = topology_object(order.node, facts, ratio)
    if seen is None:
        return TopologyStep(StepKind.CREATE, body)
    corrected = seen.corrected(body)
    if corrected == seen.document:
        return TopologyStep()
    return TopologyStep(StepKind.REPLACE, corrected)


def carry_out(
    client: TopologyClient, order: TopologyOrder, facts: TopologyFacts | Gap
) -> TopologyStep:
    """By the object as it is right now. Raises RequestError and DecodeError."""
    name = order.node.name
    step = decide_step(order, facts, _get(client, name))
    match step.kind:
        case StepKind.CREATE:
            client.create(NODE_TOPOLOGIES, step.body)
        case StepKind.REPLACE:
            client.replace(NODE_TOPOLOGIES, name, step.body)
        case StepKind.DELETE:
            _delete(client, name, step.uid)
    return step


def remove_own(client: TopologyClient, node: str) -> None:
    """For an agent that is gone. Raises RequestError and DecodeError."""
    carry_out(client, TopologyOrder(ObjectHeader(node), wanted=False), _NO_FACTS)


def _get(client: TopologyClient, name: str) -> SeenTopology | None:
    try:
        return read_seen_topology(client.get(NODE_TOPOLOGIES, name))
    except HttpStatusError as refused:
        if refused.status == _NOT_FOUND:
            return None
        raise


def _delete(client: TopologyClient, name: str, uid: str) -> None:
    try:
        client.delete(NODE_TOPOLOGIES, name, uid=uid)
    except HttpStatusError as refused:
        if refused.status != _NOT_FOUND:
            raise


def is_left(order: TopologyOrder, view: InformerView[SeenTopology]) -> bool:
    """Whether an object that is not wanted is there, or nobody knows."""
    if order.wanted or view.unknown_kind:
        return False
    seen = view.items.get(order.node.name)
    return seen.is_ours if seen is not None else not view.synced


class TopologyWriter:
    """Guards the thread that writes the object."""

    def __init__(
        self,
        client: TopologyClient,
        read_facts: Callable[[], TopologyFacts | Gap],
        seen: Callable[[], InformerView[SeenTopology]],
        *,
        clock: Callable[[], Micros],
        jitter: random.Random,
    ) -> None:
        self._client = client
        self._read_facts = read_facts
        self._seen = seen
        self._clock = clock
        self._pace = Backoff(FIRST_WAIT, LONGEST_WAIT, jitter)
        self._order: TopologyOrder | None = None
        self._facts: TopologyFacts | Gap = _NO_FACTS
        self._facts_due = Micros(0)
        self._not_before = Micros(0)
        #: What was written last, to tell a repair from a change.
        self._written: tuple[TopologyOrder, TopologyFacts | Gap] | None = None
        self._attempts: Counter[str] = Counter()
        self._problem = ""
        #: How often in a row somebody changed what we wrote.
        self._undone = 0
        self._woken = self._ended = self._leaves = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="topology-writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def offer(self, order: TopologyOrder) -> None:
        """Called by the loop in each round; never waits."""
        with self._changed:
            if order == self._order:
                return
            if self._order is None or order.cpus != self._order.cpus:
                self._facts = _NO_FACTS
            self._order = order
            self._not_before = Micros(0)
            self._pace.reset()
            self._wake()

    def wake(self) -> None:
        """The object changed at the API server."""
        with self._changed:
            self._wake()

    def leave(self) -> None:
        """At the end the object goes, if it is ours."""
        with self._changed:
            self._leaves = True

    def state(self) -> TopologyState:
        view = self._seen()
        with self._changed:
            left = self._order is not None and is_left(self._order, view)
            return TopologyState(dict(self._attempts), self._problem, left)

    def stop(self, patience: float) -> None:
        if not self._thread.is_alive():
            return  # a dry run never began
        with self._changed:
            self._ended = True
            self._wake()
        self._thread.join(patience)

    def _wake(self) -> None:
        self._woken = True
        self._changed.notify()

    def _run(self) -> None:
        while self._wait():
            self.look()
        with self._changed:
            order = self._order if self._leaves else None
        if order is not None:
            self._write(msgspec.structs.replace(order, wanted=False), _NO_FACTS)

    def _wait(self) -> bool:
        """Until there is something to look at; False at the end."""
        with self._changed:
            now = self._clock()
            due = self._not_before if self._not_before > now else self._facts_due
            wait = None if self._order is None else max(due - now, 0) / _SECOND
            self._changed.wait_for(lambda: self._woken or self._ended, wait)
            self._woken = False
            return not self._ended

    def look(self) -> None:
        """Compares, and writes what differs if it is time to."""
        now = self._clock()
        view = self._seen()
        with self._changed:
            order, not_before = self._order, self._not_before
            is_read = self._facts is not _NO_FACTS and now < self._facts_due
            self._facts_due = self._facts_due if is_read else Micros(now + LOOK_EVERY)
            if not view.synced:
                # A cluster without this kind wants none of it.
                self._problem = "" if view.unknown_kind else view.problem
        if order is None or not view.synced:
            return
        facts = self._facts if is_read else self._read_facts()
        self._facts = facts
        step = decide_step(order, facts, view.items.get(order.node.name))
        if step.kind is not StepKind.NOTHING:
            if now >= not_before:
                self._write(order, facts)
            return
        with self._changed:
            rivals = f"others keep changing {_KIND} {order.node.name}: {self._undone} times"
            fights = self._undone >= _MANY_TIMES and now < self._not_before
            self._problem = step.problem or (rivals if fights else "")

    def _write(self, order: TopologyOrder, facts: TopologyFacts | Gap) -> None:
        step, asked = TopologyStep(), None
        try:
            step = carry_out(self._client, order, facts)
            result, problem = WRITTEN, step.problem
        except HttpStatusError as refused:
            result, problem, asked = REFUSED, str(refused), refused.retry_after
        except (RequestError, msgspec.DecodeError) as error:
            result, problem = UNREACHABLE, str(error)
        with self._changed:
            self._problem = problem
            if result == WRITTEN and step.kind is StepKind.NOTHING:
                # The informer was late.
                self._not_before = Micros(self._clock() + SETTLE)
                return
            if result == WRITTEN and self._written == (order, facts):
                result = REPAIRED
            self._attempts[result] += 1
            self._pause_after(result, asked)
            if result == WRITTEN:
                self._written = (order, facts)

    def _pause_after(self, result: str, asked: float | None) -> None:
        """Longer and longer where it is refused, or where somebody undoes what we write."""
        now = self._clock()
        if result == WRITTEN or now - self._not_before > _PEACE:
            self._pace.reset()
            self._undone = 0
        self._undone += result == REPAIRED
        wait = SETTLE if result == WRITTEN else int(self._pace.after_failure(asked) * _SECOND)
        self._not_before = Micros(now + wait)
