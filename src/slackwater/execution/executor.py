"""Carries out changes and puts everything back: order, note, write.

Owns what no single writer knows: which route a knob takes, that the ledger is told first, what a
write disturbs, which knobs are off here, and how all of it is undone. Refuses to choose values.
"""

from collections.abc import Callable, Iterable

from slackwater.execution.cgroup_writer import CgroupWriter
from slackwater.execution.ledger import Ledger
from slackwater.execution.unit_writer import UnitWriter
from slackwater.execution.verdict import Verdict
from slackwater.model.cgroup import CgroupRef, Level
from slackwater.model.gap import Gap
from slackwater.model.knob import KNOBS, Knob, KnobValue
from slackwater.model.knob_text import settled
from slackwater.model.ledger import (
    FILE_ROUTE,
    UNIT_ROUTE,
    Adopted,
    Adoption,
    LedgerEntry,
    Standing,
)
from slackwater.model.plan import Change, Outcome, Result
from slackwater.model.unit_property import value_in
from slackwater.model.units import Micros
from slackwater.resolution.ordering import kernel_order

_KNOBS = {knob.name: knob for knob in KNOBS}
#: Idle, keyed by the weight that it locks while it is on and resets when it ends.
_DISTURBER = {knob.disturbs: knob for knob in KNOBS if knob.disturbs is not None}
_DONE = (Result.APPLIED, Result.UNCHANGED, Result.VANISHED)


