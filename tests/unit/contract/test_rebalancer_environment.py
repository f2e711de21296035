"""The original's environment: which variable means what, and what means nothing any more."""

import pytest

from slackwater.contract import rebalancer_environment
from slackwater.contract.rebalancer_environment import StatedVariable, read_variables, warnings

OWN = {"topK": "SLACKWATER_REBALANCE_TOP_K", "cooldown": "SLACKWATER_REBALANCE_COOLDOWN"}


def test_the_original_s_names_and_the_seed_s_are_all_there() -> None:
    assert set(rebalancer_environment.VARIABLES.values()) | {rebalancer_environment.WORKLOAD} == {
        "PROMETHEUS_ENDPOINT", "PROMETHEUS_TIMEOUT", "KUBE_NAMESPACE", "KUBE_LABEL_SELECTOR",
        "DEPLOYMENT_NAME", "METRICS_TIME_WINDOW", "REBALANCE_TOP_K_PODS", "TOLERANCE_MULTIPLIER",
        "MINIMUM_IMPROVEMENT_PERCENT", "HPA_PREFIX", "MINIMUM_PODS_REQUIRED", "DRY_RUN",
        "LOG_LEVEL", "HPA_METRIC_NAME", "KAFKA_LAG_THRESHOLD", "KAFKA_LAG_ENABLED",
        "KAFKA_LAG_MODE", "KAFKA_LAG_QUERY", "KAFKA_CONSUMER_GROUP", "KAFKA_TOPIC",
        "KAFKA_BOOTSTRAP_SERVERS", "KAFKA_LAG_AGGREGATION",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, {}),
        ({"REBALANCE_TOP_K_PODS": ""}, {}),
        ({"REBALANCE_TOP_K_PODS": "3"}, {"topK": StatedVariable("REBALANCE_TOP_K_PODS", "3")}),
        (
            {"REBALANCE_TOP_K_PODS": "3", "SLACKWATER_REBALANCE_TOP_K": "4"},
            {"topK": StatedVariable("SLACKWATER_REBALANCE_TOP_K", "4")},
        ),
        (
            {"REBALANCE_TOP_K_PODS": "3", "SLACKWATER_REBALANCE_TOP_K": ""},
            {"topK": StatedVariable("REBALANCE_TOP_K_PODS", "3")},
        ),
        (
            {"SLACKWATER_REBALANCE_COOLDOWN": "1h", "COOLDOWN": "2h"},
            {"cooldown": StatedVariable("SLACKWATER_REBALANCE_COOLDOWN", "1h")},
        ),
        ({"PROMETHEUS_ENDPOINT": "http://x"}, {}),
    ],
)
def test_what_the_environment_says(
    environment: dict[str, str], found: dict[str, StatedVariable]
) -> None:
    assert read_variables(environment, OWN) == found


@pytest.mark.parametrize(
    ("name", "today"),
    [
        ("CPU_VARIANCE_THRESHOLD", "; see TOLERANCE_MULTIPLIER"),
        ("LAG_VARIANCE_THRESHOLD", "; see KAFKA_LAG_THRESHOLD"),
        ("MIN_PODS_REQUIRED", "; see MINIMUM_PODS_REQUIRED"),
        ("STRATEGY", ""),
        ("MAX_PODS_TO_DELETE", "; see REBALANCE_TOP_K_PODS"),
    ],
)
def test_dropped_names_are_warned_about(name: str, today: str) -> None:
    assert warnings({name: "3"}) == (f"{name} is set, but means nothing any more{today}",)
    assert warnings({name: ""}) == ()


def test_nothing_dropped_nothing_said() -> None:
    assert warnings(dict.fromkeys(rebalancer_environment.VARIABLES.values(), "1")) == ()
