"""One workload's rotation: batch after batch, each once the pods of the one before are replaced.

Owns the order of the steps and when to stop. The claim on the workload comes before the first pod
goes; the workload is looked at again before each batch. Whatever stops a rotation leaves the rest
where it is, said. Clock and sleep are the caller's; the writes are pod_writer's.
"""

import enum
from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from slackwater.http.errors import RequestError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import PatchKind
from slackwater.kube.resource import PODS, Resource
from slackwater.model.gap import Gap
from slackwater.rebalancer.last_rotation import ANNOTATION, encode_last_rotation
from slackwater.rebalancer.observed import LastRotation, LivePod, ObservedWorkload, Unavailable
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.selection import Candidate
from slackwater.settings.rebalancer import Removal

_CONFLICT = 409
#: Flow control answers 429 too; only this one is about a budget (pkg/registry/core/pod/storage).
_BUDGET = "disruption budget"
#: What it says of a pod that has the name by now, to an eviction and to a deletion.
_OTHER_UID = "UID in "


class RemovalOutcome(enum.Enum):
    """What became of a pod that was to go."""

    EVICTED = "evicted"
    DELETED = "deleted"
    PDB_BLOCKED = "pdb_blocked"
    VANISHED = "vanished"
    HELD_BACK = "held_back"
    FAILED = "failed"


class RemovalAttempt(msgspec.Struct, frozen=True):
    """`because` is one sentence; empty where the pod went."""

    pod: Candidate
    fate: RemovalOutcome
    because: str = ""

    @property
    def went(self) -> bool:
        return self.fate in (RemovalOutcome.EVICTED, RemovalOutcome.DELETED)


class AnnotationOutcome(enum.Enum):
    """OUTRUN: somebody changed the workload since it was read."""

    WRITTEN = "written"
    OUTRUN = "outrun"
    FAILED = "failed"


class AnnotationResult(msgspec.Struct, frozen=True):
    ended: AnnotationOutcome
    because: str = ""


class PodClient(Protocol):
    """A client, as far as it is used here."""

    def patch(
        self,
        resource: Resource,
        name: str,
        body: object,
        *,
        kind: PatchKind,
        namespace: str = "",
        subresource: str = "",
    ) -> bytes: ...

    def evict(
        self,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        grace_seconds: int | None = None,
        dry_run: bool = False,
    ) -> None: ...

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
    """Guards the client's verbs that change something."""

    def __init__(self, client: PodClient, removal: Removal, grace: int | None) -> None:
        self._client = client
        self._removal = removal
        self._grace = grace

    def remove(self, namespace: str, pod: Candidate) -> RemovalAttempt:
        try:
            return RemovalAttempt(pod, self._remove(namespace, pod))
        except HttpStatusError as refused:
            return RemovalAttempt(pod, _fate(refused), _describe_refusal(refused))
        except RequestError as error:
            # It may be gone all the same: the question was on its way.
            return RemovalAttempt(pod, RemovalOutcome.FAILED, str(error))

    def claim(self, observed: ObservedWorkload, last: LastRotation) -> AnnotationResult:
        """Notes the rotation that is to begin, unless the workload was changed since it was read:
        of two rebalancers that read the same, one is refused."""
        return self._annotate(observed, last, {"resourceVersion": observed.resource_version})

    def note(self, observed: ObservedWorkload, last: LastRotation | None) -> AnnotationResult:
        """Says more about a rotation that was claimed; None takes the claim back."""
        return self._annotate(observed, last, {})

    def _remove(self, namespace: str, pod: Candidate) -> RemovalOutcome:
        if self._removal is Removal.DELETE:
            self._client.delete(PODS, pod.name, namespace, uid=pod.uid, grace_seconds=self._grace)
            return RemovalOutcome.DELETED
        self._client.evict(namespace, pod.name, uid=pod.uid, grace_seconds=self._grace)
        return RemovalOutcome.EVICTED

    def _annotate(
        self, observed: ObservedWorkload, last: LastRotation | None, only_if: dict[str, str]
    ) -> AnnotationResult:
        text = None if last is None else encode_last_rotation(last)
        # With the uid a workload of the same name that came since is not taken for this one.
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
            ended = (
                AnnotationOutcome.OUTRUN
                if refused.status == _CONFLICT
                else AnnotationOutcome.FAILED
            )
            return AnnotationResult(ended, f"the rotation cannot be noted on {workload}: {refused}")
        except RequestError as error:
            return AnnotationResult(
                AnnotationOutcome.FAILED, f"the rotation cannot be noted on {workload}: {error}"
            )
        return AnnotationResult(AnnotationOutcome.WRITTEN)


def resource_of(observed: ObservedWorkload) -> Resource:
    """The kinds that are rotated are all of apps, with a regular plural."""
    group, _, version = observed.api_version.rpartition("/")
    kind = observed.workload.kind
    return Resource(group, version, f"{kind.lower()}s", kind)


