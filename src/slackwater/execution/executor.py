"""Carries out changes: order, note, write; and puts everything back from the ledger alone.

Owns what no single writer knows: that the ledger is told first, what a write disturbs, what has
been found not to work here, which knobs are ours, and what need not be noted any more. Does not
choose values.

The baseline is what would be set without us. It is noted before the first write; a knob that has
drifted (ownership) is noted anew, with the drifted reading as its baseline. The kubelet's periodic
resets write the same baseline again, which changes nothing. A release does not overwrite somebody
else's value: a knob that shows drift is theirs by now, is left as it is, and its entry goes.
"""

from collections.abc import Callable, Collection, Iterable
from itertools import compress
from operator import is_not

import msgspec

from slackwater.execution.knob_writer import Attempt, KnobFiles
from slackwater.execution.ledger import Ledger
from slackwater.execution.ownership import (
    Routes,
    baseline_of_file,
    note_hidden,
    ownership_of,
    was_reset,
)
from slackwater.execution.refusals import LONGEST_FOR_A_UNIT, Refusals
from slackwater.execution.release import DONE, Release
from slackwater.execution.unit_writer import UnitWriter
from slackwater.model.cgroup import CgroupRef, Level
from slackwater.model.gap import Gap
from slackwater.model.knob import IDLE, KNOB, QUOTA, WEIGHT, Knob, KnobKey, KnobValue
from slackwater.model.plan import (
    FILE_ROUTE,
    Adopted,
    Adoption,
    Change,
    LedgerEntry,
    Outcome,
    Ownership,
    Result,
    StartNote,
)
from slackwater.model.snapshot import Held, WritePrecision
from slackwater.model.unit_property import value_in
from slackwater.model.units import Micros
from slackwater.resolution.ordering import order_for_kernel

#: Knobs that cannot be written, before their cgroups are looked for: more than any node has.
_MANY_SHUT = 2_000


