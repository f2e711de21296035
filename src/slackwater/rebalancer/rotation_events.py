"""What the rebalancer tells: journal entries and Kubernetes events, as values.

Owns their words. An event says the numbers too: whoever finds a pod gone reads there why.
"""

from collections.abc import Iterator

from slackwater.kube.events import EventType, KubeEvent, ObjectReference
from slackwater.model.units import Micros
from slackwater.rebalancer.assessment import Assessment
from slackwater.rebalancer.observed import LastRotation, ObservedWorkload, WorkloadName
from slackwater.rebalancer.reason import PROBLEMS, Reason
from slackwater.rebalancer.rotation import RemovalAttempt, RemovalOutcome
from slackwater.rebalancer.round_result import WorkloadResult
from slackwater.rebalancer.selection import Candidate, PodGroup
from slackwater.record.journal import Entry

ROTATED, REBALANCED, FAILED, IMPOSSIBLE = (
    "Rotated", "Rebalanced", "RotationFailed", "RotationImpossible",
)  # fmt: skip
#: The result of a line about what the last rotation brought.
JUDGED = "judged"
_SIDES = {PodGroup.TOP: "most busy", PodGroup.BOTTOM: "least busy"}


def attempt_entry(workload: WorkloadName, attempt: RemovalAttempt, tick: int, at: Micros) -> Entry:
    pod = attempt.pod
    return Entry(
        tick,
        at,
        f"Pod {workload.namespace}/{pod.name}",
        before=f"{pod.usage:.3g} cores",
        because=attempt.because or f"{_side(pod)} of {workload}",
        result=attempt.fate.value,
    )


def result_entry(result: WorkloadResult, tick: int, at: Micros) -> Entry:
    """Its result is a reason, but for a rotation that broke off: pods went, and all is not well."""
    broke_off = result.failed and result.reason is Reason.ROTATED
    pods = ", ".join(pod.name for pod in result.pods)
    return Entry(
        tick,
        at,
        str(result.assessment.workload),
        after=pods,
        because=result.because,
        result=(RemovalOutcome.FAILED if broke_off else result.reason).value,
    )


def remark_entry(about: object, sentence: str, result: str, tick: int, at: Micros) -> Entry:
    return Entry(tick, at, str(about), because=sentence, result=result)


def describe_realised(judged: LastRotation) -> str:
    realised = round(judged.realised or 0.0, 1) or 0.0  # -0.0 is no number for people
    return f"the last rotation brought {realised:.1f} %; {judged.improvement:.1f} % were predicted"


def build_events(result: WorkloadResult, observed: ObservedWorkload) -> Iterator[KubeEvent]:
    """One on each pod that went, and one on the workload where there is something to say."""
    assessment = result.assessment
    for attempt in result.rotated.attempts if result.rotated else ():
        if attempt.went:
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
        said = f"{result.reason.value}: {result.because}"
        yield KubeEvent(about, IMPOSSIBLE, said, EventType.WARNING)


def _pod_event(assessment: Assessment, attempt: RemovalAttempt) -> KubeEvent:
    pod, workload = attempt.pod, assessment.workload
    how = "deleted" if attempt.fate is RemovalOutcome.DELETED else "evicted"
    about = ObjectReference("v1", "Pod", pod.name, workload.namespace, pod.uid)
    message = f"{how} as one of the {_side(pod)} pods of {workload}: {_numbers(assessment, pod)}"
    return KubeEvent(about, ROTATED, message)


def _numbers(assessment: Assessment, pod: Candidate) -> str:
    used = f"it used {pod.usage:.3g} cores"
    numbers = assessment.proposal.numbers if assessment.proposal else None
    if numbers is None or numbers.average is None or numbers.predicted is None:
        return used
    return (
        f"{used}, the HPA's target is {numbers.target:.3g}; the hot pods' average should fall from "
        f"{numbers.average:.3g} to {numbers.predicted:.3g} cores ({numbers.improvement:.1f} %)"
    )


def _side(pod: Candidate) -> str:
    return _SIDES.get(pod.group, pod.group.value)
