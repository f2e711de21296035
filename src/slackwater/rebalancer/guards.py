"""Checks that may forbid a rotation that would otherwise be worth it.

Every check gives a result with the numbers it is based on, also if it passes. Pure: budgets and
Kafka lag are read elsewhere. The disruption budget check looks ahead only; the API server decides
at each eviction.
"""

from collections.abc import Sequence

import msgspec

from slackwater.model.gap import Gap
from slackwater.model.units import Micros, format_duration
from slackwater.rebalancer.last_rotation import pause_after, removal_command
from slackwater.rebalancer.observed import (
    Budget,
    Lag,
    LastRotation,
    NoAutoscaler,
    ObservedWorkload,
    PodUsage,
    Scaling,
    WorkloadName,
    WorkloadUsage,
)
from slackwater.rebalancer.reason import Reason, counted
from slackwater.rebalancer.selection import Proposal, batch_size, measure_capacity
from slackwater.settings.rebalancer import KafkaSettings, LagMode, LagSum, MoveSettings

_MICROS = 1_000_000
#: A rotation that is farther ahead than this and than the pause is a wrong annotation.
_CLOCKS_APART = 60 * _MICROS
BUDGET_GUARD = "disruption_budget"
LAG_GUARD = "kafka_lag"
#: Consumers are usually named like their pod, and a Deployment's new pod has a new name (KIP-345).
_KEEPS_NAMES = "StatefulSet"


class GuardVerdict(msgspec.Struct, frozen=True):
    """`because` is a sentence with the numbers. `passed` is None if it cannot be determined, which
    happens only if something else forbids the rotation already."""

    guard: str
    passed: bool | None
    because: str


class GuardResult(GuardVerdict, frozen=True):
    """`reason` is set if it forbids the rotation."""

    reason: Reason | None = None


def check_guards(
    proposal: Proposal,
    measured: WorkloadUsage,
    observed: ObservedWorkload,
    settings: MoveSettings,
    now: float,
) -> tuple[GuardResult, ...]:
    """All that need nothing more than what was read, but for `opted_out`. The first that forbids
    gives the reason."""
    return (
        hpa_scaling(observed),
        rollout(observed.scaling),
        cooldown(observed.last, observed.workload, settings, now),
        *count_guards(proposal, measured, settings),
    )


def count_guards(
    proposal: Proposal, measured: WorkloadUsage, settings: MoveSettings
) -> tuple[GuardResult, ...]:
    """Those that depend on how many pods go."""
    return (minimum_pods(proposal, measured, settings), capacity(proposal, measured, settings))


def opted_out(observed: ObservedWorkload) -> GuardResult:
    if observed.opted_out:
        return GuardResult("opted_out", False, observed.opted_out, Reason.OPTED_OUT)
    return GuardResult("opted_out", True, "no annotation of the workload forbids it")


def hpa_scaling(observed: ObservedWorkload) -> GuardResult:
    """Scaling replaces pods and moves load anyway."""
    if isinstance(observed.hpa_target, NoAutoscaler):
        return GuardResult("hpa_scaling", None, "not known: no HPA")
    wanted, there = observed.scaling.desired, observed.scaling.current
    if wanted != there:
        text = f"the HPA scales from {there} to {counted(wanted, 'pod')}"
        return GuardResult("hpa_scaling", False, text, Reason.HPA_SCALING)
    are = "is" if there == 1 else "are"
    text = f"the HPA wants {counted(wanted, 'pod')}, and there {are} {there}"
    return GuardResult("hpa_scaling", True, text)


def rollout(scaling: Scaling) -> GuardResult:
    if scaling.rollout:
        return GuardResult("rollout", False, scaling.rollout, Reason.ROLLOUT_IN_PROGRESS)
    return GuardResult("rollout", True, "no rollout is in flight")


def cooldown(
    last: LastRotation | Gap | None, workload: WorkloadName, settings: MoveSettings, now: float
) -> GuardResult:
    """Until a window has passed, usage still includes pods that are gone."""
    if last is None:
        return GuardResult("cooldown", True, "it was not rotated before")
    if isinstance(last, Gap):
        text = f"the time of the last rotation cannot be read: {last.reason}"
        return GuardResult("cooldown", False, text, Reason.COOLDOWN_UNKNOWN)
    pause = pause_after(last, settings)
    passed = round((now - last.at) * _MICROS) >= pause
    text = f"last rotated {_ago(now - last.at)}, the pause is {format_duration(pause)}"
    if pause != settings.pause:
        text += f" after {last.misses} rotations in a row that brought too little"
    if (last.at - now) * _MICROS > max(pause, _CLOCKS_APART):
        # A mistyped year would forbid rotations for years.
        text += f", which cannot be; remove it: {removal_command(workload)}"
        return GuardResult("cooldown", False, text, Reason.COOLDOWN_UNKNOWN)
    return GuardResult("cooldown", passed, text, None if passed else Reason.COOLDOWN)


def minimum_pods(
    proposal: Proposal, measured: WorkloadUsage, settings: MoveSettings
) -> GuardResult:
    """Counts like the original rebalancer: all pods to rotate at once, although they go in batches.
    Only Ready pods count; a hot pod may be none."""
    going = {pod.name for pod in proposal.rotate}
    ready = sum(pod.serves for pod in measured.pods)
    left = sum(pod.serves and pod.name not in going for pod in measured.pods)
    least = settings.minimum_pods
    if not proposal.rotate:
        are = "is" if ready == 1 else "are"
        text = f"{counted(ready, 'pod')} {are} Ready, and none is to go"
        return GuardResult("minimum_pods", True, text)
    if left < least:
        text = f"deletion would leave {left} pods, minimum required is {least}"
        return GuardResult("minimum_pods", False, text, Reason.MIN_PODS)
    text = f"{left} of {ready} Ready pods stay, minimum required is {least}"
    return GuardResult("minimum_pods", True, text)


