"""The cluster's status, made anew only when something of it changed, or time could."""

import datetime as dt
import threading
from collections.abc import Callable

import msgspec

from slackwater.status.cluster_status import ClusterFacts, ClusterStatus, cluster_status
from slackwater.status.cluster_watch import WatchedFacts
from slackwater.ui.sources import ClusterSnapshot, NotAvailableError

#: Seconds. Even where nothing is written, a report grows stale and a lease runs out.
_LONGEST = 5.0
_NOT_LISTED = "the cluster's nodes are being listed"


class ClusterMemory:
    """Guards the last status and its version."""

    def __init__(
        self,
        look: Callable[[], WatchedFacts],
        now: Callable[[], dt.datetime],
    ) -> None:
        self._look = look
        self._now = now
        self._lock = threading.Lock()
        self._facts: ClusterFacts | None = None
        self._made_at: dt.datetime | None = None
        self._snapshot: ClusterSnapshot | None = None

    def look(self) -> ClusterSnapshot:
        """Raises NotAvailableError before the nodes were listed."""
        with self._lock:
            found, now = self._look(), self._now()
            if found.facts is None:
                raise NotAvailableError(found.lost or _NOT_LISTED)
            before = self._snapshot
            if before and before.lost == found.lost and self._still_holds(found.facts, now):
                return before
            status = cluster_status(found.facts, now)
            self._facts, self._made_at = found.facts, now
            if before and before.lost == found.lost and _same(before.status, status):
                return before
            version = before.version + 1 if before else 1
            self._snapshot = ClusterSnapshot(version, status, found.lost)
            return self._snapshot

    def _still_holds(self, facts: ClusterFacts, now: dt.datetime) -> bool:
        before, made = self._facts, self._made_at
        if before is None or made is None or (now - made).total_seconds() >= _LONGEST:
            return False
        return _identities(before) == _identities(facts)


def _identities(facts: ClusterFacts) -> tuple[object, ...]:
    """Objects that did not change are the same ones."""
    return (
        tuple(map(id, facts.nodes)),
        tuple(map(id, facts.pods)) if isinstance(facts.pods, tuple) else facts.pods,
        tuple(map(id, facts.policies)),
        facts.missing,
        facts.unseen,
        facts.lease,
    )


def _same(one: ClusterStatus, other: ClusterStatus) -> bool:
    return msgspec.structs.replace(one, at=other.at) == other
