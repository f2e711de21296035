"""Sends queries to Prometheus, or to a server with the same API.

Retries what may pass (no connection, half an answer, 429, 502, 503, 504: a query changes nothing)
within one timeout for all attempts and pauses together. Credentials come from an Authorization
header, a token file, or a user name and a password file; files are read at each query, so that a
rotated token is found, and secrets are never shown. Knows no metric.
"""

import os
import random
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlencode

import msgspec

from slackwater import __version__
from slackwater.bounded_read import read_start
from slackwater.http.connection import HttpRequest, HttpResponse, exchange
from slackwater.http.endpoint import (
    Endpoint,
    Identity,
    Proxy,
    Server,
    Trust,
    basic_authorization,
    proxy_for,
)
from slackwater.http.errors import (
    AnswerTooLargeError,
    Backoff,
    DeadlineExceededError,
    RequestError,
    TlsError,
    UnreachableError,
)
from slackwater.http.prometheus_api import (
    QUERY_PATH,
    RANGE_PATH,
    PrometheusError,
    PrometheusTimeoutError,
    PrometheusUnreachableError,
    QueryResult,
    RangeResult,
    Series,
    ThrottledError,
    TransientError,
    read_address,
    read_answer,
    read_range_answer,
)
from slackwater.http.tls import TlsContexts
from slackwater.model.gap import Gap
from slackwater.model.problem import quoted
from slackwater.settings.prometheus import PrometheusSettings

if TYPE_CHECKING:
    import ssl

__all__ = [
    "PrometheusClient",
    "PrometheusError",
    "PrometheusTimeoutError",
    "PrometheusUnreachableError",
    "QueryResult",
    "Series",
]
T = TypeVar("T")
#: Texts that must never be printed.
Secrets = tuple[str, ...]

_USER_AGENT = f"slackwater/{__version__}"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 5.0
#: 10,000 pods with two containers each are 4 MiB.
LARGEST_ANSWER = 64 << 20
_TENANT = "X-Scope-OrgID"
#: RFC 9110: a token, and what may stand behind the colon.
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_VALUE = re.compile(r"[\t\x20-\x7e]*", re.ASCII)
#: No token, password or certificate is as long.
_LARGEST_FILE = 1 << 20
#: Shorter ones would turn ordinary words of an error into stars.
_SHORTEST_SECRET = 4


class RequestHeaders(msgspec.Struct, frozen=True):
    """The headers of a query, and what of them must never be printed."""

    headers: dict[str, str]
    secrets: tuple[str, ...]


class PrometheusClient:
    """One server. Every method raises PrometheusError and nothing else: PrometheusUnreachableError
    where nobody answered, PrometheusTimeoutError where the time was over. Safe to share between
    threads."""

    def __init__(
        self,
        settings: PrometheusSettings,
        sleep: Callable[[float], None] = time.sleep,
        jitter: random.Random | None = None,
    ) -> None:
        self._settings = settings
        self._sleep = sleep
        self._jitter = jitter or random.Random()  # noqa: S311 - it only spreads pauses
        self._trust = Trust(authority_file=settings.ca_file)
        self._contexts = TlsContexts(self._trust)
        self._timeout = settings.timeout / 1_000_000

    def query(self, text: str, at: float | None = None) -> tuple[Series, ...]:
        """The vector of a query. `at`: seconds since 1970; None: now."""
        return self.ask(text, at).series

    def ask(self, text: str, at: float | None = None) -> QueryResult:
        """The vector with Prometheus' warnings and its clock."""
        when = time.time() if at is None else at
        body = _encode_form({"query": text, "time": f"{when:.3f}"})
        return self._attempts(QUERY_PATH, body, read_answer)

    def ask_range(self, text: str, start: float, end: float, step: float) -> RangeResult:
        """The matrix of a query, at `start` and each `step` seconds later up to `end`. A server
        gives at most 11,000 values of a series."""
        times = {"start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:.3f}"}
        body = _encode_form({"query": text, **times})
        return self._attempts(RANGE_PATH, body, read_range_answer)

    def _attempts(self, path: str, body: bytes, read: Callable[[HttpResponse, Secrets], T]) -> T:
        deadline = time.monotonic() + self._timeout
        backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, self._jitter)
        left = self._settings.retries
        while True:
            try:
                return read(*self._once(path, body, deadline))
            except TransientError as passing:
                pause = backoff.after_failure(passing.retry_after)
                if left <= 0 or time.monotonic() + pause >= deadline:
                    raise self._with_server(passing, self._settings.retries - left) from None
            except PrometheusError as error:
                raise self._with_server(error, 0) from None
            left -= 1
            self._sleep(pause)

    def _once(self, path: str, body: bytes, deadline: float) -> tuple[HttpResponse, Secrets]:
        """The answer, and what it may not be shown with."""
        server = read_address(self._settings.endpoint)
        shown = headers_of(self._settings, server)
        proxy = proxy_for(server, os.environ)
        if isinstance(proxy, Gap):
            raise PrometheusError(proxy.reason)
        left = deadline - time.monotonic()
        if left <= 0:
            raise PrometheusTimeoutError
        endpoint = Endpoint(server, self._trust, proxy)
        response = self._exchange(endpoint, HttpRequest("POST", path, body), shown, left)
        return response, (*shown.secrets, *_proxy_secrets(proxy))

    def _exchange(
        self, endpoint: Endpoint, request: HttpRequest, shown: RequestHeaders, seconds: float
    ) -> HttpResponse:
        secure = endpoint.server.scheme == "https"
        identity = certificate_of(self._settings) if secure else Identity()
        context = self._context(identity) if secure else None
        try:
            return exchange(
                endpoint,
                request,
                shown.headers.items(),
                identity=identity,
                context=context,
                seconds=seconds,
                largest=LARGEST_ANSWER,
            )
        except DeadlineExceededError:
            raise PrometheusTimeoutError from None
        except AnswerTooLargeError:
            size = f"{LARGEST_ANSWER >> 20} MiB"
            told = f"the answer has more than {size}; the query asks for too many series"
            raise PrometheusError(told) from None
        except TlsError as error:
            raise PrometheusError(error.reason) from None
        except UnreachableError as error:
            raise TransientError(error.reason) from None

    def _context(self, identity: Identity) -> "ssl.SSLContext":
        try:
            return self._contexts.context(identity)
        except RequestError as error:  # its sentences are about files and certificates
            raise PrometheusError(str(error)) from None

    def _with_server(self, error: PrometheusError, again: int) -> PrometheusError:
        """Adds which server was asked, and how often if it was more than once."""
        told = str(error)
        if isinstance(error, PrometheusTimeoutError):
            told = f"no whole answer within {self._timeout:g} s"
        tries = f" ({again + 1} tries)" if again else ""
        try:
            server = read_address(self._settings.endpoint)
        except PrometheusError as malformed:
            return malformed
        return _error_class(error)(f"Prometheus at {server.url}: {told}{tries}")


