"""Whose value a noted knob shows (ours, the baseline, or somebody else's), by the route it takes.

A knob has two routes: its file, or the systemd unit that owns the cgroup. Owns which one a knob
takes, and the list of readings that follow from our own writes although nobody noted them so:

- half of a v1 quota: a limit and a period of two values that we noted (kill -9 in between);
- the union of two cpusets that we noted: a step of a release;
- a cpuset that we noted, less the CPUs that the v1 kernel took from every group when they went
  offline;
- the default weight where we hold or held idle: the kernel's at the end of idle;
- a weight that idle hides;
- a file beside its unit: what was set through the unit;
- anything, after a full disk kept our last values from the ledger (Ledger.is_old).

Every other reading is drift: somebody else wrote, and would want to find it there without us.
"""

import msgspec

from slackwater.execution.knob_writer import Attempt, KnobFiles, KnobWriter
from slackwater.execution.ledger import Ledger
from slackwater.execution.unit_writer import UnitWriter
from slackwater.model.cgroup import CgroupRef, CgroupVersion, Level
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import Gap
from slackwater.model.knob import CPUS, IDLE, KNOB, QUOTA, WEIGHT, Knob, KnobValue
from slackwater.model.knob_text import KnobRangeError, encode
from slackwater.model.plan import FILE_ROUTE, UNIT_ROUTE, LedgerEntry, Ownership
from slackwater.model.snapshot import WritePrecision
from slackwater.model.unit_property import (
    DEFAULT_WEIGHT,
    format_properties,
    properties_for,
    value_in,
)
from slackwater.model.units import Bandwidth


class Routes:
    """Both writers; `units` is None where systemd owns no cgroup. A systemd that does not answer
    now owns its cgroups all the same: their files are not written."""

    def __init__(self, files: KnobFiles, units: UnitWriter | None) -> None:
        self.files = files
        self._units = units
        self._precision = WritePrecision(files.page_size)

    def route(self, ref: CgroupRef, knob: Knob) -> str:
        """Through its unit where systemd owns the cgroup and has a property; else the file."""
        if self._units is not None and self._units.owns(ref, knob):
            return f"{UNIT_ROUTE}{ref.name()}"
        return FILE_ROUTE

    def precision(self) -> WritePrecision:
        """The same object again unless systemd's first answer changed it."""
        unit_knobs = self._units.knobs() if self._units else frozenset[str]()
        if unit_knobs != self._precision.unit_knobs:
            self._precision = WritePrecision(self.files.page_size, unit_knobs)
        return self._precision

    def be_patient(self) -> None:
        """With systemd: what is not put back now is not put back at all."""
        if self._units is not None:
            self._units.be_patient()

    def writer(self, route: str) -> KnobWriter | Gap:
        if route == FILE_ROUTE:
            return self.files
        return self._units or Gap(f"systemd cannot be asked for {route.removeprefix(UNIT_ROUTE)}")

    def text(self, entry: LedgerEntry) -> str | Gap:
        """What stands there now, as the entry's route spells it."""
        writer = self.writer(entry.route)
        if isinstance(writer, Gap):
            return writer
        match writer.text(entry.ref, KNOB[entry.knob]):
            case Attempt() as attempt:
                return attempt.gap()
            case text:
                return text

    def value(self, entry: LedgerEntry, text: str) -> KnobValue | Gap:
        knob = KNOB[entry.knob]
        if entry.route == FILE_ROUTE:
            return self.files.value(knob, text)
        return value_in(knob, text)

    def spell(self, route: str, knob: Knob, value: KnobValue) -> str | Gap:
        """How this route writes a value."""
        version = self.files.version(knob)
        if isinstance(version, Gap):
            return version
        try:
            if route == FILE_ROUTE:
                return encode(knob, version, value)
            return format_properties(properties_for(knob, version, value))
        except KnobRangeError as error:
            return Gap(str(error))

    def shows(self, entry: LedgerEntry, text: str, value: KnobValue | Gap) -> bool:
        """Whether this text is how the entry's route shows that value once it was set."""
        if isinstance(value, Gap):
            return False
        if entry.route == FILE_ROUTE:
            return self.files.shows(KNOB[entry.knob], text, value)
        return self.value(entry, text) == value

    def shown(self, ref: CgroupRef, knob: Knob, otherwise: KnobValue) -> KnobValue:
        """What the kernel's file shows now, whatever the route."""
        found = self.files.read(ref, knob)
        return otherwise if isinstance(found, Gap) else found

    def cpus_above(self, ref: CgroupRef) -> CpuSet | Gap:
        """The set of the group above: on cgroup v1 nothing below may have more."""
        path = ref.path.rpartition("/")[0]
        found = self.files.locate(path)
        if found is None:
            return Gap(f"there is no cgroup {path}")
        cpus = self.files.read(CgroupRef(path, found, Level.POD), CPUS)
        return cpus if isinstance(cpus, CpuSet | Gap) else Gap("no set of CPUs")

    def is_idle(self, ref: CgroupRef) -> bool:
        """As the kernel shows it. A weight reads 0, 1 or 3 then: no baseline, and no write."""
        return self.files.read(ref, IDLE) is True


