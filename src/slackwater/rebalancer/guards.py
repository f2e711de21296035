"""What forbids a rotation that would pay: each check answers, also where it lets it pass.

Owns the checks that need no further question to a server. Disruption budgets are the API server's
to say at each eviction; Kafka's lag is a guard of its own module.
"""

from collections.abc import Sequence

from slackwater.model.duration import format_duration
from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.rebalancer.lag import counted
from slackwater.rebalancer.last_rotation import began, judge_rotation, pause_after, removal_command
from slackwater.rebalancer.observed import (
    Budget,
    Lag,
    LastRotation,
    NoAutoscaler,
    ObservedWorkload,
    Scaling,
    WorkloadUsage,
)
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.selection import (
    Candidate,
    GuardResult,
    Proposal,
    batch_size,
    measure_capacity,
)
from slackwater.settings.rebalancer import KafkaSettings, LagMode, LagSum, MoveSettings

LAG_GUARD = "kafka_lag"
#: Consumers are usually called like their pod; a Deployment's new pod has a new name (KIP-345).
_KEEPS_NAMES = "StatefulSet"
_IN_VAIN = (
    "a pod of a StatefulSet comes back under its name and gets the same partitions, so nothing "
    "would move"
)
BUDGET_GUARD = "disruption_budget"
_MICROS = 1_000_000


