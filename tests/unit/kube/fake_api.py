"""An API server's behaviour as far as informers see it: list with pages, watch, versions.

Over real sockets. It keeps its whole history until `compact` forgets it, and can be made to break
in the ways of the chaos tests. The same tests run against a real API server in tests/cluster.
"""

import threading
import time
from collections.abc import Callable

import msgspec

from tests.unit.kube.byte_server import ByteServer, Request, Wire

Object = dict[str, object]
_HEART_BEAT = 0.01


class Change(msgspec.Struct, frozen=True):
    version: int
    kind: str
    object: Object

    @property
    def key(self) -> str:
        meta = _meta(self.object)
        return f"{meta.get('namespace', '')}/{meta.get('name', '')}"


class FakeApi:
    """One kind of objects, whatever the path; by "namespace/name"."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._version = 100
        self._objects: dict[str, Object] = {}
        self._history: list[Change] = []
        self._compacted = 0
        #: Called before an answer; it may answer itself (True), hang or hang up.
        self.before: Callable[[Request, Wire], bool] = lambda _request, _wire: False
        #: Called while a watch runs, again and again.
        self.during: Callable[[Request, Wire], None] = lambda _request, _wire: None
        #: Called between the pages of a list.
        self.between_pages: Callable[[], None] = lambda: None
        self.watch_ends_after = 3600.0
        self.server = ByteServer(self._answer)

    def close(self) -> None:
        self.server.close()

    # What a test does to the truth

    def put(self, name: str, value: object, namespace: str = "default") -> int:
        """Creates or changes an object; its new version."""
        with self._lock:
            key = f"{namespace}/{name}"
            kind = "MODIFIED" if key in self._objects else "ADDED"
            self._version += 1
            meta = {
                "name": name,
                "namespace": namespace,
                "resourceVersion": str(self._version),
            }
            self._objects[key] = {"metadata": meta, "data": value}
            self._note(kind, self._objects[key])
            return self._version

    def delete(self, name: str, namespace: str = "default") -> None:
        with self._lock:
            gone = self._objects.pop(f"{namespace}/{name}")
            self._version += 1
            meta = {**_meta(gone), "resourceVersion": str(self._version)}
            self._note("DELETED", {**gone, "metadata": meta})

    def bookmark(self) -> None:
        """Tells every watch where it is."""
        with self._lock:
            self._version += 1
            self._note("BOOKMARK", {"metadata": {"resourceVersion": str(self._version)}})

    def forget(self) -> None:
        """Every version up to now, also the newest: who comes has to list."""
        with self._lock:
            self._version += 1
            self._compacted = self._version
            self._history.clear()

    def compact(self) -> None:
        """Forgets the history: who is not here now has to list."""
        with self._lock:
            self._compacted = self._version
            self._history.clear()

    def truth(self) -> dict[str, object]:
        with self._lock:
            return {key: one["data"] for key, one in self._objects.items()}

    def count(self, verb: str) -> int:
        """How many `list` or `watch` requests came."""
        return sum(_verb(one) == verb for one in list(self.server.requests))

    # What a client sees

    def _note(self, kind: str, value: Object) -> None:
        self._history.append(Change(self._version, kind, value))
        self._lock.notify_all()

    def _answer(self, request: Request, wire: Wire) -> None:
        if self.before(request, wire):
            return
        if _verb(request) == "watch":
            self._watch(request, wire)
        else:
            self._list(request, wire)

    def _list(self, request: Request, wire: Wire) -> None:
        limit = int(request.query.get("limit", "500"))
        version, _, start = request.query.get("continue", "").partition(":")
        if start:
            self.between_pages()
        with self._lock:
            if start and int(version) < self._compacted:
                wire.json(expired(), 410)
                return
            every = [key for key in sorted(self._objects) if _is_meant(request, key)]
            keys = every[int(start or 0) :]
            meta: dict[str, str] = {"resourceVersion": version or str(self._version)}
            if len(keys) > limit:
                meta["continue"] = f"{meta['resourceVersion']}:{int(start or 0) + limit}"
            items = [self._objects[key] for key in keys[:limit]]
        wire.json({"kind": "List", "metadata": meta, "items": items})

    def _watch(self, request: Request, wire: Wire) -> None:
        at = int(request.query["resourceVersion"])
        wire.begin_chunks()
        ends = min(self.watch_ends_after, float(request.query.get("timeoutSeconds", "3600")))
        until = time.monotonic() + ends
        while not wire.closing.is_set() and not wire.is_left():
            self.during(request, wire)
            with self._lock:
                if at < self._compacted:
                    wire.event("ERROR", expired())
                    break
                due = [one for one in self._history if one.version > at]
                due = [one for one in due if _is_meant(request, one.key)]
                if not due:
                    self._lock.wait(_HEART_BEAT)
            for one in due:
                wire.event(one.kind, one.object)
                at = one.version
            if time.monotonic() >= until:
                break
        wire.end_chunks()


def expired() -> dict[str, object]:
    return {
        "kind": "Status",
        "status": "Failure",
        "code": 410,
        "reason": "Expired",
        "message": "too old resource version",
    }


def status(code: int, reason: str, message: str, *causes: str) -> dict[str, object]:
    found = {"kind": "Status", "code": code, "reason": reason, "message": message}
    details = {"causes": [{"reason": each} for each in causes]}
    return {**found, "details": details} if causes else {**found}


def _verb(request: Request) -> str:
    return "watch" if request.query.get("watch") else "list"


def _is_meant(request: Request, key: str) -> bool:
    """The one field selector that every kind has; a bookmark has no name."""
    wanted = request.query.get("fieldSelector", "").removeprefix("metadata.name=")
    return key == "/" or not wanted or key.endswith(f"/{wanted}")


def _meta(one: Object) -> dict[str, object]:
    meta = one["metadata"]
    assert isinstance(meta, dict)
    return meta
