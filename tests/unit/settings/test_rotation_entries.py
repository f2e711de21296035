"""Every setting of the rebalancer: its default is the Struct's, its spellings are its own."""

from typing import Any

import pytest

from slackwater.model.problem import InvalidError
from slackwater.settings.bound import Bound
from slackwater.settings.choice import Choice
from slackwater.settings.rebalancer import (
    LagMode,
    LogLevel,
    Removal,
    RunSettings,
    WorkloadSettings,
)
from slackwater.settings.rotation_document import BY_KEY, ENTRIES
from slackwater.settings.rotation_entry import Entry, Scope, checked, checked_text
from slackwater.settings.rotation_run import RUN_ENTRIES
from slackwater.settings.rotation_workload import WORKLOAD_ENTRIES

#: What nobody sets by an entry: who it is about, and what the entries are made of.
APART = {("name",), ("workloads",)}


def leaves(struct: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    found: dict[tuple[str, ...], Any] = {}
    for name in struct.__struct_fields__:
        value = getattr(struct, name)
        if hasattr(value, "__struct_fields__"):
            found |= leaves(value, (*path, name))
        else:
            found[*path, name] = value
    return {path: value for path, value in found.items() if path not in APART}


@pytest.mark.parametrize(
    ("struct", "entries"),
    [(RunSettings(), RUN_ENTRIES), (WorkloadSettings("default", "web"), WORKLOAD_ENTRIES)],
)
def test_each_attribute_has_one_entry_and_its_default(
    struct: Any, entries: tuple[Entry, ...]
) -> None:
    there = leaves(struct)
    assert sorted(entry.path for entry in entries) == sorted(there)
    for entry in entries:
        default = there[entry.path]
        if default is None:
            assert entry.otherwise, entry.key
        elif isinstance(entry.setting, Choice):
            assert default.value == entry.setting.default
            assert entry.words is type(default)
            assert entry.setting.words == tuple(word.value for word in type(default))
        else:
            assert default == entry.setting.default, entry.key


def test_keys_flags_and_variables_are_unique() -> None:
    for spelled in ("key", "flag", "variable"):
        assert len({getattr(entry, spelled) for entry in ENTRIES}) == len(ENTRIES)


def test_every_entry_is_told() -> None:
    for entry in ENTRIES:
        assert entry.setting.prose.endswith("."), entry.key
        assert entry.default()
        assert entry.setting.span()
        for text in (entry.setting.prose, entry.setting.span(), entry.default()):
            assert "|" not in text
            assert "\n" not in text


def test_defaults_that_are_bounds_are_inside() -> None:
    bounds = [entry.setting for entry in ENTRIES if isinstance(entry.setting, Bound)]
    assert all(bound.holds(bound.default) for bound in bounds)
    assert len(bounds) > 10


@pytest.mark.parametrize(
    ("key", "flag", "variable", "default", "bound"),
    [
        ("topK", "--top-k", "SLACKWATER_REBALANCE_TOP_K", "2", "at least 1"),
        ("tolerance", "--tolerance", "SLACKWATER_REBALANCE_TOLERANCE", "1.5", "at least 1"),
        (
            "minimumImprovement", "--minimum-improvement",
            "SLACKWATER_REBALANCE_MINIMUM_IMPROVEMENT", "10 %", "0 % to 100 %",
        ),
        (
            "minimumPodAge", "--minimum-pod-age", "SLACKWATER_REBALANCE_MINIMUM_POD_AGE",
            "the window", "0s to 168h",
        ),
        (
            "cooldown", "--cooldown", "SLACKWATER_REBALANCE_COOLDOWN",
            "twice the window", "0s to 24h",
        ),
        ("batchSize", "--batch-size", "SLACKWATER_REBALANCE_BATCH_SIZE", "0", "at least 0"),
        (
            "readyTimeout", "--ready-timeout", "SLACKWATER_REBALANCE_READY_TIMEOUT",
            "5m", "1s to 1h",
        ),
        (
            "kafka.lagMode", "--kafka-lag-mode", "SLACKWATER_REBALANCE_KAFKA_LAG_MODE",
            "block_above", "block_above or require_above",
        ),
        (
            "kafka.protocol", "--kafka-protocol", "SLACKWATER_REBALANCE_KAFKA_PROTOCOL",
            "PLAINTEXT", "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
        ),
        (
            "kafka.saslMechanism", "--kafka-sasl-mechanism",
            "SLACKWATER_REBALANCE_KAFKA_SASL_MECHANISM",
            "PLAIN", "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512",
        ),
        (
            "prometheus.tokenFile", "--prometheus-token-file",
            "SLACKWATER_REBALANCE_PROMETHEUS_TOKEN_FILE", "none", "a file's path, or empty",
        ),
    ],
)  # fmt: skip
def test_spellings(key: str, flag: str, variable: str, default: str, bound: str) -> None:
    entry = BY_KEY[key]
    assert (entry.flag, entry.variable) == (flag, variable)
    assert (entry.default(), entry.setting.span()) == (default, bound)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("topK", "3", 3),
        ("topK", "010", 10),
        ("tolerance", "2.0", 2.0),
        ("window", "5m0s", 300_000_000),
        ("window", "1h30m", 5_400_000_000),
        ("window", "1.5h", 5_400_000_000),
        ("prometheus.timeout", "45s", 45_000_000),
        ("prometheus.timeout", "250ms", 250_000),
        ("prometheus.timeout", "2000us", 2_000),
        ("prometheus.timeout", "3000000ns", 3_000),
        ("prometheus.timeout", "7000\u00b5s", 7_000),
        *[("dryRun", text, True) for text in ("1", "t", "T", "true", "TRUE", "True")],
        *[("dryRun", text, False) for text in ("0", "f", "F", "false", "FALSE", "False")],
        ("hpaPrefix", "none", ""),
        ("hpaPrefix", "keda-hpa", "keda-hpa"),
        ("logLevel", "warn", LogLevel.WARN),
        ("removal", "delete", Removal.DELETE),
        ("kafka.lagMode", "require_above", LagMode.REQUIRE_ABOVE),
        ("kafka.bootstrapServers", "a:9092,b:9092", ("a:9092", "b:9092")),
        ("prometheus.headers", "X-A=1", (("X-A", "1"),)),
        ("prometheus.matchers", "cluster=prod-eu,_x=", (("cluster", "prod-eu"), ("_x", ""))),
    ],
)
def test_texts(key: str, text: str, value: object) -> None:
    found = checked_text(BY_KEY[key], text, "x")
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("key", "text", "wanted"),
    [
        *[("topK", text, "a whole number, at least 1")
          for text in ("0", "-1", "2.9", "0x10", "1_000", " 2", "abc", "NaN", "٢")],
        *[("minimumPods", text, "a whole number, at least 1") for text in ("0", "1.0")],
        *[("tolerance", text, "a number, at least 1") for text in ("0.5", "NaN", "inf", "abc")],
        *[("minimumImprovement", text, "a number, 0 % to 100 %")
          for text in ("-5", "150", "NaN", "100.01")],
        *[("window", text, "a duration such as 500ms, 1s or 1m30s, 1s to 24h")
          for text in ("1d", "300", "-5m", "0", "0s", "invalid", "25h", "1ns")],
        *[("prometheus.timeout", text, "a duration such as 500ms, 1s or 1m30s, 1ms to 1h")
          for text in ("-1s", "0s", "30", "2h")],
        *[("dryRun", text, "true or false") for text in ("yes", "on", "tRUE", "2", "no")],
        *[("logLevel", text, "debug, info, warn or error")
          for text in ("INFO", "warning", "trace")],
        ("kafka.lagMode", "block", "block_above or require_above"),
        ("kafka.lagAggregation", "avg", "sum or max"),
        ("kafka.lagThreshold", "-1", "a whole number, at least 0"),
        ("gracePeriodSeconds", "0", "a whole number, 1 to 86400"),
    ],
)  # fmt: skip
def test_refused_texts(key: str, text: str, wanted: str) -> None:
    with pytest.raises(InvalidError) as caught:
        checked_text(BY_KEY[key], text, "THE_VARIABLE")
    whole = text.lstrip("-").isascii() and text.lstrip("-").isdigit()
    seen = text if whole and wanted.startswith("a whole") else repr(text)
    assert str(caught.value) == f"THE_VARIABLE is {seen}, but must be {wanted}"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("topK", "3"), ("topK", 2.0), ("topK", True), ("dryRun", "true"), ("dryRun", 1),
        ("window", 300), ("tolerance", "2"), ("removal", "EVICT"), ("selector", 1),
        ("kafka.bootstrapServers", "a:1"), ("prometheus.headers", ["a"]),
    ],
)  # fmt: skip
def test_a_file_s_values_are_not_converted(key: str, value: object) -> None:
    with pytest.raises(InvalidError, match=r"^f: x is .*, but must be "):
        checked(BY_KEY[key], value, "f: x")


def test_who_is_meant_is_not_a_matter_of_flags() -> None:
    identity = {entry.key for entry in ENTRIES if entry.scope is Scope.IDENTITY}
    assert identity == {
        "namespace", "kind", "container", "selector",
        "kafka.consumerGroup", "kafka.topic", "kafka.lagQuery",
    }  # fmt: skip
