"""A small HTTP server on TCP beside a program's loop, which slow clients cannot keep busy.

One thread serves every client and waits for none: a client that is slow costs a descriptor and what
has arrived of its request, never a thread. Probes are answered before everything else, because an
unanswered one restarts the program (ADR 35). The responses are the program's, made from memory;
requests are not logged.
"""

import contextlib
import os
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable

from slackwater.runtime.http_exchange import (
    PROBES,
    CannotListenError,
    ListenAddress,
    Request,
    Response,
)
from slackwater.runtime.http_wire import FAILED, RequestParser, encode_response

#: For a whole request, however slowly it arrives; and for the client to take the response.
READ_SECONDS, WRITE_SECONDS = 2.0, 10.0
#: Clients at once; one more ends the oldest. A probe would have to be that many connections behind.
MOST_CLIENTS = 256
#: Bytes of responses that clients have not taken yet; more ends the oldest of these clients.
MOST_UNSENT = 2 << 20
#: The kernel doubles it, and keeps as much for each client beside what is counted above.
_SEND_BUFFER = 32 * 1024
#: The kernel's queue of connections; it bounds it further by net.core.somaxconn.
_BACKLOG = 1024
#: Connections taken in one turn, so that those that are there get theirs.
_ACCEPTS = 64
#: After a failed accept with nobody to end: without a pause the thread would spin.
_PAUSE_SECONDS = 0.2
_READ_SIZE = 4096

#: Answers one request, in any thread.
Respond = Callable[[Request], Response]
#: Takes one sentence about the server itself, in any thread.
Report = Callable[[str], None]


class _Client:
    """One connection: its request as it arrives, then its response as it is taken."""

    def __init__(self, connection: socket.socket, until: float) -> None:
        self.connection = connection
        #: When it has to be done with what it does now.
        self.until = until
        self.parser = RequestParser()
        self.unsent = memoryview(b"")


