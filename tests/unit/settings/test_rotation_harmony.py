"""Settings that are fine alone and make no sense together."""

import pytest

from slackwater.settings.rebalancer import (
    KafkaAccess,
    KafkaProtocol,
    KafkaSettings,
    MetricLabels,
    MoveSettings,
    PrometheusSettings,
    RunSettings,
    WorkloadSettings,
)
from slackwater.settings.rotation_harmony import discords, futile

FILE = "f"
ONCE = "but must be labels that no query names by itself, each once"


def with_access(access: KafkaAccess) -> RunSettings:
    kafka = KafkaSettings(access=access)
    return RunSettings(
        tuple(WorkloadSettings("default", name, kafka=kafka) for name in ("web", "api"))
    )


def with_prometheus(**said: str) -> RunSettings:
    return RunSettings(prometheus=PrometheusSettings(**said))  # type: ignore[arg-type]


def with_matchers(*names: str) -> RunSettings:
    labels = MetricLabels(matchers=tuple((name, "x") for name in names))
    return RunSettings(prometheus=PrometheusSettings(labels=labels))


@pytest.mark.parametrize(
    ("settings", "sentences"),
    [
        (RunSettings(), []),
        (with_prometheus(username="me", password_file=FILE), []),
        (with_prometheus(token_file=FILE), []),
        (with_prometheus(username="me"),
         ["prometheus.passwordFile is '', but must be set where prometheus.username is"]),
        (with_prometheus(password_file=FILE),
         ["prometheus.username is '', but must be set where prometheus.passwordFile is"]),
        (with_prometheus(certificate_file="f"),
         ["prometheus.keyFile is '', but must be set where prometheus.certificateFile is"]),
        (with_prometheus(username="me", password_file=FILE, token_file=FILE),
         ["prometheus.username is 'me', but must be empty where prometheus.tokenFile is set"]),
        (with_matchers("cluster", "region"), []),
        *[(with_matchers("cluster", name), [f"a label of prometheus.matchers is {name!r}, {ONCE}"])
          for name in ("cluster", "pod", "container", "namespace", "resource", "topic")],
        (RunSettings(prometheus=PrometheusSettings(labels=MetricLabels(
            namespace="ns", matchers=(("namespace", "x"),)))), []),
        (with_access(KafkaAccess(username="me")),
         ["kafka.passwordFile is '', but must be set where kafka.username is"]),
        (with_access(KafkaAccess(key_file="f")),
         ["kafka.certificateFile is '', but must be set where kafka.keyFile is"]),
        (with_access(KafkaAccess(protocol=KafkaProtocol.SASL_SSL)),
         ["kafka.username is '', but must be set where kafka.protocol is SASL_SSL"]),
        (RunSettings(tuple(WorkloadSettings("a", n) for n in ("w", "x", "y", "z", "x"))),
         ["the 5th workload is 'a/x', but must be another workload than the second"]),
        (RunSettings((WorkloadSettings("a", "w"), WorkloadSettings("b", "w"),
                      WorkloadSettings("a", "w", "StatefulSet"))), []),
    ],
)  # fmt: skip
def test_discords(settings: RunSettings, sentences: list[str]) -> None:
    assert [each.sentence() for each in discords(settings)] == sentences


@pytest.mark.parametrize(
    ("top_k", "minimum", "never"),
    [(2, 10.0, False), (2, 66.6, False), (2, 66.7, True), (1, 49.9, False), (1, 50.0, True),
     (9, 89.9, False), (9, 90.0, True), (1000, 100.0, True)],
)  # fmt: skip
def test_what_can_never_be_reached_is_told(top_k: int, minimum: float, never: bool) -> None:
    moves = MoveSettings(top_k=top_k, minimum_improvement=minimum)
    said = futile(WorkloadSettings("prod", "web", moves=moves))
    assert (said is not None) == never


def test_the_sentence_has_the_bound() -> None:
    moves = MoveSettings(minimum_improvement=70.0)
    assert futile(WorkloadSettings("prod", "web", moves=moves)) == (
        "prod/web will never be rotated: minimumImprovement is 70 %, but with topK 2 no "
        "improvement is above 66.7 %"
    )
