"""Settings of the rebalancer that are fine alone and make no sense together.

Owns these rules: problems are errors, warnings are for people to read.
"""

from collections.abc import Iterator

from slackwater.model.problem import Problem, quoted
from slackwater.settings.rebalancer import (
    KafkaAccess,
    KafkaProtocol,
    MetricLabels,
    PrometheusSettings,
    RunSettings,
    WorkloadSettings,
)

#: What queries ask for besides.
_IN_QUERIES = ("resource", "consumergroup", "topic")
_SASL = (KafkaProtocol.SASL_PLAINTEXT, KafkaProtocol.SASL_SSL)


def discords(settings: RunSettings) -> Iterator[Problem]:
    """What has to be mended before anything is asked."""
    yield from _of_prometheus(settings.prometheus)
    seen: dict[tuple[str, str, str], int] = {}
    for place, each in enumerate(settings.workloads):
        key = each.namespace, each.kind, each.name
        if key in seen:
            other = f"another workload than the {_nth(seen[key])}"
            yield Problem(f"the {_nth(place)} workload", quoted(shown(each)), other)
        seen.setdefault(key, place)
    for access in dict.fromkeys(each.kafka.access for each in settings.workloads):
        yield from _of_kafka(access)


def futile(settings: WorkloadSettings) -> str | None:
    """A sentence where the minimum improvement can never be reached: with one hot pod and K cold
    ones that use nothing it is K / (K + 1)."""
    moves = settings.moves
    most = 100 * moves.top_k / (moves.top_k + 1)
    if moves.minimum_improvement < most:
        return None
    return (
        f"{shown(settings)} will never be rotated: minimumImprovement is "
        f"{moves.minimum_improvement:g} %, but with topK {moves.top_k} no improvement is above "
        f"{most:.1f} %"
    )


def shown(settings: WorkloadSettings) -> str:
    return f"{settings.namespace}/{settings.name}"


def _nth(place: int) -> str:
    """first, second, third, 4th."""
    names = ("first", "second", "third")
    return names[place] if place < len(names) else f"{place + 1}th"


def _of_prometheus(settings: PrometheusSettings) -> Iterator[Problem]:
    yield from _pair(
        ("prometheus.username", settings.username),
        ("prometheus.passwordFile", settings.password_file),
    )
    yield from _pair(
        ("prometheus.certificateFile", settings.certificate_file),
        ("prometheus.keyFile", settings.key_file),
    )
    if settings.token_file and settings.username:
        wanted = "empty where prometheus.tokenFile is set"
        yield Problem("prometheus.username", quoted(settings.username), wanted)
    yield from _of_labels(settings.labels)


def _of_labels(labels: MetricLabels) -> Iterator[Problem]:
    """Two matchers of one label would leave no series."""
    taken = {labels.pod, labels.container, labels.namespace, *_IN_QUERIES}
    for name, _ in labels.matchers:
        if name in taken:
            wanted = "labels that no query names by itself, each once"
            yield Problem("a label of prometheus.matchers", quoted(name), wanted)
        taken.add(name)


def _of_kafka(access: KafkaAccess) -> Iterator[Problem]:
    yield from _pair(
        ("kafka.username", access.username), ("kafka.passwordFile", access.password_file)
    )
    yield from _pair(
        ("kafka.certificateFile", access.certificate_file), ("kafka.keyFile", access.key_file)
    )
    if access.protocol in _SASL and not access.username:
        wanted = f"set where kafka.protocol is {access.protocol.value}"
        yield Problem("kafka.username", quoted(access.username), wanted)


def _pair(one: tuple[str, str], other: tuple[str, str]) -> Iterator[Problem]:
    """Both or neither."""
    if bool(one[1]) != bool(other[1]):
        missing, there = (other, one) if one[1] else (one, other)
        yield Problem(missing[0], quoted(missing[1]), f"set where {there[0]} is")
