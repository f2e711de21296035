"""Rotates the pods of one workload: evicts batch after batch, each once the pods of the previous
one are replaced and Ready.

The rotation is claimed in an annotation of the workload before the first pod goes, and the workload
is read again before each batch. A rotation that stops leaves the remaining pods alone and says why.
`PodWriter` is the only place of the rebalancer that changes API objects; clock and sleep are
arguments.
"""

import enum
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

import msgspec

from slackwater.contract.resources import PODS, Resource
from slackwater.http.errors import RequestError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.api_time import format_time
from slackwater.kube.client import PatchKind
from slackwater.kube.pod_removal import EvictingClient, RemovalAnswer, ask_removal
from slackwater.model.gap import Gap
from slackwater.rebalancer.last_rotation import ANNOTATION, encode_last_rotation
from slackwater.rebalancer.observed import LastRotation, ObservedWorkload, PodUsage, Unavailable
from slackwater.rebalancer.reason import Reason
from slackwater.settings.rebalancer import Removal

#: Seconds between reads while new pods start, which takes longer than that.
LOOK_EVERY = 2.0
#: A Deployment's status changes for many reasons, and a claim that conflicts with it is retried.
_MOST_CLAIMS = 5
_CONFLICT = 409


class RemovalOutcome(enum.Enum):
    """VANISHED: the pod was gone, or another one has its name. UNKNOWN: the answer was lost, and
    the pod may be on its way out all the same."""

    EVICTED = "evicted"
    DELETED = "deleted"
    PDB_BLOCKED = "pdb_blocked"
    VANISHED = "vanished"
    HELD_BACK = "held_back"
    UNKNOWN = "unknown"
    FAILED = "failed"


_OUTCOMES = {
    RemovalAnswer.GONE: RemovalOutcome.VANISHED,
    RemovalAnswer.LOST: RemovalOutcome.UNKNOWN,
    RemovalAnswer.BUDGET: RemovalOutcome.PDB_BLOCKED,
}


class RemovalAttempt(msgspec.Struct, frozen=True):
    """`because` is a sentence; empty if the pod was removed."""

    pod: PodUsage
    outcome: RemovalOutcome
    because: str = ""

    @property
    def removed(self) -> bool:
        return self.outcome in (RemovalOutcome.EVICTED, RemovalOutcome.DELETED)


class AnnotationOutcome(enum.Enum):
    """CONFLICT: the workload was changed since it was read."""

    WRITTEN = "written"
    CONFLICT = "conflict"
    FAILED = "failed"


class AnnotationResult(msgspec.Struct, frozen=True):
    outcome: AnnotationOutcome
    because: str = ""


class PodClient(EvictingClient, Protocol):
    """The part of kube.client.Client that is needed here."""

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_seconds: int | None = None,
    ) -> None: ...


