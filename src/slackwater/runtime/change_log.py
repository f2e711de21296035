"""A program's log: each effect is written, a state only when it changes.

Owns the memory of what was written: a condition that lasts is one line, and its end another.
"""

from collections.abc import Callable, Mapping

from slackwater.model.plan import Result
from slackwater.model.units import Micros
from slackwater.record.journal import JournalEntry

#: Takes one entry, from any thread.
EntrySink = Callable[[JournalEntry], None]
#: Results that do not repeat at each tick: a cgroup that vanished does not come back.
_ONCE = ("", Result.APPLIED.value, Result.VANISHED.value)


class ChangeLog:
    def __init__(self, write: EntrySink) -> None:
        #: The round that entries about states belong to.
        self.round = 0
        #: Writes an entry whatever was written before.
        self.write = write
        self._written: dict[str, str] = {}
        self._group: set[str] = set()

    def effect(self, entry: JournalEntry) -> None:
        """Written, unless it failed before for the same reason, or a dry run plans it again."""
        result = entry.result.partition(":")[0]
        repeated = "" if result in _ONCE else entry.result
        if result == Result.PLANNED.value:
            repeated = f"{entry.result} {entry.after}"
        if repeated and self._written.get(entry.what) == repeated:
            return
        self._remember(entry.what, repeated)
        self.write(entry)

    def state(self, about: str, text: str, at: Micros, result: str = "") -> None:
        """Written when the text changes; an empty one is the state's end."""
        if self._written.get(about, "") == text:
            return
        self._remember(about, text)
        self.write(JournalEntry(self.round, at, about, because=text or "recovered", result=result))

    def states(self, now: Mapping[str, str], at: Micros) -> None:
        """A group of states as a whole: those that it had before and has no more have ended."""
        for about in self._group - now.keys():
            self.state(about, "", at)
        for about, text in now.items():
            self.state(about, text, at)
        self._group = set(now)

    def last_state(self, about: str) -> str:
        """The text of a state that has not ended; empty where there is none."""
        return self._written.get(about, "")

    def is_known(self, about: str) -> bool:
        """Whether a state is written that has not ended."""
        return about in self._written

    def _remember(self, about: str, text: str) -> None:
        """Pods come and go: states that ended are forgotten."""
        if text:
            self._written[about] = text
        else:
            self._written.pop(about, None)
