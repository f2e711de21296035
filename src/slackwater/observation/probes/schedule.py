"""Whose turn it is to be asked. Knows no threads and no clock: `now` is an argument.

Each target is asked once in its period, never twice at a time. One that failed is asked less and
less often, and only some of those who ask at the same time ask such ones: whoever hangs keeps
nobody else waiting.
"""

from collections.abc import Iterable

import msgspec

from slackwater.model.gap import Gap
from slackwater.model.units import Micros, percent
from slackwater.model.workload import Workload
from slackwater.observation.probes.answers import Answer, Asker

#: How many may be asked at a time, and how many of them that failed last time.
MOST_AT_A_TIME = 4
MOST_FAILING = 2
#: How much less often one that fails is asked, at the most.
_LONGEST_PAUSE = 8
#: How long before the tick targets are asked, as a part of the period.
_FRESH = percent(25)


class Target:
    """One address, query or file: who asks it, when, and what came of it. `pod` is whose it is."""

    def __init__(self, asker: Asker | Gap, pod: Workload | None = None) -> None:
        self.asker = asker
        self.pod = pod
        self.due = Micros(0)
        self.failures = 0
        self.in_flight = False
        self.began = Micros(0)
        #: How long the last answer took.
        self.took = Micros(0)
        self.answer: Answer | None = None
        self.failure = asker if isinstance(asker, Gap) else None


class Turn(msgspec.Struct, frozen=True):
    """Who is asked now; or else when to look again, None being once something has changed."""

    target: Target | None = None
    again: Micros | None = None


def choose_next(targets: Iterable[Target], now: Micros) -> Turn:
    """Of those that are due the one that has waited longest, those that failed last time last."""
    targets = tuple(targets)
    flying = [each for each in targets if each.in_flight]
    room_for_failing = sum(each.failures > 0 for each in flying) < MOST_FAILING
    waiting = [
        each
        for each in targets
        if not each.in_flight
        and not isinstance(each.asker, Gap)
        and (room_for_failing or not each.failures)
    ]
    if not waiting or len(flying) >= MOST_AT_A_TIME:
        return Turn()
    due = [each for each in waiting if each.due <= now]
    if due:
        return Turn(min(due, key=lambda each: (each.failures > 0, each.due)))
    return Turn(again=min(each.due for each in waiting))


def begin(target: Target, now: Micros) -> None:
    target.in_flight, target.began = True, now


def end(target: Target, found: Answer | Gap, now: Micros, period: Micros) -> None:
    """The next turn is a period after this one began, or more where it failed again. The first turn
    is when the tick asks; the others come shortly before it does, so that it sees a fresh answer
    and not one that is a whole period old."""
    target.in_flight = False
    first = target.answer is None and not isinstance(found, Gap)
    early = _FRESH.of(period) if first else 0
    target.took = Micros(now - target.began)
    if isinstance(found, Gap):
        target.failure = found
        target.failures = min(target.failures + 1, _LONGEST_PAUSE)
    else:
        target.answer, target.failure, target.failures = found, None, 0
    pause = min(2 ** max(target.failures - 1, 0), _LONGEST_PAUSE)
    target.due = Micros(target.began + period * pause - early)
