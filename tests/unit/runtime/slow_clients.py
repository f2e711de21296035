"""Clients that keep a server's connections without need: silent ones, ones that send a byte now and
then, ones that ask for metrics and take the answer byte by byte. Who is cut off comes again.
"""

import contextlib
import enum
import socket
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from slackwater.runtime.http_exchange import ListenAddress

#: The kernel takes no less; so most of a response stays with the server.
_RECEIVE_BUFFER = 2048
_SENT = b"GET /metrics HTTP/1.1\r\nX-Slow: " + b"x" * 10_000


class Slow(enum.Enum):
    """In what a client is slow."""

    SILENT = "sends nothing"
    SENDING = "sends a byte at each step"
    TAKING = "asks for metrics, and takes a byte at each step"


class _SlowClient:
    def __init__(self, address: ListenAddress, kind: Slow) -> None:
        self._address = address
        self._kind = kind
        self._sent = 0
        self._connection = self._connect()

    def _connect(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self._address.host else socket.AF_INET
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        made.connect((self._address.host, self._address.port))
        self._sent = 0
        if self._kind is Slow.TAKING:
            with contextlib.suppress(ConnectionError):
                made.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        return made

    def step(self) -> None:
        try:
            if self._kind is Slow.SENDING:
                self._connection.send(_SENT[self._sent : self._sent + 1])
                self._sent += 1
            ended = self._connection.recv(1, socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return
        except OSError:
            ended = True
        if ended:
            self._connection.close()
            self._connection = self._connect()

    def close(self) -> None:
        self._connection.close()


class SlowClients:
    """So many of them, in equal parts of these kinds. Each step is a byte of each."""

    def __init__(
        self, address: ListenAddress, count: int, kinds: Sequence[Slow] = tuple(Slow)
    ) -> None:
        self._all = [_SlowClient(address, kinds[n % len(kinds)]) for n in range(count)]

    def step(self) -> None:
        for each in self._all:
            each.step()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        for each in self._all:
            each.close()
