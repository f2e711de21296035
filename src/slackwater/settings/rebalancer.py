"""Settings of the rebalancer, for one workload and for one run.

Where a default depends on another value it is None here, and a property has it. Secrets are not
settings: a password or a token is named by its file.
"""

import enum
from typing import Annotated

from msgspec import Meta, field

from slackwater.contract.schema import EMPTY, INLINE, UNIT, Count, Duration, SettingsStruct, Unit
from slackwater.model.units import Micros
from slackwater.settings.prometheus import PrometheusSettings
from slackwater.settings.setting import (
    DEFAULT,
    Broker,
    ConsumerGroup,
    ContainerName,
    FilePath,
    HpaMetric,
    HpaPrefix,
    Namespace,
    ObjectName,
    OptionalUrl,
    PlainText,
    PromqlQuery,
    SelectorText,
    TopicName,
    WorkloadKind,
)

#: A key of Meta(extra=...): which pods are meant. There an entry of the file overrules flags and
#: variables, or one flag would point all workloads at the same pods.
IDENTITY = "identity"
_INLINE = Meta(extra={INLINE: True})
_MILLISECOND = 1_000
_SECOND = 1_000_000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR


class Removal(enum.Enum):
    """By the Eviction API, where disruption budgets hold, or by deletion, where they do not."""

    EVICT = "evict"
    DELETE = "delete"


class UsageSource(enum.Enum):
    PROMETHEUS = "prometheus"
    METRICS_API = "metrics-api"


class RequestSource(enum.Enum):
    """AUTO: Prometheus' series where there is one for the pod, else the pod's own spec."""

    AUTO = "auto"
    PROMETHEUS = "prometheus"
    SPEC = "spec"


class LagMode(enum.Enum):
    """Whether lag above the threshold forbids a rotation, or is what it takes."""

    BLOCK_ABOVE = "block_above"
    REQUIRE_ABOVE = "require_above"


class LagSum(enum.Enum):
    """How partitions become one number."""

    SUM = "sum"
    MAX = "max"


class KafkaProtocol(enum.Enum):
    """What is spoken to a broker, by Kafka's own names."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"


class SaslMechanism(enum.Enum):
    """How a client authenticates to a broker. Mechanisms that need more libraries are left out."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


class LogLevel(enum.Enum):
    """The lowest level of entries that `run` and `loop` print."""

    DEBUG = "debug"
    INFO = "info"
    WARN = "warn"
    ERROR = "error"


class KafkaAccess(SettingsStruct, frozen=True):
    """How brokers are reached. `ca_file` empty: those that the machine trusts. Files are read each
    time, so that a rotated password is found."""

    protocol: Annotated[
        KafkaProtocol, Meta(description="The brokers' security protocol, by Kafka's own names.")
    ] = KafkaProtocol.PLAINTEXT
    ca_file: Annotated[
        FilePath,
        Meta(description="CA certificates to verify the brokers with, in place of the system's."),
    ] = ""
    certificate_file: Annotated[
        FilePath, Meta(description="A client certificate for the brokers; needs keyFile.")
    ] = ""
    key_file: Annotated[FilePath, Meta(description="That certificate's key.")] = ""
    mechanism: Annotated[
        SaslMechanism,
        Meta(description="How to authenticate to the brokers if the protocol is one of SASL's."),
    ] = field(default=SaslMechanism.PLAIN, name="saslMechanism")
    username: Annotated[PlainText, Meta(description="For SASL.")] = ""
    password_file: Annotated[FilePath, Meta(description="A file with SASL's password.")] = ""


