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
from slackwater.rebalancer.last_rotation import ANNOTATION, text_of
from slackwater.rebalancer.observed import LastRotation, LivePod, Problem, WorkloadSeen
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.selection import Candidate
from slackwater.settings.rotation import Removal

_CONFLICT = 409
#: Flow control answers 429 too; only this one is about a budget (pkg/registry/core/pod/storage).
_BUDGET = "disruption budget"
#: What it says of a pod that has the name by now, to an eviction and to a deletion.
_OTHER_UID = "UID in "


class Fate(enum.Enum):
    """What became of a pod that was to go."""

    EVICTED = "evicted"
    DELETED = "deleted"
    PDB_BLOCKED = "pdb_blocked"
    VANISHED = "vanished"
    HELD_BACK = "held_back"
    FAILED = "failed"


class Attempt(msgspec.Struct, frozen=True):
    """`because` is one sentence; empty where the pod went."""

    pod: Candidate
    fate: Fate
    because: str = ""

    @property
    def went(self) -> bool:
        return self.fate in (Fate.EVICTED, Fate.DELETED)


class Noted(enum.Enum):
    """OUTRUN: somebody changed the workload since it was read."""

    WRITTEN = "written"
    OUTRUN = "outrun"
    FAILED = "failed"


class NoteAttempt(msgspec.Struct, frozen=True):
    ended: Noted
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

    def remove(self, namespace: str, pod: Candidate) -> Attempt:
        try:
            return Attempt(pod, self._remove(namespace, pod))
        except HttpStatusError as refused:
            return Attempt(pod, _fate(refused), _describe_refusal(refused))
        except RequestError as error:
            # It may be gone all the same: the question was on its way.
            return Attempt(pod, Fate.FAILED, str(error))

    def claim(self, seen: WorkloadSeen, last: LastRotation) -> NoteAttempt:
        """Notes the rotation that is to begin, unless the workload was changed since it was read:
        of two rebalancers that read the same, one is refused."""
        return self._annotate(seen, last, {"resourceVersion": seen.resource_version})

    def note(self, seen: WorkloadSeen, last: LastRotation | None) -> NoteAttempt:
        """Says more about a rotation that was claimed; None takes the claim back."""
        return self._annotate(seen, last, {})

    def _remove(self, namespace: str, pod: Candidate) -> Fate:
        if self._removal is Removal.DELETE:
            self._client.delete(PODS, pod.name, namespace, uid=pod.uid, grace_seconds=self._grace)
            return Fate.DELETED
        self._client.evict(namespace, pod.name, uid=pod.uid, grace_seconds=self._grace)
        return Fate.EVICTED

    def _annotate(
        self, seen: WorkloadSeen, last: LastRotation | None, only_if: dict[str, str]
    ) -> NoteAttempt:
        text = None if last is None else text_of(last)
        # With the uid a workload of the same name that came since is not taken for this one.
        meta = {"uid": seen.uid, "annotations": {ANNOTATION: text}, **only_if}
        workload = seen.workload
        try:
            self._client.patch(
                resource_of(seen),
                workload.name,
                {"metadata": meta},
                kind=PatchKind.MERGE,
                namespace=workload.namespace,
            )
        except HttpStatusError as refused:
            ended = Noted.OUTRUN if refused.status == _CONFLICT else Noted.FAILED
            return NoteAttempt(ended, f"the rotation cannot be noted on {workload}: {refused}")
        except RequestError as error:
            return NoteAttempt(Noted.FAILED, f"the rotation cannot be noted on {workload}: {error}")
        return NoteAttempt(Noted.WRITTEN)


def resource_of(seen: WorkloadSeen) -> Resource:
    """The kinds that are rotated are all of apps, with a regular plural."""
    group, _, version = seen.api_version.rpartition("/")
    kind = seen.workload.kind
    return Resource(group, version, f"{kind.lower()}s", kind)


def _fate(refused: HttpStatusError) -> Fate:
    match refused.status:
        case 404:
            return Fate.VANISHED
        case 409 if _OTHER_UID in refused.message:
            return Fate.VANISHED
        case 429 if _BUDGET in refused.message.lower():
            return Fate.PDB_BLOCKED
        case _:
            return Fate.FAILED


def _describe_refusal(refused: HttpStatusError) -> str:
    match _fate(refused):
        case Fate.VANISHED:
            return "it was gone already"
        case Fate.PDB_BLOCKED:
            return f"a disruption budget holds it: {' '.join(refused.message.split())}"
        case _:
            return str(refused)


#: Between two looks while new pods start, in seconds: they take longer than that to be Ready.
LOOK_EVERY = 2.0
#: A Deployment's status changes for many reasons; a claim that was outrun by one is made again.
_MOST_CLAIMS = 5