class HeldKnobs:
    """The knobs that are ours, as the ledger's entries say. Keeps what each entry said: a full node
    has a thousand of them, of which a tick changes a few, and reading all their texts again would
    cost more than the policies do."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._entries: tuple[LedgerEntry, ...] = ()
        self._said: list[Held | None] = []
        #: By group and knob; one that a unit and its file both carry is the unit's.
        self._found: dict[tuple[int, str], Held] = {}
        self._of_units: frozenset[tuple[int, str]] = frozenset()
        self._held: tuple[Held, ...] = ()

    def of(self, entries: tuple[LedgerEntry, ...]) -> tuple[Held, ...]:
        """The same object again while the entries are the same."""
        before, self._entries = self._entries, entries
        places = _changed_places(before, entries)
        if places is None:
            # By identity: the entries of before live on until this has ended.
            known = {id(e): said for e, said in zip(before, self._said, strict=True)}
            self._said = [known[id(e)] if id(e) in known else self._read(e) for e in entries]
            self._of_units = frozenset(e.key()[:2] for e in entries if e.route != FILE_ROUTE)
            self._found = self._folded()
        for place in places or ():
            self._said[place] = said = self._read(entries[place])
            key = entries[place].key()[:2]
            if said is None:
                self._found = self._folded()
            elif entries[place].route != FILE_ROUTE or key not in self._of_units:
                self._found[key] = said
        if places is None or places:
            self._held = tuple(self._found.values())
        return self._held

    def _read(self, entry: LedgerEntry) -> Held | None:
        """None where its texts cannot be read."""
        routes = self._routes
        baseline, ours = routes.value(entry, entry.baseline), routes.value(entry, entry.ours)
        if isinstance(baseline, Gap) or isinstance(ours, Gap):
            return None
        return Held(entry.ref, entry.knob, baseline, ours, entry.since)

    def _folded(self) -> dict[tuple[int, str], Held]:
        found: dict[tuple[int, str], Held] = {}
        pairs = list(zip(self._entries, self._said, strict=True))
        files = [said for entry, said in pairs if entry.route == FILE_ROUTE]
        units = [said for entry, said in pairs if entry.route != FILE_ROUTE]
        for said in (*files, *units):
            if said is not None:
                found[said.ref.id, said.knob] = said
        return found


def _changed_places(
    before: tuple[LedgerEntry, ...], now: tuple[LedgerEntry, ...]
) -> list[int] | None:
    """Where the same knobs have other entries; None where there are other knobs."""
    if len(before) != len(now):
        return None
    places = list(compress(range(len(now)), map(is_not, before, now)))
    return places if all(before[n].key() == now[n].key() for n in places) else None


_Place = tuple[str, Level, str]


class Executor:
    """The one way to a knob. Guards the ledger; holds nothing else that outlives a call but what
    was said of knobs that do not work here."""

    def __init__(
        self,
        ledger: Ledger,
        files: KnobFiles,
        units: UnitWriter | None,
        clock: Callable[[], Micros],
    ) -> None:
        self._ledger = ledger
        self._routes = Routes(files, units)
        self._clock = clock
        #: What systemd does not do on this node.
        self._off: set[_Place] = set()
        #: Single knobs whose file cannot be written, with their cgroups.
        self._shut: dict[KnobKey, CgroupRef] = {}
        self._sweep_shut_at = _MANY_SHUT
        self._refusals = Refusals()
        #: One clause for each place, however many cgroups it is about.
        self._said: set[tuple[_Place, str]] = set()
        self._held_knobs = HeldKnobs(self._routes)

    @property
    def ledger(self) -> Ledger:
        return self._ledger

    def route(self, ref: CgroupRef, knob: Knob) -> str:
        return self._routes.route(ref, knob)

    def apply(self, changes: Iterable[Change]) -> list[Outcome]:
        """Every change in the kernel's order, each noted before its first write. One that was
        refused before may have to wait, and has no outcome until then."""
        changes, now = list(changes), self._clock()
        due = self._refusals.due({_knob_key(each): each.new for each in changes}, now)
        outcomes = self._apply_all([each for each in changes if _knob_key(each) in due])
        self._note_refusals(outcomes, now)
        return outcomes

    def _apply_all(self, changes: list[Change]) -> list[Outcome]:
        astray = self._astray() if changes else None
        if astray is not None:
            return [Outcome(change, Result.REFUSED, astray.reason) for change in changes]
        outcomes = [self._apply(each) for each in order_for_kernel(self._completed(changes))]
        self._let_go_of_idle(outcomes)
        return outcomes

    def _note_refusals(self, outcomes: list[Outcome], at: Micros) -> None:
        units = {
            _knob_key(each.change): LONGEST_FOR_A_UNIT
            for each in outcomes
            if each.result is Result.REFUSED
            and self.route(each.change.ref, each.change.knob) != FILE_ROUTE
        }
        self._refusals.note(outcomes, at, units)

    def adopt(self) -> Adoption:
        """What an earlier run left: the live entries with what they read now."""
        dropped = self.sweep()
        return Adoption(tuple(self._adopted(entry) for entry in self._ledger.entries), dropped)

    def sweep(self) -> tuple[LedgerEntry, ...]:
        """Drops the entries of cgroups that are gone, and returns them."""
        if self._astray() is not None:
            return ()
        files = self._routes.files
        gone = tuple(e for e in self._ledger.entries if not files.lives(e.ref))
        for entry in gone:
            self._ledger.clear(entry)
        return gone

    def release(self) -> list[Outcome]:
        """Every noted knob back to its baseline, from the ledger alone."""
        for note in self._ledger.starts:
            found = self.locate(note.path)
            ref = None if found is None else CgroupRef(note.path, found, Level.CONTAINER)
            if ref is not None and self.read_quota(ref) == note.told:
                self.adopt_start(note, ref)
        return self._release(self._ledger.entries)

    def be_patient(self) -> None:
        """Before a release that is the last one."""
        self._routes.be_patient()

    def let_go(self, knobs: Collection[tuple[int, str]]) -> list[Outcome]:
        """These knobs, by cgroup id and name, back to their baselines. Where idle ends and the
        weight stays ours, the weight follows at once: nobody asked for the kernel's default."""
        now = self._clock()
        due = self._refusals.due({KnobKey(*each): None for each in knobs}, now)
        going = [e for e in self._ledger.entries if KnobKey(e.ref.id, e.knob) in due]
        ends = [e for e in going if e.knob == IDLE.name and self._leaves_weight(e, knobs)]
        changes = {e.ref.id: Change(e.ref, IDLE, True, False) for e in ends}
        outcomes = self._apply_all(list(changes.values()))
        outcomes += self._release(e for e in going if e not in ends)
        self._note_refusals(outcomes, now)
        return outcomes

    def _leaves_weight(self, idle: LedgerEntry, knobs: Collection[tuple[int, str]]) -> bool:
        wanted = (idle.ref.id, WEIGHT.name) not in knobs
        weight = self._entry(idle.ref, WEIGHT) if wanted else None
        return weight is not None and self._routes.value(idle, idle.baseline) is False

    def note_start(self, note: StartNote) -> Gap | None:
        """Before a runtime is told of another quota than the kubelet's: why that must not be. From
        any thread."""
        return self._astray() or self._ledger.note_start(note)

    def starts(self) -> tuple[StartNote, ...]:
        """The quotas that runtimes were told of and that no tick has found yet."""
        return self._ledger.starts

    def adopt_start(self, note: StartNote, ref: CgroupRef) -> None:
        """The runtime did as it was told: the quota is ours, and what the kubelet asked for is its
        baseline. What cannot be noted is somebody else's value from now on."""
        route = self.route(ref, QUOTA)
        asked, told = (self._routes.spell(route, QUOTA, each) for each in (note.asked, note.told))
        if not isinstance(asked, Gap) and not isinstance(told, Gap) and self._astray() is None:
            known = self._ledger.find(ref.id, QUOTA.name, route)
            since = known.since if known else note.at
            self._ledger.note(LedgerEntry(ref, QUOTA.name, route, asked, told, told, since))
        self._ledger.forget_start(note)

    def forget_start(self, note: StartNote) -> None:
        """The container never came, or with another quota."""
        self._ledger.forget_start(note)

    def read_quota(self, ref: CgroupRef) -> KnobValue | Gap:
        """As the kernel has it now. From any thread."""
        return self._routes.files.read(ref, QUOTA)

    def locate(self, path: str) -> int | None:
        """The id of the cgroup at this path. From any thread."""
        return self._routes.files.locate(path)

    def held(self) -> tuple[Held, ...]:
        """The knobs that are ours now; the same object again while the ledger did not change."""
        return self._held_knobs.of(self._ledger.entries)

    def off(self) -> frozenset[KnobKey]:
        """The knobs that cannot be written where they are."""
        return frozenset(self._shut)

    def precision(self) -> WritePrecision:
        """How exactly values can be written, by the routes that they take."""
        return self._routes.precision()

    def _release(self, entries: Iterable[LedgerEntry]) -> list[Outcome]:
        match self._astray():
            case None:
                return Release(self._ledger, self._routes).run(entries)
            case Gap(reason):
                return [
                    Outcome(Change(e.ref, KNOB[e.knob], False, False), Result.REFUSED, reason)
                    for e in entries
                ]

    def _astray(self) -> Gap | None:
        """Why this is not the hierarchy that the ledger is about: its mount is missing, or
        another one. Then no cgroup is known to be gone."""
        match self._routes.files.hierarchy():
            case Gap() as gap:
                return gap
            case hierarchy:
                return self._ledger.check_hierarchy(hierarchy, self._routes.files.lives)

    def _completed(self, changes: list[Change]) -> list[Change]:
        """With the weight of each group that leaves idle, where the plan says nothing of it: the
        kernel resets it to its default, which nobody asked for."""
        named = {change.ref.id for change in changes if change.knob == WEIGHT}
        return changes + [
            Change(change.ref, WEIGHT, self._routes.shown(change.ref, WEIGHT, value), value)
            for change in changes
            if change.knob == IDLE and not change.new and change.ref.id not in named
            if (entry := self._entry(change.ref, WEIGHT)) is not None and self._is_reset(entry)
            if not isinstance(value := self._routes.value(entry, entry.ours), Gap)
        ]

    def _is_reset(self, weight: LedgerEntry) -> bool:
        """Whether the end of idle costs this weight now, or did so when we were killed."""
        if self._routes.is_idle(weight.ref):
            return True
        text = self._routes.text(weight)
        return not isinstance(text, Gap) and was_reset(weight, text, self._ledger, self._routes)

    def _apply(self, change: Change) -> Outcome:
        route = self.route(change.ref, change.knob)
        place = (change.knob.name, change.ref.level, route.partition(":")[0])
        if place in self._off:
            self._shut[_knob_key(change)] = change.ref
            return Outcome(change, Result.UNSUPPORTED)  # without a detail: it was said before
        if change.knob == WEIGHT and self._routes.is_idle(change.ref):
            return self._locked_outcome(change)
        writer = self._routes.writer(route)
        if isinstance(writer, Gap):
            return Outcome(change, Result.REFUSED, writer.reason)
        outcome = writer.write(change, lambda now, ours: self._note(change, route, now, ours))
        if outcome.result is Result.VANISHED:
            self._forget(change.ref)
        elif outcome.result not in DONE:
            self._forget_untouched(change)
        return self._said_once(outcome, place)

    def _said_once(self, outcome: Outcome, place: _Place) -> Outcome:
        """What a file does not do concerns its cgroup, and only for now: it is tried again, but
        not told again. What systemd does not do is off for all."""
        if outcome.result is not Result.UNSUPPORTED:
            return outcome
        self._shut[_knob_key(outcome.change)] = outcome.change.ref
        self._sweep_shut()
        if place[2] != FILE_ROUTE:
            self._off.add(place)
        clause = outcome.detail.replace(outcome.change.ref.path, "")
        if (place, clause) in self._said:
            return msgspec.structs.replace(outcome, detail="")
        self._said.add((place, clause))
        return outcome

    def _locked_outcome(self, change: Change) -> Outcome:
        """The weight that was set before idle is still the group's own: it returns with idle's
        end (_completed). Another one has to wait for that."""
        entry = self._entry(change.ref, change.knob)
        if entry is not None:
            note_hidden(entry, self._ledger, self._routes)
        if entry is not None and self._routes.value(entry, entry.ours) == change.new:
            return Outcome(change, Result.UNCHANGED, "in force again when idle ends")
        return Outcome(change, Result.REFUSED, "an idle group takes no weight")

    def _note(self, change: Change, route: str, now: str, ours: str) -> Attempt | None:
        """What stands there now, before it is changed; first of all what the write disturbs."""
        if change.knob == IDLE and change.new:
            refusal = self._note_weight(change.ref)
            if refusal is not None:
                return refusal
        if route != FILE_ROUTE and self._entry(change.ref, change.knob) is None:
            refusal = self._note_stray_file(change, now)
            if refusal is not None:
                return refusal
        return self._keep(change.ref, change.knob, route, now, ours)

    def _note_stray_file(self, change: Change, properties: str) -> Attempt | None:
        """A file that does not show its unit's properties was written by somebody past systemd,
        and would be lost with them: it has a baseline of its own."""
        ref, knob, files = change.ref, change.knob, self._routes.files
        text, shown = files.text(ref, knob), value_in(knob, properties)
        if isinstance(text, Attempt) or isinstance(shown, Gap):
            return None
        if files.shows(knob, text, shown):
            return None
        return self._keep(ref, knob, FILE_ROUTE, text, text)

    def _note_weight(self, ref: CgroupRef) -> Attempt | None:
        """The weight that stands there when idle begins is the one to have again at its end."""
        route = self.route(ref, WEIGHT)
        match self._routes.writer(route):
            case Gap(reason):
                return Attempt(Result.REFUSED, reason)
            case writer:
                now = writer.text(ref, WEIGHT)
        if isinstance(now, Attempt):
            return now
        known = self._ledger.find(ref.id, WEIGHT.name, route)
        if known is not None and (
            self._routes.shows(known, now, self._routes.value(known, known.ours))
            or was_reset(known, now, self._ledger, self._routes)
        ):
            return None
        return self._keep(ref, WEIGHT, route, now, now)

    def _keep(self, ref: CgroupRef, knob: Knob, route: str, now: str, ours: str) -> Attempt | None:
        """A knob that cannot be noted is not touched, unless its baseline is noted already."""
        known = self._ledger.find(ref.id, knob.name, route)
        if known is not None and self._ownership(known, now) is Ownership.DRIFT:
            known = None
        baseline = known.baseline if known else now
        if known is None and route == FILE_ROUTE:
            baseline = baseline_of_file(ref, knob, now, self._ledger, self._routes)
        since = known.since if known else self._clock()
        failed = self._ledger.note(LedgerEntry(ref, knob.name, route, baseline, now, ours, since))
        if failed is None or known is not None:
            return None
        return Attempt(Result.REFUSED, failed.reason)

    def _entry(self, ref: CgroupRef, knob: Knob) -> LedgerEntry | None:
        return self._ledger.find(ref.id, knob.name, self.route(ref, knob))

    def _ownership(self, entry: LedgerEntry, text: str) -> Ownership:
        return ownership_of(entry, text, self._ledger, self._routes)

    def _adopted(self, entry: LedgerEntry) -> Adopted:
        text = self._astray() or self._routes.text(entry)
        reading = text if isinstance(text, Gap) else self._routes.value(entry, text)
        if isinstance(text, Gap) or isinstance(reading, Gap):
            return Adopted(entry, Ownership.UNREAD, reading)
        return Adopted(entry, self._ownership(entry, text), reading)

    def _let_go_of_idle(self, outcomes: list[Outcome]) -> None:
        """A group that left idle as it was before us is not ours any more, nor is a weight that
        we only kept for it: what others write there from now on is theirs."""
        concerned = [o for o in outcomes if o.change.knob in (IDLE, WEIGHT)]
        undone = {o.change.ref.id for o in concerned if o.result not in DONE}
        for change in (o.change for o in concerned if o.change.knob == IDLE and not o.change.new):
            idle, weight = self._entry(change.ref, IDLE), self._entry(change.ref, WEIGHT)
            if idle is None or change.ref.id in undone:
                continue
            if self._routes.value(idle, idle.baseline) is False:
                if weight is not None and weight.ours == weight.baseline:
                    self._ledger.clear(weight)
                self._ledger.clear(idle)

    def _forget_untouched(self, change: Change) -> None:
        """A knob that still stands at its baseline after a write that failed was never ours."""
        names = (change.knob.disturbs, change.knob.name)
        for entry in self._ledger.entries:
            concerned = entry.ref.id == change.ref.id and entry.knob in names
            if concerned and self._routes.text(entry) == entry.baseline:
                self._ledger.clear(entry)

    def _forget(self, ref: CgroupRef) -> None:
        for entry in self._ledger.entries:
            if entry.ref.id == ref.id:
                self._ledger.clear(entry)
        self._shut = {key: where for key, where in self._shut.items() if key.cgroup != ref.id}
        self._refusals.drop(ref.id)

    def _sweep_shut(self) -> None:
        """Pods come and go: where no write goes through, none of them tells that its group is
        gone."""
        if len(self._shut) < self._sweep_shut_at:
            return
        lives = self._routes.files.lives
        self._shut = {key: where for key, where in self._shut.items() if lives(where)}
        self._sweep_shut_at = max(2 * len(self._shut), _MANY_SHUT)


def _knob_key(change: Change) -> KnobKey:
    return KnobKey(change.ref.id, change.knob.name)


class DryRun:
    """The executor's stand-in in a dry run: says what would be written, and writes nothing. It has
    no ledger, so it can run beside a real agent; what that one holds is not told apart here."""

    def __init__(self, page_size: int) -> None:
        self._page_size = page_size

    def apply(self, changes: Iterable[Change]) -> list[Outcome]:
        return [Outcome(change, Result.PLANNED) for change in changes]

    def adopt(self) -> Adoption:
        return Adoption((), ())

    def release(self) -> list[Outcome]:
        return []

    def let_go(self, _knobs: Collection[tuple[int, str]]) -> list[Outcome]:
        return []

    def held(self) -> tuple[Held, ...]:
        return ()

    def off(self) -> frozenset[KnobKey]:
        return frozenset()

    def precision(self) -> WritePrecision:
        return WritePrecision(self._page_size)
