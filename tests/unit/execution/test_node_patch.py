"""The writer's thread: it writes what is wanted last, says how that went, and lets nobody wait."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from slackwater.contract.resources import NODES, Resource
from slackwater.execution.node_patch import (
    FIELD_MANAGER,
    HEARTBEAT_INTERVAL,
    STARTUP_DELAY,
    STARTUP_SPREAD,
    WRITE_INTERVAL,
    NodeWriter,
    WriteAttempts,
)
from slackwater.http.errors import CredentialsError, RequestError, UnreachableError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.events import KubeEvent, ObjectReference
from slackwater.model.units import Micros
from tests.unit.execution.status_patches import GRAIN, status_patch

#: When every agent has made its first write.
STARTED = Micros(STARTUP_DELAY + STARTUP_SPREAD)


class Desk:
    """A writer, its client and its sender, with a clock that a test moves."""

    def __init__(self) -> None:
        self.now = Micros(0)
        self.applied: list[tuple[str, Any, str, str]] = []
        self.sent: list[KubeEvent] = []
        self.error: RequestError | None = None
        self.gate = threading.Event()
        self.gate.set()
        chance = random.Random(1)  # noqa: S311
        self.writer = NodeWriter(self, self, "here", clock=lambda: self.now, jitter=chance)

    def apply(
        self,
        resource: Resource,
        name: str,
        body: object,
        *,
        manager: str,
        namespace: str = "",
        subresource: str = "",
    ) -> bytes:
        assert (resource, namespace) == (NODES, "")
        self.applied.append((name, body, manager, subresource))
        assert self.gate.wait()
        if self.error is not None:
            raise self.error
        return b"{}"

    def start(self) -> None:
        """The sender's."""

    def stop(self, patience: float = 2.0) -> None:
        self.stopped = patience

    def send(self, event: KubeEvent) -> None:
        self.sent.append(event)

    def problem(self) -> str:
        return "no room"

    def dropped(self) -> int:
        return 7

    def tries(self) -> int:
        return sum(self.writer.tried().attempts.values())

    def condition(self, number: int = -1) -> dict[str, Any]:
        found: dict[str, Any] = self.applied[number][1]["status"]["conditions"][0]
        return found


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    made.writer.start()
    made.now = STARTED
    yield made
    made.gate.set()
    made.writer.stop(3600)


def until(look: Callable[[], object]) -> None:
    while not look():
        time.sleep(0.002)


def offer(desk: Desk, tries: int, **wanted: Any) -> None:
    """Something is wanted, and it is tried."""
    desk.writer.offer(status_patch(**wanted), None, GRAIN)
    until(lambda: desk.tries() == tries)


def test_one_apply_has_the_report_and_the_condition(desk: Desk) -> None:
    offer(desk, 1, quota=1200)
    [(name, body, manager, subresource)] = desk.applied
    assert (name, manager, subresource) == ("here", FIELD_MANAGER, "status")
    assert '"quota":"1200m"' in body["metadata"]["annotations"]["slackwater.io/report"]
    assert desk.condition()["status"] == "True"
    assert desk.condition()["lastHeartbeatTime"].endswith("Z")
    assert desk.writer.tried() == WriteAttempts({"written": 1})


def test_what_is_due_is_written_once_without_the_thread() -> None:
    desk = Desk()
    desk.now = STARTED
    desk.writer.write_due()
    assert desk.applied == [], "nothing is wanted"
    desk.writer.offer(status_patch(quota=1200), None, GRAIN)
    for _ in range(2):
        desk.writer.write_due()
    assert len(desk.applied) == 1
    assert desk.writer.tried() == WriteAttempts({"written": 1})


def test_before_the_first_decision_nothing_is_written(desk: Desk) -> None:
    desk.now = Micros(STARTUP_DELAY - 1)
    desk.writer.offer(status_patch(), None, GRAIN)
    desk.now = STARTED
    offer(desk, 1, quota=5)
    assert len(desk.applied) == 1
    assert '"5m"' in str(desk.applied)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.999])
def test_agents_that_start_at_once_do_not_write_at_once(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random.Random, "random", lambda _self: share)
    desk = Desk()
    desk.writer.start()
    first = STARTUP_DELAY + int(share * STARTUP_SPREAD)
    desk.now = Micros(first - 1)
    desk.writer.offer(status_patch(), None, GRAIN)
    assert desk.applied == []
    desk.now = Micros(first)
    offer(desk, 1, quota=5)
    assert '"5m"' in str(desk.applied)
    desk.writer.stop(3600)


def test_at_most_one_a_minute_and_the_latest_of_what_was_wanted(desk: Desk) -> None:
    offer(desk, 1, quota=100)
    for quota in (200, 300):
        desk.now = Micros(desk.now + 1)
        desk.writer.offer(status_patch(quota=quota), status_patch(quota=100), GRAIN)
    desk.now = Micros(STARTED + WRITE_INTERVAL)
    desk.writer.offer(status_patch(quota=400), status_patch(quota=100), GRAIN)
    until(lambda: desk.tries() == 2)
    assert '"400m"' in str(desk.applied[1])
    assert len(desk.applied) == 2


