"""Changes of knobs, and their outcomes."""

import enum

import msgspec

from slackwater.model.cgroup import CgroupRef
from slackwater.model.knob import Knob, KnobValue
from slackwater.model.units import Micros


class Change(msgspec.Struct, frozen=True):
    """One knob of one cgroup from what was read to what is granted."""

    ref: CgroupRef
    knob: Knob
    old: KnobValue
    new: KnobValue


class Result(enum.Enum):
    """How an attempt to change something ended."""

    APPLIED = "applied"
    UNCHANGED = "unchanged"  # it already stood there; nothing was written
    VANISHED = "vanished"  # the target is gone, or another one stands in its place
    REFUSED = "refused"  # not now: recompute from the next reading
    PLANNED = "planned"  # a dry run: it would have been written
    UNSUPPORTED = "unsupported"  # not here: said once for each knob and level


class Outcome(msgspec.Struct, frozen=True):
    """What became of one change. `detail` is one clause for people."""

    change: Change
    result: Result
    detail: str = ""
    took: Micros = Micros(0)
