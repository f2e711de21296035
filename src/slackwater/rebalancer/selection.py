"""Selects which pods to rotate, predicts what that brings, and splits them into batches.

The hottest pods above the HPA's target x tolerance are selected together with the coldest ones:
what is replaced together shares its load anew. Pure and deterministic: the order of the pods does
not matter. What forbids a rotation is up to `guards`.
"""

import enum
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from slackwater.model.gap import Gap
from slackwater.model.units import format_duration
from slackwater.rebalancer.observed import (
    Cores,
    HpaTarget,
    HpaTargetKind,
    PercentOf,
    PodUsage,
    WorkloadUsage,
)
from slackwater.rebalancer.reason import Reason
from slackwater.settings.rebalancer import MoveSettings

#: 70 / 100 x 1.5 is 1.0499999999999998: a pod at 1.05 must not be above 1.05 because of that.
_SLACK = 1e-9
_MICROS = 1_000_000
_PAIR = 2


class PodGroup(enum.Enum):
    """The role of a pod in the decision. YOUNG, UNREADY, HELD_BACK and UNKNOWN are not candidates
    for rotation."""

    TOP = "top"
    BOTTOM = "bottom"
    REST = "rest"
    YOUNG = "young"
    UNREADY = "unready"
    HELD_BACK = "held_back"
    UNKNOWN = "unknown"


class Gain(msgspec.Struct, frozen=True):
    """What a rotation is predicted to bring: `average` of the hot pods, `predicted` of hot and cold
    pods together, `improvement` of the first by the second in percent."""

    average: Cores
    predicted: Cores
    improvement: PercentOf


class Numbers(msgspec.Struct, frozen=True):
    """`target`: cores that the HPA wants of each pod; `threshold`: target x tolerance; `request`:
    mean of the pods. `gain` is None if no pod is above the threshold."""

    target: Cores
    threshold: Cores
    request: Cores | None
    gain: Gain | None = None


class Proposal(msgspec.Struct, frozen=True):
    """`rotate`: hottest first, then coldest first; empty if nothing is to be done. `reason` is None
    if a rotation is proposed; `because` is a sentence in either case. `groups`: of every pod, by
    name."""

    rotate: tuple[PodUsage, ...]
    reason: Reason | None
    because: str
    groups: dict[str, PodGroup]
    numbers: Numbers | None = None

    @property
    def hot(self) -> tuple[PodUsage, ...]:
        return tuple(pod for pod in self.rotate if self.groups[pod.name] is PodGroup.TOP)

    @property
    def cold(self) -> tuple[PodUsage, ...]:
        return tuple(pod for pod in self.rotate if self.groups[pod.name] is not PodGroup.TOP)


def propose(measured: WorkloadUsage, settings: MoveSettings) -> Proposal:
    latest_start = _latest_start(measured, settings)
    groups = {pod.name: _initial_group(pod, latest_start) for pod in measured.pods}
    target = measured.hpa_target
    if isinstance(target, Gap):
        return Proposal((), Reason.HPA_TARGET_MISSING, target.reason, groups)
    candidates = [pod for pod in measured.pods if groups[pod.name] is PodGroup.REST]
    if not candidates:
        return _without_candidates(measured, groups, settings)
    request, remark = _mean_request(candidates)
    if isinstance(request, Gap) and target.kind is HpaTargetKind.UTILIZATION:
        return Proposal((), Reason.REQUEST_MISSING, request.reason, groups)
    numbers = _numbers(target, None if isinstance(request, Gap) else request, settings)
    remarks = remark if target.kind is HpaTargetKind.UTILIZATION else ""
    unknown = Counter(groups.values())[PodGroup.UNKNOWN]
    remarks += _lacking(unknown, unknown + len(candidates), "usage")
    return _select(candidates, numbers, groups, settings, remarks)


def _latest_start(measured: WorkloadUsage, settings: MoveSettings) -> float:
    """Pods that started later are too young."""
    return measured.at - settings.youngest / _MICROS if settings.youngest else math.inf


def _initial_group(pod: PodUsage, latest_start: float) -> PodGroup:
    """Why a pod is not a candidate; REST if it is one. A pod that has just started has no usage
    yet, which is not an error: YOUNG takes precedence over UNKNOWN."""
    if not pod.running or pod.terminating:
        return PodGroup.UNREADY
    if pod.held_back:
        return PodGroup.HELD_BACK
    return _group_by_usage(pod, latest_start)


def _group_by_usage(pod: PodUsage, latest_start: float) -> PodGroup:
    if pod.started > latest_start:
        return PodGroup.YOUNG
    return PodGroup.UNKNOWN if isinstance(pod.usage, Gap) else PodGroup.REST


def is_above(value: float, bound: float) -> bool:
    """Strictly above, with differences that come only from floating point taken as equal."""
    return value > bound and not math.isclose(value, bound, rel_tol=_SLACK, abs_tol=_SLACK)


