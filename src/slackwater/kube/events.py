"""Kubernetes events: aggregated, rate-limited, and sent by a thread of their own.

Repeated events with the same reason about the same object become one event with a count, and no
more are sent than the rate limit allows; what has to wait is counted together, not lost. The
caller never waits. Core v1 events, because that is what `kubectl describe` reads.
"""

import enum
import threading
import time
from collections.abc import Callable

import msgspec

from slackwater.http.errors import RequestError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import Client, PatchKind
from slackwater.kube.resource import EVENTS
from slackwater.kube.timestamps import WallClock, format_time


class EventType(enum.Enum):
    NORMAL = "Normal"
    WARNING = "Warning"


class ObjectReference(msgspec.Struct, frozen=True):
    """The object that an event is about. A Node's uid is its name, as the kubelet has it:
    `kubectl describe node` looks for that."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""


class KubeEvent(msgspec.Struct, frozen=True):
    """`reason` is one word in CamelCase, `message` one sentence."""

    about: ObjectReference
    reason: str
    message: str
    type: EventType = EventType.NORMAL

    @property
    def series(self) -> tuple[ObjectReference, str, EventType]:
        """What counts as the same; the sentence may change, the last one is shown."""
        return self.about, self.reason, self.type


class EventRateLimit(msgspec.Struct, frozen=True):
    """How much is sent: so many at once, then one in so many seconds. `kinds`: how many series
    may wait, and are remembered."""

    burst: int = 20
    every: float = 5.0
    kinds: int = 512


class PendingEvent(msgspec.Struct, frozen=True):
    """The last of a series, and how many there were, from when to when (times of day)."""

    event: KubeEvent
    count: int
    first: float
    last: float

    def joined(self, later: "PendingEvent") -> "PendingEvent":
        return PendingEvent(later.event, self.count + later.count, self.first, later.last)


class EventQueue:
    """Guards what waits, the oldest first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._waiting: dict[tuple[ObjectReference, str, EventType], PendingEvent] = {}
        self._dropped = 0

    def add(self, event: KubeEvent, at: float) -> None:
        """Beyond the bound it is lost, and counted."""
        self._merge(PendingEvent(event, 1, at, at), lambda old, new: old.joined(new))

    def put_back(self, waiting: PendingEvent) -> None:
        """It could not be sent; others of its series may have come meanwhile."""
        self._merge(waiting, lambda newer, back: back.joined(newer))

    def oldest(self) -> PendingEvent:
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
            elif len(self._waiting) < self._most:
                self._waiting[series] = one
            else:
                self._dropped += one.count


class TokenBucket:
    """Guards the tokens: `burst` at first, one more in each `every` seconds."""

    def __init__(self, allowance: EventRateLimit, at: float) -> None:
        self._allowance = allowance
        self._tokens = float(allowance.burst)
        self._at = at

    def until_free(self, at: float) -> float:
        """Seconds until a token is there; zero where one is."""
        self._fill(at)
        return 0.0 if self._tokens >= 1.0 else (1.0 - self._tokens) * self._allowance.every

    def spend(self, at: float) -> None:
        self._fill(at)
        self._tokens -= 1.0

    def _fill(self, at: float) -> None:
        gained = (at - self._at) / self._allowance.every
        self._tokens = min(self._tokens + max(gained, 0.0), float(self._allowance.burst))
        self._at = at


#: After so long a quiet time the next one is an event of its own (client-go has the same).
_SERIES = 600.0
#: The server's bounds (pkg/apis/core/validation/events.go); a name is a DNS subdomain.
_LONGEST_MESSAGE, _LONGEST_NAME = 1024, 200
#: A pause after a failure, in seconds.
_PAUSE = 5.0


class _SentEvent(msgspec.Struct, frozen=True):
    """The event object that a series goes into."""

    name: str
    count: int
    at: float


class EventRecorder:
    """Guards the heap of what waits, and the thread that sends it."""

    def __init__(
        self,
        client: Client,
        component: str,
        instance: str = "",
        *,
        allowance: EventRateLimit = EventRateLimit(),  # noqa: B008
        clock: Callable[[], float] = time.monotonic,
        wall: WallClock = time.time,
    ) -> None:
        self._client = client
        self._component = component
        self._instance = instance
        self._clock = clock
        self._wall = wall
        self._queue = EventQueue(allowance.kinds)
        self._bucket = TokenBucket(allowance, clock())
        self._kinds = allowance.kinds
        self._sent: dict[tuple[ObjectReference, str, EventType], _SentEvent] = {}
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
        """What waits is still sent as far as the allowance reaches, in so many seconds."""
        self._stopping.set()
        self._awake.set()
        if self._thread is not None:
            self._thread.join(patience)

    def send(self, event: KubeEvent) -> None:
        """From any thread; never waits. The same reason about the same object is counted."""
        self._queue.add(event, self._wall())
        self._awake.set()

    def problem(self) -> str:
        """Why the last one could not be sent; empty while they can."""
        return self._problem

    def dropped(self) -> int:
        """How many were lost since the start: refused, or too many kinds at once."""
        return self._lost + self._queue.dropped()

    def step(self) -> float | None:
        """Sends one. Seconds until the next may be sent; None where none waits."""
        if self._queue.is_empty():
            return None
        pause = self._bucket.until_free(self._clock())
        if pause > 0:
            return pause
        waiting = self._queue.oldest()
        self._bucket.spend(self._clock())
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
                self._lost += waiting.count  # the same again would be refused again
                return 0.0
            self._queue.put_back(waiting)
            return refused.retry_after or _PAUSE
        except RequestError as error:
            self._problem = str(error)
            self._queue.put_back(waiting)
            return _PAUSE
        self._problem = ""
        return 0.0

    def _patch_or_create(self, waiting: PendingEvent) -> None:
        key = waiting.event.series
        last = self._sent.pop(key, None)
        name, count = "", waiting.count
        if last is not None and self._clock() - last.at < _SERIES:
            count += last.count
            name = last.name if self._patched(last.name, waiting, count) else ""
            count = count if name else waiting.count  # expired: the server keeps them for an hour
        if not name:
            name = self._created(waiting)
        self._sent[key] = _SentEvent(name, count, self._clock())  # the youngest stands last
        while len(self._sent) > self._kinds:
            del self._sent[next(iter(self._sent))]

    def _patched(self, name: str, waiting: PendingEvent, count: int) -> bool:
        changes = {
            "count": count,
            "lastTimestamp": format_time(waiting.last),
            "message": waiting.event.message[:_LONGEST_MESSAGE],
        }
        namespace = _namespace(waiting.event.about)
        try:
            self._client.patch(EVENTS, name, changes, kind=PatchKind.MERGE, namespace=namespace)
        except HttpStatusError as refused:
            if refused.reason == "NotFound":
                return False
            raise
        return True

    def _created(self, waiting: PendingEvent) -> str:
        event, about = waiting.event, waiting.event.about
        name = f"{about.name[:_LONGEST_NAME].rstrip('.-')}.{round(self._wall() * 1e9):x}"
        body = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": name, "namespace": _namespace(about)},
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
        self._client.create(EVENTS, body, _namespace(about))
        return name


def _namespace(about: ObjectReference) -> str:
    """Events about objects without a namespace stand in `default`."""
    return about.namespace or "default"
