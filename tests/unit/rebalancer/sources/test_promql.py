"""The texts that are sent, and what is escaped in them. Prometheus itself reads them in
tests/cluster/test_prometheus.py."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.units import Micros
from slackwater.rebalancer.sources.promql import (
    duration,
    label_value,
    newest_sample_query,
    presence_query,
    request_query,
    usage_query,
)
from slackwater.settings.prometheus import MetricLabels

SECOND = 1_000_000
RENAMED = MetricLabels("exported_pod", "exported_container", "exported_namespace")


def test_usage() -> None:
    """The counters of a container add up in process, where those of the kubelet's /metrics/resource
    can be told from cAdvisor's."""
    assert usage_query("shop", Micros(300 * SECOND), MetricLabels()) == (
        "max by (pod, container, id, cpu) ("
        'increase(container_cpu_usage_seconds_total{namespace="shop",container!="",container!="POD"}[5m]))'
        " / 300"
    )


def test_newest_samples() -> None:
    assert newest_sample_query("shop", MetricLabels()) == (
        "max by (pod, container, id, cpu) (timestamp(container_cpu_usage_seconds_total"
        '{namespace="shop",container!="",container!="POD"}))'
    )


def test_requests() -> None:
    assert request_query("shop", MetricLabels()) == (
        "max by (pod, container) "
        '(kube_pod_container_resource_requests{namespace="shop",resource="cpu"})'
    )


def test_presence() -> None:
    expected = 'count(container_cpu_usage_seconds_total{namespace="shop"})'
    assert presence_query("shop", MetricLabels()) == expected


def test_labels_have_the_scrape_configurations_names() -> None:
    usage = usage_query("shop", Micros(90 * SECOND), RENAMED)
    assert usage == (
        "max by (exported_pod, exported_container, id, cpu) "
        '(increase(container_cpu_usage_seconds_total{exported_namespace="shop",'
        'exported_container!="",exported_container!="POD"}[90s])) / 90'
    )
    assert request_query("shop", RENAMED) == (
        "max by (exported_pod, exported_container) (kube_pod_container_resource_requests"
        '{exported_namespace="shop",resource="cpu"})'
    )
    assert 'exported_namespace="shop"' in presence_query("shop", RENAMED)


def test_our_matchers_are_in_every_question() -> None:
    labels = MetricLabels(matchers=(("cluster", "prod-eu"), ("a", 'b"c')))
    ours = ',cluster="prod-eu",a="b\\"c"}'
    usage = usage_query("shop", Micros(90 * SECOND), labels)
    assert f'{{namespace="shop",container!="",container!="POD"{ours}[90s]' in usage
    newest = newest_sample_query("shop", labels)
    assert f'{{namespace="shop",container!="",container!="POD"{ours})' in newest
    assert f'{{namespace="shop",resource="cpu"{ours})' in request_query("shop", labels)
    assert f'{{namespace="shop"{ours})' in presence_query("shop", labels)


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (300 * SECOND, "5m"),
        (60 * SECOND, "1m"),
        (90 * SECOND, "90s"),
        (SECOND * 3 // 2, "1500ms"),
        (3600 * SECOND, "1h"),
        (5400 * SECOND, "90m"),
        (86_400 * SECOND, "24h"),
        (61_001_000, "61001ms"),
        (1, "1ms"),
        (1_001, "2ms"),
    ],
)
def test_durations(window: int, expected: str) -> None:
    assert duration(Micros(window)) == expected


@pytest.mark.parametrize("window", [0, -1, -300 * SECOND])
def test_a_window_is_positive(window: int) -> None:
    with pytest.raises(ValueError, match=f"a window of {window} µs; it must be positive"):
        duration(Micros(window))


@given(st.integers(min_value=1, max_value=10**13))
def test_a_duration_is_one_number_and_one_unit(window: int) -> None:
    """And is the window, to the next millisecond."""
    found = re.fullmatch(r"([1-9]\d*)(ms|s|m|h)", duration(Micros(window)))
    assert found
    size = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}[found[2]]
    assert int(found[1]) * size == -(-window // 1000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("shop", '"shop"'),
        ("", '""'),
        ('a"b', r'"a\"b"'),
        ("a\\b", r'"a\\b"'),
        ('\\"', r'"\\\""'),
        ("a\nb", r'"a\nb"'),
        ("a\r\tb", r'"a\r\tb"'),
        ("\x00\x1f\x7f", r'"\x00\x1f\x7f"'),
        ("Größe→", '"Größe→"'),
        ('"} or up{a="', r'"\"} or up{a=\""'),
    ],
)
def test_values(text: str, expected: str) -> None:
    assert label_value(text) == expected


@given(st.text())
def test_a_value_is_read_back(text: str) -> None:
    """By Go's rules: a string between double quotes has no bare quote, and these escapes."""
    inner = label_value(text)[1:-1]
    escapes = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}
    assert re.fullmatch(r'(?:[^"\\\n]|\\(?:[nrt"\\]|x[0-9a-f]{2}))*', inner)
    back = re.sub(
        r"\\(?:x([0-9a-f]{2})|(.))",
        lambda m: chr(int(m[1], 16)) if m[1] else escapes[m[2]],
        inner,
    )
    assert back == text
