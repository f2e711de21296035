"""When a knob that was refused is tried again: later and later, up to five minutes, a few a tick.

A refusal is tried again at the next tick, as the plan may be another one by then, and another value
a few times. One that repeats itself costs a note, a write and a line each time, and on cgroup v1 a
memory limit below usage makes the kernel reclaim that pod: so each further one doubles the wait,
and of those that wait only a few are tried in a tick. A change that went through above, below or
beside a knob ends its wait: that may have been what it was refused for.
"""

from collections.abc import Collection, Mapping

import msgspec

from slackwater.model.cgroup import CgroupRef
from slackwater.model.knob import KnobKey, KnobValue
from slackwater.model.plan import Change, Outcome, Result
from slackwater.model.units import Micros

_SECOND = 1_000_000
LONGEST = Micros(300 * _SECOND)
#: systemd may have been away: then all of its units were refused, and all may go through again.
LONGEST_FOR_A_UNIT = Micros(30 * _SECOND)
#: Refusals in a row after which a knob waits; and where each was of another value.
PATIENT_AFTER, PATIENT_AFTER_VALUES = 2, 5
#: How many of them a tick tries: their notes and clearances take up to 1 KiB of the ledger.
MOST_PER_TICK = 2
#: How long after its turn a knob that nobody asks for is remembered.
_FORGOTTEN_AFTER = Micros(600 * _SECOND)


class _Refusal(msgspec.Struct, frozen=True):
    ref: CgroupRef
    value: KnobValue
    times: int
    again_at: Micros

    def waits(self, value: KnobValue | None) -> bool:
        other = value is not None and value != self.value
        return self.times >= (PATIENT_AFTER_VALUES if other else PATIENT_AFTER)


class Refusals:
    """The knobs that were refused, with how often in a row and when it is their turn again."""

    def __init__(self) -> None:
        self._known: dict[KnobKey, _Refusal] = {}
        self._forget_at = Micros(0)

    def __len__(self) -> int:
        return len(self._known)

    def due(self, knobs: Mapping[KnobKey, KnobValue | None], at: Micros) -> set[KnobKey]:
        """Those that may be tried now, of the ones that wait the longest due. By the value that is
        wanted; None is the baseline."""
        if not self._known:
            return set(knobs)
        found: set[KnobKey] = set()
        repeating: list[tuple[Micros, KnobKey]] = []
        for key, value in knobs.items():
            refusal = self._known.get(key)
            if refusal is None or not refusal.waits(value):
                found.add(key)
            elif refusal.again_at <= at:
                repeating.append((refusal.again_at, key))
        repeating.sort(key=lambda each: each[0])
        return found.union(key for _, key in repeating[:MOST_PER_TICK])

    def note(
        self, outcomes: Collection[Outcome], at: Micros, longest: dict[KnobKey, Micros]
    ) -> None:
        """What became of changes; `longest` bounds the wait of those that it names."""
        if not self._known and all(each.result not in _FAILED for each in outcomes):
            return
        applied = []
        for outcome in outcomes:
            key = _key_of(outcome.change)
            if outcome.result in _FAILED:
                times = self._known[key].times + 1 if key in self._known else 1
                wait = min(_SECOND << min(times, 20), longest.get(key, LONGEST))
                again, change = Micros(at + wait), outcome.change
                self._known[key] = _Refusal(change.ref, change.new, times, again)
            else:
                self._known.pop(key, None)
                if outcome.result is Result.APPLIED:
                    applied.append(outcome.change.ref.path)
        self._end_waits(applied)
        self._forget(at)

    def drop(self, group: int) -> None:
        """Its cgroup is gone."""
        for key in [key for key in self._known if key.cgroup == group]:
            del self._known[key]

    def _end_waits(self, applied: Collection[str]) -> None:
        for path in applied:
            for key, refusal in list(self._known.items()):
                if _are_related(refusal.ref.path, path):
                    del self._known[key]

    def _forget(self, at: Micros) -> None:
        """Once in a while those that nobody has asked for since their turn: policies are switched
        off, and pods go."""
        if at < self._forget_at:
            return
        self._forget_at = Micros(at + _FORGOTTEN_AFTER)
        oldest = at - _FORGOTTEN_AFTER
        self._known = {
            key: refusal for key, refusal in self._known.items() if refusal.again_at >= oldest
        }


_FAILED = (Result.REFUSED, Result.UNSUPPORTED)


def _key_of(change: Change) -> KnobKey:
    return KnobKey(change.ref.id, change.knob.name)


def _are_related(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")
