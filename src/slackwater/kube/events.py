"""Kubernetes events: aggregated, rate-limited, and sent by a thread of their own.

Repeated events with the same reason about the same object and subject become one with a count, and
no more are sent than the rate limit allows; what has to wait is counted together, not lost. The
caller never waits. Core v1 events, because that is what `kubectl describe` reads.
"""

import enum
import threading
import time
from collections.abc import Callable

import msgspec

from slackwater.contract.resources import EVENTS
from slackwater.http.errors import RequestError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.api_time import WallClock, format_time
from slackwater.kube.client import Client, PatchKind

#: A series that was quiet for this long starts a new event (as in client-go).
_SERIES_SECONDS = 600.0
#: The server's bounds (pkg/apis/core/validation/events.go); a name is a DNS subdomain.
_LONGEST_MESSAGE, _LONGEST_NAME = 1024, 200
#: Seconds.
_FAILURE_PAUSE = 5.0


class EventType(enum.Enum):
    NORMAL = "Normal"
    WARNING = "Warning"


class ObjectReference(msgspec.Struct, frozen=True):
    """The object that an event is about. For a Node the uid is its name, as the kubelet sets it:
    `kubectl describe node` looks for that."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""


#: What events must have in common to be counted as one.
EventSeries = tuple[ObjectReference, str, EventType, str]


class KubeEvent(msgspec.Struct, frozen=True):
    """`reason` is one word in CamelCase, `message` one sentence. Where one object has several
    things with the same reason, such as a node its rules, `subject` tells them apart."""

    about: ObjectReference
    reason: str
    message: str
    type: EventType = EventType.NORMAL
    subject: str = ""

    @property
    def series(self) -> EventSeries:
        """Events of one series are counted together; the last message is shown."""
        return self.about, self.reason, self.type, self.subject


class EventRateLimit(msgspec.Struct, frozen=True):
    """At most `burst` events at once, then one every `every` seconds. `max_series` bounds how many
    series may wait, and how many are remembered."""

    burst: int = 20
    every: float = 5.0
    max_series: int = 512


class PendingEvent(msgspec.Struct, frozen=True):
    """The last event of a series, how many there were, and when (wall clock)."""

    event: KubeEvent
    count: int
    first: float
    last: float

    def merged_with(self, later: "PendingEvent") -> "PendingEvent":
        return PendingEvent(later.event, self.count + later.count, self.first, later.last)


class EventQueue:
    """Guards the pending events, the oldest first."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._waiting: dict[EventSeries, PendingEvent] = {}
        self._dropped = 0

    def add(self, event: KubeEvent, at: float) -> None:
        """Beyond the capacity the event is dropped and counted."""
        self._merge(PendingEvent(event, 1, at, at), lambda old, new: old.merged_with(new))

    def put_back(self, waiting: PendingEvent) -> None:
        """After a failed attempt; more of its series may have been added meanwhile."""
        self._merge(waiting, lambda newer, back: back.merged_with(newer))

    def pop_oldest(self) -> PendingEvent:
        with self._lock:
            return self._waiting.pop(next(iter(self._waiting)))

    def is_empty(self) -> bool:
        return not self._waiting

    def dropped(self) -> int:
        return self._dropped

    def _merge(
        self, one: PendingEvent, join: Callable[[PendingEvent, PendingEvent], PendingEvent]
    ) -> None:
        series = one.event.series
        with self._lock:
            there = self._waiting.get(series)
            if there is not None:
                self._waiting[series] = join(there, one)
            elif len(self._waiting) < self._capacity:
                self._waiting[series] = one
            else:
                self._dropped += one.count


class TokenBucket:
    """Guards the tokens: `burst` at first, then one more every `every` seconds."""

    def __init__(self, rate_limit: EventRateLimit, at: float) -> None:
        self._rate_limit = rate_limit
        self._tokens = float(rate_limit.burst)
        self._at = at

    def seconds_until_free(self, at: float) -> float:
        """Seconds until a token is available; zero if one is."""
        self._fill(at)
        return 0.0 if self._tokens >= 1.0 else (1.0 - self._tokens) * self._rate_limit.every

    def take(self, at: float) -> None:
        self._fill(at)
        self._tokens -= 1.0

    def _fill(self, at: float) -> None:
        gained = (at - self._at) / self._rate_limit.every
        self._tokens = min(self._tokens + max(gained, 0.0), float(self._rate_limit.burst))
        self._at = at


class _SentEvent(msgspec.Struct, frozen=True):
    """The Event object that a series is counted in."""

    name: str
    count: int
    at: float


