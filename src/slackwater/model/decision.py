"""What policies want, what they are granted, and the report of a tick.

A policy returns a Decision: Act with intents, or Hold with a reason. The resolver folds the
intents that meet at one knob into one Grant, which remembers every contribution in order. The
report says why a tick did what it did, and why it did nothing where it did nothing.
"""

import enum
from collections.abc import Mapping, Sequence
from itertools import compress
from operator import is_, is_not
from typing import TypeVar

import msgspec

from slackwater.model.cgroup import CgroupRef
from slackwater.model.cpus import CpuPolicy, CpuSet
from slackwater.model.units import Micros, MilliCpu, Ratio, Unlimited

#: What a knob is granted: milliCPU for a quota, otherwise the knob's own value.
GrantValue = bool | int | Unlimited | CpuSet
#: What an intent may ask for: the same, or a ratio for SCALE.
IntentValue = GrantValue | Ratio


class Verb(enum.Enum):
    """How an intent takes part: SET for every knob but the quota, all others in the quota law."""

    BASE = "base"  # the pod's own limit, in the units of its spec
    RAISE = "raise"  # on top of the base, in the same units; the largest counts
    SCALE = "scale"  # spec CPU into this machine's CPU
    CAP = "cap"  # physical: never more
    FLOOR = "floor"  # physical: never less, whatever the caps
    SET = "set"  # this value; how several become one is a field of the knob (knob.Fold)


class Because(msgspec.Struct, frozen=True):
    """Why: the signal that was looked at, what it showed, and what it was held against."""

    signal: str
    seen: str
    limit: str


class Intent(msgspec.Struct, frozen=True):
    """What a policy wants of one knob of one cgroup.

    `value` is milliCPU for a quota (a Ratio for SCALE) and otherwise the knob's own: bytes, a
    weight as this cgroup version counts it, microseconds of burst, a set of CPUs, whether the
    group is idle.
    """

    target: CgroupRef
    knob: str
    verb: Verb
    value: IntentValue
    because: Because
    by: str


class CpuClaim(msgspec.Struct, frozen=True, omit_defaults=True):
    """CPUs of its own that a policy wants for one container. Which ones they are is decided for all
    containers together (resolution.placement), and everybody else's set follows from that.

    `pod` is the pod's title and `container` the container's name. `started` is when the pod began,
    in seconds since the epoch: who came first is placed first. `movable` is whether CPUs that it
    has already may be changed for others that are closer together.
    """

    target: CgroupRef
    pod: str
    container: str
    count: int
    policy: CpuPolicy
    because: Because
    by: str
    started: int = 0
    movable: bool = False


class CommandKind(enum.Enum):
    EVICT = "evict"
    TAINT = "taint"
    CONDITION = "condition"
    NODE_RESOURCE = "node resource"


#: Kinds that describe what an object should be: asked for in each tick while that is wanted, and
#: undone when nobody asks any more.
STATES = frozenset({CommandKind.TAINT, CommandKind.CONDITION, CommandKind.NODE_RESOURCE})


class Command(msgspec.Struct, frozen=True, omit_defaults=True):
    """An effect on an object of the API server that a policy asks for. It is carried out off the
    tick, as the network may take its time.

    Taints, conditions and node resources are states: they are asked for in each tick while they
    should be there, and removed when nobody asks any more. An eviction is asked for once. The same
    `key` is the same command. `target` is namespace/name of a pod, the key of a taint, the type of
    a condition, or the name of an extended resource; `value` is a taint's effect, or the amount of
    a resource. `relief` is what is expected of it, by the metric's title, in the metric's unit. An
    eviction that `overrules_exemption` does not ask what the pod says of itself.
    """

    key: str
    kind: CommandKind
    target: str
    because: Because
    by: str
    uid: str = ""
    value: str = ""
    grace_seconds: int | None = None
    relief: dict[str, float] = {}
    overrules_exemption: bool = False

    def title(self) -> str:
        """As the journal and timelines say it: evict batch/job-1, taint interference.crane.io."""
        return f"{self.kind.value} {self.target}"


#: The seed's event: a new quota for best-effort work.
THROTTLE_EVENT = "NodeCPUThrottleEvent"


class Event(msgspec.Struct, frozen=True):
    """Something that the journal and metrics report by name, besides its effects."""

    name: str
    resource: str
    milli: MilliCpu


#: Of clauses in one sentence, however many containers a pod has.
_TOLD_CLAUSES = 3


