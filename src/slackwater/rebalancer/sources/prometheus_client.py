"""Asks Prometheus, or what speaks like it, one instant query at a time.

Owns what is tried again (no connection, half an answer, 429, 502, 503, 504: a query changes
nothing) and how long a query may take, tries and pauses counted in. Knows no metric.
"""

import os
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from slackwater import __version__
from slackwater.http.backoff import Backoff
from slackwater.http.endpoint import Proxy, Trust, proxy_for
from slackwater.http.errors import RequestError
from slackwater.http.tls import TlsContexts
from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.rebalancer.sources.prometheus_answer import (
    Answer,
    DeadlineExceededError,
    PrometheusError,
    PrometheusUnreachableError,
    Series,
    ThrottledError,
    TransientError,
    read_answer,
)
from slackwater.rebalancer.sources.prometheus_identity import (
    certificate_of,
    headers_of,
    read_address,
)
from slackwater.settings.rebalancer import PrometheusSettings

if TYPE_CHECKING:
    import ssl

__all__ = [
    "Answer",
    "DeadlineExceededError",
    "Prometheus",
    "PrometheusError",
    "PrometheusUnreachableError",
    "Series",
]

_USER_AGENT = f"slackwater/{__version__}"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 5.0


class Prometheus:
    """One server. Every method raises PrometheusError, one sentence, and nothing else: Silent where
    nobody was there, TooLate where its time was over. May be shared by threads."""

    def __init__(
        self,
        settings: PrometheusSettings,
        sleep: Callable[[float], None] = time.sleep,
        jitter: random.Random | None = None,
    ) -> None:
        self._settings = settings
        self._sleep = sleep
        self._jitter = jitter or random.Random()  # noqa: S311 - it only spreads pauses
        self._contexts = TlsContexts(Trust(authority_file=settings.ca_file))
        self._timeout = settings.timeout / 1_000_000

    def query(self, text: str, at: float | None = None) -> tuple[Series, ...]:
        """The vector of a query. `at`: seconds since 1970; None: now."""
        return self.ask(text, at).series

    def ask(self, text: str, at: float | None = None) -> Answer:
        """The same with Prometheus' warnings."""
        deadline = time.monotonic() + self._timeout
        backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, self._jitter)
        body = _form(text, time.time() if at is None else at)
        left = self._settings.retries
        while True:
            try:
                return self._once(body, deadline)
            except TransientError as passing:
                pause = backoff.after_failure(passing.retry_after)
                if left <= 0 or time.monotonic() + pause >= deadline:
                    raise self._named(passing, self._settings.retries - left) from None
            except PrometheusError as error:
                raise self._named(error, 0) from None
            left -= 1
            self._sleep(pause)

    def _once(self, body: bytes, deadline: float) -> Answer:
        from slackwater.rebalancer.sources.prometheus_wire import Question, send

        address = read_address(self._settings.endpoint)
        shown = headers_of(self._settings, _USER_AGENT)
        proxy = proxy_for(address.server, os.environ)
        if isinstance(proxy, Gap):
            raise PrometheusError(proxy.reason)
        patience = deadline - time.monotonic()
        if patience <= 0:
            raise DeadlineExceededError
        question = Question(address.url, shown.headers, body, patience)
        context = self._context() if address.server.scheme == "https" else None
        return read_answer(send(question, context, proxy), (*shown.secrets, *_secret_of(proxy)))

    def _context(self) -> "ssl.SSLContext":
        try:
            return self._contexts.context(certificate_of(self._settings))
        except RequestError as error:  # its sentences are about files and certificates
            raise PrometheusError(str(error)) from None

    def _named(self, error: PrometheusError, again: int) -> PrometheusError:
        """With whom was asked, and how often where that was more than once."""
        told = str(error)
        if isinstance(error, DeadlineExceededError):
            told = f"no whole answer within {self._timeout:g} s"
        tries = f" ({again + 1} tries)" if again else ""
        try:
            base = read_address(self._settings.endpoint).base
        except PrometheusError as malformed:
            return malformed
        return _kind(error)(f"Prometheus at {base}: {told}{tries}")


def _kind(error: PrometheusError) -> type[PrometheusError]:
    """Of what the last try ended with."""
    if isinstance(error, DeadlineExceededError):
        return DeadlineExceededError
    gone = isinstance(error, TransientError) and not isinstance(error, ThrottledError)
    return PrometheusUnreachableError if gone else PrometheusError


def _form(text: str, at: float) -> bytes:
    from urllib.parse import urlencode

    try:
        return urlencode({"query": text, "time": f"{at:.3f}"}).encode("ascii")
    except UnicodeEncodeError:
        raise PrometheusError("the query holds characters that are no Unicode") from None


def _secret_of(proxy: Proxy | None) -> tuple[str, ...]:
    return (proxy.authorization,) if proxy and proxy.authorization else ()


_SHARE = 10


class RoundPrometheus(Prometheus):
    """Guards what the first silence said. A new one for each round."""

    def __init__(self, settings: PrometheusSettings) -> None:
        super().__init__(settings)
        brief = Micros(max(1000, settings.timeout // _SHARE))
        self._brief = Prometheus(msgspec.structs.replace(settings, timeout=brief))
        self._late = ""
        self._silence = ""

    def ask(self, text: str, at: float | None = None) -> Answer:
        """Raises the same again, once it is known that nobody answers."""
        if self._silence:
            raise PrometheusUnreachableError(self._silence)
        try:
            found = self._brief.ask(text, at) if self._late else super().ask(text, at)
        except DeadlineExceededError as late:
            self._silence, self._late = self._late, self._late or str(late)
            raise DeadlineExceededError(self._late) from None
        except PrometheusUnreachableError as silent:
            self._silence = str(silent)
            raise
        self._late = ""
        return found