def _error_class(error: PrometheusError) -> type[PrometheusError]:
    """The class of the final error, from the last attempt's."""
    if isinstance(error, PrometheusTimeoutError):
        return PrometheusTimeoutError
    gone = isinstance(error, TransientError) and not isinstance(error, ThrottledError)
    return PrometheusUnreachableError if gone else PrometheusError


def _encode_form(fields: dict[str, str]) -> bytes:
    try:
        return urlencode(fields).encode("ascii")
    except UnicodeEncodeError:
        raise PrometheusError("the query holds characters that are no Unicode") from None


def _proxy_secrets(proxy: Proxy | None) -> tuple[str, ...]:
    return (proxy.authorization,) if proxy and proxy.authorization else ()


def headers_of(settings: PrometheusSettings, server: Server) -> RequestHeaders:
    """Raises PrometheusError."""
    headers = {
        "Host": server.authority,
        "User-Agent": _USER_AGENT,
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    secrets: list[str] = []
    if settings.tenant:
        headers[_TENANT] = _check_header(settings.tenant, "the tenant")
    authorization = _authorization(settings, secrets)
    if authorization:
        headers["Authorization"] = authorization
    for name, value in settings.headers:
        if not _NAME.fullmatch(name):
            raise PrometheusError(f"{quoted(name)} is not a header name")
        if name.lower() == "authorization" and authorization:
            way = "a token's file" if settings.token_file else "a user name"
            raise PrometheusError(f"the header {name} and {way} exclude each other")
        headers = {key: said for key, said in headers.items() if key.lower() != name.lower()}
        headers[name] = _check_header(value, f"the value of the header {name}")
        secrets += [value, *value.split()[1:]]
    kept = (each for each in secrets if len(each) >= _SHORTEST_SECRET)
    return RequestHeaders(headers, tuple(sorted(set(kept), key=len, reverse=True)))


def certificate_of(settings: PrometheusSettings) -> Identity:
    """Empty if none is set. Without a key file, the key is in the certificate's file."""
    if not settings.certificate_file:
        if settings.key_file:
            raise PrometheusError("there is a key's file, but no certificate's")
        return Identity()
    certificate = _read_file(settings.certificate_file)
    key = _read_file(settings.key_file) if settings.key_file else b""
    return Identity(certificate=certificate, key=key)


def _authorization(settings: PrometheusSettings, secrets: list[str]) -> str:
    if settings.token_file:
        if settings.username:
            raise PrometheusError("a token's file and a user name exclude each other")
        token = _check_header(
            _read_secret(settings.token_file).strip(), f"the token in {settings.token_file}"
        )
        secrets.append(token)
        return f"Bearer {token}"
    if not settings.username:
        if settings.password_file:
            raise PrometheusError("there is a password's file, but no user name")
        return ""
    user = settings.username
    password = _read_secret(settings.password_file) if settings.password_file else ""
    if ":" in user:
        raise PrometheusError("the user name has a colon, which basic authentication forbids")
    found = basic_authorization(user, password)
    secrets += [password, found.removeprefix("Basic ")]
    return found


def _read_secret(path: str) -> str:
    """The text of a file, without the trailing newline that editors leave."""
    try:
        text = _read_file(path).decode().rstrip("\r\n")
    except UnicodeDecodeError:
        text = ""
    if not text or not text.isprintable():
        raise PrometheusError(f"{path} must hold one line of text, and nothing else")
    return text


def _read_file(path: str) -> bytes:
    match read_start(path, _LARGEST_FILE):
        case Gap(reason):
            raise PrometheusError(f"{path} is {reason}")
        case found:
            return found.data


def _check_header(value: str, what: str) -> str:
    if not _VALUE.fullmatch(value):
        raise PrometheusError(f"{what} must be one line of ASCII")
    return value
