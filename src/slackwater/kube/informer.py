"""One kind of objects, kept equal to the API server's by list and watch, in a thread of its own.

A watch that ends is resumed where it stopped; one that the server has forgotten (410) begins with
a list, and what is not in it is gone. While the server cannot be reached, the last objects stay,
with a reason. Readers get a mapping that never changes (copy on write), so that they need no lock;
it stays the same object while nothing changed, so that `is` tells them that there is nothing to do.
"""

import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

import msgspec

from slackwater.http.backoff import Backoff
from slackwater.http.errors import RequestError, UnreachableError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import EVERYTHING, Client
from slackwater.kube.resource import ObjectSelector, Resource
from slackwater.kube.stream import WatchEvent, WatchSilentError, WatchStream
from slackwater.model.units import Micros

T = TypeVar("T")

#: A watch that ends sooner, without an event, did not work (client-go has the same bound).
_SHORTEST_WATCH = 1.0
_JOIN = 5.0


class _ObjectMeta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class NamedObject(msgspec.Struct, frozen=True, gc=False):
    """The part of an object that says which one it is."""

    metadata: _ObjectMeta

    @property
    def key(self) -> str:
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name

    @property
    def version(self) -> str:
        return self.metadata.resource_version


_NAMED = msgspec.json.Decoder(NamedObject)


def decode_name(raw: msgspec.Raw) -> NamedObject:
    try:
        return _NAMED.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise UnreachableError(f"an object without a name came: {error}") from None


class StoredObject(msgspec.Struct, Generic[T], frozen=True):
    """One object as it came: its value, or why there is none."""

    key: str
    version: str
    value: T | None
    problem: str = ""


class ObjectStore(Generic[T]):
    """Guards the mapping. One thread changes it; any thread takes it."""

    def __init__(self, read: Callable[[msgspec.Raw], T]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._versions: dict[str, str] = {}
        self._items: dict[str, T] = {}
        self._unreadable: dict[str, str] = {}
        self._taken = False

    def take(self) -> tuple[Mapping[str, T], Mapping[str, str]]:
        """The objects and what cannot be read of them."""
        with self._lock:
            self._taken = True
            return self._items, self._unreadable

    def look(self, raw: msgspec.Raw) -> StoredObject[T]:
        """One object of a list. One that has not changed is not read again."""
        one = decode_name(raw)
        key, version = one.key, one.version
        if version and self._versions.get(key) == version:
            return StoredObject(key, version, self._items.get(key), self._unreadable.get(key, ""))
        return self._found(key, version, raw)

    def put(self, raw: msgspec.Raw, one: NamedObject) -> bool:
        """One object of an event; whether that changed anything."""
        if one.version and self._versions.get(one.key) == one.version:
            return False
        found = self._found(one.key, one.version, raw)
        self._own()
        with self._lock:
            self._versions[found.key] = found.version
            if found.problem:
                self._unreadable[found.key] = found.problem
            elif found.value is not None:
                self._items[found.key] = found.value
                self._unreadable.pop(found.key, None)
        return True

    def remove(self, key: str) -> bool:
        """Whether it was there."""
        if key not in self._versions:
            return False
        self._own()
        with self._lock:
            for held in (self._versions, self._items, self._unreadable):
                held.pop(key, None)
        return True

    def replace(self, listed: Iterable[StoredObject[T]]) -> bool:
        """All objects anew: what is not in the list is gone. Whether that changed anything."""
        versions: dict[str, str] = {}
        items: dict[str, T] = {}
        unreadable: dict[str, str] = {}
        for found in listed:
            versions[found.key] = found.version
            # What cannot be read keeps its last good value.
            value = self._items.get(found.key) if found.problem else found.value
            if value is not None:
                items[found.key] = value
            if found.problem:
                unreadable[found.key] = found.problem
        if versions == self._versions and "" not in versions.values():
            return False
        with self._lock:
            self._versions, self._items, self._unreadable = versions, items, unreadable
            self._taken = False
        return True

    def _found(self, key: str, version: str, raw: msgspec.Raw) -> StoredObject[T]:
        try:
            return StoredObject(key, version, self._read(raw))
        except (ValueError, msgspec.MsgspecError, RecursionError) as error:
            return StoredObject(
                key, version, None, " ".join(str(error).split()) or "cannot be read"
            )

    def _own(self) -> None:
        """A mapping that nobody else has. The old one is copied outside the lock: it is taken,
        so nobody changes it."""
        if not self._taken:
            return
        items, unreadable = dict(self._items), dict(self._unreadable)
        with self._lock:
            self._items, self._unreadable, self._taken = items, unreadable, False


class InformerView(msgspec.Struct, Generic[T], frozen=True):
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


class WatchPace(msgspec.Struct, frozen=True):
    """Seconds: how long one watch lasts (up to a fifth more, so that not all end at once), how
    long it may be silent, and the pauses after failures. `unknown_wait` is the longest pause
    where the server does not know the kind: a thousand agents would ask for nothing otherwise."""

    watch: float = 300.0
    silence: float = 90.0
    first_wait: float = 0.5
    longest_wait: float = 30.0
    unknown_wait: float = 300.0


class _WatchState(msgspec.Struct, frozen=True):
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
        selector: ObjectSelector = EVERYTHING,
        changed: Callable[[], None] = _nothing,
        jitter: random.Random,
        pace: WatchPace = WatchPace(),  # noqa: B008
    ) -> None:
        self._client = client
        self._resource = resource
        self._clock = clock
        self._namespace = namespace
        self._selector = selector
        self._changed = changed
        self._jitter = jitter
        self._pace = pace
        self._store = ObjectStore(read)
        self._backoff = Backoff(pace.first_wait, pace.longest_wait, jitter)
        self._patience = Backoff(pace.first_wait, pace.unknown_wait, jitter)
        self._hearing = _WatchState()
        self._version = ""
        self._stream: WatchStream | None = None
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

    def view(self) -> InformerView[T]:
        """Never waits for the network."""
        hearing = self._hearing  # before the objects: what is synced is there
        items, unreadable = self._store.take()
        return InformerView(
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

    def _listen(self, stream: WatchStream, began: float) -> float:
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
        one = decode_name(event.object)
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
        self._hearing = _WatchState(
            synced=synced or last.synced,
            heard_at=last.heard_at if problem else self._clock(),
            problem=problem,
            unknown_kind=unknown_kind,
        )
        return (last.problem, last.synced) != (problem, self._hearing.synced)
