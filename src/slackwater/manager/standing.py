"""Where the manager stands: what its loop leaves for other threads to read.

Owns the counts, and what "healthy" and "ready" mean. A follower is ready: it sees what the leader
sees and can take over.
"""

import threading
from collections import Counter
from collections.abc import Mapping

import msgspec

from slackwater.model.units import Micros
from slackwater.runtime.health import HealthState

#: The loop ends a round at least this often; an API call of it may take 10 s, and there are some.
STALLED_AFTER = Micros(120_000_000)


class KindStanding(msgspec.Struct, frozen=True):
    """One kind of objects: how many there are, how many are not valid, and how well it is heard."""

    kind: str
    objects: int
    invalid: int
    heard_at: Micros
    problem: str = ""
    synced: bool = False


class Standing(msgspec.Struct, frozen=True):
    """After a round. `waits_for` are the kinds that were never listed, `problems` all that is wrong
    now."""

    ended: Micros
    leads: bool = False
    leader: str = ""
    reporting: int = 0
    kinds: tuple[KindStanding, ...] = ()
    waits_for: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class Counts(msgspec.Struct, frozen=True):
    """Since the start. Writes by kind and result."""

    rounds: int = 0
    writes: Mapping[tuple[str, str], int] = {}
    events: int = 0


class Notice:
    """Guards what crosses threads: the loop writes it, who asks over HTTP reads it."""

    def __init__(self, started: Micros) -> None:
        self.health = HealthState(started, STALLED_AFTER)
        self._lock = threading.Lock()
        self._standing: Standing | None = None
        self._rounds = 0
        self._events = 0
        self._writes: Counter[tuple[str, str]] = Counter()

    @property
    def standing(self) -> Standing | None:
        """None before the first round."""
        return self._standing

    def end_round(self, standing: Standing) -> None:
        with self._lock:
            self._rounds += 1
            self._standing = standing
        self.health.beat(standing.ended)

    def count_write(self, kind: str, result: str) -> None:
        with self._lock:
            self._writes[kind, result] += 1

    def count_event(self) -> None:
        with self._lock:
            self._events += 1

    def counts(self) -> Counts:
        with self._lock:
            return Counts(self._rounds, dict(self._writes), self._events)


def why_not_ready(notice: Notice) -> str:
    standing = notice.standing
    if standing is None:
        return "there was no round yet"
    return "; ".join(standing.waits_for)
