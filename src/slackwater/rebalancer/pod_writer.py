"""The only module of the rebalancer that changes an API object: pods go, workloads are noted.

Owns what the API server's answers to that mean. A pod goes by its uid, so never one that has its
name by now. Waits for nothing and tries nothing twice: when that is right is rotation's to know.
"""

import enum
from typing import Protocol

import msgspec

from slackwater.kube.answer import HttpStatusError, KubeError
from slackwater.kube.client import PatchKind
from slackwater.kube.resource import PODS, Resource
from slackwater.rebalancer.fleet import LastRotation
from slackwater.rebalancer.last_rotation import ANNOTATION, text_of
from slackwater.rebalancer.proposal import Candidate
from slackwater.rebalancer.seen import WorkloadSeen
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


class Writing(Protocol):
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

    def __init__(self, client: Writing, removal: Removal, grace: int | None) -> None:
        self._client = client
        self._removal = removal
        self._grace = grace

    def remove(self, namespace: str, pod: Candidate) -> Attempt:
        try:
            return Attempt(pod, self._remove(namespace, pod))
        except HttpStatusError as refused:
            return Attempt(pod, _fate(refused), _told(refused))
        except KubeError as error:
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
        except KubeError as error:
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


def _told(refused: HttpStatusError) -> str:
    match _fate(refused):
        case Fate.VANISHED:
            return "it was gone already"
        case Fate.PDB_BLOCKED:
            return f"a disruption budget holds it: {' '.join(refused.message.split())}"
        case _:
            return str(refused)
