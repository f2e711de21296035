"""The result of a round for each workload, and its journal entries and Kubernetes events.

Exit code and metrics follow from it too. An event on a pod says why it was removed, with the
numbers.
"""

from collections.abc import Iterator, Mapping

import msgspec

from slackwater.kube.events import EventType, KubeEvent, ObjectReference
from slackwater.model.units import Micros
from slackwater.rebalancer.assessment import Assessment
from slackwater.rebalancer.observed import LastRotation, ObservedWorkload, PodUsage
from slackwater.rebalancer.reason import PROBLEMS, Reason
from slackwater.rebalancer.rotation import RemovalAttempt, RemovalOutcome, RotationResult
from slackwater.rebalancer.selection import PodGroup
from slackwater.record.journal import JournalEntry

ROTATED, REBALANCED, FAILED, IMPOSSIBLE = (
    "Rotated", "Rebalanced", "RotationFailed", "RotationImpossible",
)  # fmt: skip
#: The result of a line about what the last rotation brought.
JUDGED = "judged"
_SIDES = {PodGroup.TOP: "most busy", PodGroup.BOTTOM: "least busy"}


class WorkloadResult(msgspec.Struct, frozen=True):
    """`rotated` is None if nothing was tried, as in a dry run. `failed`: a rotation began and needs
    somebody's attention. `last`: the rotation before this round."""

    assessment: Assessment
    reason: Reason
    because: str
    rotated: RotationResult | None = None
    failed: bool = False
    last: LastRotation | None = None

    @property
    def pods(self) -> tuple[PodUsage, ...]:
        """Those that were removed; in a dry run those that would have been."""
        if self.rotated is not None:
            return self.rotated.removed
        if self.reason is not Reason.DRY_RUN:
            return ()
        return tuple(pod for batch in self.assessment.batches for pod in batch)

    @property
    def is_problem(self) -> bool:
        return self.failed or self.reason in PROBLEMS


class RoundResult(msgspec.Struct, frozen=True):
    """`errors`: how many requests failed, by component; `took` in seconds; `ended` in seconds since
    1970."""

    results: tuple[WorkloadResult, ...]
    errors: Mapping[str, int]
    took: float
    ended: float

    @property
    def exit_code(self) -> int:
        return 1 if any(each.is_problem for each in self.results) else 0


def not_rotated(assessment: Assessment, last: LastRotation | None) -> WorkloadResult:
    """The assessment says why; if it would be rotated, this is a dry run."""
    reason = assessment.reason or Reason.DRY_RUN
    return WorkloadResult(assessment, reason, assessment.because, last=last)


def after_rotation(
    assessment: Assessment, rotated: RotationResult, last: LastRotation | None
) -> WorkloadResult:
    reason, because = _conclude(assessment, rotated)
    failed = rotated.stop is not None and rotated.stop.failed
    return WorkloadResult(assessment, reason, because, rotated, failed, last)


def _conclude(assessment: Assessment, rotated: RotationResult) -> tuple[Reason, str]:
    wanted = sum(map(len, assessment.batches))
    removed = len(rotated.removed)
    if removed == wanted and rotated.stop is None:
        return Reason.ROTATED, assessment.because
    because = f"{removed} of {wanted} pods went"
    if rotated.unknown:
        names = ", ".join(pod.name for pod in rotated.unknown)
        because = f"{because}, and whether {names} goes is not known"
    if rotated.stop is not None:
        because = f"{because}: {rotated.stop.because}"
    elif removed < wanted:
        because = f"{because}: {_why_not(rotated)}"
    if removed:
        return Reason.ROTATED, because
    if rotated.stop is not None:
        return rotated.stop.reason, because
    held = any(each.outcome is RemovalOutcome.HELD_BACK for each in rotated.attempts)
    return (Reason.OPTED_OUT if held else Reason.NO_PODS_ABOVE_TOLERANCE), because


def _why_not(rotated: RotationResult) -> str:
    return "; ".join(
        f"{each.pod.name}: {each.because}" for each in rotated.attempts if each.because
    )


def attempt_entry(
    assessment: Assessment, attempt: RemovalAttempt, tick: int, at: Micros
) -> JournalEntry:
    pod, workload = attempt.pod, assessment.workload
    return JournalEntry(
        tick,
        at,
        f"Pod {workload.namespace}/{pod.name}",
        before=f"{pod.cores:.3g} cores",
        because=attempt.because or f"{_side(assessment, pod)} of {workload}",
        result=attempt.outcome.value,
    )


def planned_entry(assessment: Assessment, pod: PodUsage, tick: int, at: Micros) -> JournalEntry:
    """Of a pod that a dry run leaves where it is."""
    workload = assessment.workload
    return JournalEntry(
        tick,
        at,
        f"Pod {workload.namespace}/{pod.name}",
        before=f"{pod.cores:.3g} cores",
        because=f"{_side(assessment, pod)} of {workload}",
        result=Reason.DRY_RUN.value,
    )


def result_entry(result: WorkloadResult, tick: int, at: Micros) -> JournalEntry:
    """The result is the reason, except for a rotation that failed after pods were removed."""
    broken_off = result.failed and result.reason is Reason.ROTATED
    pods = ", ".join(pod.name for pod in result.pods)
    return JournalEntry(
        tick,
        at,
        str(result.assessment.workload),
        after=pods,
        because=result.because,
        result=(RemovalOutcome.FAILED if broken_off else result.reason).value,
    )


def remark_entry(about: object, sentence: str, result: str, tick: int, at: Micros) -> JournalEntry:
    return JournalEntry(tick, at, str(about), because=sentence, result=result)


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
    side, numbers = _side(assessment, pod), _describe_numbers(assessment, pod)
    message = f"{how} as one of the {side} pods of {workload}: {numbers}"
    return KubeEvent(about, ROTATED, message)


def _describe_numbers(assessment: Assessment, pod: PodUsage) -> str:
    used = f"it used {pod.cores:.3g} cores"
    numbers = assessment.proposal.numbers if assessment.proposal else None
    if numbers is None or numbers.gain is None:
        return used
    gain = numbers.gain
    return (
        f"{used}, the HPA's target is {numbers.target:.3g}; the hot pods' average should fall from "
        f"{gain.average:.3g} to {gain.predicted:.3g} cores ({gain.improvement:.1f} %)"
    )


def _side(assessment: Assessment, pod: PodUsage) -> str:
    group = assessment.group_of(pod)
    return _SIDES.get(group, group.value)
