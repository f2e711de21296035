"""Gives every Node its true allocatable back, before the manager is uninstalled.

Nobody may write the annotations anew meanwhile: the running managers are scaled to none, the
webhook's configuration goes, and then this process takes the Lease. Each step may fail, because a
part is not there or was never ours to change, and none keeps the nodes from being released.
"""

import threading
import time
from collections.abc import Callable

import msgspec

from slackwater.contract.koordinator.amplification import (
    ANNOTATIONS,
    NodeAmounts,
    amplify_node,
)
from slackwater.contract.koordinator.node_ratios import HELD_CONDITION
from slackwater.contract.koordinator.normalization import RATIO_ANNOTATION
from slackwater.contract.kubernetes import Condition
from slackwater.contract.resources import DEPLOYMENTS, MUTATING_WEBHOOKS, NODES
from slackwater.http.errors import RequestError
from slackwater.kube.access import Access
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import Client, PatchKind
from slackwater.manager.object_writer import FIELD_MANAGER
from slackwater.manager.webhook.webhook_names import CONFIGURATION
from slackwater.model.plan import Result
from slackwater.record.journal import JournalEntry
from slackwater.runtime.change_log import EntrySink
from slackwater.runtime.leadership import Candidate, taking_part
from slackwater.runtime.loop import monotonic_now

DEPLOYMENT = "slackwater-manager"
#: A leader that was killed holds the Lease for 15 s; pods that are stopped have 30 s.
LEASE_SECONDS = 60.0
_MOST_ATTEMPTS = 5
_OURS = (RATIO_ANNOTATION, *ANNOTATIONS)


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Status(msgspec.Struct, frozen=True):
    capacity: dict[str, str] | None = None
    allocatable: dict[str, str] | None = None
    conditions: tuple[Condition, ...] | None = None


class AnnotatedNode(msgspec.Struct, frozen=True):
    """A Node as it is stored, as far as it is released."""

    metadata: _Meta
    status: _Status = _Status()


def release_nodes(
    access: Access, candidate: Candidate, write: EntrySink, lease_seconds: float = LEASE_SECONDS
) -> int:
    """How many nodes could not be released. Raises RequestError if they cannot be listed."""
    client = Client(access, FIELD_MANAGER)

    def tell(what: str, result: Result, because: str = "") -> None:
        write(JournalEntry(0, monotonic_now(), what, because=because, result=result.value))

    try:
        _stop_managers(client, candidate.namespace, tell)
        changed = threading.Event()
        with taking_part(access, candidate, FIELD_MANAGER, changed.set) as election:
            ends = time.monotonic() + lease_seconds
            while not election.leads() and (left := ends - time.monotonic()) > 0:
                changed.wait(min(left, 1.0))
                changed.clear()
            if not election.leads():
                tell("lease", Result.REFUSED, f"{election.leader() or 'nobody'} still leads")
            found = client.list(NODES, _read).items
            return sum(
                not _release(client, node, tell)
                for node in found
                if release_patch(node) is not None
            )
    finally:
        client.close()


def release_patch(node: AnnotatedNode) -> dict[str, object] | None:
    """A strategic merge patch for the Node's status; None for one that has nothing of ours. The
    version is part of it: a kubelet that has just stated another amount is not overruled."""
    annotations = node.metadata.annotations or {}
    ours = {name: None for name in _OURS if name in annotations}
    conditions = [
        {"type": HELD_CONDITION, "$patch": "delete"}
        for each in node.status.conditions or ()
        if each.type == HELD_CONDITION
    ]
    if not ours and not conditions:
        return None
    allocatable = node.status.allocatable or {}
    capacity, name = node.status.capacity or {}, node.metadata.name
    old = NodeAmounts(name, capacity, allocatable, annotations)
    true = amplify_node(old, NodeAmounts(name, capacity, allocatable), by_kubelet=False)
    meta = {"annotations": ours, "resourceVersion": node.metadata.resource_version}
    status: dict[str, object] = {"allocatable": dict(true.allocatable)}
    if conditions:
        status["conditions"] = conditions
    return {"metadata": meta, "status": status}


def _read(raw: msgspec.Raw | bytes) -> AnnotatedNode:
    return msgspec.json.decode(raw, type=AnnotatedNode)


def _stop_managers(client: Client, namespace: str, tell: Callable[..., None]) -> None:
    def scale() -> None:
        body = {"spec": {"replicas": 0}}
        client.patch(
            DEPLOYMENTS,
            DEPLOYMENT,
            body,
            kind=PatchKind.MERGE,
            namespace=namespace,
            subresource="scale",
        )

    def remove() -> None:
        client.delete(MUTATING_WEBHOOKS, CONFIGURATION)

    steps = {
        f"Deployment {namespace}/{DEPLOYMENT}": scale,
        f"MutatingWebhookConfiguration {CONFIGURATION}": remove,
    }
    for what, step in steps.items():
        try:
            step()
        except RequestError as error:
            gone = isinstance(error, HttpStatusError) and error.reason == "NotFound"
            tell(what, Result.VANISHED if gone else Result.REFUSED, str(error))
        else:
            tell(what, Result.APPLIED)


def _release(client: Client, node: AnnotatedNode, tell: Callable[..., None]) -> bool:
    name = node.metadata.name
    for attempt in range(_MOST_ATTEMPTS):
        try:
            if attempt:
                node = _read(client.get(NODES, name))
            patch = release_patch(node)
            if patch is not None:
                client.patch(NODES, name, patch, kind=PatchKind.STRATEGIC, subresource="status")
        except HttpStatusError as refused:
            if refused.reason == "Conflict":
                continue
            gone = refused.reason == "NotFound"
            tell(f"Node {name}", Result.VANISHED if gone else Result.REFUSED, str(refused))
            return gone
        tell(f"Node {name}", Result.APPLIED, "its true allocatable, and no annotations of ours")
        return True
    tell(f"Node {name}", Result.REFUSED, "it was changed each time")
    return False
