"""Instant queries of a Prometheus, or of a server with the same API, as the values of a metric.

Asked once in each period and not again in between: the next answer is near. A token is read from
its file at each query, and never shown.
"""

from collections.abc import Callable
from urllib.parse import urlencode

from slackwater import __version__
from slackwater.bounded_read import read_start
from slackwater.http.connection import HttpRequest, HttpResponse, exchange
from slackwater.http.endpoint import Endpoint, Identity, Trust
from slackwater.http.errors import RequestError, UnreachableError
from slackwater.http.prometheus_api import (
    QUERY_PATH,
    PrometheusError,
    QueryResult,
    read_address,
    read_answer,
)
from slackwater.http.tls import TlsContexts
from slackwater.model.gap import Gap
from slackwater.model.metric import Sample, Samples
from slackwater.model.units import Micros
from slackwater.observation.probes.answers import MOST_SAMPLES, Answer, bound_samples
from slackwater.observation.probes.sources import PrometheusQuery
from slackwater.observation.probes.text_format import LARGEST_ANSWER

_NOBODY = Identity()
#: The name of a series, which is a label in the answers.
_NAME_LABEL = "__name__"
_LARGEST_TOKEN = 64 * 1024


class QueryTarget:
    """One query that is sent again and again. The certificate of an https address is verified
    with the machine's authorities."""

    def __init__(self, source: PrometheusQuery, clock: Callable[[], Micros]) -> None:
        self._source = source
        self._clock = clock
        self._contexts = TlsContexts(Trust())

    def ask(self, names: frozenset[str]) -> Answer | Gap:
        """Each metric that is wanted is the whole vector."""
        try:
            found = self._query()
        except PrometheusError as error:
            return Gap(f"Prometheus at {_shown(self._source.url)}: {error}")
        samples = bound_samples(_to_samples(found), MOST_SAMPLES)
        return Answer(self._clock(), dict.fromkeys(names, samples))

    def _query(self) -> QueryResult:
        """Raises PrometheusError."""
        endpoint = Endpoint(read_address(self._source.url))
        token = self._token()
        try:
            response = self._exchange(endpoint, token)
        except UnreachableError as error:
            raise PrometheusError(error.reason) from None
        except RequestError as error:
            raise PrometheusError(str(error)) from None
        return read_answer(response, (token,) if token else ())

    def _exchange(self, endpoint: Endpoint, token: str) -> HttpResponse:
        server = endpoint.server
        authorization = (("Authorization", f"Bearer {token}"),) if token else ()
        headers = (
            ("Host", server.authority),
            ("User-Agent", f"slackwater/{__version__}"),
            ("Accept", "application/json"),
            ("Accept-Encoding", "identity"),
            ("Connection", "close"),
            ("Content-Type", "application/x-www-form-urlencoded"),
            *authorization,
            *self._source.headers,
        )
        body = urlencode({"query": self._source.query}).encode("ascii", "replace")
        return exchange(
            endpoint,
            HttpRequest("POST", QUERY_PATH, body),
            headers,
            identity=_NOBODY,
            context=self._contexts.context(_NOBODY) if server.scheme == "https" else None,
            seconds=self._source.times.timeout,
            largest=LARGEST_ANSWER,
        )

    def _token(self) -> str:
        if not self._source.token_name:
            return ""
        if not self._source.token_folder:
            raise PrometheusError("no folder of tokens is set")
        path = f"{self._source.token_folder}/{self._source.token_name}"
        found = read_start(path, _LARGEST_TOKEN)
        if isinstance(found, Gap):
            raise PrometheusError(f"the token in {path} is {found.reason}")
        token = found.data.decode("ascii", "replace").strip()
        if not token or not token.isascii() or not token.isprintable():
            raise PrometheusError(f"{path} must hold one line of ASCII")
        return token


def _to_samples(found: QueryResult) -> Samples | Gap:
    """What is not a finite number is left out: a division by zero is no measurement."""
    kept = tuple(
        Sample(each.value, {k: v for k, v in each.labels.items() if k != _NAME_LABEL})
        for each in found.series
        if abs(each.value) < float("inf")
    )
    if kept:
        return kept
    what = "only numbers that are not finite" if found.series else "no series"
    return Gap(f"the query gives {what}")


def _shown(url: str) -> str:
    """Without a user and a query, which read_address refuses."""
    scheme, mark, rest = url.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}".partition("?")[0][:200]
