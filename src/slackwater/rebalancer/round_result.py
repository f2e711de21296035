"""The result of a round for each workload, from which exit code, log, events and metrics follow."""

from collections.abc import Mapping

import msgspec

from slackwater.rebalancer.assessment import Assessment
from slackwater.rebalancer.observed import LastRotation, PodUsage
from slackwater.rebalancer.reason import PROBLEMS, Reason
from slackwater.rebalancer.rotation import RemovalOutcome, RotationResult


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
