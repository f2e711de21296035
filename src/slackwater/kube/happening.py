"""What happened, counted together while it waits, and how much of it may go out.

Owns the aggregation and the token bucket of the event sender. Knows no server.
"""

import enum
import threading
from collections.abc import Callable

import msgspec


class Severity(enum.Enum):
    NORMAL = "Normal"
    WARNING = "Warning"


class About(msgspec.Struct, frozen=True):
    """The object that an event is about. A Node's uid is its name, as the kubelet has it:
    `kubectl describe node` looks for that."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""


class Happening(msgspec.Struct, frozen=True):
    """`reason` is one word in CamelCase, `message` one sentence."""

    about: About
    reason: str
    message: str
    severity: Severity = Severity.NORMAL

    @property
    def series(self) -> tuple[About, str, Severity]:
        """What counts as the same; the sentence may change, the last one is shown."""
        return self.about, self.reason, self.severity


class Allowance(msgspec.Struct, frozen=True):
    """How much is sent: so many at once, then one in so many seconds. `kinds`: how many series
    may wait, and are remembered."""

    burst: int = 20
    every: float = 5.0
    kinds: int = 512


class Waiting(msgspec.Struct, frozen=True):
    """The last of a series, and how many there were, from when to when (times of day)."""

    happening: Happening
    count: int
    first: float
    last: float

    def joined(self, later: "Waiting") -> "Waiting":
        return Waiting(later.happening, self.count + later.count, self.first, later.last)


class Heap:
    """Guards what waits, the oldest first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._waiting: dict[tuple[About, str, Severity], Waiting] = {}
        self._dropped = 0

    def add(self, happening: Happening, at: float) -> None:
        """Beyond the bound it is lost, and counted."""
        self._merge(Waiting(happening, 1, at, at), lambda old, new: old.joined(new))

    def put_back(self, waiting: Waiting) -> None:
        """It could not be sent; others of its series may have come meanwhile."""
        self._merge(waiting, lambda newer, back: back.joined(newer))

    def oldest(self) -> Waiting:
        with self._lock:
            return self._waiting.pop(next(iter(self._waiting)))

    def is_empty(self) -> bool:
        return not self._waiting

    def dropped(self) -> int:
        return self._dropped

    def _merge(self, one: Waiting, join: Callable[[Waiting, Waiting], Waiting]) -> None:
        series = one.happening.series
        with self._lock:
            there = self._waiting.get(series)
            if there is not None:
                self._waiting[series] = join(there, one)
            elif len(self._waiting) < self._most:
                self._waiting[series] = one
            else:
                self._dropped += one.count


class Bucket:
    """Guards the tokens: `burst` at first, one more in each `every` seconds."""

    def __init__(self, allowance: Allowance, at: float) -> None:
        self._allowance = allowance
        self._tokens = float(allowance.burst)
        self._at = at

    def until_free(self, at: float) -> float:
        """Seconds until a token is there; zero where one is."""
        self._fill(at)
        return 0.0 if self._tokens >= 1.0 else (1.0 - self._tokens) * self._allowance.every

    def spend(self, at: float) -> None:
        self._fill(at)
        self._tokens -= 1.0

    def _fill(self, at: float) -> None:
        gained = (at - self._at) / self._allowance.every
        self._tokens = min(self._tokens + max(gained, 0.0), float(self._allowance.burst))
        self._at = at
