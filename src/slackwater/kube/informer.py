"""One kind of objects, kept equal to the API server's by list and watch, in a thread of its own.

Owns resuming: a watch that ends goes on where it stopped; one that the server has forgotten
(410) begins with a list, and what is not in it is gone. Owns the pauses between attempts.
Refuses to forget: while the server cannot be heard, the last objects stay, with a reason.
"""

import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import msgspec

from slackwater.http.backoff import Backoff
from slackwater.http.errors import RequestError, UnreachableError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import EVERYTHING, Client
from slackwater.kube.resource import Resource, Selector
from slackwater.kube.store import Store, named
from slackwater.kube.stream import Stream, WatchEvent, WatchSilentError
from slackwater.model.units import Micros

T = TypeVar("T")

#: A watch that ends sooner, without a word, did not work (client-go has the same bound).
_SHORTEST_WATCH = 1.0
_JOIN = 5.0


class View(msgspec.Struct, Generic[T], frozen=True):
    """What is known now.

    `items` are by "namespace/name", or "name": the same mapping while nothing changed.
    `unreadable` says why an object could not be read; its last good value stays in `items`.
    `heard_at` is when the server was last heard, by the clock given; `problem` is why it cannot be
    heard now, empty while it can. `unknown_kind`: the server does not know this kind (its CRD is
    not installed), which `problem` says too.
    """

    items: Mapping[str, T]
    unreadable: Mapping[str, str] = {}
    synced: bool = False
    heard_at: Micros = Micros(0)
    problem: str = ""
    unknown_kind: bool = False


class Pace(msgspec.Struct, frozen=True):
    """Seconds: how long one watch lasts (up to a fifth more, so that not all end at once), how
    long it may be silent, and the pauses after failures. `unknown_wait` is the longest pause
    where the server does not know the kind: a thousand agents would ask for nothing otherwise."""

    watch: float = 300.0
    silence: float = 90.0
    first_wait: float = 0.5
    longest_wait: float = 30.0
    unknown_wait: float = 300.0


class _Hearing(msgspec.Struct, frozen=True):
    """Whether the server is heard."""

    synced: bool = False
    heard_at: Micros = Micros(0)
    problem: str = ""
    unknown_kind: bool = False


def _nothing() -> None:
    """Nobody wants to know."""