class PodWriter:
    """Removes pods and writes the annotation. Waits for nothing and retries nothing."""

    def __init__(self, client: PodClient, removal: Removal, grace: int | None) -> None:
        self._client = client
        self._removal = removal
        self._grace = grace

    def remove(self, namespace: str, pod: PodUsage) -> RemovalAttempt:
        ask = partial(self._remove, namespace, pod)
        reply = ask_removal(ask, self._client, namespace, pod.name, pod.uid)
        outcome = _OUTCOMES.get(reply.answer, RemovalOutcome.FAILED)
        if reply.answer is RemovalAnswer.TAKEN:
            outcome = self._taken
        return RemovalAttempt(pod, outcome, reply.because)

    def settle(self, attempt: RemovalAttempt, found: ObservedWorkload) -> RemovalAttempt:
        """An attempt whose answer was lost, by what became of the pod: if it goes, the request
        was taken. If it is still there, the request may yet arrive."""
        now = next((each for each in found.pods if each.uid == attempt.pod.uid), None)
        if now is None or now.terminating:
            return RemovalAttempt(attempt.pod, self._taken)
        return attempt

    @property
    def _taken(self) -> RemovalOutcome:
        deletes = self._removal is Removal.DELETE
        return RemovalOutcome.DELETED if deletes else RemovalOutcome.EVICTED

    def claim(self, observed: ObservedWorkload, last: LastRotation) -> AnnotationResult:
        """Annotates the workload with a rotation that is to begin, unless the workload was changed
        since it was read: of two rebalancers that read the same version, one is refused."""
        return self._annotate(observed, last, {"resourceVersion": observed.resource_version})

    def note(self, observed: ObservedWorkload, last: LastRotation | None) -> AnnotationResult:
        """Updates the annotation of a rotation that was claimed; None removes it."""
        return self._annotate(observed, last, {})

    def _remove(self, namespace: str, pod: PodUsage) -> None:
        if self._removal is Removal.DELETE:
            self._client.delete(PODS, pod.name, namespace, uid=pod.uid, grace_seconds=self._grace)
        else:
            self._client.evict(namespace, pod.name, uid=pod.uid, grace_seconds=self._grace)

    def _annotate(
        self, observed: ObservedWorkload, last: LastRotation | None, only_if: dict[str, str]
    ) -> AnnotationResult:
        text = None if last is None else encode_last_rotation(last, format_time)
        # The uid keeps this from annotating a new workload of the same name.
        meta = {"uid": observed.uid, "annotations": {ANNOTATION: text}, **only_if}
        workload = observed.workload
        try:
            self._client.patch(
                resource_of(observed),
                workload.name,
                {"metadata": meta},
                kind=PatchKind.MERGE,
                namespace=workload.namespace,
            )
        except HttpStatusError as refused:
            outcome = (
                AnnotationOutcome.CONFLICT
                if refused.status == _CONFLICT
                else AnnotationOutcome.FAILED
            )
            return AnnotationResult(
                outcome, f"the rotation cannot be noted on {workload}: {refused}"
            )
        except RequestError as error:
            return AnnotationResult(
                AnnotationOutcome.FAILED, f"the rotation cannot be noted on {workload}: {error}"
            )
        return AnnotationResult(AnnotationOutcome.WRITTEN)


def resource_of(observed: ObservedWorkload) -> Resource:
    """All kinds that are rotated are of the group apps and have a regular plural."""
    group, _, version = observed.api_version.rpartition("/")
    kind = observed.workload.kind
    return Resource(group, version, f"{kind.lower()}s", kind)


class RotationContext(msgspec.Struct, frozen=True):
    """`look` reads the workload again. `clock` is monotonic, in seconds; `wait` may return early if
    the program is to end; `halted` gives the reason to stop, empty while there is none;
    `on_attempt` is called for each pod at once."""

    look: Callable[[], ObservedWorkload | Unavailable]
    writer: PodWriter
    clock: Callable[[], float]
    wait: Callable[[float], object]
    halted: Callable[[], str]
    on_attempt: Callable[[RemovalAttempt], None]


class RotationTask(msgspec.Struct, frozen=True):
    """`observed`: what the decision is based on; `claim`: what is written to the workload's
    annotation. `patience`: seconds that new pods may take to be Ready."""

    observed: ObservedWorkload
    batches: tuple[tuple[PodUsage, ...], ...]
    claim: LastRotation
    patience: float


class RotationStop(msgspec.Struct, frozen=True):
    """Why a rotation stopped early. `failed`: it needs somebody's attention."""

    reason: Reason
    because: str
    failed: bool = False

    @property
    def is_stuck(self) -> bool:
        """Pods were removed, and their replacements do not become Ready."""
        return self.failed and self.reason is Reason.ROTATED


class RotationResult(msgspec.Struct, frozen=True):
    """`left`: pods that were not tried because it stopped early; `stop` says why, None if it was
    completed. `remarks`: what else went wrong."""

    attempts: tuple[RemovalAttempt, ...] = ()
    left: tuple[PodUsage, ...] = ()
    stop: RotationStop | None = None
    remarks: tuple[str, ...] = ()

    @property
    def removed(self) -> tuple[PodUsage, ...]:
        return tuple(each.pod for each in self.attempts if each.removed)

    @property
    def unknown(self) -> tuple[PodUsage, ...]:
        """Pods that may be going: nobody knows whether the request was taken."""
        return tuple(a.pod for a in self.attempts if a.outcome is RemovalOutcome.UNKNOWN)