def capacity(proposal: Proposal, measured: WorkloadUsage, settings: MoveSettings) -> GuardResult:
    """Whether the pods that stay can carry the load of at least one that is away."""
    if not proposal.rotate:
        return GuardResult("capacity", True, "no pod is to go")
    found = measure_capacity(proposal, measured, settings)
    size = batch_size(found, proposal, settings)
    if size == 0:
        left = max(found.carriers - 1, 0)
        stay = "stays" if left == 1 else "stay"
        text = (
            f"{found.load:.2f} cores on the {counted(left, 'pod')} that {stay} "
            f"are more than the {found.most:.2f} that each can carry ({found.because})"
        )
        return GuardResult("capacity", False, text, Reason.CAPACITY_GUARD)
    text = (
        f"with {size} away at once the other {found.carriers - size} carry "
        f"{found.each(size):.2f} cores each, at most {found.most:.2f} ({found.because})"
    )
    return GuardResult("capacity", True, text)


def budget_guard(
    budgets: tuple[Budget, ...] | Gap, batches: Sequence[Sequence[PodUsage]]
) -> GuardResult:
    """Forbids if no pod could be evicted, and if the API server could not evict one of them."""
    if isinstance(budgets, Gap):
        text = f"not known beforehand, each eviction will tell: {budgets.reason}"
        return GuardResult(BUDGET_GUARD, True, text)
    going = [pod for batch in batches for pod in batch]
    held = {pod.name: [each for each in budgets if pod.name in each.pods] for pod in going}
    for pod, over in held.items():
        if len(over) > 1:
            # eviction.go: "This pod has more than one PodDisruptionBudget".
            names = ", ".join(each.name for each in over)
            text = f"{pod} has several disruption budgets ({names}) and cannot be evicted with them"
            return GuardResult(BUDGET_GUARD, False, text, Reason.KUBERNETES_ERROR)
    concerned = [each for each in budgets if any(each in over for over in held.values())]
    if not concerned:
        return GuardResult(BUDGET_GUARD, True, "none covers these pods")
    text = ", ".join(
        f"PodDisruptionBudget {each.name} lets {counted(each.allowed, 'more pod')} go now"
        for each in concerned
    )
    if all(any(each.allowed == 0 for each in over) for over in held.values()):
        return GuardResult(BUDGET_GUARD, False, text, Reason.PDB_BLOCKED)
    if any(_exceeds(batch, each) for each in concerned for batch in batches):
        text += "; a batch has more of its pods, so the rest waits for another run"
    return GuardResult(BUDGET_GUARD, True, text)


def _exceeds(batch: Sequence[PodUsage], budget: Budget) -> bool:
    """A budget recovers between batches, as pods are replaced, but not within one."""
    return sum(pod.name in budget.pods for pod in batch) > budget.allowed


def lag_guard(lag: Lag | Gap, settings: KafkaSettings, group: str, kind: str = "") -> GuardResult:
    """A rotation makes the consumer group rebalance, and nothing is consumed meanwhile: a group
    that is far behind is left alone, and one whose lag is not known too. `kind`: of the
    workload."""
    topic = f" on topic {settings.topic}" if settings.topic else ""
    whose = f"consumer group {group}{topic}"
    if isinstance(lag, Gap):
        because = f"the lag of {whose} is not known: {lag.reason}"
        return GuardResult(LAG_GUARD, False, because, Reason.KAFKA_LAG_UNKNOWN)
    if lag.unsettled:
        because = f"{whose} is not settled: {lag.unsettled} ({lag.source})"
        return GuardResult(LAG_GUARD, False, because, Reason.KAFKA_REBALANCING)
    if lag.static_members and kind == _KEEPS_NAMES:
        because = (
            f"{whose} has {counted(lag.static_members, 'static member')} ({lag.source}): a pod of "
            "a StatefulSet comes back under its name and gets the same partitions, so nothing "
            "would move"
        )
        return GuardResult(LAG_GUARD, False, because, Reason.KAFKA_STATIC_MEMBERS)
    above = lag.messages > settings.threshold
    relation = "above" if above else "not above"
    where = " in one partition" if settings.aggregate is LagSum.MAX else ""
    because = (
        f"{whose} is {counted(lag.messages, 'message')} behind{where}, {relation} "
        f"{settings.threshold} ({lag.source})"
    )
    return _judge_lag(above, settings.mode, because)


def _judge_lag(above: bool, mode: LagMode, because: str) -> GuardResult:
    if mode is LagMode.BLOCK_ABOVE and above:
        return GuardResult(LAG_GUARD, False, because, Reason.KAFKA_LAG_HIGH)
    if mode is LagMode.REQUIRE_ABOVE and not above:
        return GuardResult(LAG_GUARD, False, because, Reason.KAFKA_LAG_LOW)
    return GuardResult(LAG_GUARD, True, because)


def _ago(seconds: float) -> str:
    """Clocks that differ put a rotation into the future; it cools down all the same."""
    span = format_duration(Micros(round(abs(seconds)) * _MICROS))
    return f"{span} ago" if seconds >= 0 else f"{span} ahead of this clock"
