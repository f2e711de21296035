"""The knobs that are ours, as the ledger's entries say: for snapshots, and for explain.

Keeps what each entry says. A full node has a thousand of them, of which a tick changes a few; to
read all their texts again at each tick would cost more than the policies do.
"""

from slackwater.execution.routes import Routes
from slackwater.model.gap import Gap
from slackwater.model.ledger import FILE_ROUTE, LedgerEntry
from slackwater.model.snapshot import Held


class Holdings:
    """Guards the entries that it was last asked about, and what they say, place by place."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._entries: tuple[LedgerEntry, ...] = ()
        self._said: tuple[Held | None, ...] = ()
        self._held: tuple[Held, ...] = ()

    def of(self, entries: tuple[LedgerEntry, ...]) -> tuple[Held, ...]:
        """The same object again while the entries are the same."""
        if entries != self._entries:
            # By identity: the entries of before live on in this object.
            known = {id(e): said for e, said in zip(self._entries, self._said, strict=True)}
            self._said = tuple(
                known[id(each)] if id(each) in known else self._read(each) for each in entries
            )
            self._entries = entries
            self._held = self._folded()
        return self._held

    def _read(self, entry: LedgerEntry) -> Held | None:
        """None where its texts cannot be read."""
        routes = self._routes
        baseline, ours = routes.value(entry, entry.baseline), routes.value(entry, entry.ours)
        if isinstance(baseline, Gap) or isinstance(ours, Gap):
            return None
        return Held(entry.ref, entry.knob, baseline, ours, entry.since)

    def _folded(self) -> tuple[Held, ...]:
        """One that a unit and its file both carry is the unit's."""
        found: dict[tuple[int, str], Held] = {}
        pairs = list(zip(self._entries, self._said, strict=True))
        files = [said for entry, said in pairs if entry.route == FILE_ROUTE]
        units = [said for entry, said in pairs if entry.route != FILE_ROUTE]
        for said in (*files, *units):
            if said is not None:
                found[said.ref.id, said.knob] = said
        return tuple(found.values())