def check_guards(
    proposal: Proposal,
    measured: WorkloadUsage,
    observed: ObservedWorkload,
    settings: MoveSettings,
    now: float,
) -> tuple[GuardResult, ...]:
    """All of them, in the order in which the first that forbids gives the reason."""
    return (
        opted_out(observed),
        hpa_scaling(observed),
        rollout(observed.scaling),
        cooldown(observed.last, measured, settings, now),
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
    """Whose replicas are about to change gets other pods, and other loads, anyway."""
    if isinstance(observed.hpa_target, NoAutoscaler):
        return GuardResult("hpa_scaling", None, "not known: no HPA")
    wanted, there = observed.scaling.desired, observed.scaling.current
    if wanted != there:
        text = f"the HPA scales from {there} to {_pods(wanted)}"
        return GuardResult("hpa_scaling", False, text, Reason.HPA_SCALING)
    are = "is" if there == 1 else "are"
    return GuardResult(
        "hpa_scaling", True, f"the HPA wants {_pods(wanted)}, and there {are} {there}"
    )


def rollout(scaling: Scaling) -> GuardResult:
    if scaling.rollout:
        return GuardResult("rollout", False, scaling.rollout, Reason.ROLLOUT_IN_PROGRESS)
    return GuardResult("rollout", True, "no rollout is in flight")


def cooldown(
    last: LastRotation | Gap | None, measured: WorkloadUsage, settings: MoveSettings, now: float
) -> GuardResult:
    """The rates of less than a window ago are those of the pods that are gone."""
    if last is None:
        return GuardResult("cooldown", True, "it was not rotated before")
    at = None if isinstance(last, Gap) else began(last)
    if isinstance(last, Gap) or at is None:
        why = last.reason if isinstance(last, Gap) else f"{last.at!r} is no time"
        text = f"the time of the last rotation cannot be read: {why}"
        return GuardResult("cooldown", False, text, Reason.COOLDOWN)
    known = judge_rotation(last, measured, settings, now) or last
    pause = pause_after(known, settings)
    passed = round((now - at) * _MICROS) >= pause
    text = f"last rotated {_ago(now - at)}, the pause is {format_duration(pause)}"
    if pause != settings.pause:
        text += f" after {known.misses} rotations in a row that brought too little"
    if (at - now) * _MICROS > pause:
        # Clocks do not differ by that much: it would forbid for as long as somebody mistyped.
        text += f"; where that is wrong, remove it: {removal_command(measured.workload)}"
    return GuardResult("cooldown", passed, text, None if passed else Reason.COOLDOWN)


def minimum_pods(
    proposal: Proposal, measured: WorkloadUsage, settings: MoveSettings
) -> GuardResult:
    """As the original counts: all that are to go, although batches wait. Only Ready pods count."""
    ready = sum(each.ready and each.running and not each.terminating for each in measured.pods)
    left, least = ready - len(proposal.rotate), settings.minimum_pods
    if not proposal.rotate:
        are = "is" if ready == 1 else "are"
        return GuardResult("minimum_pods", True, f"{_pods(ready)} {are} Ready, and none is to go")
    if left < least:
        text = f"deletion would leave {left} pods, minimum required is {least}"
        return GuardResult("minimum_pods", False, text, Reason.MIN_PODS)
    text = f"{left} of {ready} Ready pods stay, minimum required is {least}"
    return GuardResult("minimum_pods", True, text)


def capacity(proposal: Proposal, measured: WorkloadUsage, settings: MoveSettings) -> GuardResult:
    """Whether those that stay can carry the load of at least one that is away."""
    if not proposal.rotate:
        return GuardResult("capacity", True, "no pod is to go")
    room = measure_capacity(proposal, measured, settings)
    size = batch_size(room, proposal, settings)
    if size == 0:
        left = max(room.carriers - 1, 0)
        text = (
            f"{room.load:.2f} cores on the {_pods(left)} that {'stays' if left == 1 else 'stay'} "
            f"are more than the {room.most:.2f} that each can carry ({room.because})"
        )
        return GuardResult("capacity", False, text, Reason.CAPACITY_GUARD)
    text = (
        f"with {size} away at once the other {room.carriers - size} carry "
        f"{room.each(size):.2f} cores each, at most {room.most:.2f} ({room.because})"
    )
    return GuardResult("capacity", True, text)


def _pods(count: int) -> str:
    return f"{count} pod" if count == 1 else f"{count} pods"


def _ago(seconds: float) -> str:
    """Clocks that disagree put a rotation into the future; it cools down all the same."""
    span = format_duration(Micros(round(abs(seconds)) * _MICROS))
    return f"{span} ago" if seconds >= 0 else f"{span} ahead of this clock"


def budget_guard(
    budgets: tuple[Budget, ...] | Gap, batches: Sequence[Sequence[Candidate]]
) -> GuardResult:
    """Forbids where nobody could go, and where the API server cannot answer."""
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
    told = ", ".join(f"{each.name} lets {each.allowed} more go now" for each in concerned)
    if all(any(each.allowed == 0 for each in over) for over in held.values()):
        return GuardResult(BUDGET_GUARD, False, told, Reason.PDB_BLOCKED)
    if any(_short(each, batch) for each in concerned for batch in batches):
        told += "; a batch has more of its pods, so the rest waits for another run"
    return GuardResult(BUDGET_GUARD, True, told)


def _short(budget: Budget, batch: Sequence[Candidate]) -> bool:
    """Between batches it recovers, as the pods of the one before are replaced; within one it does
    not."""
    return sum(pod.name in budget.pods for pod in batch) > budget.allowed


def lag_guard(lag: Lag | Gap, settings: KafkaSettings, group: str, kind: str = "") -> GuardResult:
    """What is not known forbids: who is behind would only fall back further. `kind`: of the
    workload."""
    whose = _whose(settings, group)
    if isinstance(lag, Gap):
        because = f"the lag of {whose} is not known: {lag.reason}"
        return GuardResult(LAG_GUARD, False, because, Reason.KAFKA_LAG_UNKNOWN)
    if lag.unsettled:
        because = f"{whose} is not settled: {lag.unsettled} ({lag.source})"
        return GuardResult(LAG_GUARD, False, because, Reason.KAFKA_REBALANCING)
    if lag.static_members and kind == _KEEPS_NAMES:
        because = f"{whose} has {counted(lag.static_members, 'static member')} ({lag.source})"
        return GuardResult(LAG_GUARD, False, f"{because}: {_IN_VAIN}", Reason.KAFKA_STATIC_MEMBERS)
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


def _whose(settings: KafkaSettings, group: str) -> str:
    on = f" on topic {settings.topic}" if settings.topic else ""
    return f"consumer group {group}{on}"
