"""What one round did, for each workload: the value behind exit code, entries, events and metrics.

Owns how a rotation's end becomes a reason.
"""

from collections.abc import Mapping

import msgspec

from slackwater.rebalancer.assessment import Assessment
from slackwater.rebalancer.observed import LastRotation
from slackwater.rebalancer.reason import PROBLEMS, Reason
from slackwater.rebalancer.rotation import RemovalOutcome, RotationResult
from slackwater.rebalancer.selection import Candidate


class WorkloadResult(msgspec.Struct, frozen=True):
    """`reason` and `because`: what became of it in the end. `rotated` is None where nothing was
    tried, in a dry run too. `failed`: a rotation began and somebody has to look at it. `last`: what
    is known of the rotation before this round."""

    assessment: Assessment
    reason: Reason
    because: str
    rotated: RotationResult | None = None
    failed: bool = False
    last: LastRotation | None = None

    @property
    def pods(self) -> tuple[Candidate, ...]:
        """Who went; in a dry run who would have gone."""
        if self.rotated is not None:
            return self.rotated.went
        if self.reason is not Reason.DRY_RUN:
            return ()
        return tuple(pod for batch in self.assessment.batches for pod in batch)

    @property
    def is_problem(self) -> bool:
        return self.failed or self.reason in PROBLEMS


class RoundResult(msgspec.Struct, frozen=True):
    """`errors`: how many questions failed, by whom they were asked of; `took` in seconds; `ended`
    in seconds since 1970."""

    results: tuple[WorkloadResult, ...]
    errors: Mapping[str, int]
    took: float
    ended: float

    @property
    def exit_code(self) -> int:
        return 1 if any(each.is_problem for each in self.results) else 0


def not_rotated(assessment: Assessment, last: LastRotation | None) -> WorkloadResult:
    """The assessment itself says why. Not for one that is to be rotated."""
    reason = assessment.reason or Reason.DRY_RUN
    return WorkloadResult(assessment, reason, assessment.because, last=last)


def after_rotation(
    assessment: Assessment, rotated: RotationResult, last: LastRotation | None
) -> WorkloadResult:
    reason, because = _end(assessment, rotated)
    failed = rotated.stop is not None and rotated.stop.failed
    return WorkloadResult(assessment, reason, because, rotated, failed, last)


def _end(assessment: Assessment, rotated: RotationResult) -> tuple[Reason, str]:
    wanted = sum(map(len, assessment.batches))
    went = len(rotated.went)
    if went == wanted and rotated.stop is None:
        return Reason.ROTATED, assessment.because
    because = f"{went} of {wanted} pods went"
    if rotated.stop is not None:
        because = f"{because}: {rotated.stop.because}"
    elif went < wanted:
        because = f"{because}: {_spared(rotated)}"
    if went:
        return Reason.ROTATED, because
    if rotated.stop is not None:
        return rotated.stop.reason, because
    held = any(each.fate is RemovalOutcome.HELD_BACK for each in rotated.attempts)
    return (Reason.OPTED_OUT if held else Reason.NO_PODS_ABOVE_TOLERANCE), because


def _spared(rotated: RotationResult) -> str:
    return "; ".join(
        f"{each.pod.name}: {each.because}" for each in rotated.attempts if each.because
    )
