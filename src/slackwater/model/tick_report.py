"""The report of a tick: what each policy did and why, what was granted, what others wrote."""

import enum
from collections.abc import Mapping
from itertools import compress
from operator import is_, is_not
from typing import TypeVar

import msgspec

from slackwater.model.cgroup import CgroupRef
from slackwater.model.decision import Event, Grant, Remark
from slackwater.model.units import Micros

_Value = TypeVar("_Value")
#: The reason of a policy that acted and asked for nothing.
NOTHING_TO_DO = "nothing to do"


class PolicyAction(enum.Enum):
    """What a policy did in one tick."""

    ACTED = "acted"
    HELD = "held"  # it lacks something: what it asked for before stands
    RELEASED = "released"  # it held for too long: nothing that it asked for stands


class PolicyReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """One policy in one tick, with every number that it looked at. `since` is when a hold began."""

    policy: str
    course: PolicyAction
    reason: str
    numbers: Mapping[str, int]
    since: Micros | None = None
    events: tuple[Event, ...] = ()
    remarks: tuple[Remark, ...] = ()

    def has_nothing_to_do(self) -> bool:
        return self.course is PolicyAction.ACTED and self.reason == NOTHING_TO_DO


class Note(msgspec.Struct, frozen=True):
    """Something that happened to one knob besides our changes."""

    target: CgroupRef
    knob: str
    kind: "NoteKind"
    text: str


class NoteKind(enum.Enum):
    REPAIR = "repair"  # somebody else wrote; written again
    YIELD = "yield"  # somebody else keeps writing; left alone


class Yielded(msgspec.Struct, frozen=True):
    """A knob that is left to another writer for now, whatever is granted."""

    target: CgroupRef
    knob: str
    until: Micros


class TickReport(msgspec.Struct, frozen=True, omit_defaults=True):
    told: tuple[PolicyReport, ...] = ()
    grants: tuple[Grant, ...] = ()
    notes: tuple[Note, ...] = ()
    yielded: tuple[Yielded, ...] = ()


def share_equal(before: tuple[_Value, ...], now: tuple[_Value, ...]) -> tuple[_Value, ...]:
    """`now`, with the objects of `before` where they are equal, place by place. Ticks are kept, and
    most of what one says the one before said too: hundreds of grants that did not move."""
    if before is now or len(before) != len(now):
        return now
    shared = list(now)
    for place in compress(range(len(now)), map(is_not, before, now)):
        if before[place] == now[place]:
            shared[place] = before[place]
    return before if all(map(is_, before, shared)) else tuple(shared)
