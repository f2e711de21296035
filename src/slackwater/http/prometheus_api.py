"""Prometheus' query API: a server's address, and what it answers to a query.

    PrometheusError                  one clause: what came instead of an answer
        TransientError               another attempt may succeed
            ThrottledError           429: the server answers, but not this often
        PrometheusTimeoutError       the time for the whole query is over
        PrometheusUnreachableError   nobody answered in any attempt

The format is the query API of Prometheus, which VictoriaMetrics, Thanos and Mimir keep to. Only
vectors are accepted of an instant query, and only matrices of a range query. What the numbers mean
is the caller's to know: NaN and infinities pass.
"""

import re
from collections.abc import Iterable
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from slackwater.http.connection import HttpResponse
from slackwater.http.endpoint import DEFAULT_PORTS, Server
from slackwater.http.errors import retry_after_seconds
from slackwater.model.problem import quoted

T = TypeVar("T")

#: As Go's strconv prints a float; Python's own float() would also take 1_000 and spaces.
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*([eE][+-]?\d+)?|Inf)|NaN", re.ASCII)
#: Of a message; a server may put a whole query there.
_LONGEST_MESSAGE = 300
_MOST_WARNINGS = 10
#: A gateway in between, or Prometheus itself while it starts or is overloaded.
_PASSING = frozenset((502, 503, 504))
_TOO_MANY = 429
QUERY_PATH, RANGE_PATH = "/api/v1/query", "/api/v1/query_range"
_WANTED = (
    "an address such as http://localhost:9090 or https://metrics.example.com/prometheus, without a "
    "user or a question mark"
)
#: Printable ASCII without a question mark, a number sign or a space.
_ADDRESS = re.compile(r"[!\"$->@-~]*", re.ASCII)


class PrometheusError(Exception):
    """str() is one sentence."""


class TransientError(PrometheusError):
    """`retry_after` is in seconds, None if the server did not say."""

    def __init__(self, told: str, retry_after: float | None = None) -> None:
        super().__init__(told)
        self.retry_after = retry_after


class ThrottledError(TransientError):
    """429: the server answers, but limits our requests."""


class PrometheusTimeoutError(PrometheusError):
    """The client, which knows the timeout, writes the sentence."""


class PrometheusUnreachableError(PrometheusError):
    """Any other query would fail in the same way."""


class Series(msgspec.Struct, frozen=True):
    """One series of a vector. `value` may be NaN or infinite."""

    labels: dict[str, str]
    value: float


class QueryResult(msgspec.Struct, frozen=True):
    """`warnings` are Prometheus' own, which come with a valid answer. `clock` is the server's time
    in seconds since 1970."""

    series: tuple[Series, ...]
    warnings: tuple[str, ...] = ()
    clock: float | None = None


class SeriesRange(msgspec.Struct, frozen=True):
    """One series over a range of times, in seconds since 1970, ascending. `values[k]`, which may be
    NaN or infinite, is of `times[k]`."""

    labels: dict[str, str]
    times: list[float]
    values: list[float]


class RangeResult(msgspec.Struct, frozen=True):
    """`warnings` and `clock` as in QueryResult."""

    series: tuple[SeriesRange, ...]
    warnings: tuple[str, ...] = ()
    clock: float | None = None


class _Row(msgspec.Struct, frozen=True):
    metric: dict[str, str]
    values: list[tuple[float, str]] | None = None


class _Sample(msgspec.Struct, frozen=True):
    metric: dict[str, str]
    value: tuple[float, str] | None = None


class _Data(msgspec.Struct, frozen=True, rename="camel"):
    result_type: str
    result: msgspec.Raw


class _Envelope(msgspec.Struct, frozen=True, rename="camel"):
    status: str
    data: _Data | None = None
    error_type: str = ""
    error: str = ""
    warnings: list[str] | None = None
    #: VictoriaMetrics: some of its storage nodes did not answer.
    is_partial: bool = False


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_VECTOR = msgspec.json.Decoder(list[_Sample])
_MATRIX = msgspec.json.Decoder(list[_Row])
_BROKEN = (msgspec.DecodeError, UnicodeError, RecursionError)


def read_address(endpoint: str) -> Server:
    """Raises PrometheusError. The path is a prefix, as VictoriaMetrics' cluster has one."""
    try:
        parts = urlsplit(endpoint)
        port, host = parts.port, parts.hostname or ""
    except ValueError:
        raise _bad_endpoint(endpoint) from None
    plain = _ADDRESS.fullmatch(endpoint) and "@" not in parts.netloc
    if parts.scheme not in DEFAULT_PORTS or not host or not plain:
        raise _bad_endpoint(endpoint)
    prefix = parts.path.rstrip("/").removesuffix(QUERY_PATH)
    return Server(host, port or DEFAULT_PORTS[parts.scheme], parts.scheme, prefix)


def read_answer(reply: HttpResponse, secrets: tuple[str, ...] = ()) -> QueryResult:
    """Of an instant query. Raises PrometheusError. `secrets` never appear in its text, even if the
    server repeats them."""
    told, data = _read_data(reply, secrets)
    return QueryResult(
        _decode_vector(data), _read_warnings(told), _server_time(reply.header("Date"))
    )


def read_range_answer(reply: HttpResponse, secrets: tuple[str, ...] = ()) -> RangeResult:
    """The same of a range query."""
    told, data = _read_data(reply, secrets)
    return RangeResult(
        _decode_matrix(data), _read_warnings(told), _server_time(reply.header("Date"))
    )


