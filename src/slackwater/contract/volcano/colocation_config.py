"""Volcano's ColocationConfig as it is written: its sections and keys, for which nodes.

Wrong types are refused, all at once; keys that nobody knows and selectors that select nothing are
warnings. What the values may be is in the tables below; which of them count for a node is decided
in volcano. The text in the ConfigMap may be JSON or YAML: the edge parses it.
"""

from collections.abc import Callable
from functools import partial

import msgspec
from msgspec import field
from msgspec.structs import FieldInfo

from slackwater.contract.document import (
    Field,
    Spelling,
    elements,
    flag,
    member,
    members,
    spelled,
    text,
    whole,
)
from slackwater.contract.kubernetes import ConfigMap
from slackwater.contract.label_selector import LabelSelector, flaw, read_selector
from slackwater.model.problem import DocumentName, InvalidError, Problem


class NodeLabel(msgspec.Struct, frozen=True):
    """What the node's labels allow. What a file says here has no effect, as in Volcano."""

    colocation: bool = field(default=True, name="nodeColocationEnable")
    over_subscription: bool = field(default=False, name="nodeOverSubscriptionEnable")


class CpuQosSection(msgspec.Struct, frozen=True):
    enable: bool = False


class CpuBurstSection(msgspec.Struct, frozen=True):
    enable: bool = False


class MemoryQosSection(msgspec.Struct, frozen=True):
    enable: bool = False


class MemoryQosV2Section(msgspec.Struct, frozen=True):
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
    cpu_qos: CpuQosSection = field(default=CpuQosSection(), name="cpuQosConfig")
    cpu_burst: CpuBurstSection = field(default=CpuBurstSection(), name="cpuBurstConfig")
    memory_qos: MemoryQosSection = field(default=MemoryQosSection(), name="memoryQosConfig")
    memory_qos_v2: MemoryQosV2Section = field(
        default=MemoryQosV2Section(), name="memoryQosV2Config"
    )
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


CONFIG_MAP = "volcano-agent-configuration"
CONFIG_KEY = "colocation-config"
GLOBAL, NODES, SELECTOR = "globalConfig", "nodesConfig", "selector"

_WANTED = f"a mapping with {GLOBAL}, {NODES} or a section such as cpuThrottlingConfig"
_READERS: dict[object, Callable[[Field], object]] = {
    bool: flag,
    int: whole,
    int | None: whole,
    str: text,
}
_SECTIONS = msgspec.structs.fields(Colocation)

#: (attribute of Colocation, attribute of its section) to what was said, and where.
Said = dict[tuple[str, str], Field]


class NodeEntry(msgspec.Struct, frozen=True):
    """One entry of nodesConfig. Without a usable selector it is for no node."""

    selector: LabelSelector | None
    said: Said


class ColocationConfig(msgspec.Struct, frozen=True):
    """A whole configuration, for all nodes. `unknown` holds the keys that mean nothing to us."""

    source: str | DocumentName
    everywhere: Said
    nodes: tuple[NodeEntry, ...] = ()
    unknown: tuple[Field, ...] = ()
    warnings: tuple[str, ...] = ()


class _Part(msgspec.Struct, frozen=True):
    """What was found in one part of the document."""

    said: Said = {}
    unknown: tuple[Field, ...] = ()
    problems: tuple[Problem, ...] = ()
    selector: LabelSelector | None = None
    warnings: tuple[str, ...] = ()


def is_config(document: object) -> bool:
    """Whether a bare document is such a configuration, or a fragment of one."""
    names = (GLOBAL, NODES, *(info.encode_name for info in _SECTIONS))
    known = {name.casefold() for name in names}
    return isinstance(document, dict) and any(
        isinstance(key, str) and key.casefold() in known for key in document
    )


def config_text(config_map: ConfigMap, source: str | DocumentName) -> str:
    """The configuration's text in its ConfigMap."""
    if CONFIG_KEY not in config_map.data:
        raise Field(source, f"data.{CONFIG_KEY}", None).refused("JSON or YAML")
    return config_map.data[CONFIG_KEY]