class Executor:
    """The one way to a knob. Guards the ledger; holds nothing else that outlives a call but the
    knobs that turned out not to work here."""

    def __init__(
        self,
        ledger: Ledger,
        cgroup_writer: CgroupWriter,
        unit_writer: UnitWriter | None,
        clock: Callable[[], Micros],
    ) -> None:
        self._ledger = ledger
        self._files = cgroup_writer
        self._units = unit_writer
        self._clock = clock
        self._off: set[tuple[str, Level, bool]] = set()

    def route(self, ref: CgroupRef, knob: Knob) -> str:
        """Through its unit where systemd owns the cgroup and has a property; else the file."""
        if self._units is not None and self._units.owns(ref, knob):
            return f"{UNIT_ROUTE}{ref.name()}"
        return FILE_ROUTE

    def apply(self, changes: Iterable[Change]) -> list[Outcome]:
        """Every change in the kernel's order, each noted before its first write."""
        return [self._apply(change) for change in kernel_order(self._completed(list(changes)))]

    def adopt(self) -> Adoption:
        """What an earlier run left: the live entries with what they read now."""
        dropped = self.sweep()
        return Adoption(tuple(self._adopted(entry) for entry in self._ledger.entries), dropped)

    def sweep(self) -> tuple[LedgerEntry, ...]:
        """Drops the entries of cgroups that are gone, and returns them."""
        gone = tuple(e for e in self._ledger.entries if not self._files.lives(e.ref))
        for entry in gone:
            self._ledger.clear(entry)
        return gone

    def release(self) -> list[Outcome]:
        """Every noted knob back to its baseline, from the ledger alone.

        An entry is cleared once its knob is back or its cgroup gone; the others stay, for the
        next try.
        """
        entries: dict[tuple[int, str], list[LedgerEntry]] = {}
        # The unit first: systemd rewrites the file when it applies a property.
        for entry in sorted(self._ledger.entries, key=lambda e: e.route == FILE_ROUTE):
            entries.setdefault((entry.ref.id, entry.knob), []).append(entry)
        ways = [self._way_back(group[-1]) for group in entries.values()]
        outcomes = [way for way in ways if isinstance(way, Outcome)]
        changes = [way for way in ways if isinstance(way, Change)]
        for change in kernel_order(changes):
            outcomes += self._put_back(change, entries[change.ref.id, change.knob.name])
        return outcomes

    def _completed(self, changes: list[Change]) -> list[Change]:
        """With the weight of each group that leaves idle, where the plan says nothing of it: the
        kernel resets it to its default, which is no one's wish."""
        named = {(change.ref.id, change.knob.name) for change in changes}
        return changes + [
            Change(change.ref, _KNOBS[entry.knob], value, value)
            for change in changes
            if change.knob.disturbs is not None and not change.new
            if (change.ref.id, change.knob.disturbs) not in named
            if (entry := self._entry(change.ref, _KNOBS[change.knob.disturbs])) is not None
            if not isinstance(value := self._value(entry, entry.ours), Gap)
        ]

    def _apply(self, change: Change) -> Outcome:
        route = self.route(change.ref, change.knob)
        place = (change.knob.name, change.ref.level, route == FILE_ROUTE)
        if place in self._off:
            return Outcome(change, Result.UNSUPPORTED)  # without a detail: it was said before
        if self._is_locked(change.ref, change.knob.name):
            return self._locked_outcome(change)
        writer = self._writer(route)
        if isinstance(writer, Gap):
            return Outcome(change, Result.REFUSED, writer.reason)
        outcome = writer.write(change, lambda now, ours: self._note(change, route, now, ours))
        if outcome.result is Result.UNSUPPORTED:
            self._off.add(place)
        if outcome.result is Result.VANISHED:
            self._forget(change.ref)
        return outcome

    def _is_locked(self, ref: CgroupRef, knob: str) -> bool:
        """A weight reads 0, 1 or 3 while the group is idle: no baseline, and no write either."""
        disturber = _DISTURBER.get(knob)
        return disturber is not None and self._files.read(ref, disturber) is True

    def _locked_outcome(self, change: Change) -> Outcome:
        """The weight that was set before idle is still the group's own: it returns with idle's
        end (_completed). Another one has to wait for that."""
        entry = self._entry(change.ref, change.knob)
        if entry is not None and self._value(entry, entry.ours) == change.new:
            return Outcome(change, Result.UNCHANGED, "in force again when idle ends")
        return Outcome(change, Result.REFUSED, "an idle group takes no weight")

    def _note(self, change: Change, route: str, now: str, ours: str) -> Verdict | None:
        """What stands there now, before it is changed; first of all what the write disturbs."""
        if change.knob.disturbs is not None and change.new:
            refusal = self._note_bystander(change.ref, _KNOBS[change.knob.disturbs])
            if refusal is not None:
                return refusal
        if route != FILE_ROUTE and self._entry(change.ref, change.knob) is None:
            refusal = self._note_stray_file(change, now)
            if refusal is not None:
                return refusal
        return self._keep(change.ref, change.knob, route, now, ours)

    def _note_stray_file(self, change: Change, properties: str) -> Verdict | None:
        """A file that does not show its unit's properties was written by somebody past systemd,
        and would be lost with them: it has a baseline of its own."""
        ref, knob = change.ref, change.knob
        text, shown = self._files.text(ref, knob), value_in(knob, properties)
        if isinstance(text, Verdict) or isinstance(shown, Gap):
            return None
        if self._files.shows(knob, text, shown):
            return None
        return self._keep(ref, knob, FILE_ROUTE, text, text)

    def _note_bystander(self, ref: CgroupRef, knob: Knob) -> Verdict | None:
        if self._entry(ref, knob) is not None:
            return None
        route = self.route(ref, knob)
        match self._writer(route):
            case Gap(reason):
                return Verdict(Result.REFUSED, reason)
            case writer:
                now = writer.text(ref, knob)
        return now if isinstance(now, Verdict) else self._keep(ref, knob, route, now, now)

    def _keep(self, ref: CgroupRef, knob: Knob, route: str, now: str, ours: str) -> Verdict | None:
        """A knob that cannot be noted is not touched, unless its baseline is noted already."""
        known = self._ledger.find(ref.id, knob.name, route)
        baseline = known.baseline if known else now
        since = known.since if known else self._clock()
        failed = self._ledger.note(LedgerEntry(ref, knob.name, route, baseline, now, ours, since))
        if failed is None or known is not None:
            return None
        return Verdict(Result.REFUSED, failed.reason)

    def _entry(self, ref: CgroupRef, knob: Knob) -> LedgerEntry | None:
        return self._ledger.find(ref.id, knob.name, self.route(ref, knob))

    def _writer(self, route: str) -> CgroupWriter | UnitWriter | Gap:
        if route == FILE_ROUTE:
            return self._files
        return self._units or Gap(f"systemd cannot be asked for {route.removeprefix(UNIT_ROUTE)}")

    def _value(self, entry: LedgerEntry, text: str) -> KnobValue | Gap:
        knob = _KNOBS[entry.knob]
        if entry.route == FILE_ROUTE:
            return self._files.value(knob, text)
        return value_in(knob, text)

    def _adopted(self, entry: LedgerEntry) -> Adopted:
        match self._reading(entry):
            case Gap() as gap:
                return Adopted(entry, Standing.UNREAD, gap)
            case reading:
                return Adopted(entry, self._standing(entry, reading), reading)

    def _reading(self, entry: LedgerEntry) -> KnobValue | Gap:
        match self._writer(entry.route):
            case Gap() as gap:
                return gap
            case writer:
                return writer.read(entry.ref, _KNOBS[entry.knob])

    def _standing(self, entry: LedgerEntry, reading: KnobValue) -> Standing:
        if self._is_locked(entry.ref, entry.knob):
            return Standing.OURS  # a weight that idle hides
        for text, standing in (
            (entry.ours, Standing.OURS),
            (entry.baseline, Standing.BASELINE),
            (entry.before, Standing.OURS),
        ):
            if reading == self._settled(entry, self._value(entry, text)):
                return standing
        return Standing.DRIFT

    def _settled(self, entry: LedgerEntry, noted: KnobValue | Gap) -> KnobValue | Gap:
        if isinstance(noted, Gap) or entry.route != FILE_ROUTE:
            return noted
        return settled(_KNOBS[entry.knob], noted, self._files.page_size)

    def _way_back(self, entry: LedgerEntry) -> Change | Outcome:
        """From what the kernel shows to the baseline; or why there is no way."""
        knob, baseline = _KNOBS[entry.knob], self._value(entry, entry.baseline)
        reading = self._files.read(entry.ref, knob)
        match reading, baseline:
            case _, Gap(reason):
                shown = False if isinstance(reading, Gap) else reading
                return Outcome(Change(entry.ref, knob, shown, shown), Result.REFUSED, reason)
            case Gap(), known:  # the restoring writer finds out why, and says it
                return Change(entry.ref, knob, known, known)
            case shown, known:
                return Change(entry.ref, knob, shown, known)

    def _put_back(self, change: Change, entries: list[LedgerEntry]) -> list[Outcome]:
        """All entries of one knob; the step to a union on a cpuset's way is written by the last."""
        final = self._value(entries[-1], entries[-1].baseline) == change.new
        if not final:
            writer = self._writer(entries[-1].route)
            return [] if isinstance(writer, Gap) else [writer.write(change)]
        return [self._restored(change, entry) for entry in entries]

    def _restored(self, change: Change, entry: LedgerEntry) -> Outcome:
        writer = self._writer(entry.route)
        if isinstance(writer, Gap):
            outcome = Outcome(change, Result.REFUSED, writer.reason)
        elif self._stays_locked(entry):
            outcome = Outcome(change, Result.UNCHANGED, "idle, as it was")
        else:
            outcome = writer.restore(change, entry.baseline)
        if outcome.result in _DONE:
            self._ledger.clear(entry)
        return outcome

    def _stays_locked(self, entry: LedgerEntry) -> bool:
        """A weight in a group that was idle before us, and is: idle ends ahead of the weights,
        so this one does not end."""
        if not self._is_locked(entry.ref, entry.knob):
            return False
        noted = self._entry(entry.ref, _DISTURBER[entry.knob])
        return noted is None or self._value(noted, noted.baseline) is True

    def _forget(self, ref: CgroupRef) -> None:
        for entry in self._ledger.entries:
            if entry.ref.id == ref.id:
                self._ledger.clear(entry)
