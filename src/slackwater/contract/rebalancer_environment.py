"""The environment variables of the original rebalancer, and which of our settings they mean.

Bounds are those of the settings. A variable that is set but empty counts as unset, as it did there.
"""

from collections.abc import Mapping

import msgspec

#: The workload. It is a Deployment's name there, and the container's, and part of the HPA's.
WORKLOAD = "DEPLOYMENT_NAME"
#: What counts where the workload comes from that variable; elsewhere our own defaults do.
DEFAULTS: Mapping[str, str] = {"namespace": "posthog", "selector": "app=consumer"}
#: By our key.
VARIABLES: Mapping[str, str] = {
    "prometheus.endpoint": "PROMETHEUS_ENDPOINT",
    "prometheus.timeout": "PROMETHEUS_TIMEOUT",
    "namespace": "KUBE_NAMESPACE",
    "selector": "KUBE_LABEL_SELECTOR",
    "window": "METRICS_TIME_WINDOW",
    "topK": "REBALANCE_TOP_K_PODS",
    "tolerance": "TOLERANCE_MULTIPLIER",
    "minimumImprovement": "MINIMUM_IMPROVEMENT_PERCENT",
    "hpaPrefix": "HPA_PREFIX",
    "hpaMetric": "HPA_METRIC_NAME",
    "minimumPods": "MINIMUM_PODS_REQUIRED",
    "dryRun": "DRY_RUN",
    "logLevel": "LOG_LEVEL",
    "kafka.lagEnabled": "KAFKA_LAG_ENABLED",
    "kafka.lagThreshold": "KAFKA_LAG_THRESHOLD",
    "kafka.lagMode": "KAFKA_LAG_MODE",
    "kafka.lagQuery": "KAFKA_LAG_QUERY",
    "kafka.lagAggregation": "KAFKA_LAG_AGGREGATION",
    "kafka.consumerGroup": "KAFKA_CONSUMER_GROUP",
    "kafka.topic": "KAFKA_TOPIC",
    "kafka.bootstrapServers": "KAFKA_BOOTSTRAP_SERVERS",
}
#: Names of the original's earlier versions, and what says the same today, if anything does.
_DROPPED: Mapping[str, str] = {
    "CPU_VARIANCE_THRESHOLD": "TOLERANCE_MULTIPLIER",
    "LAG_VARIANCE_THRESHOLD": "KAFKA_LAG_THRESHOLD",
    "MIN_PODS_REQUIRED": "MINIMUM_PODS_REQUIRED",
    "STRATEGY": "",
    "MAX_PODS_TO_DELETE": "REBALANCE_TOP_K_PODS",
}


class StatedVariable(msgspec.Struct, frozen=True):
    """A variable that is set, and its text."""

    variable: str
    text: str


def read_variables(
    environment: Mapping[str, str], own: Mapping[str, str]
) -> dict[str, StatedVariable]:
    """What the environment says, by our key. `own`: our variables by key; each wins over the
    original's."""
    found: dict[str, StatedVariable] = {}
    for key, ours in own.items():
        names = (ours, VARIABLES[key]) if key in VARIABLES else (ours,)
        said = [StatedVariable(name, environment[name]) for name in names if environment.get(name)]
        if said:
            found[key] = said[0]
    return found


def warnings(environment: Mapping[str, str]) -> tuple[str, ...]:
    """A sentence for each variable that no longer means anything."""
    return tuple(
        f"{name} is set, but means nothing any more" + (f"; see {today}" if today else "")
        for name, today in _DROPPED.items()
        if environment.get(name)
    )
