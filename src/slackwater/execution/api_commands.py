"""Carries out commands at the API server: the Eviction API, and the Node's taint, its condition
and its extended resources.

A pod is read before it is evicted: a new pod of the same name, one of another node, one that goes
already, a static pod's copy, a critical one, a DaemonSet's and one of kube-system are left alone,
whatever was asked: the API server would refuse them too (charts/slackwater/templates/
admission-eviction.yaml). After a lost answer this look also tells whether the eviction was taken.
"""

import time
from collections.abc import Callable
from functools import partial

import msgspec

from slackwater.contract.kubernetes_pod import MIRROR
from slackwater.contract.node_interference import (
    NodeInterference,
    SeenInterference,
    TaintedNode,
    annotation_text,
    condition_patch,
    read_interference,
)
from slackwater.contract.node_offer import NodeOffer, SeenOffer, offer_patch, read_seen_offer
from slackwater.contract.resources import NODES, PODS
from slackwater.execution.node_states import CommandAttempt
from slackwater.http.errors import CredentialsError, RequestError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.api_time import format_time
from slackwater.kube.client import PatchKind
from slackwater.kube.pod_removal import EvictingClient, RemovalAnswer, RemovalReply, ask_removal
from slackwater.model.decision import Because, Command
from slackwater.model.plan import CommandState
from slackwater.model.problem import shorten
from slackwater.model.workload import Workload

#: The kubelet's heartbeat and our own report change the Node too; more in a row is somebody's loop.
_MOST_CONFLICTS = 5
_CONFLICT, _FORBIDDEN = 409, 403
#: scheduling.SystemCriticalPriority: system-cluster-critical and system-node-critical.
_CRITICAL_PRIORITY = 2_000_000_000
_SYSTEM_NAMESPACE = "kube-system"
_LONGEST_MESSAGE = 400


class _Owner(msgspec.Struct, frozen=True):
    kind: str


class _LivingMetadata(msgspec.Struct, frozen=True, rename="camel"):
    uid: str
    namespace: str = ""
    owner_references: tuple[_Owner, ...] | None = None
    deletion_timestamp: str | None = None
    annotations: dict[str, str] | None = None


class _LivingSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""
    priority: int | None = None


class _LivingPod(msgspec.Struct, frozen=True):
    metadata: _LivingMetadata
    spec: _LivingSpec = _LivingSpec()


