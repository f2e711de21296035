"""The seed's algorithm: who is hot, who is cold, and whether rotating them is worth it.

Owns the arithmetic of target, threshold and improvement, and the order in which pods are chosen.
Pure and without chance: the order of the members does not matter. Whether something forbids the
rotation is the guards' to say.
"""

import enum
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from slackwater.model.duration import format_duration
from slackwater.model.gap import Gap
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


class PodGroup(enum.Enum):
    """Where a pod stands in the decision. YOUNG, UNREADY, HELD_BACK, UNKNOWN are no candidates."""

    TOP = "top"
    BOTTOM = "bottom"
    REST = "rest"
    YOUNG = "young"
    UNREADY = "unready"
    HELD_BACK = "held_back"
    UNKNOWN = "unknown"


class Candidate(msgspec.Struct, frozen=True):
    """A pod to rotate, with what it uses."""

    name: str
    uid: str
    node: str
    usage: Cores
    group: PodGroup


class GuardResult(msgspec.Struct, frozen=True):
    """One check that may forbid a rotation. `because` is one sentence with the numbers. `passed` is
    None where it cannot be said, which happens only where something else forbids it already."""

    guard: str
    passed: bool | None
    because: str
    reason: Reason | None = None


class Numbers(msgspec.Struct, frozen=True):
    """`target`: what the HPA wants of a pod; `threshold`: target x tolerance. `average`: of the
    filtered top; `predicted`: of top and bottom together; `improvement` of the first by the
    second. The last three are None where no pod is above the threshold."""

    target: Cores
    threshold: Cores
    request: Cores | None
    average: Cores | None = None
    predicted: Cores | None = None
    improvement: PercentOf | None = None


class Proposal(msgspec.Struct, frozen=True):
    """`rotate`: hottest first, then coldest first; empty where nothing is to be done. `reason` is
    None where rotation is proposed; `because` is the sentence for people in either case.
    `groups`: of every pod, by name."""

    rotate: tuple[Candidate, ...]
    reason: Reason | None
    because: str
    groups: dict[str, PodGroup]
    numbers: Numbers | None = None


#: 70 / 100 x 1.5 is 1.0499999999999998: a pod at 1.05 must not be above 1.05 for that.
_SLACK = 1e-9
_MICROS = 1_000_000


class Gain(msgspec.Struct, frozen=True):
    """What a rotation would bring: `average` of the hot pods, `predicted` of hot and cold together,
    `improvement` of the first by the second in percent."""

    average: Cores
    predicted: Cores
    improvement: PercentOf


def propose(measured: WorkloadUsage, settings: MoveSettings) -> Proposal:
    groups = {each.name: initial_group(each, settings) for each in measured.pods}
    if isinstance(measured.hpa_target, Gap):
        return Proposal((), Reason.HPA_TARGET_MISSING, measured.hpa_target.reason, groups)
    candidates = [each for each in measured.pods if groups[each.name] is PodGroup.REST]
    if not candidates:
        return _nobody(measured, groups, settings)
    request, remark = _request(candidates)
    if isinstance(request, Gap) and measured.hpa_target.kind is HpaTargetKind.UTILIZATION:
        return Proposal((), Reason.REQUEST_MISSING, request.reason, groups)
    numbers = _numbers(measured.hpa_target, None if isinstance(request, Gap) else request, settings)
    said = remark if measured.hpa_target.kind is HpaTargetKind.UTILIZATION else ""
    unknown = Counter(groups.values())[PodGroup.UNKNOWN]
    said += _lacking(unknown, unknown + len(candidates), "usage")
    return _chosen(candidates, numbers, groups, settings, said)


def initial_group(pod: PodUsage, settings: MoveSettings) -> PodGroup:
    """Why a pod is no candidate, or REST where it is one. A pod that has just come has no usage
    yet, and that is no fault: young goes before unknown."""
    if not pod.running or pod.terminating:
        return PodGroup.UNREADY
    if pod.held_back:
        return PodGroup.HELD_BACK
    if pod.age * _MICROS < settings.youngest:
        return PodGroup.YOUNG
    return PodGroup.UNKNOWN if isinstance(pod.usage, Gap) else PodGroup.REST


def is_above(value: float, bound: float) -> bool:
    """Strictly; what differs only by the arithmetic is equal."""
    return value > bound and not math.isclose(value, bound, rel_tol=_SLACK, abs_tol=_SLACK)