class Informer(Generic[T]):
    """Guards one thread, one watch and the objects that it brings."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        read: Callable[[msgspec.Raw], T],
        *,
        clock: Callable[[], Micros],
        namespace: str = "",
        selector: Selector = EVERYTHING,
        changed: Callable[[], None] = _nothing,
        jitter: random.Random,
        pace: Pace = Pace(),  # noqa: B008
    ) -> None:
        self._client = client
        self._resource = resource
        self._clock = clock
        self._namespace = namespace
        self._selector = selector
        self._changed = changed
        self._jitter = jitter
        self._pace = pace
        self._store = Store(read)
        self._backoff = Backoff(pace.first_wait, pace.longest_wait, jitter)
        self._patience = Backoff(pace.first_wait, pace.unknown_wait, jitter)
        self._hearing = _Hearing()
        self._version = ""
        self._stream: Stream | None = None
        self._stopping = threading.Event()
        self._synced = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Once."""
        name = f"informer {self._resource.plural}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Wakes the thread and waits for it, unless it is in the middle of a slow list."""
        self._stopping.set()
        stream = self._stream
        if stream is not None:
            stream.close()
        if self._thread is not None:
            self._thread.join(_JOIN)

    def view(self) -> View[T]:
        """Never waits for the network."""
        hearing = self._hearing  # before the objects: what is synced is there
        items, unreadable = self._store.take()
        return View(
            items,
            unreadable,
            hearing.synced,
            hearing.heard_at,
            hearing.problem,
            hearing.unknown_kind,
        )

    def wait_synced(self, timeout: float) -> bool:
        return self._synced.wait(timeout)

    def _run(self) -> None:
        problem = "its thread ended by a mistake of ours"
        try:
            while not self._stopping.is_set():
                pause = self._round()
                self._stopping.wait(pause)
            problem = "it was stopped"
        finally:
            self._client.close()
            self._hear(problem)

    def _round(self) -> float:
        """One list where that is needed, one watch; the pause until the next, in seconds."""
        try:
            if not self._version:
                self._list()
            return self._watch()
        except HttpStatusError as refused:
            if refused.reason == "Expired":
                return self._expired(refused)
            return self._failed(refused, refused.retry_after)
        except RequestError as error:
            return self._failed(error, None)

    def _list(self) -> None:
        listing = self._client.list(
            self._resource,
            self._store.look,
            namespace=self._namespace,
            selector=self._selector,
        )
        changed = self._store.replace(listing.items)
        self._version = listing.version
        self._patience.reset()
        first = not self._hearing.synced
        told = self._hear("", synced=True)
        self._synced.set()
        if changed or first or told:
            self._changed()

    def _watch(self) -> float:
        began = time.monotonic()
        stream = self._client.watch(
            self._resource,
            self._version,
            namespace=self._namespace,
            selector=self._selector,
            seconds=self._pace.watch * (1 + self._jitter.random() / 5),
            silence=self._pace.silence,
        )
        self._stream = stream
        if self._stopping.is_set():
            stream.close()
        if self._hear("", synced=True):
            self._changed()
        return self._listen(stream, began)

    def _listen(self, stream: Stream, began: float) -> float:
        """Until the watch ends. The pause after it keeps a server that ends each watch at once
        from being asked without end. Silence is an end like another: the next question shows
        whether somebody is there."""
        heard = False
        events = iter(stream)
        try:
            for event in events:
                heard = True
                self._take(event)
        except WatchSilentError:
            return 0.0
        finally:
            events.close()  # also where it was an event that we could not take
            self._stream = None
            lasted = time.monotonic() - began
            # Not for a word alone: one that is cut after its first event works no better.
            if lasted >= _SHORTEST_WATCH:
                self._backoff.reset()
        if not heard and lasted < _SHORTEST_WATCH and not self._stopping.is_set():
            raise UnreachableError(
                f"watching {self._resource.plural}: it ends as soon as it begins"
            )
        return max(_SHORTEST_WATCH - lasted, 0.0)

    def _take(self, event: WatchEvent) -> None:
        one = named(event.object)
        if one.version:
            self._version = one.version
        changed = False
        if event.type == "DELETED":
            changed = self._store.remove(one.key)
        elif event.type in ("ADDED", "MODIFIED"):
            changed = self._store.put(event.object, one)
        if self._hear("", synced=True) or changed:
            self._changed()

    def _expired(self, refused: HttpStatusError) -> float:
        """From the list again. There is a pause all the same: a server that forgets at once would
        be asked for everything again and again. It is a problem where it was the list itself."""
        first = bool(self._version)
        self._version = ""
        pause = self._backoff.after_failure(refused.retry_after)
        if not first and self._hear(str(refused)):
            self._changed()
        return pause

    def _failed(self, error: RequestError, asked: float | None) -> float:
        unknown = isinstance(error, HttpStatusError) and error.status == 404
        if unknown:
            self._version = ""
        if self._hear(str(error), unknown_kind=unknown):
            self._changed()
        return (self._patience if unknown else self._backoff).after_failure(asked)

    def _hear(self, problem: str, *, synced: bool = False, unknown_kind: bool = False) -> bool:
        """Notes how it is; whether that is news."""
        last = self._hearing
        self._hearing = _Hearing(
            synced=synced or last.synced,
            heard_at=last.heard_at if problem else self._clock(),
            problem=problem,
            unknown_kind=unknown_kind,
        )
        return (last.problem, last.synced) != (problem, self._hearing.synced)
