"""Journal entries and Kubernetes events about rotations.

An event on a pod says why it was removed, with the numbers.
"""

from collections.abc import Iterator

from slackwater.kube.events import EventType, KubeEvent, ObjectReference
from slackwater.model.units import Micros
from slackwater.rebalancer.assessment import Assessment
from slackwater.rebalancer.observed import LastRotation, ObservedWorkload, PodUsage
from slackwater.rebalancer.reason import PROBLEMS, Reason
from slackwater.rebalancer.rotation import RemovalAttempt, RemovalOutcome
from slackwater.rebalancer.round_result import WorkloadResult
from slackwater.rebalancer.selection import PodGroup
from slackwater.record.journal import Entry

ROTATED, REBALANCED, FAILED, IMPOSSIBLE = (
    "Rotated", "Rebalanced", "RotationFailed", "RotationImpossible",
)  # fmt: skip
#: The result of a line about what the last rotation brought.
JUDGED = "judged"
_SIDES = {PodGroup.TOP: "most busy", PodGroup.BOTTOM: "least busy"}


def attempt_entry(assessment: Assessment, attempt: RemovalAttempt, tick: int, at: Micros) -> Entry:
    pod, workload = attempt.pod, assessment.workload
    return Entry(
        tick,
        at,
        f"Pod {workload.namespace}/{pod.name}",
        before=f"{pod.cores:.3g} cores",
        because=attempt.because or f"{_side(assessment, pod)} of {workload}",
        result=attempt.outcome.value,
    )


def result_entry(result: WorkloadResult, tick: int, at: Micros) -> Entry:
    """The result is the reason, except for a rotation that failed after pods were removed."""
    broken_off = result.failed and result.reason is Reason.ROTATED
    pods = ", ".join(pod.name for pod in result.pods)
    return Entry(
        tick,
        at,
        str(result.assessment.workload),
        after=pods,
        because=result.because,
        result=(RemovalOutcome.FAILED if broken_off else result.reason).value,
    )


def remark_entry(about: object, sentence: str, result: str, tick: int, at: Micros) -> Entry:
    return Entry(tick, at, str(about), because=sentence, result=result)


def describe_realised(judged: LastRotation) -> str:
    realised = round(judged.realised or 0.0, 1) or 0.0  # never "-0.0"
    return f"the last rotation brought {realised:.1f} %; {judged.improvement:.1f} % were predicted"


def build_events(result: WorkloadResult, observed: ObservedWorkload) -> Iterator[KubeEvent]:
    """One for each pod that was removed, and one if the workload was rotated or has a problem."""
    assessment = result.assessment
    for attempt in result.rotated.attempts if result.rotated else ():
        if attempt.removed:
            yield _pod_event(assessment, attempt)
    about = ObjectReference(
        observed.api_version,
        observed.workload.kind,
        observed.workload.name,
        observed.workload.namespace,
        observed.uid,
    )
    if result.failed:
        yield KubeEvent(about, FAILED, result.because, EventType.WARNING)
    elif result.reason is Reason.ROTATED:
        pods = ", ".join(pod.name for pod in result.pods)
        yield KubeEvent(about, REBALANCED, f"rotated {pods}: {result.because}")
    elif result.reason in PROBLEMS:
        message = f"{result.reason.value}: {result.because}"
        yield KubeEvent(about, IMPOSSIBLE, message, EventType.WARNING)


def _pod_event(assessment: Assessment, attempt: RemovalAttempt) -> KubeEvent:
    pod, workload = attempt.pod, assessment.workload
    how = "deleted" if attempt.outcome is RemovalOutcome.DELETED else "evicted"
    about = ObjectReference("v1", "Pod", pod.name, workload.namespace, pod.uid)
    side, numbers = _side(assessment, pod), _numbers(assessment, pod)
    message = f"{how} as one of the {side} pods of {workload}: {numbers}"
    return KubeEvent(about, ROTATED, message)


def _numbers(assessment: Assessment, pod: PodUsage) -> str:
    used = f"it used {pod.cores:.3g} cores"
    numbers = assessment.proposal.numbers if assessment.proposal else None
    if numbers is None or numbers.average is None or numbers.predicted is None:
        return used
    return (
        f"{used}, the HPA's target is {numbers.target:.3g}; the hot pods' average should fall from "
        f"{numbers.average:.3g} to {numbers.predicted:.3g} cores ({numbers.improvement:.1f} %)"
    )


def _side(assessment: Assessment, pod: PodUsage) -> str:
    group = assessment.group_of(pod)
    return _SIDES.get(group, group.value)
