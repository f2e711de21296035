"""Pushes the metrics of a run that is too short to be scraped, to a Pushgateway or VictoriaMetrics.

A push that fails is reported and changes nothing else: the pods have gone, and a Job that fails
for its metrics alone would be run again, or page somebody.
"""

from urllib.parse import quote, unquote, urlsplit

from slackwater import __version__
from slackwater.http.connection import HttpRequest, HttpResponse, exchange
from slackwater.http.endpoint import (
    DEFAULT_PORTS,
    Endpoint,
    Identity,
    Server,
    Trust,
    basic_authorization,
)
from slackwater.http.errors import RequestError, UnreachableError
from slackwater.http.tls import TlsContexts
from slackwater.model.gap import Gap
from slackwater.model.problem import quoted

JOB = "slackwater-rebalancer"
#: In seconds, for all of it.
_PATIENCE = 10.0
#: A path with one of these says where the metrics go; else they go below it, as a job's.
_PUSHGATEWAY, _VICTORIA_METRICS = "/metrics/", "/api/v1/import/prometheus"
#: What may stand in a path and a query as it is (RFC 3986), "%" for what is quoted already.
_URL_SIGNS = "%/?:@!$&'()*+,;=~"
#: How much of an answer is shown, and how much is read.
_LONGEST_ANSWER, _LARGEST_ANSWER = 200, 1 << 20


def target_of(url: str, instance: str) -> str | Gap:
    """The URL to push to; a Gap if the setting is not an http or https URL."""
    wrong = Gap(f"push is {quoted(url)}, but must be an http or https URL")
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            return wrong
    except ValueError:
        return wrong
    if _PUSHGATEWAY in parts.path or _VICTORIA_METRICS in parts.path:
        return url
    of = f"/instance/{quote(instance, safe='')}" if instance else ""
    return parts._replace(path=f"{parts.path.rstrip('/')}/metrics/job/{JOB}{of}").geturl()


def push(url: str, content_type: str, body: bytes, instance: str = "") -> str:
    """Replaces the metrics of the last run. Returns one sentence if that failed, else nothing."""
    target = target_of(url, instance)
    if isinstance(target, Gap):
        return f"the metrics were not pushed: {target.reason}"
    return _sent(target, content_type, body)


def _sent(target: str, content_type: str, body: bytes) -> str:
    parts = urlsplit(target)
    server = Server(parts.hostname or "", parts.port or DEFAULT_PORTS[parts.scheme], parts.scheme)
    path = quote(parts._replace(scheme="", netloc="", fragment="").geturl(), safe=_URL_SIGNS)
    shown = f"{server.url}{path}"  # a password in the URL is not for a log
    # VictoriaMetrics imports by POST; a Pushgateway's PUT replaces, its POST would keep old series.
    method = "POST" if _VICTORIA_METRICS in parts.path else "PUT"
    headers = [
        ("Host", server.authority),
        ("User-Agent", f"slackwater/{__version__}"),
        ("Content-Type", content_type),
    ]
    if parts.username is not None:
        password = unquote(parts.password or "")
        headers.append(("Authorization", basic_authorization(unquote(parts.username), password)))
    try:
        answer = _exchanged(server, HttpRequest(method, path, body), headers)
    except RequestError as error:
        why = error.reason if isinstance(error, UnreachableError) else str(error)
        return f"the metrics were not pushed to {shown}: {why}"
    if 200 <= answer.status < 300:
        return ""
    said = " ".join(answer.body[:_LONGEST_ANSWER].decode("utf-8", "replace").split())
    return f"the metrics were not pushed to {shown}: it answered {answer.status} {quoted(said)}"


def _exchanged(
    server: Server, request: HttpRequest, headers: list[tuple[str, str]]
) -> HttpResponse:
    secure = server.scheme == "https"
    return exchange(
        Endpoint(server),
        request,
        headers,
        identity=Identity(),
        context=TlsContexts(Trust()).context(Identity()) if secure else None,
        seconds=_PATIENCE,
        largest=_LARGEST_ANSWER,
    )