#: The workload as it is now.
Look = Callable[[], WorkloadSeen | Problem]


class Writer(Protocol):
    """A PodWriter."""

    def remove(self, namespace: str, pod: Candidate) -> Attempt: ...

    def claim(self, seen: WorkloadSeen, last: LastRotation) -> NoteAttempt: ...

    def note(self, seen: WorkloadSeen, last: LastRotation | None) -> NoteAttempt: ...


class Hands(msgspec.Struct, frozen=True):
    """What a rotation works with. `clock` only goes forward, in seconds; `wait` may return early
    where we are to end; `halted` is why we are to stop, empty while we may go on; `told` hears of
    each pod at once."""

    look: Look
    writer: Writer
    clock: Callable[[], float]
    wait: Callable[[float], object]
    halted: Callable[[], str]
    told: Callable[[Attempt], None]


class Task(msgspec.Struct, frozen=True):
    """`seen`: what the decision was made on; `claim`: what is noted on the workload. `patience`:
    how long new pods may take to be Ready, in seconds."""

    seen: WorkloadSeen
    batches: tuple[tuple[Candidate, ...], ...]
    claim: LastRotation
    patience: float


class Halt(msgspec.Struct, frozen=True):
    """Why a rotation stopped. `failed`: somebody has to look at it."""

    reason: Reason
    because: str
    failed: bool = False

    @property
    def is_stuck(self) -> bool:
        """Pods went, and their replacements do not come."""
        return self.failed and self.reason is Reason.ROTATED


class Rotated(msgspec.Struct, frozen=True):
    """What was tried, and who was left where it is because it stopped: `halt` says why, None where
    it came to its end. `remarks`: what went wrong beside the pods."""

    attempts: tuple[Attempt, ...] = ()
    left: tuple[Candidate, ...] = ()
    halt: Halt | None = None
    remarks: tuple[str, ...] = ()

    @property
    def went(self) -> tuple[Candidate, ...]:
        return tuple(each.pod for each in self.attempts if each.went)


def rotate(task: Task, hands: Hands) -> Rotated:
    """Claims, removes, waits; and in the end says on the workload what came of the claim."""
    pods = [pod for batch in task.batches for pod in batch]
    found = _claimed(task, hands)
    if isinstance(found, Halt):
        return Rotated((), tuple(pods), found)
    attempts: list[Attempt] = []
    halt = _all_batches(task, hands, found, attempts)
    left = pods[len(attempts) :]
    if halt is not None and halt.reason is Reason.PDB_BLOCKED:
        blocked = attempts[-1].pod.name
        for pod in left:
            said = f"not tried, since a disruption budget holds {blocked}"
            attempts.append(_tell(Attempt(pod, Fate.PDB_BLOCKED, said), hands))
        left = []
    done = Rotated(tuple(attempts), tuple(left), halt)
    return msgspec.structs.replace(done, remarks=_corrected(task, found, done, hands))


def ready_pods(seen: WorkloadSeen) -> tuple[LivePod, ...]:
    """Those that carry load, and will go on to."""
    return tuple(pod for pod in seen.pods if pod.ready and not pod.terminating)


def _claimed(task: Task, hands: Hands) -> WorkloadSeen | Halt:
    """The workload as it was when it was claimed."""
    outrun = ""
    for _ in range(_MOST_CLAIMS):
        if halted := hands.halted():
            return Halt(Reason.STOPPED, halted)
        found = hands.look()
        if isinstance(found, Problem):
            return Halt(found.reason, found.because, failed=True)
        if halt := _forbidden(task, found, _rotated_at(task.seen)) or _unsettled(found):
            return halt
        noted = hands.writer.claim(found, _in_flight(task.claim))
        if noted.ended is Noted.WRITTEN:
            return found
        if noted.ended is Noted.FAILED:
            return Halt(Reason.KUBERNETES_ERROR, noted.because, failed=True)
        outrun = noted.because
    return Halt(Reason.COOLDOWN, f"somebody keeps changing it, so it waits: {outrun}")


def _in_flight(claim: LastRotation) -> LastRotation:
    """Not to be judged: whoever is killed in the middle of a rotation cannot say so any more."""
    return msgspec.structs.replace(claim, judged=True)


