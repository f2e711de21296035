"""How many evictions are asked for, and when: budgets by tick and by minute, a settle time, and
none while the pods are not known well enough.

Evictions that bring nothing, because the load is from elsewhere or the pods' replacements come back
to the node, are repeated after twice the settle time, then four times, up to a limit. One that
brings at least half of what was expected ends that.
"""

from collections.abc import Mapping, Sequence

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
    """`settle` is how long to wait after an eviction, and after a pod is gone; while evictions
    bring nothing up to `longest_factor` times as long."""

    per_tick: int
    per_minute: int
    settle: Micros
    longest_factor: int = 1


class EvictionTrial(msgspec.Struct, frozen=True):
    """What a metric was when pods were evicted because of it, and how much less was expected, both
    in its own unit. Nobody knows the latter of a metric that cannot be counted: 0."""

    used: float
    expected: float

    def helped(self, used: float | None) -> bool:
        """None of a metric that is not above its value any more."""
        return used is None or used < self.used - self.expected / 2


class EvictionMemory(msgspec.Struct, frozen=True, omit_defaults=True):
    """When evictions of the last minute were asked for; the pods whose eviction the server took and
    that were still there when last looked at; when something about them last changed; whether any
    of them went since pods were last chosen; what those were chosen for, by the metric's title; and
    how many times the settle time is waited for."""

    asked: tuple[Micros, ...] = ()
    in_flight: tuple[str, ...] = ()
    moved_at: Micros | None = None
    has_gone: bool = False
    trials: dict[str, EvictionTrial] = {}
    factor: int = 1

    def waits_for(self) -> bool:
        """Whether it is not yet known what the last ones brought."""
        return bool(self.in_flight or self.asked or self.trials)


def evictions_in_flight(snapshot: NodeSnapshot) -> tuple[CommandProgress, ...]:
    return tuple(each for each in snapshot.in_flight if each.command.kind is CommandKind.EVICT)


def relief_in_flight(progress: Sequence[CommandProgress], key: MetricKey) -> float:
    """In the metric's unit. What was refused releases nothing."""
    title = key.title()
    return sum(each.command.relief.get(title, 0.0) for each in progress if each.counts_as_relief())


def note_in_flight(
    memory: EvictionMemory, progress: Sequence[CommandProgress], at: Micros
) -> EvictionMemory:
    """A settle time begins when the server took an eviction, which may be long after it was asked
    for, and when a pod is gone: usage is measured over an interval."""
    now = tuple(sorted(each.command.uid for each in progress if each.state is CommandState.DONE))
    asked = tuple(each for each in memory.asked if at - each < _MINUTE)
    if now == memory.in_flight and asked == memory.asked:
        return memory
    gone = set(memory.in_flight).difference(now)
    return msgspec.structs.replace(
        memory,
        asked=asked,
        in_flight=now,
        moved_at=memory.moved_at if now == memory.in_flight else at,
        has_gone=memory.has_gone or bool(gone),
    )


def judge_evictions(
    memory: EvictionMemory, used: Mapping[str, float], budget: EvictionBudget, at: Micros
) -> EvictionMemory:
    """After the settle time: whether the last evictions brought anything. `used` has the metrics
    that are still above their value, by their titles."""
    settled = memory.moved_at is not None and at - memory.moved_at >= budget.settle
    if not memory.trials or memory.in_flight or not settled:
        return memory
    factor = memory.factor
    if memory.has_gone:
        in_vain = not any(trial.helped(used.get(name)) for name, trial in memory.trials.items())
        factor = min(2 * factor, budget.longest_factor) if in_vain else 1
    return msgspec.structs.replace(memory, trials={}, has_gone=False, factor=factor)


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
        if each.state is CommandState.QUEUED:
            return "an eviction is on its way"
    wait = Micros(budget.settle * memory.factor)
    if memory.moved_at is not None and snapshot.at - memory.moved_at < wait:
        if memory.factor > 1:
            return f"waits {format_age(wait)} after the last eviction: it brought nothing"
        return "waits to see what the last eviction brought"
    if len(memory.asked) >= budget.per_minute:
        return f"{budget.per_minute} evictions in a minute are the most"
    return "" if budget.per_tick else "no evictions in a tick are allowed"


def admit_evictions(
    wanted: Sequence[Command],
    used: Mapping[str, float],
    memory: EvictionMemory,
    budget: EvictionBudget,
    at: Micros,
) -> tuple[tuple[Command, ...], EvictionMemory]:
    """The first of them, as many as the budgets leave. `used` has the metrics that they are for, by
    their titles."""
    room = min(budget.per_tick, budget.per_minute - len(memory.asked))
    admitted = tuple(wanted[: max(room, 0)])
    if not admitted:
        return (), memory
    trials = {
        name: EvictionTrial(value, sum(each.relief.get(name, 0.0) for each in admitted))
        for name, value in used.items()
    }
    asked = (*memory.asked, *(at for _ in admitted))
    return admitted, msgspec.structs.replace(memory, asked=asked, moved_at=at, trials=trials)