def read_config(document: object, source: str | DocumentName) -> ColocationConfig:
    """A configuration out of plain values.

    Sections at the top level, as in Volcano's design text, are the global ones where there is
    neither globalConfig nor nodesConfig; beside those they are keys that nobody knows.
    """
    top = Field(source, "", document, Spelling.ANY_CASE)
    keys = dict(members(top))
    if not is_config(document):
        raise InvalidError(top.problem(_WANTED, f"a mapping of {len(keys)} unknown keys"))
    outline = [spelled(keys, name, top.spelling) for name in (GLOBAL, NODES)]
    if outline == [None, None]:
        return _config(source, _sections(top), _Part(), ())
    strays = tuple(each for key, each in keys.items() if key not in outline)
    entries = _entries(member(top, NODES))
    return _config(source, _global(member(top, GLOBAL)), _Part(unknown=strays), entries)


def _config(
    source: str | DocumentName, everywhere: _Part, strays: _Part, entries: tuple[_Part, ...]
) -> ColocationConfig:
    parts = (everywhere, strays, *entries)
    problems = [problem for part in parts for problem in part.problems]
    if problems:
        raise InvalidError(*problems)
    unknown = tuple(each for part in parts for each in part.unknown)
    nothing = tuple(f"{each.where()} is not known and has no effect" for each in unknown)
    return ColocationConfig(
        source,
        everywhere.said,
        tuple(NodeEntry(part.selector, part.said) for part in entries),
        unknown,
        nothing + tuple(warning for part in parts for warning in part.warnings),
    )


def _global(field: Field | None) -> _Part:
    return _Part() if field is None else _guarded(field, _sections)


def _entries(field: Field | None) -> tuple[_Part, ...]:
    if field is None:
        return ()
    try:
        return tuple(_guarded(each, _entry) for each in elements(field))
    except InvalidError as error:
        return (_Part(problems=error.problems),)


def _guarded(field: Field, read: Callable[[Field], _Part]) -> _Part:
    """A part, or what is wrong with all of it: the other parts are still looked at."""
    try:
        return read(field)
    except InvalidError as error:
        return _Part(problems=error.problems)


def _entry(field: Field) -> _Part:
    """An entry of nodesConfig; null is an entry that says nothing, as in Go."""
    if field.value is None:
        field = msgspec.structs.replace(field, value={})
    part = _sections(field, SELECTOR)
    written = member(field, SELECTOR)
    if written is None:
        return _skipped(part, f"{field.where()} has no selector and is for no node")
    selector = read_selector(written)
    bad = flaw(selector)
    if bad is not None:
        return _skipped(part, f"{field.where()} is skipped: {bad.sentence()}")
    return msgspec.structs.replace(part, selector=selector)


def _skipped(part: _Part, warning: str) -> _Part:
    return msgspec.structs.replace(part, warnings=(*part.warnings, warning))


def _sections(field: Field, *besides: str) -> _Part:
    """The nine sections; `besides` names other keys that are known here."""
    said: Said = {}
    problems: list[Problem] = []
    unknown = list(_unknown(field, (*(info.encode_name for info in _SECTIONS), *besides)))
    for info in _SECTIONS:
        section = member(field, info.encode_name)
        if section is not None:
            part = _guarded(section, partial(_section, info=info))
            said |= part.said
            problems += part.problems
            unknown += part.unknown
    return _Part(said, tuple(unknown), tuple(problems))


def _section(field: Field, info: FieldInfo) -> _Part:
    said: Said = {}
    problems: list[Problem] = []
    attributes = msgspec.structs.fields(info.type)
    for each in attributes:
        found = member(field, each.encode_name)
        if found is None:
            continue
        try:
            _READERS[each.type](found)
        except InvalidError as error:
            problems += error.problems
        else:
            said[info.name, each.name] = found
    unknown = _unknown(field, tuple(each.encode_name for each in attributes))
    return _Part(said, unknown, tuple(problems))


def _unknown(field: Field, names: tuple[str, ...]) -> tuple[Field, ...]:
    """The keys that no name claims; of two spellings of a name one is claimed."""
    found = dict(members(field))
    claimed = {spelled(found, name, field.spelling) for name in names}
    return tuple(each for key, each in found.items() if key not in claimed)
