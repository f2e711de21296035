"""Settings of the rebalancer, for one workload and for one run.

Owns their defaults. Where a default depends on another value it is None here and a property there.
"""

import enum

import msgspec

from slackwater.model.units import Micros

_SECOND = 1_000_000
_MINUTE = 60 * _SECOND


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
    """How a broker is told who asks. Those that need libraries of their own are left out."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


class KafkaAccess(msgspec.Struct, frozen=True):
    """How brokers are reached. `ca_file` empty: those that the machine trusts. Files are read each
    time, so that a rotated password is found."""

    protocol: KafkaProtocol = KafkaProtocol.PLAINTEXT
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    mechanism: SaslMechanism = SaslMechanism.PLAIN
    username: str = ""
    password_file: str = ""


class LogLevel(enum.Enum):
    """From which level on `run` and `loop` tell what they do."""

    DEBUG = "debug"
    INFO = "info"
    WARN = "warn"
    ERROR = "error"


class KafkaSettings(msgspec.Struct, frozen=True):
    """`bootstrap_servers` empty: from Prometheus. `group` empty: the workload's name. `query`
    replaces the exporter's metric; it has to give one number for each series."""

    enabled: bool = False
    threshold: int = 1000
    mode: LagMode = LagMode.BLOCK_ABOVE
    aggregate: LagSum = LagSum.SUM
    group: str = ""
    topic: str = ""
    query: str = ""
    bootstrap_servers: tuple[str, ...] = ()
    access: KafkaAccess = KafkaAccess()


class MoveSettings(msgspec.Struct, frozen=True):
    """What the pure algorithm is told. `minimum_pod_age` None: the window."""

    top_k: int = 2
    tolerance: float = 1.5
    minimum_improvement: float = 10.0
    minimum_pods: int = 2
    window: Micros = Micros(5 * _MINUTE)
    minimum_pod_age: Micros | None = None
    cooldown: Micros | None = None
    #: The most pods that are away at once; 0: as many as the capacity guard allows.
    batch: int = 0

    @property
    def youngest(self) -> Micros:
        return self.window if self.minimum_pod_age is None else self.minimum_pod_age

    @property
    def pause(self) -> Micros:
        """Between two rotations of one workload."""
        return Micros(2 * self.window) if self.cooldown is None else self.cooldown


class WorkloadSettings(msgspec.Struct, frozen=True):
    """One workload: `name` is the Deployment's, StatefulSet's or whatever the HPA scales. `kind`
    empty: whatever its HPA says. `container` empty: the one called like the workload where there
    is one, else all; "*": all. `hpa_prefix`: what may stand before the name in the HPA's."""

    namespace: str
    name: str
    kind: str = ""
    container: str = ""
    selector: str = ""
    hpa_prefix: str = "keda-hpa-"
    hpa_metric: str = "cpu"
    moves: MoveSettings = MoveSettings()
    kafka: KafkaSettings = KafkaSettings()


class MetricLabels(msgspec.Struct, frozen=True):
    """How the scrape configuration calls the labels. `matchers`: labels and values that all of our
    cluster's series have, where one Prometheus holds several clusters."""

    pod: str = "pod"
    container: str = "container"
    namespace: str = "namespace"
    matchers: tuple[tuple[str, str], ...] = ()


class PrometheusSettings(msgspec.Struct, frozen=True):
    """`headers`: as (name, value), a tenant's or an Authorization of one's own. Files are read at
    each query, so that a rotated token is found."""

    endpoint: str = "http://localhost:9090"
    timeout: Micros = Micros(30 * _SECOND)
    retries: int = 2
    headers: tuple[tuple[str, str], ...] = ()
    tenant: str = ""
    token_file: str = ""
    username: str = ""
    password_file: str = ""
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    labels: MetricLabels = MetricLabels()


class CapSettings(msgspec.Struct, frozen=True):
    """How many pods may go: in one run, from one node, from one namespace; 0: as many as are
    proposed."""

    run: int = 0
    node: int = 0
    namespace: int = 0


class RunSettings(msgspec.Struct, frozen=True):
    """All of one run. `grace` in seconds; None: each pod's own."""

    workloads: tuple[WorkloadSettings, ...] = ()
    prometheus: PrometheusSettings = PrometheusSettings()
    usage_source: UsageSource = UsageSource.PROMETHEUS
    request_source: RequestSource = RequestSource.AUTO
    caps: CapSettings = CapSettings()
    removal: Removal = Removal.EVICT
    grace: int | None = None
    ready_timeout: Micros = Micros(5 * _MINUTE)
    dry_run: bool = False
    push: str = ""
    #: Between two rounds of the resident loop.
    interval: Micros = Micros(5 * _MINUTE)
    log_level: LogLevel = LogLevel.INFO
