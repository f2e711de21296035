"""The resident rebalancer: a round in each interval, of the one replica that leads.

Owns the rhythm. Followers do nothing. Settings are asked for anew before each round. A round that
finds no API server ends with that reason, and the next one comes in its time.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec

from slackwater.model.units import Micros
from slackwater.rebalancer.assessment import KUBERNETES
from slackwater.rebalancer.metrics import RoundMetrics
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.round_result import RoundResult
from slackwater.rebalancer.run import RoundDependencies, RoundMemory, Tell, run_once
from slackwater.rebalancer.standing import Standing
from slackwater.record.journal import Entry
from slackwater.settings.rebalancer import RunSettings

_MICROS = 1_000_000
#: A sign of life, and a look at the lease, at least so often, in seconds.
_FOLLOWING = 60.0
#: And so often while nobody is known to lead: the election tries every two seconds, and does not
#: wake us for what goes wrong.
_SEARCHING = 2.0


class Seat(Protocol):
    """The election, as far as the loop needs it."""

    def leads(self) -> bool: ...

    def leader(self) -> str: ...

    def problem(self) -> str: ...


class Alone:
    """For a dry run, which changes nothing, not even a Lease: there is nothing to agree on."""

    def leads(self) -> bool:
        return True

    def leader(self) -> str:
        return "a dry run"

    def problem(self) -> str:
        return ""


class LoopParts(msgspec.Struct, frozen=True):
    """`parts_of` opens what a round works with, by that round's settings."""

    settings_of: Callable[[], RunSettings]
    parts_of: Callable[[RunSettings], AbstractContextManager[RoundDependencies]]
    seat: Seat
    standing: Standing
    tally: RoundMetrics
    tell: Tell
    clock: Callable[[], float]


class Loop:
    """Guards when the next round is due, and what was told."""

    def __init__(self, parts: LoopParts) -> None:
        self._parts = parts
        self._memory = RoundMemory()
        self._due = 0.0
        self._leading = False
        self._told: dict[str, str] = {}

    def once(self) -> RoundResult | None:
        """A round, where we lead and one is due."""
        parts = self._parts
        leads = self._look_at_the_seat()
        if parts.seat.problem():
            parts.tally.add_error(KUBERNETES)
        if leads and not self._leading:
            self._due = 0.0  # who takes over does not know when the last round was
        self._leading = leads
        if not leads or parts.clock() < self._due:
            return None
        began = parts.clock()
        settings = self._settings()
        with parts.parts_of(settings) as opened:
            result = run_once(opened, settings, self._memory)
        parts.tally.add(result)
        self._due = began + settings.interval / _MICROS
        self._look_at_the_seat()
        return result

    def pause(self) -> float:
        """Seconds until there is something to do, if nobody wakes us."""
        if not self._leading:
            return _FOLLOWING if self._parts.seat.leader() else _SEARCHING
        return min(max(self._due - self._parts.clock(), 0.0), _FOLLOWING)

    def _settings(self) -> RunSettings:
        settings = self._parts.settings_of()
        if isinstance(self._parts.seat, Alone) and not settings.dry_run:
            self._state("settings", "the dry run goes on: it began without a Lease; restart to act")
            return msgspec.structs.replace(settings, dry_run=True)
        return settings

    def _look_at_the_seat(self) -> bool:
        seat = self._parts.seat
        leads, leader, problem = seat.leads(), seat.leader(), seat.problem()
        told = f"the Lease cannot be read or held: {problem}" if problem else ""
        self._parts.standing.seat(leads, leader, told)
        if leader or "leader" in self._told:  # at the start it is only not known yet
            self._state("leader", f"{leader or 'nobody'} leads")
        self._state("lease", told, Reason.KUBERNETES_ERROR.value if problem else "")
        return leads

    def _state(self, about: str, text: str, result: str = "") -> None:
        if self._told.get(about, "") == text:
            return
        self._told[about] = text
        at = Micros(round(self._parts.clock() * _MICROS))
        because = text or "all is well again"
        self._parts.tell(Entry(self._memory.rounds, at, about, because=because, result=result))


def go_round(loop: Loop, wait: Callable[[float], bool]) -> None:
    """Until `wait` says that it is to end."""
    while True:
        loop.once()
        if wait(loop.pause()):
            return
