"""One kind of objects, kept equal to the API server's by list and watch, in a thread of its own.

A watch that ends is resumed where it stopped; one that the server has forgotten (410) begins with
a list, and what is not in it is gone. Lists are answered from the server's memory: the first by
whatever is there, a later one by what is not older than we know; only where the server refuses that
the latest is asked for, which an older server reads from etcd (ADR 36). While the server cannot be
reached, the last objects stay, with a reason. Readers get a mapping that never changes (copy on
write), so that they need no lock; it stays the same object while nothing changed, so that `is`
tells them that there is nothing to do.
"""

import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Generic, TypeVar

import msgspec

from slackwater.contract.resources import ObjectSelector, Resource
from slackwater.http.errors import Backoff, RequestError, UnreachableError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import ANY_VERSION, EVERYTHING, Client
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
    """The part of an object that identifies it."""

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
    """One object as it was read: its value, or why there is none."""

    key: str
    version: str
    value: T | None
    problem: str = ""


class ObjectStore(Generic[T]):
    """Guards the objects. One thread changes them; any thread may take a snapshot."""

    def __init__(self, read: Callable[[msgspec.Raw], T]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._versions: dict[str, str] = {}
        self._items: dict[str, T] = {}
        self._unreadable: dict[str, str] = {}
        self._taken = False

    def snapshot(self) -> tuple[Mapping[str, T], Mapping[str, str]]:
        """The objects, and why some could not be read."""
        with self._lock:
            self._taken = True
            return self._items, self._unreadable

    def read_listed(self, raw: msgspec.Raw) -> StoredObject[T]:
        """One object of a list. An unchanged one is not decoded again."""
        one = decode_name(raw)
        key, version = one.key, one.version
        if version and self._versions.get(key) == version:
            return StoredObject(key, version, self._items.get(key), self._unreadable.get(key, ""))
        return self._read_object(key, version, raw)

    def put(self, raw: msgspec.Raw, one: NamedObject) -> bool:
        """One object of an event. Returns whether anything changed."""
        if one.version and self._versions.get(one.key) == one.version:
            return False
        found = self._read_object(one.key, one.version, raw)
        self._copy_if_shared()
        with self._lock:
            self._versions[found.key] = found.version
            if found.problem:
                self._unreadable[found.key] = found.problem
            elif found.value is not None:
                self._items[found.key] = found.value
                self._unreadable.pop(found.key, None)
        return True

    def remove(self, key: str) -> bool:
        """Returns whether it existed."""
        if key not in self._versions:
            return False
        self._copy_if_shared()
        with self._lock:
            for held in (self._versions, self._items, self._unreadable):
                held.pop(key, None)
        return True

    def replace(self, listed: Iterable[StoredObject[T]]) -> bool:
        """Replaces all objects: what is not listed is gone. Returns whether anything changed."""
        versions: dict[str, str] = {}
        items: dict[str, T] = {}
        unreadable: dict[str, str] = {}
        for found in listed:
            versions[found.key] = found.version
            # An object that cannot be read keeps its last good value.
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

    def _read_object(self, key: str, version: str, raw: msgspec.Raw) -> StoredObject[T]:
        try:
            return StoredObject(key, version, self._read(raw))
        except (ValueError, msgspec.MsgspecError, RecursionError) as error:
            return StoredObject(
                key, version, None, " ".join(str(error).split()) or "cannot be read"
            )

    def _copy_if_shared(self) -> None:
        """Copies what readers hold before it is changed. Outside the lock: while a snapshot is
        held, only this thread could change it."""
        if not self._taken:
            return
        items, unreadable = dict(self._items), dict(self._unreadable)
        with self._lock:
            self._items, self._unreadable, self._taken = items, unreadable, False


class InformerView(msgspec.Struct, Generic[T], frozen=True):
    """A snapshot of what the informer knows.

    `items` are by "namespace/name", or "name": the same mapping while nothing changed.
    `unreadable` says why an object could not be read; its last good value stays in `items`.
    `heard_at` is when the server last sent something, by the clock given; `problem` is why it
    cannot be watched now, empty while it is. `unknown_kind`: the server does not know this kind
    (its CRD is not installed), `forbidden`: it does not let us list it; `problem` says both too.
    """

    items: Mapping[str, T]
    unreadable: Mapping[str, str] = {}
    synced: bool = False
    heard_at: Micros = Micros(0)
    problem: str = ""
    unknown_kind: bool = False
    forbidden: bool = False


class WatchPace(msgspec.Struct, frozen=True):
    """Seconds: how long one watch lasts (up to a fifth more, so that not all end at once), how
    long it may be silent, and the pauses after failures. `unknown_wait` is the longest pause if the
    server does not know the kind: a thousand agents would ask in vain otherwise. All agents lose
    their watches in one moment when a server goes: they come back within `reopen_spread`, and
    agents that start at once list within `start_spread`, which delays a node's first decision."""

    watch: float = 300.0
    silence: float = 90.0
    first_wait: float = 0.5
    longest_wait: float = 30.0
    unknown_wait: float = 300.0
    start_spread: float = 0.5
    reopen_spread: float = 5.0


def _nothing() -> None:
    """No callback."""


class Informer(Generic[T]):
    """Guards one thread, its watch and the objects that it keeps."""

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
        self._unknown_kind_backoff = Backoff(pace.first_wait, pace.unknown_wait, jitter)
        # Without the objects: the store has them.
        self._state: InformerView[T] = InformerView({})
        #: Where a watch continues; empty before a list.
        self._version = ""
        #: What the next list may not be older than.
        self._list_version = ANY_VERSION
        #: Whether the last watch worked.
        self._watched = False
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
        state = self._state  # read before the objects, so that `synced` is never ahead of them
        items, unreadable = self._store.snapshot()
        view: InformerView[T] = msgspec.structs.replace(state, items=items, unreadable=unreadable)
        return view

    def wait_synced(self, timeout: float) -> bool:
        return self._synced.wait(timeout)

    def _run(self) -> None:
        problem = "its thread ended by a mistake of ours"
        try:
            self._stopping.wait(self._spread(self._pace.start_spread))
            while not self._stopping.is_set():
                pause = self._list_and_watch()
                self._stopping.wait(pause)
            problem = "it was stopped"
        finally:
            self._client.close()
            self._set_state(problem)

    def _list_and_watch(self) -> float:
        """One list if needed, one watch. Returns the pause until the next, in seconds."""
        try:
            if not self._version:
                self._list()
            return self._watch()
        except HttpStatusError as refused:
            if refused.reason == "Expired" or refused.is_version_too_new():
                return self._schedule_relist(refused)
            return self._handle_failure(refused, refused.retry_after)
        except RequestError as error:
            return self._handle_failure(error, None)

    def _list(self) -> None:
        listing = self._client.list(
            self._resource,
            self._store.read_listed,
            namespace=self._namespace,
            selector=self._selector,
            version=self._list_version,
        )
        changed = self._store.replace(listing.items)
        self._version = listing.version
        self._unknown_kind_backoff.reset()
        first = not self._state.synced
        told = self._set_state("", synced=True)
        self._synced.set()
        if changed or first or told:
            self._changed()

    def _watch(self) -> float:
        began = time.monotonic()
        seconds = self._pace.watch * (1 + self._jitter.random() / 5)
        stream = self._client.watch(
            self._resource,
            self._version,
            namespace=self._namespace,
            selector=self._selector,
            seconds=seconds,
            silence=self._pace.silence,
        )
        self._stream = stream
        if self._stopping.is_set():
            stream.close()
        if self._set_state("", synced=True):
            self._changed()
        return self._follow(stream, began, seconds)

    def _follow(self, stream: WatchStream, began: float, seconds: float) -> float:
        """Applies events until the watch ends. The pause after it protects a server that ends each
        watch at once, and, where it ends before its time, the one that takes over from a server
        that shuts down. Silence is an ordinary end: the next request shows whether the server is
        there."""
        heard = False
        events = iter(stream)
        try:
            for event in events:
                heard = True
                self._apply(event)
        except WatchSilentError:
            return 0.0
        finally:
            events.close()  # also after an event that could not be applied
            self._stream = None
            lasted = time.monotonic() - began
            # One event is not enough: a watch that is cut after its first event does not work.
            if lasted >= _SHORTEST_WATCH:
                self._backoff.reset()
                self._watched = True
        if not heard and lasted < _SHORTEST_WATCH and not self._stopping.is_set():
            raise UnreachableError(
                f"watching {self._resource.plural}: it ends as soon as it begins"
            )
        early = lasted < seconds - _SHORTEST_WATCH
        spread = self._spread(self._pace.reopen_spread) if early else 0.0
        return max(_SHORTEST_WATCH - lasted, spread, 0.0)

    def _apply(self, event: WatchEvent) -> None:
        one = decode_name(event.object)
        if one.version:
            self._version = one.version
        changed = False
        if event.type == "DELETED":
            changed = self._store.remove(one.key)
        elif event.type in ("ADDED", "MODIFIED"):
            changed = self._store.put(event.object, one)
        if self._set_state("", synced=True) or changed:
            self._changed()

    def _schedule_relist(self, refused: HttpStatusError) -> float:
        """The server forgot our version, or does not have it yet: list again. After a pause, or a
        server that forgets at once would be asked for everything over and over. It is a problem if
        the list was refused: then the latest is asked for."""
        first = bool(self._version)
        self._list_version, self._version = self._version, ""
        pause = self._backoff.after_failure(refused.retry_after)
        if not first and self._set_state(str(refused)):
            self._changed()
        return pause

    def _handle_failure(self, error: RequestError, asked: float | None) -> float:
        status = error.status if isinstance(error, HttpStatusError) else 0
        unknown = status == HTTPStatus.NOT_FOUND
        if unknown:
            self._version, self._list_version = "", ANY_VERSION
        forbidden = status == HTTPStatus.FORBIDDEN
        if self._set_state(str(error), unknown_kind=unknown, forbidden=forbidden):
            self._changed()
        pause = (self._unknown_kind_backoff if unknown else self._backoff).after_failure(asked)
        lost, self._watched = self._watched, False
        return pause + self._spread(self._pace.reopen_spread) if lost else pause

    def _spread(self, seconds: float) -> float:
        return seconds * self._jitter.random()

    def _set_state(
        self,
        problem: str,
        *,
        synced: bool = False,
        unknown_kind: bool = False,
        forbidden: bool = False,
    ) -> bool:
        """Returns whether the problem or `synced` changed."""
        last = self._state
        self._state = InformerView(
            {},
            synced=synced or last.synced,
            heard_at=last.heard_at if problem else self._clock(),
            problem=problem,
            unknown_kind=unknown_kind,
            forbidden=forbidden,
        )
        return (last.problem, last.synced) != (problem, self._state.synced)
