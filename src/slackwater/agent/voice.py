"""What is told at once, and what need not be told again.

Owns the memory of what was said: an effect is told each time, a state when it changes.
"""

from collections.abc import Callable, Iterable

from slackwater.model.plan import Result
from slackwater.model.tick_report import PolicyAction, TickReport
from slackwater.model.units import Micros
from slackwater.record.journal import Entry

Tell = Callable[[Entry], None]
#: Results that do not come back at each tick: of a group that is gone nothing more is heard.
_ONCE = ("", Result.APPLIED.value, Result.VANISHED.value)


class Voice:
    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._told: dict[str, str] = {}
        self._tick = 0
        self._remarked: set[str] = set()

    def tick(self, at: Micros, entries: Iterable[Entry], story: TickReport) -> None:
        for entry in entries:
            self._tick = entry.tick
            self.effect(entry)
        for line in story.told:
            why = (
                f"{line.course.value}: {line.reason}"
                if line.course is not PolicyAction.ACTED
                else ""
            )
            self.state(line.policy, why, at)
        self._remarks(
            {
                f"{each.about}: {line.policy}": each.text
                for line in story.told
                for each in line.remarks
            },
            at,
        )

    def _remarks(self, now: dict[str, str], at: Micros) -> None:
        """Told when they begin, and when they end."""
        for about in self._remarked - now.keys():
            self.state(about, "", at)
        for about, text in now.items():
            self.state(about, text, at)
        self._remarked = set(now)

    def effect(self, entry: Entry) -> None:
        """An effect is told each time; one that fails again for the same reason is not, nor is
        one that a dry run would make again."""
        result = entry.result.partition(":")[0]
        repeated = "" if result in _ONCE else entry.result
        if result == Result.PLANNED.value:
            repeated = f"{entry.result} {entry.after}"
        if repeated and self._told.get(entry.what) == repeated:
            return
        self._remember(entry.what, repeated)
        self._tell(entry)

    def state(self, about: str, text: str, at: Micros) -> None:
        """A state is told when it changes, its end too; not at every tick."""
        if self._told.get(about, "") == text:
            return
        self._remember(about, text)
        self._tell(Entry(self._tick, at, about, because=text or "all is well again"))

    def _remember(self, about: str, text: str) -> None:
        """Pods come and go: what is well again, or gone, is not kept."""
        if text:
            self._told[about] = text
        else:
            self._told.pop(about, None)
