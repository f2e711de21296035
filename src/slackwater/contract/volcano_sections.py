"""Volcano's ColocationConfig: its sections, their keys, defaults and bounds.

Owns the schema, once: the attribute's name in a file is the Struct's, the default is the
Struct's, the bounds are the two tables below. Reading and merging are in volcano.
"""

import msgspec
from msgspec import field


class NodeLabel(msgspec.Struct, frozen=True):
    """What the node's labels allow. What a file says here has no effect, as in Volcano."""

    colocation: bool = field(default=True, name="nodeColocationEnable")
    over_subscription: bool = field(default=False, name="nodeOverSubscriptionEnable")


class CpuQos(msgspec.Struct, frozen=True):
    enable: bool = False


class CpuBurst(msgspec.Struct, frozen=True):
    enable: bool = False


class MemoryQos(msgspec.Struct, frozen=True):
    enable: bool = False


class MemoryQosV2(msgspec.Struct, frozen=True):
    enable: bool = False


class NetworkQos(msgspec.Struct, frozen=True):
    """Percents of the node's bandwidth; `check_interval` is in nanoseconds."""

    enable: bool = False
    online_watermark: int = field(default=80, name="onlineBandwidthWatermarkPercent")
    offline_low: int = field(default=10, name="offlineLowBandwidthPercent")
    offline_high: int = field(default=40, name="offlineHighBandwidthPercent")
    check_interval: int = field(default=10_000_000, name="qosCheckInterval")


class OverSubscription(msgspec.Struct, frozen=True):
    enable: bool = True
    types: str = field(default="cpu,memory", name="overSubscriptionTypes")


class Evicting(msgspec.Struct, frozen=True):
    """Watermarks in percent of allocatable."""

    cpu_high: int = field(default=80, name="evictingCPUHighWatermark")
    memory_high: int = field(default=60, name="evictingMemoryHighWatermark")
    cpu_low: int = field(default=30, name="evictingCPULowWatermark")
    memory_low: int = field(default=30, name="evictingMemoryLowWatermark")


class CpuThrottling(msgspec.Struct, frozen=True):
    """Percents; None where nobody said: each of the three then has its own default, in settings."""

    enable: bool = False
    threshold: int | None = field(default=None, name="cpuThrottlingThreshold")
    jitter: int | None = field(default=None, name="cpuJitterLimitPercent")
    recover: int | None = field(default=None, name="cpuRecoverLimitPercent")


class Colocation(msgspec.Struct, frozen=True):
    """The configuration of one node: defaults, global and node entries merged, and validated."""

    node_label: NodeLabel = field(default=NodeLabel(), name="nodeLabelConfig")
    cpu_qos: CpuQos = field(default=CpuQos(), name="cpuQosConfig")
    cpu_burst: CpuBurst = field(default=CpuBurst(), name="cpuBurstConfig")
    memory_qos: MemoryQos = field(default=MemoryQos(), name="memoryQosConfig")
    memory_qos_v2: MemoryQosV2 = field(default=MemoryQosV2(), name="memoryQosV2Config")
    network_qos: NetworkQos = field(default=NetworkQos(), name="networkQosConfig")
    over_subscription: OverSubscription = field(
        default=OverSubscription(), name="overSubscriptionConfig"
    )
    evicting: Evicting = field(default=Evicting(), name="evictingConfig")
    cpu_throttling: CpuThrottling = field(default=CpuThrottling(), name="cpuThrottlingConfig")


class Range(msgspec.Struct, frozen=True):
    """A bound on one attribute; `high` None is open. None as a value is inside."""

    section: str
    attribute: str
    low: int
    high: int | None
    unit: str

    def holds(self, value: int | None) -> bool:
        return value is None or (self.low <= value and (self.high is None or value <= self.high))

    def words(self) -> str:
        span = f"of at least {self.low}" if self.high is None else f"from {self.low} to {self.high}"
        return f"a whole number {span} ({self.unit})"


class Order(msgspec.Struct, frozen=True):
    """Two attributes of which the first may not exceed the second."""

    section: str
    low: str
    high: str


RANGES: tuple[Range, ...] = (
    Range("network_qos", "check_interval", 1, None, "nanoseconds"),
    Range("network_qos", "online_watermark", 1, 1000, "percent"),
    Range("network_qos", "offline_low", 1, 1000, "percent"),
    Range("network_qos", "offline_high", 1, 1000, "percent"),
    Range("evicting", "cpu_high", 1, None, "percent"),
    Range("evicting", "memory_high", 1, None, "percent"),
    Range("evicting", "cpu_low", 1, None, "percent"),
    Range("evicting", "memory_low", 1, None, "percent"),
    Range("cpu_throttling", "threshold", 1, 100, "percent"),
    Range("cpu_throttling", "jitter", 0, None, "percent"),
    Range("cpu_throttling", "recover", 1, None, "percent"),
)
ORDERS: tuple[Order, ...] = (
    Order("network_qos", "offline_low", "offline_high"),
    Order("evicting", "cpu_low", "cpu_high"),
    Order("evicting", "memory_low", "memory_high"),
)
OVER_SUBSCRIPTION_TYPES = ("cpu", "memory")
