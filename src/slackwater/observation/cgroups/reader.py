"""The files of one cgroup as one reading: which file, in which hierarchy, in which dialect.

Owns the way from a field of CgroupReading to the kernel's files. Refuses to read what was not
asked for.
"""

from collections.abc import Iterator
from typing import TypeVar

import msgspec

from slackwater.model.cgroup import (
    CgroupController,
    CgroupMounts,
    CgroupReading,
    CgroupRef,
    CgroupVersion,
    CpuPressure,
    CpuTimes,
)
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import NOT_ASKED, VANISHED, Gap
from slackwater.model.knob import (
    BURST,
    CPUS,
    IDLE,
    KNOBS,
    QUOTA,
    WEIGHT,
    Knob,
    KnobFile,
    KnobValue,
)
from slackwater.model.knob_text import decode
from slackwater.model.needs import EACH_TICK, ReadingField
from slackwater.model.units import Bandwidth, Micros, Unlimited
from slackwater.observation import kernel_text
from slackwater.observation.cgroups.files import NOT_HERE, GroupFolders, HeldFiles

_Value = TypeVar("_Value", Bandwidth, CpuSet, int, bool)

_NO_PRESSURE = Gap("cgroup v1 has no pressure of single groups")
#: Read each tick, on descriptors that are kept open.
_HELD = {
    "cpu.stat": CgroupController.CPU,
    "cpuacct.usage": CgroupController.CPUACCT,
    "cpu.pressure": CgroupController.CPU,
}


#: Quota, burst, weight, idle and cpus of a reading without them.
_NO_KNOBS = (NOT_ASKED,) * 5
#: Fields that are opened on demand, and the knob behind each.
_KNOBS = {ReadingField(knob.name): knob for knob in KNOBS}
#: Those without a field of their own in a reading.
_OTHERS = tuple(k for k in KNOBS if k not in (QUOTA, BURST, WEIGHT, IDLE, CPUS))


_VENDORS = frozenset(field for field, knob in _KNOBS.items() if knob.vendor)
_VENDOR_NAMES = frozenset(field.value for field in _VENDORS)
_MOST_SKIPS = 64
_MOST_TEXTS = 2048


class _Before(msgspec.Struct, frozen=True, gc=False):
    """A group's counters as they last read, and what that meant."""

    stat: bytes
    usage: bytes
    times: CpuTimes