class EventRecorder:
    """Guards the queue of pending events and the thread that sends them."""

    def __init__(
        self,
        client: Client,
        component: str,
        instance: str = "",
        *,
        rate_limit: EventRateLimit = EventRateLimit(),  # noqa: B008
        clock: Callable[[], float] = time.monotonic,
        wall: WallClock = time.time,
    ) -> None:
        self._client = client
        self._component = component
        self._instance = instance
        self._clock = clock
        self._wall = wall
        self._queue = EventQueue(rate_limit.max_series)
        self._bucket = TokenBucket(rate_limit, clock())
        self._max_series = rate_limit.max_series
        self._sent: dict[EventSeries, _SentEvent] = {}
        self._problem = ""
        self._lost = 0
        self._awake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Once."""
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)
        self._thread.start()

    def stop(self, patience: float = 2.0) -> None:
        """Pending events are still sent, as far as the rate limit and `patience` seconds allow."""
        self._stopping.set()
        self._awake.set()
        if self._thread is not None:
            self._thread.join(patience)

    def send(self, event: KubeEvent) -> None:
        """From any thread; never waits."""
        self._queue.add(event, self._wall())
        self._awake.set()

    def problem(self) -> str:
        """Why the last event could not be sent; empty if it was."""
        return self._problem

    def dropped(self) -> int:
        """How many were lost since the start: refused, or too many series at once."""
        return self._lost + self._queue.dropped()

    def step(self) -> float | None:
        """Sends one event. Seconds until the next may be sent; None if none is pending."""
        if self._queue.is_empty():
            return None
        pause = self._bucket.seconds_until_free(self._clock())
        if pause > 0:
            return pause
        waiting = self._queue.pop_oldest()
        self._bucket.take(self._clock())
        return self._send(waiting)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                pause = self.step()
                if pause is None:
                    self._awake.wait()
                    self._awake.clear()
                elif pause > 0:
                    self._stopping.wait(pause)
            while self.step() == 0.0:
                pass
        finally:
            self._client.close()

    def _send(self, waiting: PendingEvent) -> float:
        try:
            self._patch_or_create(waiting)
        except HttpStatusError as refused:
            self._problem = str(refused)
            if refused.status < 500 and refused.status != 429:
                self._lost += waiting.count  # it would be refused again
                return 0.0
            self._queue.put_back(waiting)
            return refused.retry_after or _FAILURE_PAUSE
        except RequestError as error:
            self._problem = str(error)
            self._queue.put_back(waiting)
            return _FAILURE_PAUSE
        self._problem = ""
        return 0.0

    def _patch_or_create(self, waiting: PendingEvent) -> None:
        key = waiting.event.series
        last = self._sent.pop(key, None)
        name, count = "", waiting.count
        if last is not None and self._clock() - last.at < _SERIES_SECONDS:
            count += last.count
            name = last.name if self._patch(last.name, waiting, count) else ""
            count = count if name else waiting.count  # expired: the server keeps events for an hour
        if not name:
            name = self._create(waiting)
        self._sent[key] = _SentEvent(name, count, self._clock())  # the newest is last
        while len(self._sent) > self._max_series:
            del self._sent[next(iter(self._sent))]

    def _patch(self, name: str, waiting: PendingEvent, count: int) -> bool:
        changes = {
            "count": count,
            "lastTimestamp": format_time(waiting.last),
            "message": waiting.event.message[:_LONGEST_MESSAGE],
        }
        namespace = _event_namespace(waiting.event.about)
        try:
            self._client.patch(EVENTS, name, changes, kind=PatchKind.MERGE, namespace=namespace)
        except HttpStatusError as refused:
            if refused.reason == "NotFound":
                return False
            raise
        return True

    def _create(self, waiting: PendingEvent) -> str:
        event, about = waiting.event, waiting.event.about
        name = f"{about.name[:_LONGEST_NAME].rstrip('.-')}.{round(self._wall() * 1e9):x}"
        body = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": name, "namespace": _event_namespace(about)},
            "involvedObject": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "name": about.name,
                "namespace": about.namespace,
                "uid": about.uid,
            },
            "reason": event.reason,
            "message": event.message[:_LONGEST_MESSAGE],
            "type": event.type.value,
            "count": waiting.count,
            "firstTimestamp": format_time(waiting.first),
            "lastTimestamp": format_time(waiting.last),
            "source": {"component": self._component, "host": self._instance},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
        }
        self._client.create(EVENTS, body, _event_namespace(about))
        return name


def _event_namespace(about: ObjectReference) -> str:
    """Events about cluster-scoped objects are in `default`."""
    return about.namespace or "default"