def predict_gain(hot: Sequence[Candidate], cold: Sequence[Candidate]) -> Gain:
    """At least one is hot, and uses something."""
    average = _mean([each.usage for each in hot])
    # Rounding must not predict that pods become hotter by being mixed with colder ones.
    predicted = min(_mean([each.usage for each in (*hot, *cold)]), average)
    return Gain(average, predicted, PercentOf((average - predicted) / average * 100))


def judge_gain(gain: Gain, settings: MoveSettings) -> tuple[Reason | None, str]:
    """Whether it is enough, in the original's words. Just as much is not enough."""
    least = settings.minimum_improvement
    enough = is_above(gain.improvement, least)
    word = "exceeds" if enough else "below"
    text = f"Improvement {gain.improvement:.1f}% {word} minimum {least:.1f}%"
    return (None if enough else Reason.INSUFFICIENT_IMPROVEMENT), text


def remark_still_hot(gain: Gain, numbers: Numbers) -> str:
    """A remark where a rotation evens out, but cools nobody down; empty where it does."""
    if not is_above(gain.predicted, numbers.threshold):
        return ""
    return (
        f"; {gain.predicted:.2f} cores on average are still above the threshold "
        f"{numbers.threshold:.2f}, so it takes more pods as well, which is for the HPA"
    )


def with_gain(numbers: Numbers, gain: Gain) -> Numbers:
    return msgspec.structs.replace(
        numbers,
        average=gain.average,
        predicted=gain.predicted,
        improvement=gain.improvement,
    )


def _chosen(
    candidates: list[PodUsage],
    numbers: Numbers,
    groups: dict[str, PodGroup],
    settings: MoveSettings,
    remark: str,
) -> Proposal:
    ranked = sorted(candidates, key=lambda each: (-_used(each), each.name))
    hot = [each for each in ranked[: settings.top_k] if is_above(_used(each), numbers.threshold)]
    # Who is not Ready may be hot, but takes no load off others: never a cold one.
    rest = sorted(ranked[len(hot) :], key=lambda each: (_used(each), each.name))
    cold = [each for each in rest if each.ready][: settings.top_k] if hot else []
    groups |= {each.name: PodGroup.UNREADY for each in rest if not each.ready}
    groups |= {each.name: PodGroup.TOP for each in hot}
    groups |= {each.name: PodGroup.BOTTOM for each in cold}
    if not hot:
        text = f"No pods exceed tolerance threshold ({settings.tolerance:.1f}x of HPA target)"
        reason = Reason.NO_PODS_ABOVE_TOLERANCE
        return Proposal((), reason, text + remark, groups, numbers)
    rotate = tuple(_candidate(each, groups[each.name]) for each in (*hot, *cold))
    gain = predict_gain(rotate[: len(hot)], rotate[len(hot) :])
    insufficient, text = judge_gain(gain, settings)
    going = () if insufficient else rotate
    text += "" if insufficient else remark_still_hot(gain, numbers)
    return Proposal(going, insufficient, text + remark, groups, with_gain(numbers, gain))


def _numbers(hpa_target: HpaTarget, request: Cores | None, settings: MoveSettings) -> Numbers:
    """Percent of the average request, or the cores themselves; threshold = target x tolerance."""
    target = hpa_target.value
    if hpa_target.kind is HpaTargetKind.UTILIZATION and request is not None:
        target = hpa_target.value / 100 * request
    return Numbers(Cores(target), Cores(target * settings.tolerance), request)


def _request(candidates: list[PodUsage]) -> tuple[Cores | Gap, str]:
    """The average of those that have one, and a remark where some lack it."""
    asked = [each.request for each in candidates if not isinstance(each.request, Gap)]
    if not asked:
        why = _why(each.request.reason for each in candidates if isinstance(each.request, Gap))
        return Gap(f"no pod has a CPU request to take the HPA's percent of: {why}"), ""
    lacking = len(candidates) - len(asked)
    return _mean(asked), _lacking(lacking, len(candidates), "CPU request")


def _lacking(count: int, whole: int, what: str) -> str:
    """A remark; empty where none lacks it."""
    if not count:
        return ""
    return f"; {count} of {whole} pods {'has' if count == 1 else 'have'} no {what}"


def _why(reasons: Iterable[str]) -> str:
    """One of them for all, always the same, and said to be one of several."""
    several = sorted(set(reasons))
    return several[0] if len(several) == 1 else f"for example, {several[0]}"


