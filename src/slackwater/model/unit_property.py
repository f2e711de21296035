"""systemd's unit properties for our knobs: names, values, and what systemd makes of them.

Owns the arithmetic between a knob's value and systemd's D-Bus properties. Refuses the wire:
execution.unit_writer speaks it.
"""

import msgspec

from slackwater.model.cgroup import CgroupRef, CgroupVersion
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import Gap
from slackwater.model.knob import IDLE, QUOTA, WEIGHT, Encoding, Knob, KnobValue
from slackwater.model.knob_text import KnobRangeError, encode, whole_number
from slackwater.model.units import (
    DEFAULT_PERIOD,
    SMALLEST_QUOTA,
    UNLIMITED,
    Bandwidth,
    Micros,
    Unlimited,
    promised,
)

#: USEC_INFINITY, CGROUP_LIMIT_MAX and CGROUP_WEIGHT_INVALID alike: no limit, or not set.
INFINITY = 2**64 - 1
#: CPUWeight=idle (CGROUP_WEIGHT_IDLE): from systemd 252 on the way to cpu.idle, and the only one
#: that lasts: that systemd writes cpu.idle=0 whenever it applies any other weight.
IDLE_WEIGHT = 0
FIRST_WITH_IDLE = 252
#: CPUQuota= is stored in whole percent of a CPU, cut off (bus_cgroup_set_property in
#: src/core/dbus-cgroup.c): a finer quota changes at the next daemon-reload.
PERCENT = 10_000
_SECOND = 1_000_000
_PERIOD_PROPERTY = "CPUQuotaPeriodUSec"
#: The kernel's, for a group that nobody gave one, and again when it leaves idle.
DEFAULT_WEIGHT = {CgroupVersion.V1: 1024, CgroupVersion.V2: 100}
_UNSET = {
    "CPUShares": DEFAULT_WEIGHT[CgroupVersion.V1],
    "CPUWeight": DEFAULT_WEIGHT[CgroupVersion.V2],
}


class Property(msgspec.Struct, frozen=True):
    """One property of a unit. A set of CPUs (AllowedCPUs) is its bit mask."""

    name: str
    value: int


Properties = tuple[Property, ...]


def property_names(knob: Knob, version: CgroupVersion, systemd: int) -> tuple[str, ...]:
    """The properties behind a knob in this version of systemd; none where it has none."""
    if knob == IDLE:
        there = version is CgroupVersion.V2 and systemd >= FIRST_WITH_IDLE
        return ("CPUWeight",) if there else ()
    match knob.file(version):
        case Gap():
            return ()
        case file if file.unit_property is None:
            return ()
        case file:
            name = file.unit_property or ""
            return (name, _PERIOD_PROPERTY) if knob == QUOTA else (name,)


def properties_for(knob: Knob, version: CgroupVersion, value: KnobValue) -> Properties:
    """What to set for this value. Raises KnobRangeError where the kernel's file would not take it.

    Leaving idle unsets the weight, as the kernel does: cpu.idle=0 means the default weight.
    """
    encode(knob, version, value)
    names = property_names(knob, version, FIRST_WITH_IDLE)
    numbers: tuple[int, ...]
    match value:
        case Bandwidth():
            numbers = _quota_numbers(value)
        case CpuSet(mask):
            numbers = (mask,)
        case Unlimited():
            numbers = (INFINITY,)
        case bool():
            numbers = (IDLE_WEIGHT if value else INFINITY,)
        case _:
            numbers = (value,)
    if not names:
        raise KnobRangeError(f"systemd has no property for {knob.name}")
    return tuple(Property(name, number) for name, number in zip(names, numbers, strict=True))


def _quota_numbers(value: Bandwidth) -> tuple[int, int]:
    """CPU time per second in us, rounded up to whole percent as runc does; and the period."""
    period = INFINITY if value.period == DEFAULT_PERIOD else value.period
    if isinstance(value.limit, Unlimited):
        return INFINITY, period
    return promised(value.limit * _SECOND, value.period * PERCENT) * PERCENT, period


def value_of(knob: Knob, properties: Properties) -> KnobValue:
    """What the kernel's file shows once systemd has applied these properties."""
    first = properties[0]
    if knob == QUOTA:
        return _bandwidth(first.value, properties[1].value)
    if knob == IDLE:
        return first.value == IDLE_WEIGHT
    if knob.encoding is Encoding.CPU_LIST:
        return CpuSet(first.value)
    if first.value != INFINITY:
        return first.value
    return _UNSET[first.name] if knob == WEIGHT else UNLIMITED


def _bandwidth(per_second: int, period: int) -> Bandwidth:
    """cgroup_cpu_adjust_period: the period grows until the quota in it is 1 ms, up to 1 s."""
    wanted = DEFAULT_PERIOD if period == INFINITY else Micros(period)
    if per_second == INFINITY:
        return Bandwidth(UNLIMITED, wanted)
    stretched = max(wanted, SMALLEST_QUOTA, SMALLEST_QUOTA * _SECOND // max(per_second, 1))
    used = Micros(min(stretched, _SECOND))
    return Bandwidth(Micros(max(per_second * used // _SECOND, SMALLEST_QUOTA)), used)


def is_unit(ref: CgroupRef) -> bool:
    """Whether systemd has a unit for this cgroup: its name says so."""
    return ref.path.endswith((".slice", ".scope"))


def settle_in_unit(knob: Knob, value: KnobValue) -> KnobValue:
    """What a value becomes on its way through a unit's property: a quota, whole percents."""
    if knob != QUOTA or not isinstance(value, Bandwidth):
        return value
    return _bandwidth(*_quota_numbers(value))


def format_properties(properties: Properties) -> str:
    """The ledger's text: "CPUQuotaPerSecUSec=500000 CPUQuotaPeriodUSec=18446744073709551615"."""
    return " ".join(f"{each.name}={each.value}" for each in properties)


def parse_properties(text: str) -> Properties | Gap:
    found = []
    for word in text.split():
        name, equals, digits = word.partition("=")
        value = _mask_or_number(digits)
        if not name or not equals or value is None or value < 0:
            return Gap(f"{text[:80]!r} is not a list of unit properties")
        found.append(Property(name, value))
    return tuple(found) or Gap("no unit property is named")


def value_in(knob: Knob, text: str) -> KnobValue | Gap:
    """The value behind the ledger's text, whichever version's properties it names."""
    match parse_properties(text):
        case Gap() as gap:
            return gap
        case found:
            names = tuple(each.name for each in found)
            known = (property_names(knob, version, FIRST_WITH_IDLE) for version in CgroupVersion)
            if names in known:
                return value_of(knob, found)
            return Gap(f"{text[:80]!r} is not what systemd calls {knob.name}")


def _mask_or_number(digits: str) -> int | None:
    """A mask of many CPUs has more digits than a 64-bit number."""
    if len(digits) < 2500 and digits.isascii() and digits.isdigit():
        return int(digits)
    return whole_number(digits)