class KafkaSettings(SettingsStruct, frozen=True):
    """`bootstrap_servers` empty: from Prometheus. `group` empty: the workload's name. `query`
    replaces the exporter's metric; it has to give one number for each series."""

    enabled: Annotated[
        bool, Meta(description="Whether the consumer group's lag is checked before a rotation.")
    ] = field(default=False, name="lagEnabled")
    threshold: Annotated[
        Count,
        Meta(
            ge=0,
            description="In messages. 1000 is low for a busy topic: eight partitions with 150 "
            "each always exceed it.",
        ),
    ] = field(default=1000, name="lagThreshold")
    mode: Annotated[
        LagMode,
        Meta(
            description="Whether lag above the threshold forbids a rotation or is required for "
            "one. Unknown lag forbids it in either case."
        ),
    ] = field(default=LagMode.BLOCK_ABOVE, name="lagMode")
    aggregate: Annotated[LagSum, Meta(description="How the partitions' lags are combined.")] = (
        field(default=LagSum.SUM, name="lagAggregation")
    )
    group: Annotated[
        ConsumerGroup,
        Meta(
            description="The consumer group whose lag counts.",
            extra={IDENTITY: True, DEFAULT: "the workload's name"},
        ),
    ] = field(default="", name="consumerGroup")
    topic: Annotated[
        TopicName,
        Meta(
            description="Only this topic's partitions count.",
            extra={IDENTITY: True, DEFAULT: "all topics of the group"},
        ),
    ] = ""
    query: Annotated[
        PromqlQuery,
        Meta(
            description="PromQL in place of the exporter's metric. Each resulting series is one "
            "partition.",
            extra={IDENTITY: True, DEFAULT: "kafka_consumergroup_lag of the group"},
        ),
    ] = field(default="", name="lagQuery")
    bootstrap_servers: Annotated[
        tuple[Broker, ...],
        Meta(
            description="Brokers to query directly. Needs the extra slackwater[kafka].",
            extra={DEFAULT: "none: Prometheus is queried"},
        ),
    ] = ()
    access: Annotated[KafkaAccess, _INLINE] = KafkaAccess()


class MoveSettings(SettingsStruct, frozen=True):
    """The inputs of the pure algorithm. `minimum_pod_age` None: the window."""

    top_k: Annotated[
        Count,
        Meta(
            ge=1,
            description="How many of the hottest and how many of the coldest pods are considered.",
        ),
    ] = 2
    tolerance: Annotated[
        float,
        Meta(
            ge=1.0,
            description="A pod above the HPA's target times this is hot; one exactly at it is not.",
        ),
    ] = 1.5
    minimum_improvement: Annotated[
        float,
        Meta(
            ge=0.0,
            le=100.0,
            description="The hot pods' average has to fall by more than this when they are mixed "
            "with the cold ones. With topK 2 it never falls by more than 66.7 %.",
            extra={UNIT: Unit.PERCENT},
        ),
    ] = 10.0
    minimum_pods: Annotated[
        Count,
        Meta(
            ge=1, description="How many ready pods have to remain besides those that are rotated."
        ),
    ] = 2
    window: Annotated[
        Duration,
        Meta(
            ge=_SECOND,
            le=_DAY,
            description="The time over which CPU usage is averaged. At least four times "
            "Prometheus' scrape interval; metrics.k8s.io has a window of its own.",
        ),
    ] = Micros(5 * _MINUTE)
    minimum_pod_age: (
        Annotated[
            Duration,
            Meta(
                ge=0,
                le=7 * _DAY,
                description="Younger pods are left alone. Before the window is full their usage "
                "reads too low, and a pod that was just rotated would look like the coldest.",
                extra={DEFAULT: "the window"},
            ),
        ]
        | None
    ) = None
    cooldown: (
        Annotated[
            Duration,
            Meta(
                ge=0,
                le=_DAY,
                description="The shortest time between two rotations of one workload. After two "
                "in a row that achieved less than half of the predicted improvement it is × 4, "
                "after three × 8 and so on, at most a day.",
                extra={DEFAULT: "twice the window"},
            ),
        ]
        | None
    ) = None
    batch: Annotated[
        Count,
        Meta(
            ge=0,
            description="The most pods that are replaced at once. 0: as many as the others can "
            "stand in for.",
        ),
    ] = field(default=0, name="batchSize")

    @property
    def youngest(self) -> Micros:
        return self.window if self.minimum_pod_age is None else self.minimum_pod_age

    @property
    def pause(self) -> Micros:
        """Between two rotations of one workload."""
        return Micros(2 * self.window) if self.cooldown is None else self.cooldown