def _fate(refused: HttpStatusError) -> RemovalOutcome:
    match refused.status:
        case 404:
            return RemovalOutcome.VANISHED
        case 409 if _OTHER_UID in refused.message:
            return RemovalOutcome.VANISHED
        case 429 if _BUDGET in refused.message.lower():
            return RemovalOutcome.PDB_BLOCKED
        case _:
            return RemovalOutcome.FAILED


def _describe_refusal(refused: HttpStatusError) -> str:
    match _fate(refused):
        case RemovalOutcome.VANISHED:
            return "it was gone already"
        case RemovalOutcome.PDB_BLOCKED:
            return f"a disruption budget holds it: {' '.join(refused.message.split())}"
        case _:
            return str(refused)


#: Between two looks while new pods start, in seconds: they take longer than that to be Ready.
LOOK_EVERY = 2.0
#: A Deployment's status changes for many reasons; a claim that was outrun by one is made again.
_MOST_CLAIMS = 5

#: The workload as it is now.
Look = Callable[[], ObservedWorkload | Unavailable]


class RotationWriter(Protocol):
    """A PodWriter."""

    def remove(self, namespace: str, pod: Candidate) -> RemovalAttempt: ...

    def claim(self, observed: ObservedWorkload, last: LastRotation) -> AnnotationResult: ...

    def note(self, observed: ObservedWorkload, last: LastRotation | None) -> AnnotationResult: ...


class RotationContext(msgspec.Struct, frozen=True):
    """What a rotation works with. `clock` only goes forward, in seconds; `wait` may return early
    where we are to end; `halted` is why we are to stop, empty while we may go on; `told` hears of
    each pod at once."""

    look: Look
    writer: RotationWriter
    clock: Callable[[], float]
    wait: Callable[[float], object]
    halted: Callable[[], str]
    told: Callable[[RemovalAttempt], None]


class RotationTask(msgspec.Struct, frozen=True):
    """`seen`: what the decision was made on; `claim`: what is noted on the workload. `patience`:
    how long new pods may take to be Ready, in seconds."""

    observed: ObservedWorkload
    batches: tuple[tuple[Candidate, ...], ...]
    claim: LastRotation
    patience: float


class RotationStop(msgspec.Struct, frozen=True):
    """Why a rotation stopped. `failed`: somebody has to look at it."""

    reason: Reason
    because: str
    failed: bool = False

    @property
    def is_stuck(self) -> bool:
        """Pods went, and their replacements do not come."""
        return self.failed and self.reason is Reason.ROTATED


class RotationResult(msgspec.Struct, frozen=True):
    """What was tried, and who was left where it is because it stopped: `halt` says why, None where
    it came to its end. `remarks`: what went wrong beside the pods."""

    attempts: tuple[RemovalAttempt, ...] = ()
    left: tuple[Candidate, ...] = ()
    stop: RotationStop | None = None
    remarks: tuple[str, ...] = ()

    @property
    def went(self) -> tuple[Candidate, ...]:
        return tuple(each.pod for each in self.attempts if each.went)


def rotate(task: RotationTask, context: RotationContext) -> RotationResult:
    """Claims, removes, waits; and in the end says on the workload what came of the claim."""
    pods = [pod for batch in task.batches for pod in batch]
    found = _claimed(task, context)
    if isinstance(found, RotationStop):
        return RotationResult((), tuple(pods), found)
    attempts: list[RemovalAttempt] = []
    stop = _all_batches(task, context, found, attempts)
    left = pods[len(attempts) :]
    if stop is not None and stop.reason is Reason.PDB_BLOCKED:
        blocked = attempts[-1].pod.name
        for pod in left:
            said = f"not tried, since a disruption budget holds {blocked}"
            attempts.append(_tell(RemovalAttempt(pod, RemovalOutcome.PDB_BLOCKED, said), context))
        left = []
    done = RotationResult(tuple(attempts), tuple(left), stop)
    return msgspec.structs.replace(done, remarks=_corrected(task, found, done, context))


def ready_pods(observed: ObservedWorkload) -> tuple[LivePod, ...]:
    """Those that carry load, and will go on to."""
    return tuple(pod for pod in observed.pods if pod.ready and not pod.terminating)


def _claimed(task: RotationTask, context: RotationContext) -> ObservedWorkload | RotationStop:
    """The workload as it was when it was claimed."""
    outrun = ""
    for _ in range(_MOST_CLAIMS):
        if halted := context.halted():
            return RotationStop(Reason.STOPPED, halted)
        found = context.look()
        if isinstance(found, Unavailable):
            return RotationStop(found.reason, found.because, failed=True)
        if stop := _forbidden(task, found, _rotated_at(task.observed)) or _unsettled(found):
            return stop
        noted = context.writer.claim(found, _in_flight(task.claim))
        if noted.ended is AnnotationOutcome.WRITTEN:
            return found
        if noted.ended is AnnotationOutcome.FAILED:
            return RotationStop(Reason.KUBERNETES_ERROR, noted.because, failed=True)
        outrun = noted.because
    return RotationStop(Reason.COOLDOWN, f"somebody keeps changing it, so it waits: {outrun}")


