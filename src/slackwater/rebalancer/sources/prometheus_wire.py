"""Sends one question to Prometheus over HTTP and brings back whatever comes.

Owns urllib3, which is imported with this module: import it where a question is asked. Owns the
time that a question may take as a whole: urllib3's own limits are for each read, and a server that
sends a byte every second keeps them for ever. Only a name server that does not answer is beyond
it. Refuses to follow redirects and to read more than 64 MiB.
"""

import http.client
import os
import socket
import ssl
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import msgspec
import urllib3
import urllib3.connection
import urllib3.connectionpool
from urllib3.exceptions import (
    HTTPError,
    LocationParseError,
    NameResolutionError,
    NewConnectionError,
    ProxyError,
    SSLError,
)
from urllib3.exceptions import TimeoutError as LateError

from slackwater.http.endpoint import Proxy
from slackwater.rebalancer.sources.prometheus_answer import (
    DeadlineExceededError,
    PrometheusError,
    Reply,
    TransientError,
)

#: 10,000 pods with two containers each are 4 MiB.
LARGEST_ANSWER = 64 << 20
_PIECE = 1 << 16


class Question(msgspec.Struct, frozen=True):
    """One POST. `patience`: seconds for all of it."""

    url: str
    headers: dict[str, str]
    body: bytes
    patience: float


class Watch:
    """Guards the time of one question: when it is over, its connections are."""

    def __init__(self, seconds: float) -> None:
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self.over = False

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        with self._lock:
            for each in self._sockets:
                each.close()
            self._sockets.clear()

    def take(self, connection: socket.socket) -> None:
        """A second handle: TLS takes the first one's away."""
        handle = socket.socket(fileno=os.dup(connection.fileno()))
        with self._lock:
            self._sockets.append(handle)
            if self.over:
                _shut(handle)

    def _end(self) -> None:
        with self._lock:
            self.over = True
            for each in self._sockets:
                _shut(each)


def send(question: Question, context: ssl.SSLContext | None, proxy: Proxy | None) -> Reply:
    """Raises PrometheusError: Passing where another try may go better, TooLate where the time is
    over."""
    with Watch(question.patience) as watch:
        try:
            reply = _sent(question, _manager(watch, context, proxy))
        except (HTTPError, OSError, ValueError) as error:
            if watch.over or _is_late(error):
                raise DeadlineExceededError from None
            raise _translated(error) from None
        # A body without a length ends quietly where its connection does.
        if watch.over:
            raise DeadlineExceededError
        return reply


def _sent(question: Question, manager: urllib3.PoolManager) -> Reply:
    try:
        response = manager.request(
            "POST",
            question.url,
            body=question.body,
            headers=question.headers,
            timeout=urllib3.Timeout(total=question.patience),
            retries=False,
            redirect=False,
            preload_content=False,
        )
        return _read(response)
    finally:
        manager.clear()


def _read(response: urllib3.BaseHTTPResponse) -> Reply:
    body = bytearray()
    while piece := response.read1(_PIECE):
        body += piece
        if len(body) > LARGEST_ANSWER:
            response.close()
            raise PrometheusError(
                f"the answer has more than {LARGEST_ANSWER >> 20} MiB; "
                "the query asks for too many series"
            )
    said = response.headers
    return Reply(
        response.status,
        said.get("Content-Type", "").partition(";")[0].strip().lower(),
        bytes(body),
        said.get("Retry-After", ""),
        said.get("Location", ""),
        said.get("Date", ""),
    )


def _manager(
    watch: Watch, context: ssl.SSLContext | None, proxy: Proxy | None
) -> urllib3.PoolManager:
    """For this one question; its connections are the watch's."""
    if proxy is None:
        manager = urllib3.PoolManager(1, ssl_context=context)
    else:
        host = f"[{proxy.host}]" if ":" in proxy.host else proxy.host
        shown = {"Proxy-Authorization": proxy.authorization} if proxy.authorization else {}
        manager = urllib3.ProxyManager(
            f"http://{host}:{proxy.port}", 1, proxy_headers=shown, ssl_context=context
        )
    manager.pool_classes_by_scheme = dict(_watched(watch))
    return manager


def _watched(watch: Watch) -> Mapping[str, type[urllib3.connectionpool.HTTPConnectionPool]]:
    """urllib3's own classes, but every socket is shown to the watch before anything is said."""

    class Plain(urllib3.connection.HTTPConnection):
        def _new_conn(self) -> socket.socket:
            made = super()._new_conn()
            watch.take(made)
            return made

    class Secure(urllib3.connection.HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            made = super()._new_conn()
            watch.take(made)
            return made

    class PlainPool(urllib3.connectionpool.HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(urllib3.connectionpool.HTTPSConnectionPool):
        ConnectionCls = Secure

    return {"http": PlainPool, "https": SecurePool}


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # the server was faster
        return


def _is_late(error: Exception) -> bool:
    """A refused connection is a timeout as well, by urllib3's tree."""
    cause = cause_of(error)
    late = isinstance(error, LateError) and not isinstance(error, NewConnectionError)
    return late or isinstance(cause, TimeoutError)


def _translated(error: Exception) -> PrometheusError:
    """What went wrong below HTTP, as a clause. Only what may pass is worth another try."""
    through = "the proxy: " if isinstance(error, ProxyError) else ""
    cause = cause_of(error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return PrometheusError(f"{through}its certificate is not believed: {cause.verify_message}")
    if isinstance(error, SSLError) or isinstance(cause, ssl.SSLError):
        return PrometheusError(f"{through}TLS failed: {getattr(cause, 'reason', '') or cause}")
    if isinstance(error, LocationParseError | ValueError):
        return PrometheusError("it cannot be asked: the endpoint or a header is malformed")
    if isinstance(error, NameResolutionError):
        return TransientError("its name is not known")
    return TransientError(through + (getattr(cause, "strerror", None) or _ended(cause)))


def cause_of(error: Exception) -> BaseException:
    """urllib3 wraps what happened, in `args`, in `original_error` or as the cause."""
    seen: BaseException = error
    for _ in range(5):
        inner = getattr(seen, "original_error", None) or seen.__cause__
        if inner is None:
            inner = next((each for each in seen.args if isinstance(each, Exception)), None)
        if inner is None:
            break
        seen = inner
    return seen


def _ended(cause: BaseException) -> str:
    if isinstance(cause, http.client.IncompleteRead):
        return "the answer ended in the middle"
    if isinstance(cause, http.client.RemoteDisconnected):
        return "the connection was closed before an answer came"
    said = " ".join(str(cause).split())[:200]
    if isinstance(cause, OSError):  # a proxy that refuses a tunnel, in http.client's words
        return said
    return f"what came is not HTTP ({type(cause).__name__} {said})"
