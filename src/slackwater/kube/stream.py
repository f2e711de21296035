"""One watch: the events of one answer that does not end.

Splits the stream into events and gives up on a server that sends nothing for too long, or never
ends a line. Resuming is the informer's.
"""

import threading
import time
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING

import msgspec

from slackwater.http.connection import Connection, HttpRequest
from slackwater.http.errors import UnreachableError
from slackwater.kube.api_status import Status, excerpt, refusal_of
from slackwater.kube.list_scanner import LARGEST_OBJECT

if TYPE_CHECKING:
    import http.client

_PIECE = 1 << 16


class WatchSilentError(UnreachableError):
    """Nothing came for too long. That is not an error by itself: a quiet cluster looks the same,
    and only another request can tell."""


class WatchEvent(msgspec.Struct, frozen=True):
    """`type` is ADDED, MODIFIED, DELETED or BOOKMARK; ERROR is raised as HttpStatusError."""

    type: str
    object: msgspec.Raw


_EVENTS = msgspec.json.Decoder(WatchEvent)
_STATUS = msgspec.json.Decoder(Status)


class WatchStream:
    """Guards one answer. Iterated by one thread; `close` may be called from any thread."""

    def __init__(
        self,
        connection: Connection,
        response: "http.client.HTTPResponse",
        call: HttpRequest,
        silence: float,
        give_back: Callable[[Connection], None],
    ) -> None:
        self._connection = connection
        self._response = response
        self._call = call
        self._silence = silence
        self._give_back = give_back
        self._closed = threading.Event()

    def __iter__(self) -> Generator[WatchEvent, None, None]:
        """Ends when the server ends the watch or `close` is called. Raises HttpStatusError for an
        event of type ERROR and UnreachableError for any other failure."""
        try:
            for line in self._lines():
                yield self._event(line)
        except UnreachableError:
            if not self._closed.is_set():
                raise
        finally:
            self._end()

    def close(self) -> None:
        """The iterating thread wakes up and ends without an error."""
        self._closed.set()
        self._connection.sever()

    def _event(self, line: bytes) -> WatchEvent:
        try:
            event = _EVENTS.decode(line)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise UnreachableError(
                self._told(f"an event that is none ({error}): {excerpt(line)}")
            ) from None
        if event.type == "ERROR":
            raise refusal_of(str(self._call), _status(event.object))
        return event

    def _lines(self) -> Iterator[bytes]:
        begun = bytearray()
        heard = time.monotonic()
        while piece := self._piece():
            first, *others = piece.split(b"\n")
            begun += first
            if not others:
                self._check(len(begun), heard)
                continue
            heard = time.monotonic()
            whole = [bytes(begun), *others[:-1]]
            begun = bytearray(others[-1])
            yield from (line for line in whole if line)
        if begun:
            raise UnreachableError(self._told("the watch ended in the middle of an event"))

    def _piece(self) -> bytes:
        import http.client

        try:
            return self._response.read1(_PIECE)
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            if isinstance(error, TimeoutError):
                raise WatchSilentError(
                    self._told(f"nothing heard for {self._silence:g} s")
                ) from None
            raise self._connection.failure(self._call, error) from None

    def _check(self, size: int, heard: float) -> None:
        if size > LARGEST_OBJECT:
            raise UnreachableError(self._told(f"an event of more than {LARGEST_OBJECT >> 20} MiB"))
        if time.monotonic() - heard > self._silence:
            raise UnreachableError(self._told(f"no whole event for {self._silence:g} s"))

    def _told(self, what: str) -> str:
        return f"{self._call}: {what}"

    def _end(self) -> None:
        """After a watch that the server ended, the connection can be used again."""
        if (
            self._response.isclosed()
            and not self._response.will_close
            and not self._closed.is_set()
        ):
            self._give_back(self._connection)
        else:
            self._response.close()
            self._connection.close()


def _status(raw: msgspec.Raw) -> Status:
    try:
        return _STATUS.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return Status(message=excerpt(bytes(raw)))
