"""Volcano's ColocationConfig as it is written: its sections and keys, for which nodes.

The sections are Structs whose annotations hold bounds and defaults. Wrong types are refused for all
nodes at once; bounds count for the merged values of a node, in contract.volcano.node. Unknown keys
and selectors that select nothing are warnings. Keys are read in any case, as Go's JSON does. The
text in the ConfigMap may be JSON or YAML: whoever reads it parses it.
"""

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, field, inspect

from slackwater.contract.decoding import check_value
from slackwater.contract.document import Field, Spelling, elements, members, spelled
from slackwater.contract.kubernetes import ConfigMap
from slackwater.contract.label_selector import LabelSelector, flaw, read_selector
from slackwater.contract.schema import BOUND, UNIT, Unit, annotation_of, struct_type
from slackwater.model.problem import DocumentName, InvalidError, Problem

_Percents = Annotated[int, Meta(ge=1, extra={UNIT: Unit.PERCENT})]
_Bandwidth = Annotated[_Percents, Meta(le=1000)]


class NodeLabel(msgspec.Struct, frozen=True):
    """What the node's labels allow. What a file says here has no effect, as in Volcano."""

    colocation: bool = field(default=True, name="nodeColocationEnable")
    over_subscription: bool = field(default=False, name="nodeOverSubscriptionEnable")


class FeatureSwitch(msgspec.Struct, frozen=True):
    """A section that only switches a feature on."""

    enable: bool = False


class NetworkQos(msgspec.Struct, frozen=True):
    """Bandwidth of online and offline pods, in percent of the node's."""

    enable: bool = False
    online_watermark: Annotated[
        _Bandwidth, Meta(description="Above it, offline pods get the low bandwidth.")
    ] = field(default=80, name="onlineBandwidthWatermarkPercent")
    offline_low: Annotated[
        _Bandwidth, Meta(description="The offline pods' bandwidth above the watermark.")
    ] = field(default=10, name="offlineLowBandwidthPercent")
    offline_high: Annotated[
        _Bandwidth, Meta(description="The offline pods' bandwidth below the watermark.")
    ] = field(default=40, name="offlineHighBandwidthPercent")
    check_interval: Annotated[
        int,
        Meta(
            ge=1,
            description="How often the bandwidth is checked, in nanoseconds.",
            extra={BOUND: "a whole number of nanoseconds, at least 1"},
        ),
    ] = field(default=10_000_000, name="qosCheckInterval")


class OverSubscription(msgspec.Struct, frozen=True):
    enable: bool = True
    types: Annotated[
        str,
        Meta(
            pattern=r"^((cpu|memory)(,(cpu|memory))*)?\Z",
            description="The resources that are oversold.",
            extra={BOUND: "a list of cpu and memory, separated by commas alone"},
        ),
    ] = field(default="cpu,memory", name="overSubscriptionTypes")


class Evicting(msgspec.Struct, frozen=True):
    """Usage in percent of allocatable: eviction begins above the high watermark, and the node takes
    new offline pods again below the low one."""

    cpu_high: _Percents = field(default=80, name="evictingCPUHighWatermark")
    memory_high: _Percents = field(default=60, name="evictingMemoryHighWatermark")
    cpu_low: _Percents = field(default=30, name="evictingCPULowWatermark")
    memory_low: _Percents = field(default=30, name="evictingMemoryLowWatermark")


class CpuThrottling(msgspec.Struct, frozen=True):
    """The share of best-effort pods. None where it is not stated: the defaults are those of our
    own settings."""

    enable: bool = False
    threshold: Annotated[
        Annotated[_Percents, Meta(le=100)] | None,
        Meta(description="What all pods together may use, of the node's allocatable CPU."),
    ] = field(default=None, name="cpuThrottlingThreshold")
    jitter: Annotated[
        Annotated[int, Meta(ge=0, extra={UNIT: Unit.PERCENT})] | None,
        Meta(description="Smaller changes of the quota are not written."),
    ] = field(default=None, name="cpuJitterLimitPercent")
    recover: Annotated[
        _Percents | None, Meta(description="The quota grows by at most this much at a time.")
    ] = field(default=None, name="cpuRecoverLimitPercent")


class Colocation(msgspec.Struct, frozen=True):
    """The configuration of one node: defaults, global and node entries merged, and validated."""

    node_label: NodeLabel = field(default=NodeLabel(), name="nodeLabelConfig")
    cpu_qos: FeatureSwitch = field(default=FeatureSwitch(), name="cpuQosConfig")
    cpu_burst: FeatureSwitch = field(default=FeatureSwitch(), name="cpuBurstConfig")
    memory_qos: FeatureSwitch = field(default=FeatureSwitch(), name="memoryQosConfig")
    memory_qos_v2: FeatureSwitch = field(default=FeatureSwitch(), name="memoryQosV2Config")
    network_qos: NetworkQos = field(default=NetworkQos(), name="networkQosConfig")
    over_subscription: OverSubscription = field(
        default=OverSubscription(), name="overSubscriptionConfig"
    )
    evicting: Evicting = field(default=Evicting(), name="evictingConfig")
    cpu_throttling: CpuThrottling = field(default=CpuThrottling(), name="cpuThrottlingConfig")