class WorkloadSettings(SettingsStruct, frozen=True):
    """One workload: `name` is the Deployment's, StatefulSet's or whatever the HPA scales. `kind`
    empty: whatever its HPA says. `container` empty: the one called like the workload where there
    is one, else all; "*": all. `hpa_prefix`: what may stand before the name in the HPA's."""

    namespace: Annotated[
        Namespace,
        Meta(description="Where the workload is.", extra={IDENTITY: True, DEFAULT: "default"}),
    ]
    name: ObjectName
    kind: Annotated[
        WorkloadKind,
        Meta(
            description="The workload's kind. Only these three replace their pods one for one.",
            extra={IDENTITY: True, DEFAULT: "what its HPA scales"},
        ),
    ] = ""
    container: Annotated[
        ContainerName,
        Meta(
            description="The container whose CPU counts. A ContainerResource metric of the HPA "
            "names its own; * is the whole pod, as the HPA's Resource metric counts it.",
            extra={
                IDENTITY: True,
                DEFAULT: "the HPA's, else the one named like the workload, else all",
            },
        ),
    ] = ""
    selector: Annotated[
        SelectorText,
        Meta(
            description="Only the workload's pods with these labels count.",
            extra={IDENTITY: True},
        ),
    ] = ""
    hpa_prefix: Annotated[
        HpaPrefix,
        Meta(
            description="An optional prefix of the HPA's name before the workload's name. KEDA's "
            "is keda-hpa-, with or without the last dash; none disables it.",
            extra={EMPTY: "none"},
        ),
    ] = "keda-hpa-"
    hpa_metric: Annotated[
        HpaMetric,
        Meta(description="The HPA metric whose target is used. A target of memory is none of CPU."),
    ] = "cpu"
    moves: Annotated[MoveSettings, _INLINE] = MoveSettings()
    kafka: KafkaSettings = KafkaSettings()


class CapSettings(SettingsStruct, frozen=True):
    """How many pods may go: in one run, from one node, from one namespace; 0: as many as are
    proposed."""

    run: Annotated[
        Count,
        Meta(
            ge=0, description="The most pods rotated in one run, over all workloads. 0: unlimited."
        ),
    ] = 0
    node: Annotated[
        Count,
        Meta(ge=0, description="The most pods rotated on one node in one run. 0: unlimited."),
    ] = 0
    namespace: Annotated[
        Count,
        Meta(ge=0, description="The most pods rotated in one namespace in one run. 0: unlimited."),
    ] = 0


class RunSettings(SettingsStruct, frozen=True):
    """All of one run. `grace` in seconds; None: each pod's own. `interval` is between two rounds
    of the resident loop."""

    workloads: tuple[WorkloadSettings, ...] = ()
    prometheus: PrometheusSettings = PrometheusSettings()
    usage_source: Annotated[
        UsageSource,
        Meta(
            description="Where the pods' usage comes from. metrics-api is metrics.k8s.io, which "
            "needs no Prometheus."
        ),
    ] = UsageSource.PROMETHEUS
    request_source: Annotated[
        RequestSource,
        Meta(
            description="Where the pods' requests come from. auto is kube-state-metrics if it "
            "has the pod, else the pod's own spec."
        ),
    ] = RequestSource.AUTO
    removal: Annotated[
        Removal,
        Meta(
            description="How pods are removed. evict respects disruption budgets; delete ignores "
            "them, as the original did."
        ),
    ] = Removal.EVICT
    grace: (
        Annotated[
            Count,
            Meta(
                ge=1,
                le=86_400,
                description="How long a pod may take to terminate. The original used 30, which "
                "cuts longer drains short.",
                extra={DEFAULT: "each pod's own"},
            ),
        ]
        | None
    ) = field(default=None, name="gracePeriodSeconds")
    ready_timeout: Annotated[
        Duration,
        Meta(
            ge=_SECOND,
            le=_HOUR,
            description="How long to wait for a batch's replacements to be Ready. After that the "
            "rotation stops.",
        ),
    ] = Micros(5 * _MINUTE)
    caps: CapSettings = CapSettings()
    dry_run: Annotated[bool, Meta(description="Decide and log, but change nothing.")] = False
    push: Annotated[
        OptionalUrl,
        Meta(description="Where `run` pushes its metrics, since a short Job cannot be scraped."),
    ] = ""
    interval: Annotated[
        Duration,
        Meta(ge=10 * _SECOND, le=_DAY, description="How often the loop runs a round."),
    ] = Micros(5 * _MINUTE)
    log_level: Annotated[
        LogLevel,
        Meta(description="The lowest level that is printed. debug shows no more than info."),
    ] = LogLevel.INFO