class CgroupReader:
    """Guards the descriptors of the files that are read each tick."""

    def __init__(self, mounts: CgroupMounts, folders: GroupFolders) -> None:
        self._mounts = mounts
        self._folders = folders
        self._held = HeldFiles(folders, _HELD)
        self._before: dict[int, _Before] = {}
        self._visits: dict[frozenset[ReadingField], tuple[_Visit, ...]] = {}
        self._values_of: dict[tuple[str, tuple[bytes | Gap, ...]], KnobValue | Gap] = {}
        #: Vendors' knobs that the last group lacked, and how many groups that is believed of.
        self._lacking: dict[str, Gap] = {}
        self._skips = _MOST_SKIPS
        cpu = mounts.identity()
        self._version = CgroupVersion.V2 if isinstance(cpu, Gap) else cpu.version

    def read(self, ref: CgroupRef, wants: frozenset[ReadingField], at: Micros) -> CgroupReading:
        times = self.times(ref) if ReadingField.TIMES in wants else NOT_ASKED
        pressure = self.pressure(ref) if ReadingField.PRESSURE in wants else NOT_ASKED
        if wants <= EACH_TICK:
            return CgroupReading(ref, at, times, *_NO_KNOBS, pressure)
        values = self._values(ref, wants)
        burst = _typed(int, values.get(BURST.name, NOT_ASKED))
        return CgroupReading(
            ref,
            at,
            times,
            _typed(Bandwidth, values.get(QUOTA.name, NOT_ASKED)),
            burst if isinstance(burst, Gap) else Micros(burst),
            _typed(int, values.get(WEIGHT.name, NOT_ASKED)),
            _typed(bool, values.get(IDLE.name, NOT_ASKED)),
            _typed(CpuSet, values.get(CPUS.name, NOT_ASKED)),
            pressure,
            _others(values),
        )

    def keep(self, living: frozenset[int]) -> None:
        """Closes the descriptors of all other cgroups."""
        self._held.keep(living)
        for gone in self._before.keys() - living:
            del self._before[gone]

    def close(self) -> None:
        self._held.close()

    def times(self, ref: CgroupRef) -> CpuTimes | Gap:
        """The same object as before where nothing moved: a group at rest costs no parsing."""
        stat = self._held.text("cpu.stat", ref.path, ref.id)
        if isinstance(stat, Gap):
            return stat
        if self._version is CgroupVersion.V1:
            return self._times_v1(ref, stat)
        before = self._before.get(ref.id)
        if before is not None and before.stat == stat:
            return before.times
        return self._keep(ref, stat, b"", kernel_text.times_v2(stat))

    def times_without_quota(self, ref: CgroupRef) -> CpuTimes | Gap:
        """Of a group that has no quota: on v1 its cpu.stat stands still and is not read again
        (__account_cfs_rq_runtime counts nothing while runtime_enabled is off)."""
        before = self._before.get(ref.id)
        if before is None or self._version is CgroupVersion.V2:
            return self.times(ref)
        usage = self._held.text("cpuacct.usage", ref.path, ref.id)
        if usage == before.usage:
            return before.times
        return self._times_of_usage(ref, before.stat, usage)

    def _times_v1(self, ref: CgroupRef, stat: bytes) -> CpuTimes | Gap:
        usage = self._held.text("cpuacct.usage", ref.path, ref.id)
        return self._times_of_usage(ref, stat, usage)

    def _times_of_usage(self, ref: CgroupRef, stat: bytes, usage: bytes | Gap) -> CpuTimes | Gap:
        if isinstance(usage, Gap):
            return usage
        before = self._before.get(ref.id)
        if before is None or before.stat != stat:
            return self._keep(ref, stat, usage, kernel_text.times_v1(stat, usage))
        if before.usage == usage:
            return before.times
        used, old = kernel_text.usage_v1(usage), before.times
        if isinstance(used, Gap):
            return used
        times = CpuTimes(
            used, old.periods, old.throttled_periods, old.throttled, old.bursts, old.burst_time
        )
        return self._keep(ref, stat, usage, times)

    def _keep(
        self, ref: CgroupRef, stat: bytes, usage: bytes, times: CpuTimes | Gap
    ) -> CpuTimes | Gap:
        if not isinstance(times, Gap):
            self._before[ref.id] = _Before(stat, usage, times)
        return times

    def pressure(self, ref: CgroupRef) -> CpuPressure | Gap:
        if self._version is CgroupVersion.V1:
            return _NO_PRESSURE
        text = self._held.text("cpu.pressure", ref.path, ref.id)
        return text if isinstance(text, Gap) else kernel_text.pressure(text)

    def _values(self, ref: CgroupRef, wants: frozenset[ReadingField]) -> dict[str, KnobValue | Gap]:
        """Every knob's value by its name. A vendor's files are there on a vendor's kernel alone:
        where a group lacked them all they are not looked for in the next ones."""
        others, vendors = wants - _VENDORS, wants & _VENDORS
        known = bool(vendors) and all(field.value in self._lacking for field in vendors)
        if not known or others <= EACH_TICK:
            return self._read_values(ref, wants)
        if not self._skips:
            self._lacking, self._skips = {}, _MOST_SKIPS
            return self._read_values(ref, wants)
        self._skips -= 1
        values = self._read_values(ref, others)
        gone = any(value is VANISHED for value in values.values())
        for field in vendors:
            values[field.value] = VANISHED if gone else self._lacking[field.value]
        return values

    def _read_values(
        self, ref: CgroupRef, wants: frozenset[ReadingField]
    ) -> dict[str, KnobValue | Gap]:
        """One visit to each hierarchy's directory."""
        values: dict[str, KnobValue | Gap] = {}
        for visit in self._visits_for(wants):
            read = self._folders.texts(visit.controller, ref.path, ref.id, visit.names)
            for knob, first, last in visit.knobs:
                values[knob.name] = self._decoded(knob, visit.version, read[first:last])
            values.update(visit.gaps)
        vendors = {name: value for name, value in values.items() if name in _VENDOR_NAMES}
        if all(_is_lacking(value) for value in vendors.values()):
            self._lacking |= {n: value for n, value in vendors.items() if isinstance(value, Gap)}
        else:
            self._lacking = {}
        return values

    def _visits_for(self, wants: frozenset[ReadingField]) -> "tuple[_Visit, ...]":
        if wants not in self._visits:
            self._visits[wants] = tuple(self._plan_visits(wants))
        return self._visits[wants]

    def _plan_visits(self, wants: frozenset[ReadingField]) -> "Iterator[_Visit]":
        knobs = [knob for field, knob in _KNOBS.items() if field in wants]
        for controller in {knob.controller: None for knob in knobs}:
            here = [knob for knob in knobs if knob.controller is controller]
            mount = self._mounts.mount(controller)
            if isinstance(mount, Gap):
                gaps = {knob.name: mount for knob in here}
                yield _Visit(controller, CgroupVersion.V2, (), (), gaps)
                continue
            names: list[str] = []
            places: list[tuple[Knob, int, int]] = []
            gaps = {}
            for knob in here:
                file = knob.file(mount.version)
                if isinstance(file, Gap):
                    gaps[knob.name] = file
                    continue
                places.append((knob, len(names), len(names) + len(_names(file))))
                names += _names(file)
            yield _Visit(controller, mount.version, tuple(names), tuple(places), gaps)

    def _decoded(
        self, knob: Knob, version: CgroupVersion, texts: tuple[bytes | Gap, ...]
    ) -> KnobValue | Gap:
        """The value behind one text, or behind two: v1 has a bandwidth's period in a second file.
        Hundreds of groups have the same few texts: each is decoded once, and its value shared."""
        key = (knob.name, texts)
        value = self._values_of.get(key)
        if value is None:
            value = _decode(knob, version, texts)
            if len(self._values_of) >= _MOST_TEXTS:
                self._values_of.clear()
            self._values_of[key] = value
        return value


