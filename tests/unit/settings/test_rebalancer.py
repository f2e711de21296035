"""Every setting of the rebalancer: its default is the Struct's, its spellings are its own."""

from typing import Any

import msgspec
import pytest

from slackwater.contract.decoding import check_text, check_value
from slackwater.contract.document import Field
from slackwater.model.problem import Problem
from slackwater.settings.rebalancer import (
    IDENTITY,
    LagMode,
    LogLevel,
    Removal,
    RunSettings,
    WorkloadSettings,
)
from slackwater.settings.rebalancer_document import (
    BY_KEY,
    RUN_SETTINGS,
    SETTINGS,
    WORKLOAD_SETTINGS,
)
from slackwater.settings.setting import Setting

#: What nobody sets by a flag: who it is about, and the list of workloads.
APART = {("name",), ("workloads",)}


def leaves(kind: type[msgspec.Struct]) -> list[tuple[str, ...]]:
    """The paths of all values that a Struct holds, as plain values have them."""

    def below(plain: dict[str, Any]) -> list[tuple[str, ...]]:
        found: list[tuple[str, ...]] = []
        for name, value in plain.items():
            inner = below(value) if isinstance(value, dict) else [()]
            found += [(name, *path) for path in inner]
        return found

    made = kind(*(("default", "web") if kind is WorkloadSettings else ()))
    return [path for path in below(msgspec.to_builtins(made)) if path not in APART]


@pytest.mark.parametrize(
    ("kind", "settings"), [(RunSettings, RUN_SETTINGS), (WorkloadSettings, WORKLOAD_SETTINGS)]
)
def test_each_value_has_one_setting(
    kind: type[msgspec.Struct], settings: tuple[Setting, ...]
) -> None:
    assert [each.path for each in settings] == leaves(kind)
    for each in settings:
        assert each.default_value is not None or "default" in each.annotation.extra


def test_keys_flags_and_variables_are_unique() -> None:
    for spelled in ("key", "flag", "variable"):
        assert len({getattr(setting, spelled) for setting in SETTINGS}) == len(SETTINGS)


def test_every_setting_is_told() -> None:
    for setting in SETTINGS:
        assert setting.description.endswith("."), setting.key
        assert setting.default
        assert setting.bound
        for text in (setting.description, setting.bound, setting.default):
            assert "|" not in text
            assert "\n" not in text


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
    setting = BY_KEY[key]
    assert (setting.flag, setting.variable) == (flag, variable)
    assert (setting.default, setting.bound) == (default, bound)


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
        ("logLevel", "warn", LogLevel.WARN.value),
        ("removal", "delete", Removal.DELETE.value),
        ("kafka.lagMode", "require_above", LagMode.REQUIRE_ABOVE.value),
        ("kafka.bootstrapServers", "a:9092,b:9092", ["a:9092", "b:9092"]),
        ("tolerance", "1.5e0", 1.5),
        ("tolerance", "15E-1", 1.5),
        ("minimumImprovement", "1e+1", 10.0),
        ("prometheus.headers", "X-A=1", (("X-A", "1"),)),
        ("prometheus.matchers", "cluster=prod-eu,_x=", (("cluster", "prod-eu"), ("_x", ""))),
    ],
)
def test_texts(key: str, text: str, value: object) -> None:
    problems: list[Problem] = []
    found = check_text(BY_KEY[key].type, text, "x", problems)
    assert not problems
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("key", "text", "wanted"),
    [
        *[("topK", text, "a whole number, at least 1")
          for text in ("0", "-1", "2.9", "0x10", "1_000", " 2", "abc", "NaN", "٢")],
        *[("minimumPods", text, "a whole number, at least 1") for text in ("0", "1.0")],
        *[("tolerance", text, "a number, at least 1")
          for text in ("0.5", "NaN", "inf", "abc", "1e", "e5", "1e999")],
        *[("minimumImprovement", text, "a number, 0 % to 100 %")
          for text in ("-5", "150", "NaN", "100.01")],
        *[("window", text, "a duration such as 500ms, 1s or 1m30s, 1s to 24h")
          for text in ("1d", "300", "-5m", "0", "0s", "invalid", "25h", "1ns")],
        *[("prometheus.timeout", text, "a duration such as 500ms, 1s or 1m30s, 1ms to 1h")
          for text in ("-1s", "0s", "30", "2h")],
        *[("dryRun", text, "true or false") for text in ("yes", "on", "tRUE", "2", "no")],
        *[("logLevel", text, "one of debug, info, warn, error")
          for text in ("INFO", "warning", "trace")],
        ("kafka.lagMode", "block", "one of block_above, require_above"),
        ("kafka.lagAggregation", "avg", "one of sum, max"),
        ("kafka.lagThreshold", "-1", "a whole number, at least 0"),
        ("gracePeriodSeconds", "0", "a whole number, 1 to 86400"),
    ],
)  # fmt: skip
def test_refused_texts(key: str, text: str, wanted: str) -> None:
    problems: list[Problem] = []
    check_text(BY_KEY[key].type, text, "THE_VARIABLE", problems)
    whole = text.lstrip("-").isascii() and text.lstrip("-").isdigit()
    seen = text if whole and wanted.startswith("a whole") else repr(text)
    told = [each.sentence() for each in problems]
    assert told == [f"THE_VARIABLE is {seen}, but must be {wanted}"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("topK", "3"), ("topK", 2.0), ("topK", True), ("dryRun", "true"), ("dryRun", 1),
        ("window", 300), ("tolerance", "2"), ("removal", "EVICT"), ("selector", 1),
        ("kafka.bootstrapServers", "a:1"), ("prometheus.headers", ["a"]),
    ],
)  # fmt: skip
def test_a_file_s_values_are_not_converted(key: str, value: object) -> None:
    problems: list[Problem] = []
    check_value(Field("f", "x", value), BY_KEY[key].type, problems)
    assert [each.where for each in problems] == ["f: x"]


def test_who_is_meant_is_not_a_matter_of_flags() -> None:
    identity = {setting.key for setting in SETTINGS if IDENTITY in setting.annotation.extra}
    assert identity == {
        "namespace", "kind", "container", "selector",
        "kafka.consumerGroup", "kafka.topic", "kafka.lagQuery",
    }  # fmt: skip