def test_without_news_it_is_renewed_after_five_minutes(desk: Desk) -> None:
    offer(desk, 1)
    desk.now = Micros(STARTED + HEARTBEAT_INTERVAL - 1)
    desk.writer.offer(status_patch(), status_patch(), GRAIN)
    desk.now = Micros(STARTED + HEARTBEAT_INTERVAL)
    desk.writer.offer(status_patch(), status_patch(), GRAIN)
    until(lambda: desk.tries() == 2)
    assert len(desk.applied) == 2


SINCE = "2026-11-17T08:00:00Z"


@pytest.mark.parametrize(("status", "kept"), [("True", True), ("False", False)])
def test_a_condition_that_stays_keeps_its_time(desk: Desk, status: str, kept: bool) -> None:
    desk.writer.offer(status_patch(status=status), status_patch(since=SINCE), GRAIN)
    until(lambda: desk.tries() == 1)
    assert (desk.condition()["lastTransitionTime"] == SINCE) is kept


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (HttpStatusError("PATCH x", 409, "Conflict", "changed"), "refused"),
        (HttpStatusError("PATCH x", 429, "TooManyRequests", "slow", 30.0), "refused"),
        (HttpStatusError("PATCH x", 500, "InternalError", "bad"), "refused"),
        (HttpStatusError("PATCH x", 403, "Forbidden", "no"), "refused"),
        (UnreachableError("PATCH x: connection refused"), "unreachable"),
        (CredentialsError("no token"), "unreachable"),
    ],
)
def test_what_fails_is_counted_told_and_tried_again(
    desk: Desk, error: RequestError, result: str
) -> None:
    desk.error = error
    offer(desk, 1)
    assert desk.writer.tried() == WriteAttempts({result: 1}, str(error))
    desk.writer.offer(status_patch(), None, GRAIN)  # at once: not yet
    desk.error = None
    desk.now = Micros(desk.now + 60_000_000)
    offer(desk, 2)
    assert desk.writer.tried() == WriteAttempts({result: 1, "written": 1})
    assert len(desk.applied) == 2


def test_a_slow_server_makes_nobody_wait_and_nothing_piles_up(desk: Desk) -> None:
    desk.gate.clear()
    desk.writer.offer(status_patch(quota=1), None, GRAIN)
    until(lambda: desk.applied)
    for quota in range(2, 1000):  # none of them waits for the gate
        desk.writer.offer(status_patch(quota=quota), None, GRAIN)
    desk.gate.set()
    until(lambda: desk.tries() == 1)
    desk.now = Micros(desk.now + WRITE_INTERVAL)
    offer(desk, 2, quota=5000)
    assert len(desk.applied) == 2
    assert '"5000m"' in str(desk.applied[1])


def test_events_go_to_the_sender(desk: Desk) -> None:
    event = KubeEvent(ObjectReference("v1", "Node", "here"), "Reason", "a sentence")
    desk.writer.send(event)
    assert desk.sent == [event]
    assert desk.writer.unsent() == ("no room", 7)


def test_an_end_does_not_wait_for_a_server_that_hangs() -> None:
    desk = Desk()
    desk.writer.start()
    desk.now = STARTED
    desk.gate.clear()
    desk.writer.offer(status_patch(), None, GRAIN)
    until(lambda: desk.applied)
    desk.writer.stop(0.05)
    assert desk.stopped == 0.05
    desk.gate.set()


def test_a_writer_that_never_began_ends_at_once() -> None:
    desk = Desk()
    desk.writer.leave(status_patch(), None)
    desk.writer.stop(3600)
    assert desk.applied == []


def test_the_last_words_are_written_at_the_end_whatever_the_pace(desk: Desk) -> None:
    offer(desk, 1, quota=100)
    desk.writer.leave(
        status_patch(status="False", reason="Released", holding=0), status_patch(since=SINCE)
    )
    assert len(desk.applied) == 1
    desk.writer.stop(3600)
    assert len(desk.applied) == 2
    assert (desk.condition()["status"], desk.condition()["reason"]) == ("False", "Released")
    assert desk.condition()["lastTransitionTime"] != SINCE
    assert desk.writer.tried() == WriteAttempts({"written": 2})


def test_without_last_words_nothing_is_written_at_the_end(desk: Desk) -> None:
    offer(desk, 1, quota=100)
    desk.writer.stop(3600)
    assert len(desk.applied) == 1


def test_last_words_that_fail_are_not_tried_again(desk: Desk) -> None:
    desk.error = UnreachableError("PATCH x: connection refused")
    desk.writer.leave(status_patch(), None)
    desk.writer.stop(3600)
    assert desk.writer.tried() == WriteAttempts({"unreachable": 1}, "PATCH x: connection refused")


def test_last_words_do_not_wait_for_a_server_that_hangs() -> None:
    desk = Desk()
    desk.writer.start()
    desk.gate.clear()
    desk.writer.leave(status_patch(), None)
    desk.writer.stop(0.05)
    desk.gate.set()
    until(lambda: desk.tries() == 1)
