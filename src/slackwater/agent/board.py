"""What the loop shows to other threads, and what they ask of it.

The loop's thread writes; the endpoint's threads read frozen values and leave requests. Nothing
here waits for the loop but who asked it for something.
"""

import threading
from collections.abc import Callable

import msgspec

from slackwater.model.units import Micros
from slackwater.record.journal import Entry, Journal, TickRecord
from slackwater.record.tally import Tally
from slackwater.settings.agent import DEFAULTS, AgentSettings

#: How long after somebody looked at single pods they are still read at each tick.
WATCHED_FOR = Micros(10_000_000)


class Condition(msgspec.Struct, frozen=True):
    """The loop's own state. `ended` is the end of the last round, also of one that saw nothing.
    `problems` are the configuration's. `blind` is why the last round saw nothing."""

    ended: Micros | None = None
    problems: tuple[str, ...] = ()
    blind: str = ""
    paused: str = ""
    settings: AgentSettings = DEFAULTS


class ReleaseDone(msgspec.Struct, frozen=True):
    entries: tuple[Entry, ...]
    #: How many knobs could not be put back.
    left: int


class Board:
    """Guards what crosses threads."""

    def __init__(self, journal: Journal, tally: Tally, wake: Callable[[], None]) -> None:
        self.journal = journal
        self.tally = tally
        self._wake = wake
        self.condition = Condition()
        self._watched_until = Micros(0)
        self._asked = threading.Event()
        self._answered = threading.Event()
        self._answer: ReleaseDone | None = None
        self._one_asker = threading.Lock()

    def show(self, record: TickRecord) -> None:
        self.journal.keep(record)
        self.tally.add(record)

    def watch(self, at: Micros) -> None:
        """Somebody looks at single pods."""
        self._watched_until = Micros(at + WATCHED_FOR)

    def is_watched(self, at: Micros) -> bool:
        return at < self._watched_until

    def ask_release(self, patience: float) -> ReleaseDone | None:
        """From another thread: everything back, at the loop's next round. None: it did not come."""
        with self._one_asker:
            self._answered.clear()
            self._asked.set()
            self._wake()
            return self._answer if self._answered.wait(patience) else None

    def release_is_asked(self) -> bool:
        return self._asked.is_set()

    def answer_release(self, done: ReleaseDone) -> None:
        self._asked.clear()
        self._answer = done
        self._answered.set()