def _forbidden(task: Task, found: WorkloadSeen, rotated_at: str) -> Halt | None:
    """What may have changed since the decision, or since the last batch. `rotated_at`: the last
    rotation that we know of."""
    name = task.seen.workload
    if found.uid != task.seen.uid:
        return Halt(Reason.WORKLOAD_MISSING, f"{name} was deleted, and another has its name")
    if _rotated_at(found) != rotated_at:
        return Halt(Reason.COOLDOWN, f"another rebalancer began to rotate {name} meanwhile")
    if found.opted_out:
        return Halt(Reason.OPTED_OUT, found.opted_out)
    scaling = found.scaling
    if scaling.desired < scaling.current:
        said = f"the HPA now wants {scaling.desired} pods instead of {scaling.current}"
        return Halt(Reason.HPA_SCALING, said)
    return None


def _unsettled(found: WorkloadSeen) -> Halt | None:
    """A rollout that began meanwhile; later our own pods' replacement looks like one."""
    rollout = found.scaling.rollout
    return Halt(Reason.ROLLOUT_IN_PROGRESS, rollout) if rollout else None


def _rotated_at(seen: WorkloadSeen) -> str:
    match seen.last:
        case None:
            return ""
        case Gap(reason):
            return reason
        case last:
            return last.at


def _all_batches(
    task: Task, hands: Hands, found: WorkloadSeen, attempts: list[Attempt]
) -> Halt | None:
    wanted = len(ready_pods(found))
    for batch in task.batches:
        before = len(attempts)
        halt = _one_batch(batch, found, hands, attempts)
        went = any(each.went for each in attempts[before:])
        if halt is not None:
            return halt
        if went:
            settled = _settled(task, hands, wanted, _uids(attempts))
            if isinstance(settled, Halt):
                return settled
            found = settled
    return None


def _one_batch(
    batch: tuple[Candidate, ...], found: WorkloadSeen, hands: Hands, attempts: list[Attempt]
) -> Halt | None:
    for pod in batch:
        if halted := hands.halted():
            return Halt(Reason.STOPPED, halted)
        attempt = _spared(pod, found) or hands.writer.remove(found.workload.namespace, pod)
        attempts.append(_tell(attempt, hands))
        if attempt.fate is Fate.PDB_BLOCKED:
            return Halt(Reason.PDB_BLOCKED, attempt.because)
        if attempt.fate is Fate.FAILED:
            return Halt(Reason.KUBERNETES_ERROR, attempt.because, failed=True)
    return None


def _tell(attempt: Attempt, hands: Hands) -> Attempt:
    hands.told(attempt)
    return attempt


def _spared(pod: Candidate, found: WorkloadSeen) -> Attempt | None:
    """What the last look says against this pod; None where it may go."""
    now = next((each for each in found.pods if each.uid == pod.uid), None)
    if now is None or now.terminating:
        return Attempt(pod, Fate.VANISHED, "it was gone already")
    return Attempt(pod, Fate.HELD_BACK, now.held_back) if now.held_back else None


def _settled(task: Task, hands: Hands, wanted: int, gone: frozenset[str]) -> WorkloadSeen | Halt:
    """The workload once as many pods are Ready as before, without those that we sent away. By
    uid: a StatefulSet's new pods have the old names."""
    until = hands.clock() + task.patience
    while True:
        if halted := hands.halted():
            return Halt(Reason.STOPPED, halted)
        found = hands.look()
        missing = found.because if isinstance(found, Problem) else _missing(found, wanted, gone)
        if isinstance(found, WorkloadSeen):
            if halt := _forbidden(task, found, task.claim.at):
                return halt
            if not missing:
                return found
        if hands.clock() >= until:
            said = f"{missing}, {task.patience:g} s after the last pod went"
            return Halt(Reason.ROTATED, said, failed=True)
        hands.wait(LOOK_EVERY)


def _missing(found: WorkloadSeen, wanted: int, gone: frozenset[str]) -> str:
    """Why the next batch has to wait; empty where it need not."""
    ready = sum(pod.uid not in gone for pod in ready_pods(found))
    if ready < wanted:
        return f"{ready} of {wanted} pods are Ready"
    return found.scaling.rollout


def _uids(attempts: Iterable[Attempt]) -> frozenset[str]:
    return frozenset(each.pod.uid for each in attempts if each.went)


def _corrected(task: Task, found: WorkloadSeen, done: Rotated, hands: Hands) -> tuple[str, ...]:
    """Where nobody went the claim is taken back: there is nothing to cool down from. Where all
    went, the outcome is to be judged; where some stayed, it is not held against the prediction."""
    if not done.went:
        before = None if isinstance(task.seen.last, Gap) else task.seen.last
        noted = hands.writer.note(found, before)
    elif len(done.went) == sum(map(len, task.batches)):
        noted = hands.writer.note(found, task.claim)
    else:
        return ()
    return () if noted.ended is Noted.WRITTEN else (noted.because,)