def _in_flight(claim: LastRotation) -> LastRotation:
    """Not to be judged: whoever is killed in the middle of a rotation cannot say so any more."""
    return msgspec.structs.replace(claim, judged=True)


def _forbidden(task: RotationTask, found: ObservedWorkload, rotated_at: str) -> RotationStop | None:
    """What may have changed since the decision, or since the last batch. `rotated_at`: the last
    rotation that we know of."""
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
        said = f"the HPA now wants {scaling.desired} pods instead of {scaling.current}"
        return RotationStop(Reason.HPA_SCALING, said)
    return None


def _unsettled(found: ObservedWorkload) -> RotationStop | None:
    """A rollout that began meanwhile; later our own pods' replacement looks like one."""
    rollout = found.scaling.rollout
    return RotationStop(Reason.ROLLOUT_IN_PROGRESS, rollout) if rollout else None


def _rotated_at(observed: ObservedWorkload) -> str:
    match observed.last:
        case None:
            return ""
        case Gap(reason):
            return reason
        case last:
            return last.at


def _all_batches(
    task: RotationTask,
    context: RotationContext,
    found: ObservedWorkload,
    attempts: list[RemovalAttempt],
) -> RotationStop | None:
    wanted = len(ready_pods(found))
    for batch in task.batches:
        before = len(attempts)
        stop = _one_batch(batch, found, context, attempts)
        went = any(each.went for each in attempts[before:])
        if stop is not None:
            return stop
        if went:
            settled = _settled(task, context, wanted, _uids(attempts))
            if isinstance(settled, RotationStop):
                return settled
            found = settled
    return None


def _one_batch(
    batch: tuple[Candidate, ...],
    found: ObservedWorkload,
    context: RotationContext,
    attempts: list[RemovalAttempt],
) -> RotationStop | None:
    for pod in batch:
        if halted := context.halted():
            return RotationStop(Reason.STOPPED, halted)
        attempt = _spared(pod, found) or context.writer.remove(found.workload.namespace, pod)
        attempts.append(_tell(attempt, context))
        if attempt.fate is RemovalOutcome.PDB_BLOCKED:
            return RotationStop(Reason.PDB_BLOCKED, attempt.because)
        if attempt.fate is RemovalOutcome.FAILED:
            return RotationStop(Reason.KUBERNETES_ERROR, attempt.because, failed=True)
    return None


def _tell(attempt: RemovalAttempt, context: RotationContext) -> RemovalAttempt:
    context.told(attempt)
    return attempt


def _spared(pod: Candidate, found: ObservedWorkload) -> RemovalAttempt | None:
    """What the last look says against this pod; None where it may go."""
    now = next((each for each in found.pods if each.uid == pod.uid), None)
    if now is None or now.terminating:
        return RemovalAttempt(pod, RemovalOutcome.VANISHED, "it was gone already")
    return RemovalAttempt(pod, RemovalOutcome.HELD_BACK, now.held_back) if now.held_back else None


def _settled(
    task: RotationTask, context: RotationContext, wanted: int, gone: frozenset[str]
) -> ObservedWorkload | RotationStop:
    """The workload once as many pods are Ready as before, without those that we sent away. By
    uid: a StatefulSet's new pods have the old names."""
    until = context.clock() + task.patience
    while True:
        if halted := context.halted():
            return RotationStop(Reason.STOPPED, halted)
        found = context.look()
        missing = found.because if isinstance(found, Unavailable) else _missing(found, wanted, gone)
        if isinstance(found, ObservedWorkload):
            if stop := _forbidden(task, found, task.claim.at):
                return stop
            if not missing:
                return found
        if context.clock() >= until:
            said = f"{missing}, {task.patience:g} s after the last pod went"
            return RotationStop(Reason.ROTATED, said, failed=True)
        context.wait(LOOK_EVERY)


def _missing(found: ObservedWorkload, wanted: int, gone: frozenset[str]) -> str:
    """Why the next batch has to wait; empty where it need not."""
    ready = sum(pod.uid not in gone for pod in ready_pods(found))
    if ready < wanted:
        return f"{ready} of {wanted} pods are Ready"
    return found.scaling.rollout


def _uids(attempts: Iterable[RemovalAttempt]) -> frozenset[str]:
    return frozenset(each.pod.uid for each in attempts if each.went)


def _corrected(
    task: RotationTask, found: ObservedWorkload, done: RotationResult, context: RotationContext
) -> tuple[str, ...]:
    """Where nobody went the claim is taken back: there is nothing to cool down from. Where all
    went, the outcome is to be judged; where some stayed, it is not held against the prediction."""
    if not done.went:
        before = None if isinstance(task.observed.last, Gap) else task.observed.last
        noted = context.writer.note(found, before)
    elif len(done.went) == sum(map(len, task.batches)):
        noted = context.writer.note(found, task.claim)
    else:
        return ()
    return () if noted.ended is AnnotationOutcome.WRITTEN else (noted.because,)
