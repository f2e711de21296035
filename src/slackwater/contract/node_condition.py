"""The condition SlackwaterActing of a Node: whether the agent holds something there, and why.

Owns its encoding in the Node object, together with the report annotation beside it.
"""

import msgspec

from slackwater.contract.document import Field, elements, member
from slackwater.contract.kubernetes import optional_text
from slackwater.contract.node_report import ANNOTATION, NodeReport, read_report
from slackwater.model.gap import Gap
from slackwater.model.problem import InvalidError

CONDITION = "SlackwaterActing"
#: Reasons that others look for: the agent sees nothing; it has put everything back.
BLIND, RELEASED = "Blind", "Released"


class AgentCondition(msgspec.Struct, frozen=True):
    """`status` is True, False or Unknown, as Kubernetes spells them; `reason` is one word and
    `message` one sentence. `since` is RFC 3339, empty where it is not known."""

    status: str
    reason: str
    message: str
    since: str = ""


class NodeStatusPatch(msgspec.Struct, frozen=True):
    """What the agent writes to its Node: the report annotation and the condition."""

    report: NodeReport
    condition: AgentCondition


def read_status_patch(node: object) -> NodeStatusPatch | None:
    """Of a Node object; None where it has none, or one that cannot be read."""
    field = Field("Node", "", node)
    try:
        report, condition = _report(field), _acting(field)
    except InvalidError:
        return None
    return NodeStatusPatch(report, condition) if report and condition else None


def _report(node: Field) -> NodeReport | None:
    metadata = member(node, "metadata")
    annotations = None if metadata is None else member(metadata, "annotations")
    written = None if annotations is None else member(annotations, ANNOTATION)
    report = None if written is None else read_report(optional_text(written))
    return None if isinstance(report, Gap) else report


def _acting(node: Field) -> AgentCondition | None:
    status = member(node, "status")
    conditions = None if status is None else member(status, "conditions")
    for each in elements(conditions) if conditions else ():
        if optional_text(member(each, "type")) == CONDITION:
            keys = ("status", "reason", "message", "lastTransitionTime")
            return AgentCondition(*(optional_text(member(each, key)) for key in keys))
    return None


def status_patch_object(node: str, status_patch: NodeStatusPatch, at: str) -> dict[str, object]:
    """The part of the Node object that is the agent's, for server-side apply; `at` is now, as
    RFC 3339."""
    shown = status_patch.condition
    condition = {
        "type": CONDITION,
        "status": shown.status,
        "reason": shown.reason,
        "message": shown.message,
        "lastHeartbeatTime": at,
        "lastTransitionTime": shown.since or at,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node, "annotations": {ANNOTATION: status_patch.report.text()}},
        "status": {"conditions": [condition]},
    }