def predict_gain(hot: Sequence[PodUsage], cold: Sequence[PodUsage]) -> Gain:
    """At least one pod must be hot and use something."""
    average = _mean([pod.cores for pod in hot])
    # Rounding must not predict that pods get hotter by being mixed with colder ones.
    predicted = min(_mean([pod.cores for pod in (*hot, *cold)]), average)
    return Gain(average, predicted, PercentOf((average - predicted) / average * 100))


def judge_gain(gain: Gain, settings: MoveSettings) -> tuple[Reason | None, str]:
    """Whether it exceeds the minimum, in the wording of the original rebalancer. Equal does not."""
    least = settings.minimum_improvement
    enough = is_above(gain.improvement, least)
    word = "exceeds" if enough else "below"
    text = f"Improvement {gain.improvement:.1f}% {word} minimum {least:.1f}%"
    return (None if enough else Reason.INSUFFICIENT_IMPROVEMENT), text


def remark_still_hot(gain: Gain, numbers: Numbers) -> str:
    """A remark if the rotation evens out load but leaves it above the threshold; else empty."""
    if not is_above(gain.predicted, numbers.threshold):
        return ""
    return (
        f"; {gain.predicted:.2f} cores on average are still above the threshold "
        f"{numbers.threshold:.2f}, so it takes more pods as well, which is for the HPA"
    )


def _select(
    candidates: list[PodUsage],
    numbers: Numbers,
    groups: dict[str, PodGroup],
    settings: MoveSettings,
    remarks: str,
) -> Proposal:
    ranked = sorted(candidates, key=lambda pod: (-pod.cores, pod.name))
    hot = [pod for pod in ranked[: settings.top_k] if is_above(pod.cores, numbers.threshold)]
    # A pod that is not Ready may be hot, but cannot take load over: it is never selected as cold.
    rest = sorted(ranked[len(hot) :], key=lambda pod: (pod.cores, pod.name))
    cold = [pod for pod in rest if pod.ready][: settings.top_k] if hot else []
    groups |= {pod.name: PodGroup.UNREADY for pod in rest if not pod.ready}
    groups |= {pod.name: PodGroup.TOP for pod in hot}
    groups |= {pod.name: PodGroup.BOTTOM for pod in cold}
    if not hot:
        text = f"No pods exceed tolerance threshold ({settings.tolerance:.1f}x of HPA target)"
        reason = Reason.NO_PODS_ABOVE_TOLERANCE
        return Proposal((), reason, text + remarks, groups, numbers)
    gain = predict_gain(hot, cold)
    insufficient, text = judge_gain(gain, settings)
    rotate = () if insufficient else (*hot, *cold)
    text += "" if insufficient else remark_still_hot(gain, numbers)
    numbers = msgspec.structs.replace(numbers, gain=gain)
    return Proposal(rotate, insufficient, text + remarks, groups, numbers)


def _numbers(target: HpaTarget, request: Cores | None, settings: MoveSettings) -> Numbers:
    """The target is a percentage of the mean request, or cores; threshold = target x tolerance."""
    cores = target.value
    if target.kind is HpaTargetKind.UTILIZATION and request is not None:
        cores = target.value / 100 * request
    return Numbers(Cores(cores), Cores(cores * settings.tolerance), request)


def _mean_request(candidates: list[PodUsage]) -> tuple[Cores | Gap, str]:
    """The mean over the pods that have a request, and a remark if some have none."""
    requests = [pod.request for pod in candidates if not isinstance(pod.request, Gap)]
    if not requests:
        why = _why(pod.request.reason for pod in candidates if isinstance(pod.request, Gap))
        return Gap(f"no pod has a CPU request to take the HPA's percent of: {why}"), ""
    lacking = len(candidates) - len(requests)
    return _mean(requests), _lacking(lacking, len(candidates), "CPU request")


def _lacking(count: int, whole: int, what: str) -> str:
    if not count:
        return ""
    return f"; {count} of {whole} pods {'has' if count == 1 else 'have'} no {what}"


def _why(reasons: Iterable[str]) -> str:
    """The only reason, or the first in alphabetical order as an example."""
    several = sorted(set(reasons))
    return several[0] if len(several) == 1 else f"for example, {several[0]}"


def _without_candidates(
    measured: WorkloadUsage, groups: dict[str, PodGroup], settings: MoveSettings
) -> Proposal:
    """Why there is no candidate at all. Only missing numbers are an error."""
    counts = Counter(groups.values())
    if counts[PodGroup.UNKNOWN]:
        unknown = (pod.usage for pod in measured.pods if groups[pod.name] is PodGroup.UNKNOWN)
        why = _why(usage.reason for usage in unknown if isinstance(usage, Gap))
        text = f"no usage of any pod is known, {counts[PodGroup.UNKNOWN]} asked for: {why}"
        return Proposal((), Reason.NO_USAGE_DATA, text, groups)
    if counts[PodGroup.HELD_BACK]:
        why = _why(pod.held_back for pod in measured.pods if pod.held_back)
        text = f"all pods that could go are held back: {why}"
        return Proposal((), Reason.OPTED_OUT, text, groups)
    if counts[PodGroup.YOUNG]:
        return Proposal((), Reason.PODS_TOO_YOUNG, _too_young(counts, settings), groups)
    none = "none of its pods runs" if measured.pods else "it has no pods"
    text = f"No pods exceed tolerance threshold ({settings.tolerance:.1f}x of HPA target); {none}"
    return Proposal((), Reason.NO_PODS_ABOVE_TOLERANCE, text, groups)


