"""Makes one call to the system fail once, at a chosen place, and notes every place that is reached.

The seam is the modules os, fcntl and io: their functions are wrapped, and a wrapper knows by its
caller's frame which place of the source it serves.
"""

import builtins
import errno
import fcntl
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import pytest

from tests.unit.faults.call_sites import (
    ENTRY_CALLS,
    OPEN,
    OS_CALLS,
    PATH_CALLS,
    USE,
    Site,
    places,
    site_at,
)


class Injection:
    """Guards the wrappers, what they saw, and which call is to fail."""

    def __init__(self) -> None:
        self.reached: set[Site] = set()
        self._fails: Site | None = None
        self._error = 0
        self.hits = 0

    @contextmanager
    def installed(self) -> Iterator[None]:
        places()
        with pytest.MonkeyPatch.context() as patch:
            for name in OS_CALLS:
                self._wrap(patch, os, name, f"os.{name}")
            for name in PATH_CALLS:
                self._wrap(patch, os.path, name, f"os.path.{name}")
            self._wrap(patch, fcntl, "flock", "fcntl.flock")
            self._wrap(patch, builtins, "open", OPEN)
            yield

    @contextmanager
    def failing(self, site: Site, error: int) -> Iterator[None]:
        """The next call of this place fails, once."""
        self._fails, self._error, self.hits = site, error, 0
        try:
            yield
        finally:
            self._fails = None

    def _wrap(self, patch: pytest.MonkeyPatch, owner: Any, name: str, call: str) -> None:
        original: Callable[..., Any] = getattr(owner, name)

        def wrapped(*arguments: Any, **named: Any) -> Any:
            frame = sys._getframe(1)
            place = frame.f_code.co_filename, frame.f_lineno
            if self._due(place, call):
                if call.startswith("os.path."):
                    return False
                raise OSError(self._error, os.strerror(self._error))
            if call == OPEN and self._due(place, USE):
                return _open_failing(self._error, *arguments, **named)
            found = original(*arguments, **named)
            return _Listing(found, self) if call == "os.scandir" else found

        patch.setattr(owner, name, wrapped)
        for module in list(sys.modules.values()):  # names that were imported from there
            if module.__name__.startswith("slackwater") and getattr(module, name, 0) is original:
                patch.setattr(module, name, wrapped)

    def _due(self, place: tuple[str, int], call: str) -> bool:
        site = site_at(*place, call)
        if site is None:
            return False
        self.reached.add(site)
        if site != self._fails or self.hits:
            return False
        self.hits += 1
        return True


class _Listing:
    """A directory's listing whose entries can fail."""

    def __init__(self, found: Any, injection: Injection) -> None:
        self._found, self._injection = found, injection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._found.close()

    def close(self) -> None:
        self._found.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> "_Entry":
        return _Entry(next(self._found), self._injection)


class _Entry:
    def __init__(self, entry: "os.DirEntry[str]", injection: Injection) -> None:
        self._entry, self._injection = entry, injection

    def __fspath__(self) -> str:
        return self._entry.path

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._entry, name)
        if name not in ENTRY_CALLS:
            return found

        def wrapped(*arguments: Any, **named: Any) -> Any:
            frame = sys._getframe(1)
            if self._injection._due((frame.f_code.co_filename, frame.f_lineno), name):
                error = self._injection._error
                raise OSError(error, os.strerror(error))
            return found(*arguments, **named)

        return wrapped


def _open_failing(error: int, file: Any, mode: str = "r", *_: Any, **named: Any) -> Any:
    """A file that can be opened and neither read nor written. Python repeats by itself what was
    interrupted, so that fails once only."""

    class Failing(io.FileIO):
        def fail(self) -> None:
            nonlocal error
            if error:
                failed, error = error, 0 if error == errno.EINTR else error
                raise OSError(failed, os.strerror(failed))

        def readinto(self, buffer: Any) -> Any:
            self.fail()
            return super().readinto(buffer)

        def readall(self) -> Any:
            self.fail()
            return super().readall()

        def read(self, size: Any = -1) -> Any:
            self.fail()
            return super().read(size)

        def write(self, data: Any) -> Any:
            self.fail()
            return super().write(data)

    raw = Failing(file, mode.replace("b", "").replace("t", ""), opener=named.get("opener"))
    if named.get("buffering") == 0:
        return raw
    reads = "r" in mode and "+" not in mode
    buffered: Any = io.BufferedReader(raw) if reads else io.BufferedWriter(raw)
    if "b" in mode:
        return buffered
    return io.TextIOWrapper(buffered, encoding=named.get("encoding"), newline=named.get("newline"))
