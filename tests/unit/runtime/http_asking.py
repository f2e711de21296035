"""Requests to a server on loopback or a unix socket, as a client sends them and as raw bytes."""

import contextlib
import http.client
import socket
from typing import Any

from slackwater.runtime.http_exchange import ListenAddress

Place = ListenAddress | str


def ask_all(
    address: Place, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("localhost")
    with contextlib.closing(connection):
        connection.sock = connect(address)
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()


def send_raw(address: Place, sent: bytes) -> bytes:
    """Everything that comes back until the other side ends; nothing where it resets."""
    with connect(address) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(sent)
        got = b""
        with contextlib.suppress(ConnectionError):
            while chunk := connection.recv(65_536):
                got += chunk
        return got


def connect(address: Place) -> socket.socket:
    if isinstance(address, str):
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.connect(address)
        return made
    return socket.create_connection((address.host, address.port))