def _too_young(counts: Counter[PodGroup], settings: MoveSettings) -> str:
    young, others = counts[PodGroup.YOUNG], counts[PodGroup.UNREADY]
    age = f"younger than {format_duration(settings.youngest)} (minimumPodAge)"
    if others:
        verb = "is" if young == 1 else "are"
        return f"{young} of {young + others} pods {verb} {age}, and the others do not run"
    return f"the only pod is {age}" if young == 1 else f"all {young} pods are {age}"


def _mean(amounts: Sequence[float]) -> Cores:
    return Cores(math.fsum(amounts) / len(amounts))


class Capacity(msgspec.Struct, frozen=True):
    """`load`: usage of the carriers and of the pods to rotate, in cores. `carriers`: pods that can
    take load over. `most`: what one of them can carry, `because` of what; `bound`: what it should
    carry."""

    load: Cores
    carriers: int
    most: Cores
    bound: Cores
    because: str

    def each(self, away: int) -> Cores:
        """What each of the others carries while so many are away."""
        left = self.carriers - away
        return Cores(self.load / left if left > 0 else math.inf)

    def size(self) -> int:
        """How many pods can be away at once with the others at or below the bound. A pair or a
        single pod may also go if the others can carry it at all; 0 if they cannot."""
        fits = (away for away in range(self.carriers - 1, 0, -1) if self._within(away, self.bound))
        tight = (away for away in (_PAIR, 1) if self._within(away, self.most))
        return max(next(fits, 0), next(tight, 0))

    def _within(self, away: int, bound: Cores) -> bool:
        return not is_above(self.each(away), bound)


def measure_capacity(
    proposal: Proposal, measured: WorkloadUsage, settings: MoveSettings
) -> Capacity:
    """A carrier is Ready and stays for now, as `minimum_pods` counts them. One whose usage is not
    known for the whole window (it is young, or there is no number) takes load over like the others
    and has some already: that of the average, or what is known of it if that is more."""
    latest_start = _latest_start(measured, settings)
    carriers = [pod for pod in measured.pods if pod.serves]
    known = [pod for pod in carriers if _group_by_usage(pod, latest_start) is PodGroup.REST]
    used = [pod.cores for pod in known]
    if not known:
        carriers = []
    average = _mean(used) if used else Cores(0.0)
    sure = {pod.name for pod in known}
    others = [_at_least(pod, average) for pod in carriers if pod.name not in sure]
    names = {pod.name for pod in carriers}
    going = [pod.cores for pod in proposal.rotate if pod.name not in names]
    limits = [pod.limit for pod in carriers if not isinstance(pod.limit, Gap)]
    threshold = proposal.numbers.threshold if proposal.numbers else Cores(0.0)
    most, because = threshold, "the threshold"
    if used and max(used) > threshold:
        most, because = max(used), "what the hottest carries today"
    if limits and len(limits) == len(carriers):
        most, because = min(limits), "their smallest CPU limit"
    load = Cores(math.fsum([*used, *others, *going]))
    return Capacity(load, len(carriers), most, min(threshold, most), because)


def _at_least(pod: PodUsage, average: Cores) -> Cores:
    return average if isinstance(pod.usage, Gap) else max(pod.usage, average)


def split_into_batches(
    proposal: Proposal, measured: WorkloadUsage, settings: MoveSettings
) -> tuple[tuple[PodUsage, ...], ...]:
    """All pods to rotate, each once, in order; empty if none can go."""
    size = batch_size(measure_capacity(proposal, measured, settings), proposal, settings)
    if size == 0:
        return ()
    order = interleave(proposal.hot, proposal.cold)
    return tuple(order[start : start + size] for start in range(0, len(order), size))


def batch_size(capacity: Capacity, proposal: Proposal, settings: MoveSettings) -> int:
    """How many pods of a batch are away together. Batches of more than two hold whole pairs."""
    size = capacity.size() if settings.batch == 0 else min(capacity.size(), settings.batch)
    if size >= len(proposal.rotate):
        return len(proposal.rotate)
    return size - size % _PAIR if size > _PAIR else size


def interleave(hot: Sequence[PodUsage], cold: Sequence[PodUsage]) -> tuple[PodUsage, ...]:
    """The hottest, the coldest, the next hottest ..."""
    pairs = itertools.zip_longest(hot, cold)
    return tuple(pod for pair in pairs for pod in pair if pod is not None)
