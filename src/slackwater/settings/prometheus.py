"""How a Prometheus is reached, and how its series are labelled."""

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta, field

from slackwater.contract.schema import INLINE, Count, Duration, SettingsStruct
from slackwater.model.problem import Problem, ProblemCode, quoted
from slackwater.model.units import Micros
from slackwater.settings.setting import (
    FilePath,
    HeaderName,
    HeaderValue,
    MatcherLabel,
    MatcherValue,
    MetricLabel,
    PlainText,
    Url,
)

_INLINE = Meta(extra={INLINE: True})
_MILLISECOND = 1_000
_SECOND = 1_000_000
_HOUR = 3_600 * _SECOND


class MetricLabels(SettingsStruct, frozen=True):
    """How the scrape configuration calls the labels. `matchers`: labels and values that all of our
    cluster's series have, where one Prometheus holds several clusters."""

    pod: Annotated[
        MetricLabel,
        Meta(description="The name of the pod label in the scrape configuration."),
    ] = field(default="pod", name="podLabel")
    container: Annotated[MetricLabel, Meta(description="The name of the container label.")] = field(
        default="container", name="containerLabel"
    )
    namespace: Annotated[MetricLabel, Meta(description="The name of the namespace label.")] = field(
        default="namespace", name="namespaceLabel"
    )
    matchers: Annotated[
        tuple[tuple[MatcherLabel, MatcherValue], ...],
        Meta(
            max_length=20,
            description="Labels and values that the series must have if one Prometheus holds "
            "several clusters: cluster=prod-eu. Added to every query but kafka.lagQuery.",
        ),
    ] = ()


class PrometheusSettings(SettingsStruct, frozen=True):
    """`headers`: as (name, value), a tenant's or an Authorization of one's own. Files are read at
    each query, so that a rotated token is found."""

    endpoint: Annotated[
        Url,
        Meta(description="Prometheus, VictoriaMetrics, or any server with the same API."),
    ] = "http://localhost:9090"
    timeout: Annotated[
        Duration, Meta(ge=_MILLISECOND, le=_HOUR, description="How long one query may take.")
    ] = Micros(30 * _SECOND)
    retries: Annotated[
        Count,
        Meta(
            ge=0,
            le=10,
            description="How often a query is retried if the server could not be reached or was "
            "busy.",
        ),
    ] = 2
    headers: Annotated[
        tuple[tuple[HeaderName, HeaderValue], ...],
        Meta(description="HTTP headers for each query. Secrets belong in a file: see tokenFile."),
    ] = ()
    tenant: Annotated[
        PlainText, Meta(description="The tenant, sent as the header X-Scope-OrgID.")
    ] = ""
    token_file: Annotated[
        FilePath,
        Meta(
            description="A file with a bearer token. Read at each query, so that a rotated token "
            "is picked up."
        ),
    ] = ""
    username: Annotated[PlainText, Meta(description="For HTTP's basic authentication.")] = ""
    password_file: Annotated[FilePath, Meta(description="A file with the user's password.")] = ""
    ca_file: Annotated[
        FilePath,
        Meta(description="CA certificates to verify the server with, in place of the system's."),
    ] = ""
    certificate_file: Annotated[
        FilePath, Meta(description="A client certificate; needs keyFile.")
    ] = ""
    key_file: Annotated[FilePath, Meta(description="The client certificate's key.")] = ""
    labels: Annotated[MetricLabels, _INLINE] = MetricLabels()


#: What queries ask for besides.
_IN_QUERIES = ("resource", "consumergroup", "topic")


def prometheus_conflicts(settings: PrometheusSettings) -> Iterator[Problem]:
    """Settings that are fine alone and make no sense together."""
    yield from both_or_neither(
        ("prometheus.username", settings.username),
        ("prometheus.passwordFile", settings.password_file),
    )
    yield from both_or_neither(
        ("prometheus.certificateFile", settings.certificate_file),
        ("prometheus.keyFile", settings.key_file),
    )
    if settings.token_file and settings.username:
        bound = "empty where prometheus.tokenFile is set"
        yield conflict("prometheus.username", settings.username, bound)
    yield from _of_labels(settings.labels)


def _of_labels(labels: MetricLabels) -> Iterator[Problem]:
    """Two matchers of one label would leave no series."""
    taken = {labels.pod, labels.container, labels.namespace, *_IN_QUERIES}
    for name, _ in labels.matchers:
        if name in taken:
            bound = "labels that no query names by itself, each once"
            yield conflict("a label of prometheus.matchers", name, bound)
        taken.add(name)


def conflict(path: str, value: str, bound: str) -> Problem:
    return Problem(path, quoted(value), bound, ProblemCode.CONFLICT)


def both_or_neither(one: tuple[str, str], other: tuple[str, str]) -> Iterator[Problem]:
    if bool(one[1]) != bool(other[1]):
        missing, there = (other, one) if one[1] else (one, other)
        yield conflict(missing[0], missing[1], f"set where {there[0]} is")
