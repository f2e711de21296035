"""The two ways to a knob: its file, or the unit that owns the cgroup.

Owns which one a knob takes and whose texts an entry of the ledger holds. Refuses to write on its
own account.
"""

from slackwater.execution.cgroup_writer import CgroupWriter
from slackwater.execution.unit_writer import UnitWriter
from slackwater.execution.verdict import Verdict
from slackwater.model.cgroup import CgroupRef
from slackwater.model.gap import Gap
from slackwater.model.knob import IDLE, KNOB, Knob, KnobValue
from slackwater.model.ledger import FILE_ROUTE, UNIT_ROUTE, LedgerEntry
from slackwater.model.snapshot import WritePrecision
from slackwater.model.unit_property import value_in


class Routes:
    """Both writers; `units` is None where no systemd answers."""

    def __init__(self, files: CgroupWriter, units: UnitWriter | None) -> None:
        self.files = files
        self._units = units

    def route(self, ref: CgroupRef, knob: Knob) -> str:
        """Through its unit where systemd owns the cgroup and has a property; else the file."""
        if self._units is not None and self._units.owns(ref, knob):
            return f"{UNIT_ROUTE}{ref.name()}"
        return FILE_ROUTE

    def precision(self) -> WritePrecision:
        unit_knobs = self._units.knobs() if self._units else frozenset[str]()
        return WritePrecision(self.files.page_size, unit_knobs)

    def writer(self, route: str) -> CgroupWriter | UnitWriter | Gap:
        if route == FILE_ROUTE:
            return self.files
        return self._units or Gap(f"systemd cannot be asked for {route.removeprefix(UNIT_ROUTE)}")

    def text(self, entry: LedgerEntry) -> str | Gap:
        """What stands there now, as the entry's route spells it."""
        writer = self.writer(entry.route)
        if isinstance(writer, Gap):
            return writer
        match writer.text(entry.ref, KNOB[entry.knob]):
            case Verdict() as verdict:
                return verdict.gap()
            case text:
                return text

    def value(self, entry: LedgerEntry, text: str) -> KnobValue | Gap:
        knob = KNOB[entry.knob]
        if entry.route == FILE_ROUTE:
            return self.files.value(knob, text)
        return value_in(knob, text)

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

    def is_idle(self, ref: CgroupRef) -> bool:
        """As the kernel shows it. A weight reads 0, 1 or 3 then: no baseline, and no write."""
        return self.files.read(ref, IDLE) is True
