"""What became of a request to remove a pod, by eviction or deletion.

A conflict about the uid has the same status and reason as one with another writer, so the pod is
read to tell them apart. An answer that was lost says nothing: the pod may be on its way out.
"""

import enum
from collections.abc import Callable
from typing import Protocol

import msgspec

from slackwater.contract.resources import PODS, Resource
from slackwater.http.errors import CredentialsError, RequestError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import PatchKind

_CONFLICT, _FORBIDDEN = 409, 403
#: A gateway in between gave up on the server, or the server on its own work.
_GAVE_UP = (502, 504)
#: Flow control answers 429 too; only with this cause is it about a budget (policy/v1).
_BUDGET_CAUSE = "DisruptionBudget"


class RemovalAnswer(enum.Enum):
    TAKEN = "taken"  # the pod may take its grace period to go
    GONE = "gone"  # the pod was gone, or another one has its name
    BUDGET = "budget"  # a disruption budget holds it
    FORBIDDEN = "forbidden"  # a right is missing
    REFUSED = "refused"
    LOST = "lost"  # there was no answer


class RemovalReply(msgspec.Struct, frozen=True):
    """`because` is a sentence, empty where the request was taken; `retry_after` is in seconds."""

    answer: RemovalAnswer
    because: str = ""
    retry_after: float | None = None


class PodReading(Protocol):
    """The part of kube.client.Client that is needed here."""

    def get(self, resource: Resource, name: str, namespace: str = "") -> bytes: ...


class EvictingClient(PodReading, Protocol):
    """What the agent's commands and the rebalancer need of kube.client.Client."""

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


class _PodMetadata(msgspec.Struct, frozen=True):
    uid: str


class _NamedPod(msgspec.Struct, frozen=True):
    metadata: _PodMetadata


def ask_removal(
    ask: Callable[[], None], client: PodReading, namespace: str, name: str, uid: str
) -> RemovalReply:
    """`ask` sends the request, with the uid as its precondition."""
    try:
        ask()
    except HttpStatusError as refused:
        conflict = refused.status == _CONFLICT
        if refused.status == 404 or (conflict and _is_gone(client, namespace, name, uid)):
            return RemovalReply(RemovalAnswer.GONE, "it was gone already")
        return _explain(refused)
    except CredentialsError as error:
        return RemovalReply(RemovalAnswer.REFUSED, str(error))
    except RequestError as error:
        return RemovalReply(RemovalAnswer.LOST, str(error))
    return RemovalReply(RemovalAnswer.TAKEN)


def _explain(refused: HttpStatusError) -> RemovalReply:
    if _BUDGET_CAUSE in refused.causes:
        because = f"a disruption budget holds it: {' '.join(refused.message.split())}"
        return RemovalReply(RemovalAnswer.BUDGET, because, refused.retry_after)
    answer = RemovalAnswer.REFUSED
    if refused.status == _FORBIDDEN:
        answer = RemovalAnswer.FORBIDDEN
    elif refused.status in _GAVE_UP:
        answer = RemovalAnswer.LOST
    return RemovalReply(answer, str(refused), refused.retry_after)


def _is_gone(client: PodReading, namespace: str, name: str, uid: str) -> bool:
    """Whether another pod has the name by now, or none."""
    try:
        body = client.get(PODS, name, namespace)
        return msgspec.json.decode(body, type=_NamedPod).metadata.uid != uid
    except HttpStatusError as refused:
        return refused.status == 404
    except (RequestError, msgspec.DecodeError, UnicodeError, RecursionError):
        return False
