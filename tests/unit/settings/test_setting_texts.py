"""Texts among the settings: what fits, what does not, and what is not shown of them."""

from typing import Any

import msgspec
import pytest
from msgspec import inspect

from slackwater.contract.decoding import check_text
from slackwater.model.problem import Problem
from slackwater.settings import setting as texts


def fits(kind: Any, text: str) -> bool:
    problems: list[Problem] = []
    found = check_text(inspect.type_info(kind), text, "x", problems)
    assert (found is msgspec.UNSET) == bool(problems)
    return not problems


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (texts.Namespace, "default"),
        (texts.Namespace, "a" * 63),
        (texts.ObjectName, "web.v1"),
        (texts.WorkloadKind, ""),
        (texts.WorkloadKind, "StatefulSet"),
        (texts.ContainerName, ""),
        (texts.ContainerName, "*"),
        (texts.ContainerName, "main-1"),
        (texts.HpaPrefix, "keda-hpa-"),
        (texts.HpaPrefix, ""),
        (texts.Url, "http://localhost:9090"),
        (texts.Url, "https://vm.example.com/select/0/prometheus"),
        (texts.Url, "http://[::1]:8428"),
        (texts.OptionalUrl, ""),
        (texts.OptionalUrl, "http://vm:8428/api/v1/import/prometheus?extra_label=job=x"),
        (texts.FilePath, "/var/run/secrets/token"),
        (texts.MetricLabel, "exported_pod"),
        (texts.Broker, "kafka-0.kafka:9092"),
        (texts.Broker, "[::1]:65535"),
        (texts.PromqlQuery, 'sum(kafka_lag{group="web"})'),
        (texts.TopicName, "events.v1-raw_2"),
        (texts.SelectorText, ""),
        (texts.SelectorText, "app in (a, b),!canary"),
        (texts.MatcherLabel, "cluster"),
        (texts.MatcherLabel, "_name__"),
        (texts.MatcherLabel, "__name__2"),
        (texts.MatcherValue, ""),
        (texts.MatcherValue, 'a"b\\größe'),
    ],
)
def test_what_fits(kind: Any, text: str) -> None:
    assert fits(kind, text)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (texts.Namespace, ""),
        (texts.Namespace, "a" * 64),
        (texts.Namespace, "Prod"),
        (texts.Namespace, "prod\n"),
        (texts.ObjectName, "web/1"),
        (texts.ObjectName, "-web"),
        (texts.WorkloadKind, "DaemonSet"),
        (texts.ContainerName, "**"),
        (texts.HpaPrefix, "(keda)?"),
        (texts.Url, ""),
        (texts.Url, "://invalid-url"),
        (texts.Url, "localhost:9090"),
        (texts.Url, "http://user:secret@prometheus:9090"),
        (texts.Url, "http://prometheus:0"),
        (texts.Url, "http://prometheus:65536"),
        (texts.Url, "http://prometheus:9090?x=1"),
        (texts.Url, "file:///etc/passwd"),
        (texts.FilePath, "a\0b"),
        (texts.MetricLabel, "pod-name"),
        (texts.MetricLabel, ""),
        (texts.Broker, "kafka"),
        (texts.Broker, "kafka:0"),
        (texts.Broker, "kafka:99999"),
        (texts.PromqlQuery, "a\nb"),
        (texts.PromqlQuery, "a" * 4097),
        (texts.TopicName, "a b"),
        (texts.SelectorText, "app in a"),
        (texts.SelectorText, "=x"),
        (texts.MatcherLabel, ""),
        (texts.MatcherLabel, "1a"),
        (texts.MatcherLabel, "a-b"),
        (texts.MatcherLabel, "a\n"),
        (texts.MatcherLabel, "__name__"),
        (texts.MatcherValue, "a\nb"),
        (texts.MatcherValue, "a\0b"),
        (texts.HeaderName, "X Y"),
        (texts.HeaderValue, "a\r\nb"),
    ],
)
def test_what_does_not(kind: Any, text: str) -> None:
    assert not fits(kind, text)


def test_an_address_with_a_password_is_not_shown() -> None:
    problems: list[Problem] = []
    address = "http://me:secret@prometheus:9090"
    check_text(inspect.type_info(texts.Url), address, "PROMETHEUS_ENDPOINT", problems)
    assert [each.sentence() for each in problems] == [
        (
            "PROMETHEUS_ENDPOINT is a text that is not shown, but must be an address such as "
            "http://prometheus:9090, without a user in it"
        )
    ]
