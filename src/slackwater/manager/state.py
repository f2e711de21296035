"""What the manager's loop shows to other threads: its last round, and counts since the start.

A follower is ready: it sees what the leader sees and can take over.
"""

import threading
from collections import Counter
from collections.abc import Mapping

import msgspec

from slackwater.model.units import Micros
from slackwater.runtime.health import HealthState

#: Longer than any round: an API call may take 10 s, and a round makes several.
STALLED_AFTER = Micros(120_000_000)


class KindSummary(msgspec.Struct, frozen=True):
    """One kind: how many objects there are, how many are invalid, and how its watch is doing."""

    kind: str
    objects: int
    invalid: int
    heard_at: Micros
    problem: str = ""
    synced: bool = False


class RoundSummary(msgspec.Struct, frozen=True):
    """How a round ended. `unsynced` are the kinds that were never listed, `problems` all that is
    wrong now."""

    ended: Micros
    leads: bool = False
    leader: str = ""
    reporting: int = 0
    kinds: tuple[KindSummary, ...] = ()
    unsynced: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class ManagerCounts(msgspec.Struct, frozen=True):
    """Since the start. Writes by kind and result."""

    rounds: int = 0
    writes: Mapping[tuple[str, str], int] = {}
    events: int = 0


class ManagerState:
    """Guards what crosses threads: the loop writes it, the HTTP server's threads read it."""

    def __init__(self, started: Micros) -> None:
        self.health = HealthState(started, STALLED_AFTER)
        self._lock = threading.Lock()
        self._last: RoundSummary | None = None
        self._rounds = 0
        self._events = 0
        self._writes: Counter[tuple[str, str]] = Counter()

    @property
    def last_round(self) -> RoundSummary | None:
        """None before the first round."""
        return self._last

    def end_round(self, ended: RoundSummary) -> None:
        with self._lock:
            self._rounds += 1
            self._last = ended
        self.health.beat(ended.ended)

    def count_write(self, kind: str, result: str) -> None:
        with self._lock:
            self._writes[kind, result] += 1

    def count_event(self) -> None:
        with self._lock:
            self._events += 1

    def counts(self) -> ManagerCounts:
        with self._lock:
            return ManagerCounts(self._rounds, dict(self._writes), self._events)


def why_not_ready(state: ManagerState) -> str:
    last = state.last_round
    if last is None:
        return "no round yet"
    return "; ".join(last.unsynced)
