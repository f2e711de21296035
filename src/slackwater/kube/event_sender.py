"""Kubernetes events, sent in a thread of its own.

Owns what is sent, how often and as how many objects: the same reason about the same object is one
event with a count, and no more go out than the allowance says; what has to wait is counted
together, not lost. Never makes its caller wait. Core v1: that is what `kubectl describe` reads.
"""

import threading
import time
from collections.abc import Callable

import msgspec

from slackwater.kube.answer import KubeError, Refused
from slackwater.kube.client import Client, PatchKind
from slackwater.kube.happening import About, Allowance, Bucket, Happening, Heap, Severity, Waiting
from slackwater.kube.resource import EVENTS
from slackwater.kube.time_of_day import Wall, whole_seconds

__all__ = ["About", "Allowance", "EventSender", "Happening", "Severity"]

#: After so long a quiet time the next one is an event of its own (client-go has the same).
_SERIES = 600.0
#: The server's bounds (pkg/apis/core/validation/events.go); a name is a DNS subdomain.
_LONGEST_MESSAGE, _LONGEST_NAME = 1024, 200
#: A pause after a failure, in seconds.
_PAUSE = 5.0


class _Sent(msgspec.Struct, frozen=True):
    """The event object that a series goes into."""

    name: str
    count: int
    at: float


class EventSender:
    """Guards the heap of what waits, and the thread that sends it."""

    def __init__(
        self,
        client: Client,
        component: str,
        instance: str = "",
        *,
        allowance: Allowance = Allowance(),  # noqa: B008
        clock: Callable[[], float] = time.monotonic,
        wall: Wall = time.time,
    ) -> None:
        self._client = client
        self._component = component
        self._instance = instance
        self._clock = clock
        self._wall = wall
        self._heap = Heap(allowance.kinds)
        self._bucket = Bucket(allowance, clock())
        self._kinds = allowance.kinds
        self._sent: dict[tuple[About, str, Severity], _Sent] = {}
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

    def send(self, happening: Happening) -> None:
        """From any thread; never waits. The same reason about the same object is counted."""
        self._heap.add(happening, self._wall())
        self._awake.set()

    def problem(self) -> str:
        """Why the last one could not be sent; empty while they can."""
        return self._problem

    def dropped(self) -> int:
        """How many were lost since the start: refused, or too many kinds at once."""
        return self._lost + self._heap.dropped()

    def step(self) -> float | None:
        """Sends one. Seconds until the next may be sent; None where none waits."""
        if self._heap.is_empty():
            return None
        pause = self._bucket.until_free(self._clock())
        if pause > 0:
            return pause
        waiting = self._heap.oldest()
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

    def _send(self, waiting: Waiting) -> float:
        try:
            self._patch_or_create(waiting)
        except Refused as refused:
            self._problem = str(refused)
            if refused.status < 500 and refused.status != 429:
                self._lost += waiting.count  # the same again would be refused again
                return 0.0
            self._heap.put_back(waiting)
            return refused.retry_after or _PAUSE
        except KubeError as error:
            self._problem = str(error)
            self._heap.put_back(waiting)
            return _PAUSE
        self._problem = ""
        return 0.0

    def _patch_or_create(self, waiting: Waiting) -> None:
        key = waiting.happening.series
        last = self._sent.pop(key, None)
        name, count = "", waiting.count
        if last is not None and self._clock() - last.at < _SERIES:
            count += last.count
            name = last.name if self._patched(last.name, waiting, count) else ""
            count = count if name else waiting.count  # expired: the server keeps them for an hour
        if not name:
            name = self._created(waiting)
        self._sent[key] = _Sent(name, count, self._clock())  # the youngest stands last
        while len(self._sent) > self._kinds:
            del self._sent[next(iter(self._sent))]

    def _patched(self, name: str, waiting: Waiting, count: int) -> bool:
        changes = {
            "count": count,
            "lastTimestamp": whole_seconds(waiting.last),
            "message": waiting.happening.message[:_LONGEST_MESSAGE],
        }
        namespace = _namespace(waiting.happening.about)
        try:
            self._client.patch(EVENTS, name, changes, kind=PatchKind.MERGE, namespace=namespace)
        except Refused as refused:
            if refused.reason == "NotFound":
                return False
            raise
        return True

    def _created(self, waiting: Waiting) -> str:
        happening, about = waiting.happening, waiting.happening.about
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
            "reason": happening.reason,
            "message": happening.message[:_LONGEST_MESSAGE],
            "type": happening.severity.value,
            "count": waiting.count,
            "firstTimestamp": whole_seconds(waiting.first),
            "lastTimestamp": whole_seconds(waiting.last),
            "source": {"component": self._component, "host": self._instance},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
        }
        self._client.create(EVENTS, body, _namespace(about))
        return name


def _namespace(about: About) -> str:
    """Events about objects without a namespace stand in `default`."""
    return about.namespace or "default"
