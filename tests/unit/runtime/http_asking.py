"""Requests to a server on loopback, as a client sends them and as raw bytes."""

import contextlib
import http.client
import socket
from typing import Any

from slackwater.runtime.http_exchange import ListenAddress


def ask_all(
    address: ListenAddress, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(address.host, address.port)
    with contextlib.closing(connection):
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()


def send_raw(address: ListenAddress, sent: bytes) -> bytes:
    """Everything that comes back until the other side ends; nothing where it resets."""
    with connect(address) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(sent)
        got = b""
        with contextlib.suppress(ConnectionError):
            while chunk := connection.recv(65_536):
                got += chunk
        return got


def connect(address: ListenAddress) -> socket.socket:
    return socket.create_connection((address.host, address.port))
