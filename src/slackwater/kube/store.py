"""The objects of one informer: what was last read of each, and what could not be read.

Owns the mapping that readers get. It is never changed once somebody has it (copy on write), so
that they need no lock; and it stays the same object while no object changes, so that they can
see by `is` that there is nothing to do.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

import msgspec

from slackwater.http.errors import UnreachableError

T = TypeVar("T")


class _Meta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class Named(msgspec.Struct, frozen=True, gc=False):
    """The part of an object that says which one it is."""

    metadata: _Meta

    @property
    def key(self) -> str:
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name

    @property
    def version(self) -> str:
        return self.metadata.resource_version


_NAMED = msgspec.json.Decoder(Named)


def named(raw: msgspec.Raw) -> Named:
    try:
        return _NAMED.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise UnreachableError(f"an object without a name came: {error}") from None


class Found(msgspec.Struct, Generic[T], frozen=True):
    """One object as it came: its value, or why there is none."""

    key: str
    version: str
    value: T | None
    problem: str = ""


class Store(Generic[T]):
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

    def look(self, raw: msgspec.Raw) -> Found[T]:
        """One object of a list. One that has not changed is not read again."""
        one = named(raw)
        key, version = one.key, one.version
        if version and self._versions.get(key) == version:
            return Found(key, version, self._items.get(key), self._unreadable.get(key, ""))
        return self._found(key, version, raw)

    def put(self, raw: msgspec.Raw, one: Named) -> bool:
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

    def replace(self, listed: Iterable[Found[T]]) -> bool:
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

    def _found(self, key: str, version: str, raw: msgspec.Raw) -> Found[T]:
        try:
            return Found(key, version, self._read(raw))
        except (ValueError, msgspec.MsgspecError, RecursionError) as error:
            return Found(key, version, None, " ".join(str(error).split()) or "cannot be read")

    def _own(self) -> None:
        """A mapping that nobody else has. The old one is copied outside the lock: it is taken,
        so nobody changes it."""
        if not self._taken:
            return
        items, unreadable = dict(self._items), dict(self._unreadable)
        with self._lock:
            self._items, self._unreadable, self._taken = items, unreadable, False
