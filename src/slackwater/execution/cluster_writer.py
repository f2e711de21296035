"""The only module of the agent that changes API objects: its Node's face, and events.

Owns a thread and one place for what is to be written: the latest wins, so the loop never waits
and nothing piles up while the server is away. When is node_writes'. A write that fails is
counted and told, and tried again with what is wanted by then.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from slackwater.contract.node_condition import Acting, NodeFace, face_object
from slackwater.execution.node_writes import Pace, due_at, refused, written
from slackwater.kube.answer import KubeError, Refused
from slackwater.kube.event_sender import Happening
from slackwater.kube.resource import NODES, Resource
from slackwater.kube.time_of_day import whole_seconds
from slackwater.model.units import Micros, MilliCpu

FIELD_MANAGER = "slackwater-agent"
WRITTEN, REFUSED, UNREACHABLE = "written", "refused", "unreachable"
#: The first decision needs two looks: before it there is nothing worth a write.
SETTLING = Micros(3_000_000)


class Applying(Protocol):
    """A client, as far as it is used here."""

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


class Sender(Protocol):
    """Who sends events, in a thread of its own."""

    def start(self) -> None: ...

    def stop(self, patience: float = 2.0) -> None: ...

    def send(self, happening: Happening) -> None: ...

    def problem(self) -> str: ...

    def dropped(self) -> int: ...


class Tried(msgspec.Struct, frozen=True):
    """`attempts` by how they ended; `problem` is why the last one failed."""

    attempts: Mapping[str, int]
    problem: str = ""


class ClusterWriter:
    """Guards the thread that writes the Node."""

    def __init__(
        self,
        client: Applying,
        sender: Sender,
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
        self._pace = Pace(not_before=Micros(clock() + SETTLING))
        self._wanted: NodeFace | None = None
        self._last: NodeFace | None = None
        self._attempts: Counter[str] = Counter()
        self._problem = ""
        self._ended = False
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._write_all, name="node-writer", daemon=True)

    def start(self) -> None:
        self._sender.start()
        self._thread.start()

    def offer(self, wanted: NodeFace, seen: NodeFace | None, grain: MilliCpu) -> None:
        """From the loop, in each round; `seen` is what the Node shows now. Never waits."""
        with self._news:
            if due_at(wanted, seen, self._pace, grain) <= self._clock():
                self._wanted = _with_transition(wanted, seen)
                self._news.notify()

    def leave(self, last: NodeFace, seen: NodeFace | None) -> None:
        """What is written once more at the end, whatever the pace, if the server is quick."""
        with self._news:
            self._last = _with_transition(last, seen)

    def send(self, happening: Happening) -> None:
        self._sender.send(happening)

    def tried(self) -> Tried:
        with self._news:
            return Tried(dict(self._attempts), self._problem)

    def unsent(self) -> tuple[str, int]:
        """Why the last event failed, and how many are lost."""
        return self._sender.problem(), self._sender.dropped()

    def stop(self, patience: float) -> None:
        """No new write but the last words; one that is on its way may still end."""
        if not self._thread.is_alive():
            return  # a dry run never began
        with self._news:
            self._ended = True
            self._news.notify()
        self._thread.join(patience)
        self._sender.stop(patience)

    def _write_all(self) -> None:
        while (face := self._next()) is not None:
            result, problem, retry_after = self._write(face)
            with self._news:
                at = self._clock()
                self._attempts[result] += 1
                self._problem = problem
                # What was offered meanwhile was offered by the old pace.
                self._wanted = None
                self._pace = (
                    refused(self._pace, at, retry_after, self._jitter.random())
                    if problem
                    else written(at, self._pace)
                )

    def _next(self) -> NodeFace | None:
        with self._news:
            self._news.wait_for(lambda: self._wanted is not None or self._ended)
            if not self._ended:
                return self._wanted
            last, self._last = self._last, None
            return last

    def _write(self, face: NodeFace) -> tuple[str, str, float | None]:
        """How it ended, why not, and how long the server wants to be left alone.

        The annotation goes with the status: a Node's status strategy resets nothing but the spec
        (pkg/registry/core/node/strategy.go), so one write is enough for both.
        """
        body = face_object(self._node, face, _time_of_day())
        try:
            self._client.apply(NODES, self._node, body, manager=FIELD_MANAGER, subresource="status")
        except Refused as error:
            return REFUSED, str(error), error.retry_after
        except KubeError as error:
            return UNREACHABLE, str(error), None
        return WRITTEN, "", None


def _with_transition(wanted: NodeFace, seen: NodeFace | None) -> NodeFace:
    """A condition that stays keeps the time since when it is so."""
    if seen is None or seen.acting.status != wanted.acting.status:
        return wanted
    acting: Acting = msgspec.structs.replace(wanted.acting, since=seen.acting.since)
    return msgspec.structs.replace(wanted, acting=acting)


def _time_of_day() -> str:
    return whole_seconds(time.time())
