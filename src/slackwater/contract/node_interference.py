"""How a Node says that its pods interfere with each other: Crane's taint and its condition.

An annotation of ours says which of the two this agent set: another program, such as a crane-agent
that still runs, may use the same names, and what it set is not removed. The annotation is written
in the same request as the taint or the condition, so that a killed agent leaves nothing that the
next one does not know.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from slackwater.contract.document import Field, elements, member
from slackwater.contract.kubernetes import optional_text
from slackwater.model.problem import InvalidError

TAINT = "interference.crane.io"
CONDITION = "interference-identified"
#: Which of the two are ours: "taint", "condition", or both with a comma.
ANNOTATION = "slackwater.io/interference"
PREFER_NO_SCHEDULE, NO_SCHEDULE = "PreferNoSchedule", "NoSchedule"
#: Without NoExecute: that one deletes running pods, past every disruption budget.
EFFECTS = (PREFER_NO_SCHEDULE, NO_SCHEDULE)
STATUSES = ("True", "False")
_TAINT_OURS, _CONDITION_OURS = "taint", "condition"


class NodeInterference(msgspec.Struct, frozen=True):
    """`effect` of the taint and `status` of the condition; empty where there is none. Taint and
    condition of others, which are not asked for, count as none."""

    effect: str = ""
    status: str = ""


NO_INTERFERENCE = NodeInterference()


class SeenInterference(msgspec.Struct, frozen=True):
    """What the Node shows, and which part of it this agent set."""

    shown: NodeInterference = NO_INTERFERENCE
    owns_taint: bool = False
    owns_condition: bool = False

    def differs(self, wanted: NodeInterference) -> bool:
        return self.needs_taint(wanted) or self.needs_condition(wanted)

    def needs_taint(self, wanted: NodeInterference) -> bool:
        """Whether the taint has to be written: it is not as wanted, or wanted and not ours yet, or
        ours and not wanted."""
        if not wanted.effect:
            return self.owns_taint
        return self.shown.effect != wanted.effect or not self.owns_taint

    def needs_condition(self, wanted: NodeInterference) -> bool:
        if not wanted.status:
            return self.owns_condition
        return self.shown.status != wanted.status or not self.owns_condition


def annotation_text(*, taint: bool, condition: bool) -> str | None:
    """Once these are ours; None removes it."""
    owned = ((_TAINT_OURS, taint), (_CONDITION_OURS, condition))
    return ",".join(name for name, is_ours in owned if is_ours) or None


def read_interference(node: object) -> SeenInterference:
    """Of a Node object. What cannot be read is not there."""
    field = Field("Node", "", node)
    try:
        owned = _annotation(field).split(",")
        shown = NodeInterference(_effect(field), _status(field))
    except InvalidError:
        return SeenInterference()
    return SeenInterference(shown, _TAINT_OURS in owned, _CONDITION_OURS in owned)


def _annotation(node: Field) -> str:
    metadata = member(node, "metadata")
    annotations = None if metadata is None else member(metadata, "annotations")
    return "" if annotations is None else optional_text(member(annotations, ANNOTATION))


def _effect(node: Field) -> str:
    """The effects of several, which a Node may have, one for each effect, are joined."""
    spec = member(node, "spec")
    taints = None if spec is None else member(spec, "taints")
    found = [
        optional_text(member(each, "effect"))
        for each in (elements(taints) if taints else ())
        if optional_text(member(each, "key")) == TAINT
    ]
    return ",".join(sorted(found))


def _status(node: Field) -> str:
    status = member(node, "status")
    conditions = None if status is None else member(status, "conditions")
    for each in elements(conditions) if conditions else ():
        if optional_text(member(each, "type")) == CONDITION:
            return optional_text(member(each, "status"))
    return ""


class _TaintedMetadata(msgspec.Struct, frozen=True, rename="camel"):
    uid: str
    resource_version: str


class _TaintedSpec(msgspec.Struct, frozen=True):
    taints: list[dict[str, Any]] | None = None


class TaintedNode(msgspec.Struct, frozen=True):
    """A Node as it has to be known to change one taint of its list, which can only be replaced as a
    whole. Taints of others are kept as they are, whatever fields they have."""

    metadata: _TaintedMetadata
    spec: _TaintedSpec = _TaintedSpec()

    def taint_patch(self, effect: str, annotation: str | None) -> dict[str, object]:
        """A merge patch that the API server refuses if the Node was changed since it was read.
        Without an effect the taint is removed."""
        others = [each for each in self.spec.taints or () if each.get("key") != TAINT]
        ours = [{"key": TAINT, "effect": effect}] if effect else []
        meta = {
            "uid": self.metadata.uid,
            "resourceVersion": self.metadata.resource_version,
            "annotations": {ANNOTATION: annotation},
        }
        return {"metadata": meta, "spec": {"taints": [*others, *ours] or None}}


def condition_patch(
    condition: Mapping[str, str] | None, annotation: str | None
) -> dict[str, object]:
    """A strategic merge patch for the Node's status, which merges conditions by their type. Without
    a condition ours is removed."""
    each: dict[str, str] = {"type": CONDITION}
    each |= {"$patch": "delete"} if condition is None else dict(condition)
    return {
        "metadata": {"annotations": {ANNOTATION: annotation}},
        "status": {"conditions": [each]},
    }