#: The keys of each section, and what their annotations say.
SECTIONS: dict[str, dict[str, inspect.Field]] = {
    section.encode_name: {each.encode_name: each for each in struct_type(section.type).fields}
    for section in msgspec.structs.fields(Colocation)
}
#: Section and two keys of it, of which the first may not exceed the second.
ORDERED_KEYS = (
    ("networkQosConfig", "offlineLowBandwidthPercent", "offlineHighBandwidthPercent"),
    ("evictingConfig", "evictingCPULowWatermark", "evictingCPUHighWatermark"),
    ("evictingConfig", "evictingMemoryLowWatermark", "evictingMemoryHighWatermark"),
)

CONFIG_MAP = "volcano-agent-configuration"
CONFIG_KEY = "colocation-config"
GLOBAL, NODES, SELECTOR = "globalConfig", "nodesConfig", "selector"

_WANTED = f"a mapping with {GLOBAL}, {NODES} or a section such as cpuThrottlingConfig"

#: What is stated, and where, by section and key.
Stated = dict[tuple[str, str], Field]


class NodeEntry(msgspec.Struct, frozen=True):
    """One entry of nodesConfig. Without a usable selector it is for no node."""

    selector: LabelSelector | None
    stated: Stated


class ColocationConfig(msgspec.Struct, frozen=True):
    """A whole configuration, for all nodes. `unknown` holds the keys that mean nothing to us."""

    source: str | DocumentName
    everywhere: Stated
    nodes: tuple[NodeEntry, ...] = ()
    unknown: tuple[Field, ...] = ()
    warnings: tuple[str, ...] = ()


def is_config(document: object) -> bool:
    """Whether a bare document is such a configuration, or a fragment of one."""
    known = {name.casefold() for name in (GLOBAL, NODES, *SECTIONS)}
    return isinstance(document, dict) and any(
        isinstance(key, str) and key.casefold() in known for key in document
    )


def config_text(config_map: ConfigMap, source: str | DocumentName) -> str:
    """The configuration's text in its ConfigMap."""
    if CONFIG_KEY not in config_map.data:
        raise Field(source, f"data.{CONFIG_KEY}", None).refused("JSON or YAML")
    return config_map.data[CONFIG_KEY]


def read_config(document: object, source: str | DocumentName) -> ColocationConfig:
    """A configuration from plain values; raises InvalidError with all that is wrong.

    Sections at the top level, as in Volcano's design text, are the global ones where there is
    neither globalConfig nor nodesConfig; beside those they are unknown keys.
    """
    top = Field(source, "", document, Spelling.ANY_CASE)
    keys = dict(members(top))
    if not is_config(document):
        raise InvalidError(top.problem(_WANTED, f"a mapping of {len(keys)} unknown keys"))
    reader = _ColocationReader()
    outlined = any(spelled(keys, name, top.spelling) for name in (GLOBAL, NODES))
    found = reader.known(top, (GLOBAL, NODES)) if outlined else {GLOBAL: top}
    everywhere = reader.sections(reader.known(found[GLOBAL], SECTIONS)) if GLOBAL in found else {}
    nodes = reader.entries(found[NODES]) if NODES in found else ()
    if reader.problems:
        raise InvalidError(*reader.problems)
    ignored = [f"{each.where()} is not known and has no effect" for each in reader.unknown]
    return ColocationConfig(
        source, everywhere, nodes, tuple(reader.unknown), (*ignored, *reader.warnings)
    )


class _ColocationReader:
    """Collects what is wrong, unknown or without effect on the way through a document."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.unknown: list[Field] = []
        self.warnings: list[str] = []

    def known(self, field: Field, names: Iterable[str]) -> dict[str, Field]:
        """What a mapping states under these names. Of two spellings of a name one counts."""
        try:
            found = dict(members(field))
        except InvalidError as error:
            self.problems += error.problems
            return {}
        claimed = {key: name for name in names if (key := spelled(found, name, field.spelling))}
        self.unknown += (each for key, each in found.items() if key not in claimed)
        return {name: found[key] for key, name in claimed.items() if found[key].value is not None}

    def sections(self, found: dict[str, Field]) -> Stated:
        """The values whose types are right."""
        return {
            (section, key): each
            for section, keys in SECTIONS.items()
            if section in found
            for key, each in self.known(found[section], keys).items()
            if check_value(each, _without_bounds(keys[key].type), self.problems) is not UNSET
        }

    def entries(self, field: Field) -> tuple[NodeEntry, ...]:
        try:
            listed = elements(field)
        except InvalidError as error:
            self.problems += error.problems
            return ()
        return tuple(self._entry(each) for each in listed)

    def _entry(self, field: Field) -> NodeEntry:
        """An entry of nodesConfig; null is an entry that states nothing, as in Go."""
        if field.value is None:
            field = msgspec.structs.replace(field, value={})
        found = self.known(field, (SELECTOR, *SECTIONS))
        stated = self.sections(found)
        return NodeEntry(self._selector(field, found.get(SELECTOR)), stated)

    def _selector(self, entry: Field, written: Field | None) -> LabelSelector | None:
        if written is None:
            self.warnings.append(f"{entry.where()} has no selector and is for no node")
            return None
        try:
            selector = read_selector(written)
        except InvalidError as error:
            self.problems += error.problems
            return None
        if bad := flaw(selector):
            self.warnings.append(f"{entry.where()} is skipped: {bad.sentence()}")
            return None
        return selector


def _without_bounds(info: inspect.Type) -> inspect.Type:
    return type(annotation_of(info).type)()