class _Clients:
    """Guards the connections, the oldest first."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._all: dict[int, _Client] = {}
        #: Whose request is whole and not answered yet. They may have gone.
        self._waiting: deque[tuple[_Client, Request]] = deque()

    def add(self, connection: socket.socket, until: float) -> _Client:
        if len(self._all) >= MOST_CLIENTS:
            self.end_oldest()
        client = _Client(connection, until)
        self._all[connection.fileno()] = client
        self._selector.register(connection, selectors.EVENT_READ, client)
        return client

    def end(self, client: _Client) -> None:
        if self._all.pop(client.connection.fileno(), None) is None:
            return
        self._ignore(client)
        with contextlib.suppress(OSError):
            client.connection.shutdown(socket.SHUT_WR)
        client.connection.close()

    def end_oldest(self) -> bool:
        oldest = next(iter(self._all.values()), None)
        if oldest is not None:
            self.end(oldest)
        return oldest is not None

    def end_late(self, now: float) -> None:
        for client in [each for each in self._all.values() if each.until <= now]:
            self.end(client)

    def end_all(self) -> None:
        for client in list(self._all.values()):
            self.end(client)

    def bound_unsent(self, newest: _Client) -> None:
        """The oldest that take too long give way to the newest."""
        total = sum(len(each.unsent) for each in self._all.values())
        for client in [each for each in self._all.values() if each.unsent and each is not newest]:
            if total <= MOST_UNSENT:
                return
            total -= len(client.unsent)
            self.end(client)

    def next_deadline(self) -> float | None:
        return min((each.until for each in self._all.values()), default=None)

    def put_off(self, client: _Client, request: Request, until: float) -> None:
        """Its response can wait. It is not read any further."""
        self._ignore(client)
        client.until = until
        self._waiting.append((client, request))

    def next_waiting(self) -> tuple[_Client, Request] | None:
        while self._waiting:
            client, request = self._waiting.popleft()
            if client.connection.fileno() >= 0:
                return client, request
        return None

    def is_any_waiting(self) -> bool:
        return bool(self._waiting)

    def write_later(self, client: _Client) -> None:
        self._ignore(client)
        self._selector.register(client.connection, selectors.EVENT_WRITE, client)

    def _ignore(self, client: _Client) -> None:
        with contextlib.suppress(KeyError):  # one whose response waits is ignored already
            self._selector.unregister(client.connection)


class HttpServer:
    """Guards the socket and its thread. Bound at once, it serves from `start` on."""

    def __init__(
        self,
        address: ListenAddress,
        respond: Respond,
        report: Report,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        try:
            self._listener = _listen(address)
        except OSError as error:
            raise CannotListenError(f"cannot listen on {address}: {error.strerror}") from None
        self._respond = respond
        self._report = report
        self._clock = clock
        self._ending = False
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector = selectors.DefaultSelector()
        self._clients = _Clients(self._selector)
        #: With the port that was found, where any was asked for.
        self.address = ListenAddress(address.host, int(self._listener.getsockname()[1]))
        self._thread = threading.Thread(target=self._serve, name="endpoint", daemon=True)

    def start(self) -> None:
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._thread.start()
        self._report(f"listening on http://{self.address}")

    def close(self) -> None:
        """No further request is answered."""
        self._ending = True
        if self._thread.is_alive():
            os.eventfd_write(self._wake, 1)
            self._thread.join()
        self._clients.end_all()
        self._selector.close()
        self._listener.close()
        os.close(self._wake)

    def _serve(self) -> None:
        while not self._ending:
            for key, _ in self._selector.select(self._patience()):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.data is not None:
                    self._go_on(key.data)
            waiting = self._clients.next_waiting()
            if waiting is not None:  # one in each turn, so that probes never stand behind many
                self._answer(*waiting)
            self._clients.end_late(self._clock())

    def _patience(self) -> float | None:
        """How long nothing has to be done by itself; None is for ever."""
        if self._clients.is_any_waiting():
            return 0.0
        deadline = self._clients.next_deadline()
        return None if deadline is None else max(deadline - self._clock(), 0.001)

    def _accept(self) -> None:
        for _ in range(_ACCEPTS):
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:  # there are no descriptors left
                if not self._clients.end_oldest():
                    time.sleep(_PAUSE_SECONDS)
                return
            connection.setblocking(False)
            self._read(self._clients.add(connection, self._clock() + READ_SECONDS))

    def _go_on(self, client: _Client) -> None:
        if client.connection.fileno() < 0:  # ended in this turn, for another
            return
        if client.unsent:
            self._write(client)
        else:
            self._read(client)

    def _read(self, client: _Client) -> None:
        try:
            data = client.connection.recv(_READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            self._clients.end(client)
            return
        found = client.parser.feed(data) if data else client.parser.end()
        if isinstance(found, Response):
            self._send(client, encode_response(client.parser.method, found))
        elif found is None:
            if not data:
                self._clients.end(client)
        elif found.target.partition("?")[0] in PROBES:
            self._answer(client, found)
        else:
            self._clients.put_off(client, found, self._clock() + WRITE_SECONDS)

    def _answer(self, client: _Client, request: Request) -> None:
        try:
            encoded = encode_response(request.method, self._respond(request))
        except Exception as error:  # noqa: BLE001 - a bug in a route must not end the thread of the probes
            encoded = FAILED
            self._report(f"a request failed: {type(error).__name__}: {error}")
        self._send(client, encoded)

    def _send(self, client: _Client, encoded: bytes) -> None:
        client.unsent = memoryview(encoded)
        client.until = self._clock() + WRITE_SECONDS
        self._write(client)
        if client.unsent:
            self._clients.write_later(client)
            self._clients.bound_unsent(client)

    def _write(self, client: _Client) -> None:
        try:
            sent = client.connection.send(client.unsent)
        except BlockingIOError:
            return
        except OSError:
            sent = len(client.unsent)  # it has left
        client.unsent = client.unsent[sent:]
        if not client.unsent:
            self._clients.end(client)


def _listen(address: ListenAddress) -> socket.socket:
    """Not socket.create_server, which forbids IPv4 on [::]."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        listener.bind((address.host, address.port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