class ApiCommands:
    """Guards what is changed at the API server by command. `seen` and `seen_offer` are what the
    Node shows as its informer has it, without asking."""

    def __init__(
        self,
        client: EvictingClient,
        node: str,
        seen: Callable[[], SeenInterference | None],
        seen_offer: Callable[[], SeenOffer | None],
        time_of_day: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._node = node
        self._seen = seen
        self._seen_offer = seen_offer
        self._time_of_day = time_of_day

    def seen_interference(self) -> SeenInterference | None:
        return self._seen()

    def evict(self, command: Command, _pod: Workload | None) -> CommandAttempt:
        namespace, _, name = command.target.rpartition("/")
        ends = self._look_before(command, namespace, name)
        if ends is not None:
            return ends
        grace = command.grace_seconds
        ask = partial(self._client.evict, namespace, name, uid=command.uid, grace_seconds=grace)
        return _attempt_of(ask_removal(ask, self._client, namespace, name, command.uid))

    def _look_before(self, command: Command, namespace: str, name: str) -> CommandAttempt | None:
        """How it ends without a request; None where the pod is there and may be evicted."""
        try:
            body = self._client.get(PODS, name, namespace)
            pod = msgspec.json.decode(body, type=_LivingPod)
        except HttpStatusError as refused:
            if refused.status == 404:
                return CommandAttempt(CommandState.DONE, "it was gone already", gone=True)
            return _refused(refused, "get pods")
        except (RequestError, msgspec.DecodeError) as error:
            # Nothing was sent now, but an earlier attempt's answer may have been lost.
            return CommandAttempt(CommandState.QUEUED, str(error))
        if pod.metadata.uid != command.uid:
            return CommandAttempt(CommandState.DONE, "it was gone already", gone=True)
        if pod.metadata.deletion_timestamp:
            return CommandAttempt(CommandState.DONE, "the pod is terminating")
        refusal = self._refuse(pod)
        return CommandAttempt(CommandState.REFUSED, refusal) if refusal else None

    def _refuse(self, pod: _LivingPod) -> str:
        if pod.spec.node_name != self._node:
            return f"the pod is on node {pod.spec.node_name!r}, not on {self._node!r}"
        if pod.metadata.namespace == _SYSTEM_NAMESPACE:
            return f"the pod is protected: it is in {_SYSTEM_NAMESPACE}"
        owners = {each.kind for each in pod.metadata.owner_references or ()}
        if MIRROR in (pod.metadata.annotations or {}) or "Node" in owners:
            return "the pod is protected: static"
        if "DaemonSet" in owners:
            return "the pod is protected: a DaemonSet makes it again, on this node"
        if (pod.spec.priority or 0) >= _CRITICAL_PRIORITY:
            return "the pod is protected: critical"
        return ""

    def seen_offer(self) -> SeenOffer | None:
        return self._seen_offer()

    def offer_resources(self, wanted: NodeOffer) -> CommandAttempt:
        """The patch names single resources, so that the kubelet's own amounts, and whatever else
        changes the Node meanwhile, stay."""
        try:
            node = msgspec.json.decode(self._client.get(NODES, self._node))
            seen = read_seen_offer(node)
            if seen.differs(wanted):
                patch = offer_patch(wanted, seen.owned)
                self._client.patch(
                    NODES, self._node, patch, kind=PatchKind.MERGE, subresource="status"
                )
            return CommandAttempt(CommandState.DONE)
        except HttpStatusError as refused:
            return _refused(refused, "patch nodes/status")
        except CredentialsError as error:
            return CommandAttempt(CommandState.REFUSED, str(error))
        except (RequestError, msgspec.DecodeError) as error:
            return CommandAttempt(CommandState.QUEUED, str(error))

    def mark_node(self, wanted: NodeInterference, because: Because) -> CommandAttempt:
        """From a fresh read each time: the list of taints can only be replaced as a whole, and the
        API server refuses that where the Node was changed since."""
        conflict = ""
        for _ in range(_MOST_CONFLICTS):
            try:
                self._mark_once(wanted, because)
                return CommandAttempt(CommandState.DONE)
            except HttpStatusError as refused:
                if refused.status != _CONFLICT:
                    return _refused(refused, "patch nodes and nodes/status")
                conflict = str(refused)
            except CredentialsError as error:
                return CommandAttempt(CommandState.REFUSED, str(error))
            except (RequestError, msgspec.DecodeError) as error:
                return CommandAttempt(CommandState.QUEUED, str(error))
        return CommandAttempt(CommandState.REFUSED, f"others keep changing the Node: {conflict}")

    def _mark_once(self, wanted: NodeInterference, because: Because) -> None:
        body = self._client.get(NODES, self._node)
        seen = read_interference(msgspec.json.decode(body))
        owns_taint, owns_condition = seen.owns_taint, seen.owns_condition
        if seen.needs_taint(wanted):
            owns_taint = bool(wanted.effect)
            note = annotation_text(taint=owns_taint, condition=owns_condition)
            tainted = msgspec.json.decode(body, type=TaintedNode)
            patch = tainted.taint_patch(wanted.effect, note)
            self._client.patch(NODES, self._node, patch, kind=PatchKind.MERGE)
        if seen.needs_condition(wanted):
            note = annotation_text(taint=owns_taint, condition=bool(wanted.status))
            patch = condition_patch(self._condition(wanted.status, because), note)
            self._client.patch(
                NODES, self._node, patch, kind=PatchKind.STRATEGIC, subresource="status"
            )

    def _condition(self, status: str, because: Because) -> dict[str, str] | None:
        if not status:
            return None
        now = format_time(self._time_of_day())
        told = " ".join(filter(None, (because.signal, because.seen, because.limit)))
        return {
            "status": status,
            "reason": "Triggered" if status == "True" else "Restored",
            "message": shorten(told, _LONGEST_MESSAGE),
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }


def _attempt_of(reply: RemovalReply) -> CommandAttempt:
    match reply.answer:
        case RemovalAnswer.TAKEN:
            return CommandAttempt(CommandState.DONE)
        case RemovalAnswer.GONE:
            return CommandAttempt(CommandState.DONE, reply.because, gone=True)
        case RemovalAnswer.LOST:
            return CommandAttempt(CommandState.QUEUED, reply.because)
        case RemovalAnswer.FORBIDDEN:
            detail = _lacking("create pods/eviction", reply.because)
            return CommandAttempt(CommandState.REFUSED, detail, again_after=reply.retry_after)
        case _:
            return CommandAttempt(
                CommandState.REFUSED, reply.because, again_after=reply.retry_after
            )


def _refused(refused: HttpStatusError, right: str) -> CommandAttempt:
    forbidden = refused.status == _FORBIDDEN
    detail = _lacking(right, str(refused)) if forbidden else str(refused)
    return CommandAttempt(CommandState.REFUSED, detail, again_after=refused.retry_after)


def _lacking(right: str, said: str) -> str:
    return f"the agent lacks the right to {right}: {said}"
