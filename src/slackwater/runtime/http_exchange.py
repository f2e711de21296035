"""An HTTP request, its response and the address listened on as values, and the choice of a route.

Knows no socket: those are http_server's and unix_server's. The routes are each program's own.
"""

import ipaddress
from collections.abc import Callable, Mapping
from http import HTTPStatus

import msgspec

from slackwater.model.problem import quoted

#: Answers one request; what it needs to know is bound to it.
Route = Callable[[], "Response"]

#: What the kubelet asks, and restarts a program over.
PROBES = ("/healthz", "/readyz")
_READ_METHODS, _WRITE_METHODS = ("GET", "HEAD"), ("POST",)


class Request(msgspec.Struct, frozen=True):
    """`host` is None where the request has no such header. Bodies are read and discarded: no
    route takes one yet."""

    method: str
    target: str
    host: str | None = None
    accept: str = ""


class Response(msgspec.Struct, frozen=True):
    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = {}


def json_response(status: int, value: object, headers: Mapping[str, str] | None = None) -> Response:
    body = msgspec.json.encode(value) + b"\n"
    return Response(status, "application/json", body, headers or {})


def error_response(
    status: int, sentence: str, headers: Mapping[str, str] | None = None
) -> Response:
    return json_response(status, {"error": sentence}, headers)


def dispatch(
    method: str, path: str, get: Mapping[str, Route], post: Mapping[str, Route] | None = None
) -> Response:
    """The response of the route at `path`; 404 and 405 name what there is."""
    for routes, methods in ((get, _READ_METHODS), (post or {}, _WRITE_METHODS)):
        if path not in routes:
            continue
        if method in methods:
            return routes[path]()
        sentence = f"{path} is asked with {' or '.join(methods)}, not with {quoted(method)}"
        allow = {"Allow": ", ".join(methods)}
        return error_response(HTTPStatus.METHOD_NOT_ALLOWED, sentence, allow)
    there = ", ".join((*get, *(post or {})))
    sentence = f"there is no {quoted(path)}; there are {there}"
    return error_response(HTTPStatus.NOT_FOUND, sentence)


_LARGEST_PORT = 65_535


class AddressError(ValueError):
    """A text that is not an address; str() is one sentence with the text in it."""


class CannotListenError(Exception):
    """The address cannot be bound; str() is one sentence with the address and the reason."""


class ListenAddress(msgspec.Struct, frozen=True):
    """An IP address and a port; port 0 is any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def is_loopback(self) -> bool:
        return ipaddress.ip_address(self.host).is_loopback


def parse_listen_address(text: str) -> ListenAddress:
    """127.0.0.1:10480, [::1]:10480 or localhost:10480."""
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        found = ipaddress.ip_address("127.0.0.1" if bare == "localhost" else bare)
        if not (colon and port.isascii() and port.isdigit() and int(port) <= _LARGEST_PORT):
            raise ValueError(port)
        if (found.version == 6) != (bare != host):  # 2001:db8::1:80 is ambiguous
            raise ValueError(host)
    except ValueError:
        raise AddressError(
            f"the address to listen on is {quoted(text)}; it must be an IP address and a port from "
            f"0 to {_LARGEST_PORT}, such as 127.0.0.1:10480 or [::1]:10480"
        ) from None
    return ListenAddress(str(found), int(port))