def join_some(clauses: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    more = len(clauses) - _TOLD_CLAUSES
    told = clauses[:_TOLD_CLAUSES]
    return "; ".join([*told, f"and {more} more"] if more > 0 else told)


#: What a remark is about that is about no single pod.
NODE = "node"


class Remark(msgspec.Struct, frozen=True):
    """One sentence about one pod: why it does not get what it asks for. `about` is its title, or
    NODE."""

    about: str
    text: str


class RuleState(enum.Enum):
    """Where a rule about a metric is."""

    QUIET = "quiet"  # not triggered
    TRIGGERED = "triggered"  # above its value, as often in a row as it asks for
    COOLING = "cooling"  # below again, but the action's cool-down is not over
    RESTORING = "restoring"  # what was done is undone, step by step


class RuleReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """One rule in one tick: what it saw, how far it counted, what it does.

    `policy` is the object's title, NodeQOS/waterline1. `seen` is the largest of the series that
    count, None where there is none: then `held` says why, and the counts stay. `above` and `below`
    are how many measurements in a row were; `until` is when a wait ends. `did` says what is in
    force because of it, `held` what keeps it from doing more, each in a few words. `missing` is why
    its metric is missing, once that has lasted, and `vain` why it can never do anything here, such
    as a limit above the node's size: then the rule protects nobody.
    """

    policy: str
    rule: str
    metric: str
    action: str
    state: RuleState
    limit: float
    seen: float | None = None
    above: int = 0
    below: int = 0
    avoidance_threshold: int = 1
    restore_threshold: int = 1
    preview: bool = False
    since: Micros | None = None
    until: Micros | None = None
    did: str = ""
    held: str = ""
    missing: str = ""
    vain: str = ""


class OfferReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """One extended resource that the node offers, in one tick, and every number behind it.

    All amounts are in `unit`, "m" (milliCPU) or "B" (bytes), but `offered`, `shown` and
    `allocated`: these are as the Node object has them, where 1 is `scale` of that unit.

        unreclaimable = max(used + exclusive_idle - elastic_used, predicted)
        budget        = (allocatable x (1 - reserve) - unreclaimable) x worth, at least 0

    What is measured, and `allocatable`, counts CPUs of this machine. The budget and what follows
    from it are in the unit that pods declare, where such a CPU is `worth` hundredths.
    `claim` is how much of the budget may be offered by now: it rises in steps and falls at once.
    `offered` is the claim in whole units, at least what is allocated to pods. What is not known is
    None, and `missing` says why. `forecast` says where the prediction comes from. `exceeded`
    counts the ticks in which more was used than had been predicted.
    """

    resource: str
    unit: str
    scale: int
    offered: int
    allocated: int
    allocatable: int | None = None
    #: In thousandths of the allocatable amount.
    reserve: int = 0
    worth: int = 100
    used: int | None = None
    exclusive_idle: int = 0
    elastic_used: int = 0
    predicted: int | None = None
    forecast: str = ""
    budget: int | None = None
    claim: int = 0
    #: What the Node shows; None where it does not have the resource.
    shown: int | None = None
    exceeded: int = 0
    missing: str = ""

    def unreclaimable(self) -> int | None:
        """What cannot be sold: the larger of what is used now and what is predicted."""
        now = None
        if self.used is not None:
            now = max(self.used + self.exclusive_idle - self.elastic_used, 0)
        known = [each for each in (now, self.predicted) if each is not None]
        return max(known, default=None)


class Act(msgspec.Struct, frozen=True):
    """These intents stand from now on, in place of the policy's earlier ones. No intents: release.

    `numbers` is every number that went into it, for the story.
    """

    intents: tuple[Intent, ...]
    memory: object = None
    numbers: dict[str, int] = {}
    events: tuple[Event, ...] = ()
    remarks: tuple[Remark, ...] = ()
    commands: tuple[Command, ...] = ()
    rules: tuple[RuleReport, ...] = ()
    offers: tuple[OfferReport, ...] = ()
    #: Not all that it would ask for is known yet, after a start: what an earlier run left stays.
    is_settling: bool = False
    claims: tuple[CpuClaim, ...] = ()


class Hold(msgspec.Struct, frozen=True):
    """The policy lacks something: its standing intents stay, for a bounded time."""

    reason: str
    memory: object = None
    numbers: dict[str, int] = {}


Decision = Act | Hold


class Contribution(msgspec.Struct, frozen=True):
    """One step of a grant: which policy did what, and the value after it; a quota in milliCPU."""

    by: str
    verb: Verb
    value: IntentValue
    after: GrantValue
    because: Because


class Grant(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one knob of one cgroup gets, and how that came about. A quota is in milliCPU.
    `follows` is the path of a group above whose quota binds it, on cgroup v1. `exact` is the
    value of a quota that was scaled, in milliCPU before it was rounded up: what is written is
    rounded once, to a microsecond."""

    target: CgroupRef
    knob: str
    value: GrantValue
    contributions: tuple[Contribution, ...]
    clipped_by: str | None = None
    contest: str | None = None
    follows: str = ""
    exact: Ratio | None = None


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
    rules: tuple[RuleReport, ...] = ()
    offers: tuple[OfferReport, ...] = ()

    def has_nothing_to_do(self) -> bool:
        return self.course is PolicyAction.ACTED and self.reason == NOTHING_TO_DO


class PlacedClaim(msgspec.Struct, frozen=True, omit_defaults=True):
    """A claim and the CPUs that it has; none, and `refused` says why, where it runs on those that
    nobody holds alone. `shared` says who could not be kept off CPUs that it should hold alone."""

    claim: CpuClaim
    cpus: CpuSet = CpuSet()
    refused: str = ""
    shared: str = ""


class CpuPlacement(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who has which CPUs. `common` are those of everybody without a claim: all that no container
    holds alone."""

    common: CpuSet = CpuSet()
    claims: tuple[PlacedClaim, ...] = ()


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
    """`commands` are those that policies ask for in this tick, as far as their budgets allow."""

    told: tuple[PolicyReport, ...] = ()
    grants: tuple[Grant, ...] = ()
    notes: tuple[Note, ...] = ()
    yielded: tuple[Yielded, ...] = ()
    commands: tuple[Command, ...] = ()
    #: None while nobody claims CPUs.
    placement: CpuPlacement | None = None


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
