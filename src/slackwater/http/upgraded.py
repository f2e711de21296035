"""A connection after 101 Switching Protocols: bytes in both directions, and no HTTP any more.

Translates whatever goes wrong with the socket into one UnreachableError.
"""

from typing import TYPE_CHECKING

from slackwater.http.connection import Connection, HttpRequest
from slackwater.http.errors import DeadlineExceededError

if TYPE_CHECKING:
    import http.client


class UpgradedConnection:
    """Guards the socket. One thread uses it at a time."""

    def __init__(
        self, connection: Connection, response: "http.client.HTTPResponse", request: HttpRequest
    ) -> None:
        self._connection = connection
        self._response = response
        self.request = request

    def header(self, name: str) -> str:
        """Of the answer that switched."""
        return self._response.getheader(name, "")

    def send(self, data: bytes, seconds: float) -> None:
        try:
            self._connection.send_bytes(data, seconds)
        except OSError as error:
            raise self._failure(error, seconds) from None

    def receive(self, seconds: float) -> bytes:
        """What came, within so many seconds; b"" where the peer has ended."""
        try:
            return self._connection.receive_bytes(self._response, seconds)
        except (OSError, ValueError) as error:  # ValueError: closed meanwhile
            raise self._failure(error, seconds) from None

    def close(self) -> None:
        self._response.close()
        self._connection.close()

    def _failure(self, error: Exception, seconds: float) -> Exception:
        self.close()
        if isinstance(error, TimeoutError):
            clause = f"nothing came within {seconds:g} s"
            return DeadlineExceededError(f"{self.request}: {clause}", clause)
        return self._connection.failure(self.request, error)