def _read_data(reply: HttpResponse, secrets: tuple[str, ...]) -> tuple[_Envelope, _Data]:
    shown = _mask(reply.body[:4096].decode("utf-8", "replace"), secrets)
    if 300 <= reply.status < 400:
        raise PrometheusError(_describe_redirect(reply, secrets))
    if not 200 <= reply.status < 300:
        raise _status_error(reply, shown)
    told = _decode_envelope(reply, shown)
    if told.status != "success" or told.data is None:
        raise PrometheusError(_error_text(told) or "the answer has neither data nor an error")
    return told, told.data


def _decode_envelope(reply: HttpResponse, shown: str) -> _Envelope:
    if not reply.body.strip():
        raise TransientError("the answer is empty")
    try:
        return _ENVELOPE.decode(reply.body)
    except _BROKEN as error:
        if "json" in reply.media_type:
            raise PrometheusError(f"the answer is not what Prometheus sends: {error}") from None
    raise PrometheusError(
        f"the answer is {reply.media_type or 'of no known type'} instead of JSON, from a proxy "
        f"or a login page perhaps: {_excerpt(shown)}"
    )


def _decode_vector(data: _Data) -> tuple[Series, ...]:
    samples = _decode_result(data, _VECTOR, "vector")
    _check_repeated(sample.metric for sample in samples)
    return tuple(Series(sample.metric, _sample_value(sample)) for sample in samples)


def _decode_matrix(data: _Data) -> tuple[SeriesRange, ...]:
    rows = _decode_result(data, _MATRIX, "matrix")
    _check_repeated(row.metric for row in rows)
    return tuple(_read_row(row) for row in rows)


def _decode_result(data: _Data, decoder: msgspec.json.Decoder[T], wanted: str) -> T:
    if data.result_type != wanted:
        raise PrometheusError(
            f"the query gives a result of type {quoted(data.result_type)}, but must give a {wanted}"
        )
    try:
        return decoder.decode(data.result)
    except _BROKEN as error:
        raise PrometheusError(f"the answer's {wanted} cannot be read: {error}") from None


def _check_repeated(metrics: Iterable[dict[str, str]]) -> None:
    found: set[tuple[tuple[str, str], ...]] = set()
    for metric in metrics:
        key = tuple(sorted(metric.items()))
        if key in found:
            raise PrometheusError(f"the answer has the series {_format_labels(metric)} twice")
        found.add(key)


def _read_row(row: _Row) -> SeriesRange:
    if row.values is None:
        raise PrometheusError(
            f"the series {_format_labels(row.metric)} has no values; a histogram cannot be compared"
        )
    for _, text in row.values:
        _check_number(text, row.metric)
    return SeriesRange(
        row.metric, [at for at, _ in row.values], [float(text) for _, text in row.values]
    )


def _sample_value(sample: _Sample) -> float:
    if sample.value is None:
        raise PrometheusError(
            f"the series {_format_labels(sample.metric)} has no value; "
            "a histogram cannot be compared"
        )
    text = sample.value[1]
    _check_number(text, sample.metric)
    return float(text)


def _check_number(text: str, metric: dict[str, str]) -> None:
    if not _NUMBER.fullmatch(text):
        raise PrometheusError(
            f"the value of the series {_format_labels(metric)} is {quoted(text)}, "
            "but must be a number"
        )


def _format_labels(metric: dict[str, str]) -> str:
    """As PromQL writes them, on one line of bounded length."""
    told = ", ".join(f"{key}={quoted(value)}" for key, value in sorted(metric.items()))
    return "{" + (told if len(told) <= _LONGEST_MESSAGE else f"{told[:_LONGEST_MESSAGE]}...") + "}"


def _read_warnings(told: _Envelope) -> tuple[str, ...]:
    some = ["it answered with a part of its data only"] if told.is_partial else []
    return (*some, *(_one_line(each) for each in (told.warnings or ())[:_MOST_WARNINGS]))


def _status_error(reply: HttpResponse, shown: str) -> PrometheusError:
    """With Prometheus' own reason if there is one, else the beginning of the body."""
    try:
        reason = _error_text(_ENVELOPE.decode(shown))
    except _BROKEN:
        reason = ""
    told = f"it answered {reply.status}"
    if reply.status in (401, 403):
        told += ", so the credentials are missing or wrong"
    if reason or shown.strip():
        told += f": {reason or _excerpt(shown)}"
    if reply.status == _TOO_MANY:
        return ThrottledError(told, retry_after_seconds(reply.header("Retry-After")))
    if reply.status in _PASSING:
        return TransientError(told, retry_after_seconds(reply.header("Retry-After")))
    return PrometheusError(told)


def _error_text(told: _Envelope) -> str:
    words = [each for each in (told.error_type, _one_line(told.error)) if each]
    return ": ".join(words)


def _describe_redirect(reply: HttpResponse, secrets: tuple[str, ...]) -> str:
    """Without the query of the target: a login page's address has secrets in it."""
    target = _mask(reply.header("Location").partition("?")[0], secrets)
    return (
        f"it sends us on to {_excerpt(target) if target else 'nowhere'} ({reply.status}), and "
        "credentials do not follow; name the endpoint that answers itself"
    )


def _server_time(date: str) -> float | None:
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def _one_line(text: str) -> str:
    """On one line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_MESSAGE else f"{line[:_LONGEST_MESSAGE]}..."


def _excerpt(text: str) -> str:
    return quoted(" ".join(text[:400].split()))


def _mask(text: str, secrets: tuple[str, ...]) -> str:
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


def _bad_endpoint(endpoint: str) -> PrometheusError:
    scheme, mark, rest = endpoint.partition("://")
    told = f"{scheme}{mark}{rest.rpartition('@')[2]}".partition("?")[0]
    return PrometheusError(f"the endpoint of Prometheus is {quoted(told)}, but must be {_WANTED}")