class _Visit(msgspec.Struct, frozen=True):
    """What is read in one hierarchy: the files, each knob with its part of them, and knobs that
    this kernel has no file for."""

    controller: CgroupController
    version: CgroupVersion
    names: tuple[str, ...]
    knobs: tuple[tuple[Knob, int, int], ...]
    gaps: dict[str, Gap]


def _is_lacking(value: KnobValue | Gap) -> bool:
    return isinstance(value, Gap) and value.reason.endswith(NOT_HERE)


def _others(values: dict[str, KnobValue | Gap]) -> dict[str, int | Unlimited | Gap]:
    """Memory and vendors' knobs, which are numbers or no limit; mostly none is asked for."""
    asked = {knob.name: values[knob.name] for knob in _OTHERS if knob.name in values}
    return {
        name: value if isinstance(value, int | Unlimited | Gap) else Gap(f"{value} is not a number")
        for name, value in asked.items()
    }


def _names(file: KnobFile) -> tuple[str, ...]:
    return (file.name,) if file.period is None else (file.name, file.period)


def _decode(knob: Knob, version: CgroupVersion, texts: tuple[bytes | Gap, ...]) -> KnobValue | Gap:
    parts: list[str] = []
    for text in texts:
        if isinstance(text, Gap):
            return text
        parts.append(text.decode("ascii", "replace").strip())
    return decode(knob, version, " ".join(parts))


def _typed(kind: type[_Value], value: KnobValue | Gap) -> _Value | Gap:
    """The knob table gives each knob one type of value; "no limit" has no place in a weight."""
    if isinstance(value, Gap):
        return value
    if isinstance(value, kind):
        return value
    return Gap(f"{value} is no {kind.__name__}")