def _nobody(
    measured: WorkloadUsage, groups: dict[str, PodGroup], settings: MoveSettings
) -> Proposal:
    """Why there is no candidate at all. Only missing numbers are a fault."""
    counts = Counter(groups.values())
    if counts[PodGroup.UNKNOWN]:
        unknown = (each.usage for each in measured.pods if groups[each.name] is PodGroup.UNKNOWN)
        why = _why(usage.reason for usage in unknown if isinstance(usage, Gap))
        text = f"no usage of any pod is known, {counts[PodGroup.UNKNOWN]} asked for: {why}"
        return Proposal((), Reason.NO_USAGE_DATA, text, groups)
    if counts[PodGroup.HELD_BACK]:
        why = _why(each.held_back for each in measured.pods if each.held_back)
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
        whole = young + others
        return f"{young} of {whole} pods {_are(young)} {age}, and the others do not run"
    return f"the only pod is {age}" if young == 1 else f"all {young} pods are {age}"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _candidate(pod: PodUsage, group: PodGroup) -> Candidate:
    return Candidate(pod.name, pod.uid, pod.node, Cores(_used(pod)), group)


def _used(pod: PodUsage) -> float:
    if isinstance(pod.usage, Gap):
        raise ValueError(f"{pod.name} has no usage, so it is no candidate")
    return pod.usage


def _mean(amounts: Sequence[float]) -> Cores:
    return Cores(math.fsum(amounts) / len(amounts))


_PAIR = 2


class Capacity(msgspec.Struct, frozen=True):
    """`load`: what the carriers use together, and the pods to go. `carriers`: pods that can take
    load over. `most`: what one of them can carry, `because` of what; `bound`: what it should
    carry."""

    load: Cores
    carriers: int
    most: Cores
    bound: Cores
    because: str

    def each(self, away: int) -> Cores:
        """What each of the others carries meanwhile."""
        left = self.carriers - away
        return Cores(self.load / left if left > 0 else math.inf)

    def size(self) -> int:
        """As many as leave the others at or below the bound; a pair or one pod also where the
        others then work hard; 0 where they could not carry it."""
        fits = (away for away in range(self.carriers - 1, 0, -1) if self._within(away, self.bound))
        tight = (away for away in (_PAIR, 1) if self._within(away, self.most))
        return max(next(fits, 0), next(tight, 0))

    def _within(self, away: int, bound: Cores) -> bool:
        return not is_above(self.each(away), bound)


def measure_capacity(
    proposal: Proposal, measured: WorkloadUsage, settings: MoveSettings
) -> Capacity:
    """A carrier is Ready, stays for now, and its usage is known over the whole window: of another
    nobody knows what it could take over, so neither its load nor its room is counted."""
    carriers = [each for each in measured.pods if _carries(each, settings)]
    used = [each.usage for each in carriers if not isinstance(each.usage, Gap)]
    ready = {each.name for each in carriers}
    going = [each.usage for each in proposal.rotate if each.name not in ready]
    limits = [each.limit for each in carriers if not isinstance(each.limit, Gap)]
    threshold = proposal.numbers.threshold if proposal.numbers else Cores(0.0)
    most, because = threshold, "the threshold"
    if used and max(used) > threshold:
        most, because = max(used), "what the hottest carries today"
    if limits and len(limits) == len(carriers):
        most, because = min(limits), "their smallest CPU limit"
    load = Cores(math.fsum([*used, *going]))
    return Capacity(load, len(used), most, min(threshold, most), because)


def _carries(pod: PodUsage, settings: MoveSettings) -> bool:
    """Who is held back carries load like any other."""
    free = msgspec.structs.replace(pod, held_back="") if pod.held_back else pod
    return pod.ready and initial_group(free, settings) is PodGroup.REST


def split_into_batches(
    proposal: Proposal, measured: WorkloadUsage, settings: MoveSettings
) -> tuple[tuple[Candidate, ...], ...]:
    """All to rotate, each once, in order; empty where nobody can go."""
    size = batch_size(measure_capacity(proposal, measured, settings), proposal, settings)
    if size == 0:
        return ()
    order = interleave(proposal.rotate)
    return tuple(order[start : start + size] for start in range(0, len(order), size))


def batch_size(room: Capacity, proposal: Proposal, settings: MoveSettings) -> int:
    """How many of a batch are away together. Pairs are not torn apart where more than one goes."""
    size = room.size() if settings.batch == 0 else min(room.size(), settings.batch)
    if size >= len(proposal.rotate):
        return len(proposal.rotate)
    return size - size % _PAIR if size > _PAIR else size


def interleave(rotate: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """The hottest, the coldest, the next hottest ..."""
    hot = [each for each in rotate if each.group is PodGroup.TOP]
    cold = [each for each in rotate if each.group is not PodGroup.TOP]
    pairs = itertools.zip_longest(hot, cold)
    return tuple(each for pair in pairs for each in pair if each is not None)