def rotate(task: RotationTask, context: RotationContext) -> RotationResult:
    """Claims the workload, removes its pods, and finally completes or withdraws the claim."""
    pods = [pod for batch in task.batches for pod in batch]
    found = _claim(task, context)
    if isinstance(found, RotationStop):
        return RotationResult((), tuple(pods), found)
    attempts: list[RemovalAttempt] = []
    stop = _rotate_batches(task, context, found, attempts)
    left = pods[len(attempts) :]
    if stop is not None and stop.reason is Reason.PDB_BLOCKED:
        blocked = attempts[-1].pod.name
        for pod in left:
            because = f"not tried, since a disruption budget holds {blocked}"
            attempts.append(
                _report(RemovalAttempt(pod, RemovalOutcome.PDB_BLOCKED, because), context)
            )
        left = []
    done = RotationResult(tuple(attempts), tuple(left), stop)
    return msgspec.structs.replace(done, remarks=_settle_claim(task, found, done, context))


def ready_pods(observed: ObservedWorkload) -> tuple[PodUsage, ...]:
    """Those that carry load and are going to stay."""
    return tuple(pod for pod in observed.pods if pod.ready and not pod.terminating)


def _claim(task: RotationTask, context: RotationContext) -> ObservedWorkload | RotationStop:
    """The workload as it was when it was claimed."""
    conflict = ""
    for _ in range(_MOST_CLAIMS):
        if halted := context.halted():
            return RotationStop(Reason.STOPPED, halted)
        found = context.look()
        if isinstance(found, Unavailable):
            return RotationStop(found.reason, found.because, failed=True)
        if stop := _check_unchanged(task, found, _rotated_at(task.observed)) or _check_rollout(
            found
        ):
            return stop
        written = context.writer.claim(found, _in_flight(task.claim))
        if written.outcome is AnnotationOutcome.WRITTEN:
            return found
        if written.outcome is AnnotationOutcome.FAILED:
            return RotationStop(Reason.KUBERNETES_ERROR, written.because, failed=True)
        conflict = written.because
    return RotationStop(
        Reason.COOLDOWN, f"another writer keeps changing it, so it waits: {conflict}"
    )


def _in_flight(claim: LastRotation) -> LastRotation:
    """Marked as judged, so that a rotation during which this process is killed is never judged."""
    return msgspec.structs.replace(claim, judged=True)


def _check_unchanged(
    task: RotationTask, found: ObservedWorkload, rotated_at: float | str | None
) -> RotationStop | None:
    """Checks what may have changed since the decision or the last batch. `rotated_at`: the last
    rotation that is known here."""
    name = task.observed.workload
    if found.uid != task.observed.uid:
        return RotationStop(
            Reason.WORKLOAD_MISSING, f"{name} was deleted, and another has its name"
        )
    if _rotated_at(found) != rotated_at:
        return RotationStop(Reason.COOLDOWN, f"another rebalancer began to rotate {name} meanwhile")
    if found.opted_out:
        return RotationStop(Reason.OPTED_OUT, found.opted_out)
    scaling = found.scaling
    if scaling.desired < scaling.current:
        because = f"the HPA now wants {scaling.desired} pods instead of {scaling.current}"
        return RotationStop(Reason.HPA_SCALING, because)
    return None


def _check_rollout(found: ObservedWorkload) -> RotationStop | None:
    """Only before the first batch: later, the replacement of our own pods looks like a rollout."""
    rollout = found.scaling.rollout
    return RotationStop(Reason.ROLLOUT_IN_PROGRESS, rollout) if rollout else None


def _rotated_at(observed: ObservedWorkload) -> float | str | None:
    """Tells rotations apart; for an annotation that cannot be read by what is wrong with it."""
    match observed.last:
        case None:
            return None
        case Gap(reason):
            return reason
        case last:
            return last.at