def ownership_of(entry: LedgerEntry, text: str, ledger: Ledger, routes: Routes) -> Ownership:
    """Of a knob that reads `text` now, in its route's spelling."""
    if entry.knob == WEIGHT.name and routes.is_idle(entry.ref):
        return Ownership.OURS
    values = {each: routes.value(entry, each) for each in (entry.ours, entry.baseline)}
    if routes.shows(entry, text, values[entry.ours]):
        return Ownership.OURS
    if routes.shows(entry, text, values[entry.baseline]):
        return Ownership.BASELINE
    noted = _noted(entry, ledger, routes)
    if any(routes.shows(entry, text, value) for value in noted):
        return Ownership.OURS
    reading = routes.value(entry, text)
    if _is_half_a_quota(reading, noted, routes) or _is_a_union(reading, noted):
        return Ownership.OURS
    if _lost_cpus(entry.ref, reading, noted, routes):
        return Ownership.OURS
    if ledger.is_old or was_reset(entry, text, ledger, routes):
        return Ownership.OURS
    return Ownership.DRIFT


def baseline_of_file(ref: CgroupRef, knob: Knob, text: str, ledger: Ledger, routes: Routes) -> str:
    """The baseline of a file that reads `text` and has no note yet: that, unless it is what we set
    through the file's unit, whose baseline it then has."""
    version = routes.files.version(knob)
    for each in ledger.entries:
        if (each.ref.id, each.knob) != (ref.id, knob.name) or each.route == FILE_ROUTE:
            continue
        ours = [routes.value(each, said) for said in (each.ours, each.before)]
        value = routes.value(each, each.baseline)
        is_ours = any(routes.files.shows(knob, text, v) for v in ours if not isinstance(v, Gap))
        if is_ours and not isinstance(value, Gap) and not isinstance(version, Gap):
            return encode(knob, version, value)
    return text


def was_reset(entry: LedgerEntry, text: str, ledger: Ledger, routes: Routes) -> bool:
    """Whether this is a weight as the kernel leaves it when a group leaves idle.

    The entry of idle goes only after the weight is back, so that it tells: we were there.
    """
    version = routes.files.version(WEIGHT)
    if entry.knob != WEIGHT.name or isinstance(version, Gap):
        return False
    held = any(e.ref.id == entry.ref.id and e.knob == IDLE.name for e in ledger.entries)
    return held and routes.value(entry, text) == DEFAULT_WEIGHT[version]


def note_hidden(entry: LedgerEntry, ledger: Ledger, routes: Routes) -> None:
    """Of a weight that idle hides, ours or a stranger's: at its end the kernel's default stands
    there. A unit's property is not touched by that."""
    version = routes.files.version(WEIGHT)
    if isinstance(version, Gap) or entry.route != FILE_ROUTE:
        return
    expected = msgspec.structs.replace(entry, before=str(DEFAULT_WEIGHT[version]))
    if expected != entry:
        ledger.note(expected)


def _noted(entry: LedgerEntry, ledger: Ledger, routes: Routes) -> list[KnobValue]:
    """Every value in the notes on this knob, whichever their route."""
    alike = [e for e in ledger.entries if (e.ref.id, e.knob) == (entry.ref.id, entry.knob)]
    texts = [(e, text) for e in (entry, *alike) for text in (e.ours, e.before, e.baseline)]
    values = (routes.value(each, text) for each, text in texts)
    return [value for value in values if not isinstance(value, Gap)]


def _is_half_a_quota(reading: KnobValue | Gap, noted: list[KnobValue], routes: Routes) -> bool:
    if not isinstance(reading, Bandwidth) or routes.files.version(QUOTA) is not CgroupVersion.V1:
        return False
    known = [value for value in noted if isinstance(value, Bandwidth)]
    limits, periods = [each.limit for each in known], [each.period for each in known]
    return reading.limit in limits and reading.period in periods


def _is_a_union(reading: KnobValue | Gap, noted: list[KnobValue]) -> bool:
    known = [value for value in noted if isinstance(value, CpuSet)]
    return any(reading == one | other for one in known for other in known)


def _lost_cpus(
    ref: CgroupRef, reading: KnobValue | Gap, noted: list[KnobValue], routes: Routes
) -> bool:
    """cpuset_hotplug_update_tasks on v1: the group above has lost the same CPUs."""
    if not isinstance(reading, CpuSet) or routes.files.version(CPUS) is not CgroupVersion.V1:
        return False
    above = routes.cpus_above(ref)
    known = [value for value in noted if isinstance(value, CpuSet)]
    return isinstance(above, CpuSet) and any(reading == each & above for each in known)
