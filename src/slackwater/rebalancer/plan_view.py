"""What `run` would do with a workload, as data: behind `rebalance plan -o json`, and on the page.

The data is stable; its fields are documented in docs/reference/rebalance.md. CPU is in cores,
shares are in percent.
"""

from collections.abc import Sequence

import msgspec

from slackwater.model.gap import Gap
from slackwater.rebalancer.assessment import Assessment
from slackwater.rebalancer.guards import GuardVerdict
from slackwater.rebalancer.merge_usage import WHOLE
from slackwater.rebalancer.observed import HpaTarget, HpaTargetKind, PodUsage
from slackwater.rebalancer.reason import PROBLEMS
from slackwater.rebalancer.selection import Numbers, PodGroup

_API_VERSION = "slackwater.io/v1"
#: Without rounding, 70 % of 1 core times 1.5 is 1.0499999999999998.
_DIGITS = 6
#: Sorts pods whose usage is not known after all others.
_UNKNOWN_LAST = -1.0


class PodView(msgspec.Struct, frozen=True, rename="camel"):
    """`because`: why it must not be rotated, or why its usage is not known. `age` in seconds."""

    name: str
    usage: float | None
    request: float | None
    limit: float | None
    percent_of_request: float | None
    percent_of_target: float | None
    group: str
    node: str
    age: int
    ready: bool
    because: str = ""


class HpaView(msgspec.Struct, frozen=True):
    """`unit` is percent (of the request) or cores (for each pod)."""

    name: str
    target: float
    unit: str


class LeftOutView(msgspec.Struct, frozen=True, rename="camel"):
    """A container that does not count, and the most that one of them uses."""

    name: str
    highest_usage: float | None


class PlanView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """`container`: whose usage counts; * is all of a pod's, null if it is not known. `evict` in the
    order of the decision, `batches` in the order of eviction. `reason` is null if the workload
    would be rotated. `problem`: something has to be repaired first."""

    api_version: str = _API_VERSION
    kind: str = "RebalancePlan"
    workload: str
    namespace: str
    workload_kind: str
    hpa: HpaView | None
    container: str | None
    left_out: tuple[LeftOutView, ...]
    pods: tuple[PodView, ...]
    request: float | None
    target: float | None
    threshold: float | None
    average: float | None
    predicted_average: float | None
    improvement: float | None
    decision: str
    reason: str | None
    because: str
    problem: bool
    evict: tuple[str, ...]
    batches: tuple[tuple[str, ...], ...]
    guards: tuple[GuardVerdict, ...]


class PlanList(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    api_version: str = _API_VERSION
    kind: str = "RebalancePlanList"
    items: tuple[PlanView, ...]


def as_data(views: Sequence[PlanView]) -> PlanView | PlanList:
    """A single workload is not wrapped in a list."""
    return views[0] if len(views) == 1 else PlanList(items=tuple(views))


def view_of(assessment: Assessment) -> PlanView:
    numbers = assessment.proposal.numbers if assessment.proposal else None
    gain = numbers.gain if numbers else None
    going = {each.name for batch in assessment.batches for each in batch}
    chosen = assessment.proposal.rotate if assessment.proposal else ()
    name = assessment.workload
    return PlanView(
        workload=name.name,
        namespace=name.namespace,
        workload_kind=name.kind,
        hpa=_hpa(assessment),
        container=(assessment.measured.container or WHOLE) if assessment.measured else None,
        left_out=_left_out(assessment),
        pods=_pod_views(assessment, numbers),
        request=_rounded(numbers.request if numbers else None),
        target=_rounded(numbers.target if numbers else None),
        threshold=_rounded(numbers.threshold if numbers else None),
        average=_rounded(gain.average if gain else None),
        predicted_average=_rounded(gain.predicted if gain else None),
        improvement=_rounded(gain.improvement if gain else None),
        decision="rotate" if assessment.rotates else "skip",
        reason=assessment.reason.value if assessment.reason else None,
        because=assessment.because,
        problem=assessment.reason in PROBLEMS,
        evict=tuple(each.name for each in chosen if each.name in going),
        batches=tuple(tuple(each.name for each in batch) for batch in assessment.batches),
        guards=tuple(
            GuardVerdict(each.guard, each.passed, each.because) for each in assessment.guards
        ),
    )


def _hpa(assessment: Assessment) -> HpaView | None:
    hpa_target = assessment.measured.hpa_target if assessment.measured else None
    if not isinstance(hpa_target, HpaTarget):
        return None
    unit = "percent" if hpa_target.kind is HpaTargetKind.UTILIZATION else "cores"
    return HpaView(hpa_target.hpa, hpa_target.value, unit)


def _left_out(assessment: Assessment) -> tuple[LeftOutView, ...]:
    others = assessment.measured.left_out if assessment.measured else {}
    return tuple(LeftOutView(name, _rounded(_known(used))) for name, used in others.items())


def _pod_views(assessment: Assessment, numbers: Numbers | None) -> tuple[PodView, ...]:
    measured = assessment.measured
    if measured is None:
        return ()
    found = [
        _pod(each, measured.age(each), assessment.group_of(each), numbers) for each in measured.pods
    ]
    return tuple(sorted(found, key=_order))


def _order(pod: PodView) -> tuple[float, str]:
    return -(_UNKNOWN_LAST if pod.usage is None else pod.usage), pod.name


def _pod(pod: PodUsage, age: float, group: PodGroup, numbers: Numbers | None) -> PodView:
    usage, request = _known(pod.usage), _known(pod.request)
    because = pod.held_back
    if not because and isinstance(pod.usage, Gap):
        because = pod.usage.reason
    return PodView(
        name=pod.name,
        usage=_rounded(usage),
        request=_rounded(request),
        limit=_rounded(_known(pod.limit)),
        percent_of_request=_share(usage, request),
        percent_of_target=_share(usage, numbers.target if numbers else None),
        group=group.value,
        node=pod.node,
        age=int(age),
        ready=pod.ready and not pod.terminating,
        because=because,
    )


def _known(amount: float | Gap) -> float | None:
    return None if isinstance(amount, Gap) else amount


def _share(part: float | None, whole: float | None) -> float | None:
    """In percent."""
    return _rounded(100 * part / whole) if part is not None and whole else None


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, _DIGITS)