def _rotate_batches(
    task: RotationTask,
    context: RotationContext,
    found: ObservedWorkload,
    attempts: list[RemovalAttempt],
) -> RotationStop | None:
    wanted = len(ready_pods(found))
    for batch in task.batches:
        before = len(attempts)
        stop = _remove_batch(batch, found, context, attempts)
        if stop is not None:
            return stop
        if any(each.removed for each in attempts[before:]):
            ready = _wait_until_ready(task, context, wanted, _uids(attempts))
            if isinstance(ready, RotationStop):
                return ready
            found = ready
    return None


def _remove_batch(
    batch: tuple[PodUsage, ...],
    found: ObservedWorkload,
    context: RotationContext,
    attempts: list[RemovalAttempt],
) -> RotationStop | None:
    for pod in batch:
        if halted := context.halted():
            return RotationStop(Reason.STOPPED, halted)
        attempt = _skip(pod, found) or context.writer.remove(found.workload.namespace, pod)
        if attempt.outcome is RemovalOutcome.UNKNOWN:
            again = context.look()
            if isinstance(again, ObservedWorkload):
                attempt = context.writer.settle(attempt, again)
        attempts.append(_report(attempt, context))
        if attempt.outcome is RemovalOutcome.PDB_BLOCKED:
            return RotationStop(Reason.PDB_BLOCKED, attempt.because)
        if attempt.outcome in (RemovalOutcome.FAILED, RemovalOutcome.UNKNOWN):
            return RotationStop(Reason.KUBERNETES_ERROR, attempt.because, failed=True)
    return None


def _report(attempt: RemovalAttempt, context: RotationContext) -> RemovalAttempt:
    context.on_attempt(attempt)
    return attempt


def _skip(pod: PodUsage, found: ObservedWorkload) -> RemovalAttempt | None:
    """Why this pod is not removed, as of the last read; None if it may be."""
    now = next((each for each in found.pods if each.uid == pod.uid), None)
    if now is None or now.terminating:
        return RemovalAttempt(pod, RemovalOutcome.VANISHED, "it was gone already")
    return RemovalAttempt(pod, RemovalOutcome.HELD_BACK, now.held_back) if now.held_back else None


def _wait_until_ready(
    task: RotationTask, context: RotationContext, wanted: int, gone: frozenset[str]
) -> ObservedWorkload | RotationStop:
    """The workload once as many pods are Ready as before, not counting those that were removed.
    These are told apart by uid: a StatefulSet's new pods have the old names."""
    until = context.clock() + task.patience
    while True:
        if halted := context.halted():
            return RotationStop(Reason.STOPPED, halted)
        found = context.look()
        missing = found.because if isinstance(found, Unavailable) else _missing(found, wanted, gone)
        if isinstance(found, ObservedWorkload):
            if stop := _check_unchanged(task, found, task.claim.at):
                return stop
            if not missing:
                return found
        if context.clock() >= until:
            because = f"{missing}, {task.patience:g} s after the last pod went"
            return RotationStop(Reason.ROTATED, because, failed=True)
        context.wait(LOOK_EVERY)


def _missing(found: ObservedWorkload, wanted: int, gone: frozenset[str]) -> str:
    """Why the next batch has to wait; empty if it need not."""
    ready = sum(pod.uid not in gone for pod in ready_pods(found))
    if ready < wanted:
        return f"{ready} of {wanted} pods are Ready"
    return found.scaling.rollout


def _uids(attempts: Iterable[RemovalAttempt]) -> frozenset[str]:
    return frozenset(each.pod.uid for each in attempts if each.removed)


def _settle_claim(
    task: RotationTask, found: ObservedWorkload, done: RotationResult, context: RotationContext
) -> tuple[str, ...]:
    """If no pod was removed, the claim is withdrawn: there is nothing to cool down from. If all
    were, the outcome is to be judged; if only some were, it is never judged. A pod that may be
    going counts as gone: without the cool-down each round would take another one."""
    if not done.removed and not done.unknown:
        before = None if isinstance(task.observed.last, Gap) else task.observed.last
        written = context.writer.note(found, before)
    elif len(done.removed) == sum(map(len, task.batches)):
        written = context.writer.note(found, task.claim)
    else:
        return ()
    return () if written.outcome is AnnotationOutcome.WRITTEN else (written.because,)
