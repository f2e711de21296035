"""Puts back what stood before the agent: each knob in the ledger, in the kernel's order."""

from collections.abc import Iterable

from msgspec.structs import replace

from slackwater.execution.ledger import Ledger
from slackwater.execution.ownership import (
    Routes,
    note_hidden,
    ownership_of,
)
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import Gap
from slackwater.model.knob import IDLE, KNOB, WEIGHT
from slackwater.model.plan import (
    FILE_ROUTE,
    Change,
    LedgerEntry,
    Outcome,
    Ownership,
    Result,
)
from slackwater.resolution.ordering import order_for_kernel

DONE = (Result.APPLIED, Result.UNCHANGED, Result.VANISHED)


class Release:
    """One go over the ledger. An entry is cleared once its knob is back, somebody else's, or its
    cgroup gone; the others stay, for the next try."""

    def __init__(self, ledger: Ledger, routes: Routes) -> None:
        self._ledger = ledger
        self._routes = routes
        self._outcomes: list[Outcome] = []
        self._done: list[LedgerEntry] = []

    def run(self, chosen: Iterable[LedgerEntry]) -> list[Outcome]:
        entries: dict[tuple[int, str], list[LedgerEntry]] = {}
        # The unit first: systemd rewrites the file when it applies a property.
        for entry in sorted(chosen, key=lambda e: e.route == FILE_ROUTE):
            if not self._is_left(entry):
                entries.setdefault((entry.ref.id, entry.knob), []).append(entry)
        ways = [self._way_back(_last_word(group)) for group in entries.values()]
        self._outcomes += [way for way in ways if isinstance(way, Outcome)]
        for change in order_for_kernel(way for way in ways if isinstance(way, Change)):
            self._put_back(change, entries[change.ref.id, change.knob.name])
        self._clear()
        return self._outcomes

    def _is_left(self, entry: LedgerEntry) -> bool:
        """Judged before the first write: from then on readings follow from each other."""
        text = self._routes.text(entry)
        if isinstance(text, Gap):
            return False  # the restoring writer finds out why, and says it
        if ownership_of(entry, text, self._ledger, self._routes) is not Ownership.DRIFT:
            return False
        reading = self._routes.value(entry, text)
        shown = False if isinstance(reading, Gap) else reading
        change = Change(entry.ref, KNOB[entry.knob], shown, shown)
        detail = f"left: somebody else wrote {text!r}"
        self._outcomes.append(Outcome(change, Result.UNCHANGED, detail))
        self._done.append(entry)
        return True

    def _way_back(self, entry: LedgerEntry) -> Change | Outcome:
        """From what the kernel shows to the baseline; or why there is no way."""
        knob, baseline = KNOB[entry.knob], self._routes.value(entry, entry.baseline)
        reading = self._routes.files.read(entry.ref, knob)
        match reading, baseline:
            case _, Gap(reason):
                shown = False if isinstance(reading, Gap) else reading
                return Outcome(Change(entry.ref, knob, shown, shown), Result.REFUSED, reason)
            case Gap(), known:
                return Change(entry.ref, knob, known, known)
            case shown, known:
                return Change(entry.ref, knob, shown, known)

    def _put_back(self, change: Change, entries: list[LedgerEntry]) -> None:
        """All entries of one knob; the step to a union on a cpuset's way is written by the last."""
        last = _last_word(entries)
        if self._routes.value(last, last.baseline) != change.new:
            writer = self._routes.writer(last.route)
            if not isinstance(writer, Gap):
                self._outcomes.append(writer.write(change))
            return
        for entry in entries:
            outcome = self._restored(change, entry)
            self._outcomes.append(outcome)
            if outcome.result in DONE:
                self._done.append(entry)

    def _restored(self, change: Change, entry: LedgerEntry) -> Outcome:
        writer = self._routes.writer(entry.route)
        if isinstance(writer, Gap):
            return Outcome(change, Result.REFUSED, writer.reason)
        if entry.knob == WEIGHT.name and self._routes.is_idle(entry.ref):
            return self._hidden(change, entry)
        outcome = writer.restore(change, entry.baseline)
        if outcome.result is Result.REFUSED and isinstance(change.new, CpuSet):
            return self._with_cpus_above(change, entry) or outcome
        return outcome

    def _with_cpus_above(self, change: Change, entry: LedgerEntry) -> Outcome | None:
        """On cgroup v1 a CPU that was offline once is missing above for good: all the others."""
        above = self._routes.cpus_above(entry.ref)
        if isinstance(above, Gap) or not isinstance(change.new, CpuSet):
            return None
        left = change.new & above
        if entry.route != FILE_ROUTE or not left or left == change.new:
            return None
        lost = (change.new - above).format()
        detail = f"without CPUs that the group above does not have: {lost}"
        outcome = self._routes.files.write(replace(change, new=left))
        return replace(outcome, detail=detail) if outcome.result in DONE else None

    def _hidden(self, change: Change, entry: LedgerEntry) -> Outcome:
        """Idle goes back ahead of the weights: a group that is idle still was so before us, or
        somebody else made it so, or does not let go of it."""
        noted = (e for e in self._ledger.entries if e.ref.id == entry.ref.id)
        idles = (e for e in noted if e.knob == IDLE.name)
        if any(self._routes.value(idle, idle.baseline) is True for idle in idles):
            return Outcome(change, Result.UNCHANGED, "idle, as it was")
        note_hidden(entry, self._ledger, self._routes)
        return Outcome(change, Result.REFUSED, "an idle group takes no weight: it waits for that")

    def _clear(self) -> None:
        """Idle last, and not without its weight: a weight at the kernel's default is known for
        ours by it (ownership.was_reset)."""
        for entry in sorted(self._done, key=lambda e: e.knob == IDLE.name):
            if entry.knob != IDLE.name or not self._has_weight(entry):
                self._ledger.clear(entry)

    def _has_weight(self, idle: LedgerEntry) -> bool:
        entries = self._ledger.entries
        return any(e.ref.id == idle.ref.id and e.knob == WEIGHT.name for e in entries)


def _last_word(entries: list[LedgerEntry]) -> LedgerEntry:
    """Of one knob's entries, the units' first: the one whose baseline is to stand there at the end.
    The file's, as somebody may have written it past systemd, before we came; one that was noted
    after the unit's took a value of ours for its baseline."""
    first, last = entries[0], entries[-1]
    return first if last.since > first.since else last
