"""The controller of amplified allocatable amounts: it makes the webhook look at a node again.

The webhook decides when a Node's status is written, and the kubelet writes an unchanged one every
five minutes only. So a node whose ratio changed, or whose amounts were written while no webhook was
there, gets a write that changes nothing by itself. Which nodes these are, the webhook's own
function says.
"""

from collections.abc import Iterator

from slackwater.contract.koordinator.amplification import NodeChanges, amplify_node
from slackwater.contract.resources import NODES
from slackwater.kube.events import EventType, KubeEvent, ObjectReference
from slackwater.manager.cluster_view import NODE_KIND, ClusterView
from slackwater.manager.controllers.controller import (
    Controller,
    DesiredWrite,
    Notice,
    Reconciled,
    WriteVerb,
)
from slackwater.status.api_objects import ClusterNode

#: Reason of an event.
INVALID = "AmplificationInvalid"
_HELD = "the last good ratio, if there was one, stays in force"


def _reconcile(view: ClusterView, _now: str) -> Reconciled:
    found = [(node, due) for node in view.nodes.items.values() for due in _changes(node)]
    return Reconciled(
        tuple(_touch(node, due) for node, due in found),
        tuple(_notice(node, due.problem) for node, due in found if due.problem),
    )


def _changes(node: ClusterNode) -> Iterator[NodeChanges]:
    if node.amplification is not None:
        yield amplify_node(node.amplification, node.amplification, by_kubelet=False)


def _touch(node: ClusterNode, due: NodeChanges) -> DesiredWrite:
    amounts = ", ".join(f"{name} {amount}" for name, amount in due.allocatable.items())
    return DesiredWrite(
        WriteVerb.TOUCH,
        NODES,
        node.name,
        body={},
        meaning=node.amplification,
        is_current=not due,
        uid=node.uid,
        outcome=f"allocatable {amounts}" if amounts else "the record of amounts",
        because="the webhook has not seen the node as it is now",
    )


def _notice(node: ClusterNode, problem: str) -> Notice:
    sentence = f"{problem}; {_HELD}"
    about = ObjectReference("v1", "Node", node.name, uid=node.name)
    event = KubeEvent(about, INVALID, sentence, EventType.WARNING)
    return Notice(f"amplification of {node.name}", sentence, event)


CONTROLLER = Controller("node-amplification", (NODE_KIND,), _reconcile)
