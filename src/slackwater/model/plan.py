"""Changes of knobs and commands, their outcomes, and the ledger's entries about them."""

import enum
from collections.abc import Iterable, Mapping

import msgspec

from slackwater.model.cgroup import CgroupRef
from slackwater.model.decision import Command
from slackwater.model.gap import Gap
from slackwater.model.knob import Knob, KnobValue
from slackwater.model.units import Bandwidth, Micros


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


def follow_refusals(
    known: Mapping[int, str], outcomes: Iterable[Outcome], knob: Knob
) -> dict[int, str]:
    """By cgroup id, why the last attempt to write this knob failed. What is refused is planned in
    each tick again, so it is over with the first attempt that does not fail."""
    found = dict(known)
    for outcome in outcomes:
        if outcome.change.knob == knob:
            found.pop(outcome.change.ref.id, None)
            if outcome.result is Result.REFUSED:
                found[outcome.change.ref.id] = outcome.detail
    return found


class CommandState(enum.Enum):
    """How far a command is."""

    QUEUED = "queued"  # not sent yet, or its answer was lost: it may have been carried out
    DONE = "done"  # the API server took it; of an eviction the pod may still be there
    REFUSED = "refused"  # not now, such as a PodDisruptionBudget's 429: tried again, with back-off
    IMPOSSIBLE = "impossible"  # nobody can carry it out here


class CommandProgress(msgspec.Struct, frozen=True, omit_defaults=True):
    """A command that was taken up, since when, and why it is where it is. An eviction is in flight
    until its pod is gone, and its expected relief counts meanwhile."""

    command: Command
    state: CommandState
    since: Micros
    detail: str = ""
    #: When a refused one is tried again.
    retry_at: Micros = Micros(0)

    def counts_as_relief(self) -> bool:
        """Refused is not released."""
        return self.state in (CommandState.QUEUED, CommandState.DONE)


class CommandOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """A command that got somewhere else, and why. `undone`: a taint or a condition was removed, as
    nobody asks for it any more. `before` is what the Node had instead; empty where that is nothing
    or the command is no state."""

    command: Command
    state: CommandState
    at: Micros
    detail: str = ""
    undone: bool = False
    before: str = ""


#: The route of a knob that is written as a kernel file.
FILE_ROUTE = "file"
#: The route of a knob that systemd sets for us: this, and the unit's name.
UNIT_ROUTE = "unit:"


class LedgerEntry(msgspec.Struct, frozen=True):
    """One knob of one cgroup by one route, as noted before it was written.

    The texts are the route's own: the kernel's for a file, properties for a unit. `before` is
    what stood there when `ours` was noted: after a kill between the note and the write it still
    does. `since` is when the knob was first touched.
    """

    ref: CgroupRef
    knob: str
    route: str
    baseline: str
    before: str
    ours: str
    since: Micros

    def key(self) -> tuple[int, str, str]:
        return self.ref.id, self.knob, self.route


class StartNote(msgspec.Struct, frozen=True):
    """A quota that a container runtime was told to start a container with, or to update it to, in
    place of the one that the kubelet asked for. Its cgroup need not be there yet: `path` is where
    it will be. `at` is when the runtime was told."""

    path: str
    asked: Bandwidth
    told: Bandwidth
    at: Micros


class Ownership(enum.Enum):
    """What a noted knob reads now."""

    OURS = "ours"  # what we noted last, what it was to replace, or something on the way
    BASELINE = "baseline"
    DRIFT = "drift"  # neither: somebody else wrote
    UNREAD = "unread"


class Adopted(msgspec.Struct, frozen=True):
    """A noted knob whose cgroup still lives."""

    entry: LedgerEntry
    ownership: Ownership
    reading: KnobValue | Gap


class Adoption(msgspec.Struct, frozen=True):
    """What a start makes of an earlier run's ledger."""

    live: tuple[Adopted, ...]
    #: Entries whose cgroup is gone, or replaced by another at the same path.
    dropped: tuple[LedgerEntry, ...]
