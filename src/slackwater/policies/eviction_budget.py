"""How many evictions are asked for, and when: budgets by tick and by minute, a settle time, and
none while the pods are not known well enough.
"""

from collections.abc import Sequence

import msgspec

from slackwater.model.decision import Command, CommandKind
from slackwater.model.metric import MetricKey
from slackwater.model.plan import CommandProgress, CommandState
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Micros, format_age

_MINUTE = 60_000_000
#: A stream that works is heard about once a minute.
_OLDEST_PODS = Micros(3 * _MINUTE)
#: Of one that does not: an ordinary reconnection takes less.
_OLDEST_PODS_UNHEARD = Micros(15_000_000)
#: The source of pods in a snapshot.
_PODS = "pods"


class EvictionBudget(msgspec.Struct, frozen=True):
    """`settle` is how long to wait after an eviction, and after a pod is gone."""

    per_tick: int
    per_minute: int
    settle: Micros


class EvictionMemory(msgspec.Struct, frozen=True, omit_defaults=True):
    """When evictions of the last minute were asked for; the pods in flight when last looked at; and
    when something about them last changed."""

    asked: tuple[Micros, ...] = ()
    in_flight: tuple[str, ...] = ()
    moved_at: Micros | None = None


def evictions_in_flight(snapshot: NodeSnapshot) -> tuple[CommandProgress, ...]:
    return tuple(each for each in snapshot.in_flight if each.command.kind is CommandKind.EVICT)


def relief_in_flight(progress: Sequence[CommandProgress], key: MetricKey) -> float:
    """In the metric's unit. What was refused releases nothing."""
    title = key.title()
    return sum(each.command.relief.get(title, 0.0) for each in progress if each.counts_as_relief())


def note_in_flight(
    memory: EvictionMemory, progress: Sequence[CommandProgress], at: Micros
) -> EvictionMemory:
    """A pod that is gone begins a settle time: usage is measured over an interval."""
    now = tuple(sorted(each.command.uid for each in progress if each.counts_as_relief()))
    gone = set(memory.in_flight).difference(now)
    asked = tuple(each for each in memory.asked if at - each < _MINUTE)
    if now == memory.in_flight and asked == memory.asked:
        return memory
    return EvictionMemory(asked, now, at if gone else memory.moved_at)


def why_no_eviction(
    snapshot: NodeSnapshot,
    memory: EvictionMemory,
    progress: Sequence[CommandProgress],
    budget: EvictionBudget,
) -> str:
    """What forbids any eviction now; empty where nothing does."""
    pods = snapshot.sources.get(_PODS)
    if pods is not None:
        oldest = _OLDEST_PODS_UNHEARD if pods.problem else _OLDEST_PODS
        if pods.age > oldest:
            return f"the pods were last heard of {format_age(pods.age)} ago"
    for each in progress:
        if each.state is CommandState.IMPOSSIBLE:
            return each.detail or "nobody can evict pods here"
    if memory.moved_at is not None and snapshot.at - memory.moved_at < budget.settle:
        return "waits to see what the last eviction brought"
    if len(memory.asked) >= budget.per_minute:
        return f"{budget.per_minute} evictions in a minute are the most"
    return "" if budget.per_tick else "no evictions in a tick are allowed"


def admit_evictions(
    wanted: Sequence[Command], memory: EvictionMemory, budget: EvictionBudget, at: Micros
) -> tuple[tuple[Command, ...], EvictionMemory]:
    """The first of them, as many as the budgets leave."""
    room = min(budget.per_tick, budget.per_minute - len(memory.asked))
    admitted = tuple(wanted[: max(room, 0)])
    if not admitted:
        return (), memory
    asked = (*memory.asked, *(at for _ in admitted))
    return admitted, EvictionMemory(asked, memory.in_flight, at)
