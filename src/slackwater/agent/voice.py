"""What is told at once, and what need not be told again.

Owns the memory of what was said: an effect is told each time, a state when it changes.
"""

from collections.abc import Callable, Iterable

from slackwater.model.plan import Result
from slackwater.model.story import Course, Story
from slackwater.model.units import Micros
from slackwater.record.journal import Entry

Tell = Callable[[Entry], None]


class Voice:
    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._told: dict[str, str] = {}
        self._tick = 0

    def tick(self, at: Micros, entries: Iterable[Entry], story: Story) -> None:
        for entry in entries:
            self._tick = entry.tick
            self.effect(entry)
        for line in story.told:
            why = f"{line.course.value}: {line.reason}" if line.course is not Course.ACTED else ""
            self.state(line.policy, why, at)

    def effect(self, entry: Entry) -> None:
        """An effect is told each time; one that fails again for the same reason is not, nor is
        one that a dry run would make again."""
        repeated = "" if entry.result in ("", Result.APPLIED.value) else entry.result
        if entry.result.startswith(Result.PLANNED.value):
            repeated = f"{entry.result} {entry.after}"
        if repeated and self._told.get(entry.what) == repeated:
            return
        self._told[entry.what] = repeated
        self._tell(entry)

    def state(self, about: str, text: str, at: Micros) -> None:
        """A state is told when it changes, its end too; not at every tick."""
        if self._told.get(about, "") == text:
            return
        self._told[about] = text
        self._tell(Entry(self._tick, at, about, because=text or "all is well again"))
