"""HTTP/1 as bytes: a request, parsed as it arrives, and a response, encoded whole.

Owns the bounds of a request's size. Knows no socket. Not http.server's parser: importing that
brings http.client, email and OpenSSL, 6 MiB that an agent without a cluster does not need otherwise
(ADR 21).
"""

import re
import time
from http import HTTPStatus

from slackwater.model.problem import quoted
from slackwater.runtime.http_exchange import Request, Response, error_response

#: A request line, its headers and a body that is discarded; Prometheus sends 0.5 KiB.
LARGEST_REQUEST = 16 * 1024
_LONGEST_LENGTH = 9
_MOST_HEADERS = 100
_TOO_LARGE = f"a request may have {LARGEST_REQUEST} bytes and {_MOST_HEADERS} headers"
_VERSION = re.compile(r"HTTP/([0-9])\.[0-9]")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

#: The response when a route raises.
FAILED = b"HTTP/1.0 500 Internal Server Error\r\nContent-Type: text/plain\r\n\r\nthis failed\n"


class _RefusedError(Exception):
    """A request that is not answered by a route."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.response = error_response(status, sentence)


class RequestParser:
    """Guards what arrived of one request. Whatever the pieces, the result is the same."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._left = LARGEST_REQUEST
        #: Method and target, once the first line is there.
        self._first: tuple[str, str] | None = None
        self._headers: dict[str, str] = {}
        self._lines = 0
        #: Bytes of the body that are still to come, once the headers are there.
        self._body: int | None = None

    @property
    def method(self) -> str:
        """Empty until the first line is there."""
        return self._first[0] if self._first else ""

    def feed(self, data: bytes) -> Request | Response | None:
        """The request once it is whole, or the response that refuses it. None: more is to come."""
        taken = data[: self._left]
        self._left -= len(taken)
        self._buffer += taken
        try:
            self._take_lines()
            if self._body is not None:
                return self._request() if len(self._buffer) >= self._body else None
            if self._left <= 0:
                raise _RefusedError(
                    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
                    if self._first
                    else HTTPStatus.REQUEST_URI_TOO_LONG,
                    _TOO_LARGE,
                )
        except _RefusedError as refused:
            return refused.response
        return None

    def end(self) -> Request | Response | None:
        """The client sends no more: what it sent is its request. None: that was nothing."""
        if self._body is None:
            if self._first is None and not self._buffer.strip():
                return None
            found = self.feed(b"\n\n")
            if found is not None or self._body is None:
                return found
        return self._request()

    def _take_lines(self) -> None:
        while self._body is None and (end := self._buffer.find(b"\n")) >= 0:
            line = self._buffer[:end].decode("latin-1")
            del self._buffer[: end + 1]
            if self._first is not None:
                self._take_header(line)
            elif line.strip():  # RFC 9112, 2.2: empty lines before a request are ignored
                self._first = _read_request_line(line)

    def _take_header(self, line: str) -> None:
        """Of a header that comes twice the first counts."""
        if not line.strip():
            self._body = self._read_length()
            return
        self._lines += 1
        if self._lines > _MOST_HEADERS:
            raise _RefusedError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, _TOO_LARGE)
        name, colon, value = line.partition(":")
        if not colon or name != name.strip():
            raise _RefusedError(HTTPStatus.BAD_REQUEST, f"not a header: {quoted(line.strip())}")
        self._headers.setdefault(name.lower(), value.strip())

    def _read_length(self) -> int:
        """A body is waited for, as unread bytes would reset the connection before the client has
        the response."""
        if self.method not in _METHODS:
            sentence = f"there is no method {quoted(self.method)}"
            raise _RefusedError(HTTPStatus.NOT_IMPLEMENTED, sentence)
        length = self._headers.get("content-length", "0")
        is_number = length.isascii() and length.isdigit() and len(length) <= _LONGEST_LENGTH
        if not is_number or int(length) >= self._left + len(self._buffer):
            raise _RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _TOO_LARGE)
        return int(length)

    def _request(self) -> Request:
        method, target = self._first or ("", "")
        return Request(
            method=method,
            target=target,
            host=self._headers.get("host"),
            accept=self._headers.get("accept", ""),
        )


def _read_request_line(line: str) -> tuple[str, str]:
    """The method and the path with its query. Without a version it is HTTP/0.9's GET."""
    method, *rest = line.split()
    if not (len(rest) == 2 or (len(rest) == 1 and method == "GET")):
        raise _RefusedError(HTTPStatus.BAD_REQUEST, f"not a request line: {quoted(line.strip())}")
    version = _VERSION.fullmatch(rest[1]) if len(rest) == 2 else None
    if len(rest) == 2 and version is None:
        raise _RefusedError(HTTPStatus.BAD_REQUEST, f"not a version: {quoted(rest[1])}")
    if version is not None and int(version[1]) > 1:
        sentence = f"HTTP/1.0 and 1.1 are spoken here, not {quoted(rest[1])}"
        raise _RefusedError(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, sentence)
    # Two slashes would be a host's name.
    return method, f"/{rest[0].lstrip('/')}" if rest[0].startswith("//") else rest[0]


def encode_response(method: str, response: Response) -> bytes:
    """With its headers; without its body where the method is HEAD."""
    status = HTTPStatus(response.status)
    headers = {
        "Server": "slackwater",
        "Date": time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime()),
        "Content-Type": response.content_type,
        "Content-Length": str(len(response.body)),
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        **response.headers,
    }
    lines = [f"HTTP/1.0 {status.value} {status.phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    head = "\r\n".join((*lines, "", "")).encode("latin-1")
    return head if method == "HEAD" else head + response.body
