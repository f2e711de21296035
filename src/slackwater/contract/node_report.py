"""What a node's agent says on its Node object: the annotation slackwater.io/report, and the
condition SlackwaterActing, which says whether the agent holds something there, and why.

Reading is tolerant, as agents of other versions report too: an unknown key is ignored, a missing
one is not known, a wrong one makes the whole report a Gap with one sentence.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from slackwater.contract.document import (
    Field,
    elements,
    flag,
    member,
    members,
    parse_json,
    text,
    texts,
    whole,
)
from slackwater.contract.kubernetes import ConditionState, optional_text
from slackwater.model.gap import Gap
from slackwater.model.problem import InvalidError
from slackwater.model.units import UNLIMITED, MilliCpu, QuantityError, Unlimited, parse_milli_cpu

ANNOTATION = "slackwater.io/report"
#: An annotation may have 256 KiB; of more problems than these nobody reads.
_MOST_PROBLEMS = 100
_ON = "on"
#: Objects with rules that a node follows, and rules of them that are not quiet: more than anybody
#: writes for one node. The manager keeps them of thousands of nodes.
MOST_OBJECTS, MOST_ACTIVE_RULES = 100, 50
#: The policy that follows rules, as reports name it.
RULES_POLICY = "watermark_relief"

_Value = TypeVar("_Value")


class ActiveRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """A rule that is not quiet: triggered, cooling or restoring, since when (RFC 3339); or one of
    which `missing` says why its metric is, or `vain` why it can never act there. One in Preview
    does nothing."""

    rule: str
    state: str
    since: str = ""
    preview: bool = False
    missing: str = ""
    vain: str = ""


#: By the title of the object, NodeQOS/waterline1: those of its rules that are not quiet, lack
#: their metric or can never act. An object that is not followed is not there.
FollowedObjects = Mapping[str, tuple[ActiveRule, ...]]


class NodeReport(msgspec.Struct, frozen=True):
    """`since` is RFC 3339, of the last change; `quota` and `used` are of the best-effort tier;
    `holding` counts the knobs that hold a value of ours; `rules` are of the objects that the agent
    follows. None is not known."""

    version: str | None = None
    since: str | None = None
    period: str | None = None
    quota: MilliCpu | Unlimited | None = None
    used: MilliCpu | None = None
    holding: int | None = None
    #: Why each policy that is off is off; empty for one that is on.
    policies: dict[str, str] = {}
    problems: tuple[str, ...] = ()
    rules: FollowedObjects = {}
    #: How new containers come by their quotas; None where no policy has any for them.
    container_starts: str | None = None
    #: The word by which the cluster asked for a release, once nothing of ours is left.
    released: str | None = None

    def text(self) -> str:
        """As the annotation has it; what is not known is left out."""
        amounts = {"quota": _spelled(self.quota), "used": _spelled(self.used)}
        said: dict[str, object] = {
            "version": self.version,
            "since": self.since,
            "period": self.period,
            "bestEffort": {key: each for key, each in amounts.items() if each} or None,
            "holding": self.holding,
            "policies": {
                name: f"off: {why}" if why else _ON for name, why in self.policies.items()
            },
            "problems": self.problems,
            "rules": self.rules or None,
            "containerStarts": self.container_starts,
            "released": self.released,
        }
        known = {key: value for key, value in said.items() if value is not None}
        return msgspec.json.encode(known).decode()

    def switched_on(self) -> tuple[str, ...]:
        return tuple(sorted(name for name, why_off in self.policies.items() if not why_off))


def _spelled(amount: MilliCpu | Unlimited | None) -> str | None:
    if amount is None or isinstance(amount, Unlimited):
        return amount and amount.value
    return f"{amount}m"


def read_report(content: str) -> NodeReport | Gap:
    """The annotation's text as a value."""
    try:
        return _report(Field(ANNOTATION, "", parse_json(content, ANNOTATION)))
    except InvalidError as error:
        return Gap(str(error))


def _report(field: Field) -> NodeReport:
    best_effort = member(field, "bestEffort")
    return NodeReport(
        version=_of(field, "version", text),
        since=_of(field, "since", text),
        period=_of(field, "period", text),
        quota=_of(best_effort, "quota", _quota),
        used=_of(best_effort, "used", _milli),
        holding=_of(field, "holding", _count),
        policies={
            name: _why_off(said) for name, said in (_of(field, "policies", texts) or {}).items()
        },
        problems=(_of(field, "problems", _sentences) or ()),
        rules=(_of(field, "rules", _followed_objects) or {}),
        container_starts=_of(field, "containerStarts", text),
        released=_of(field, "released", text),
    )


def _of(field: Field | None, name: str, read: Callable[[Field], _Value]) -> _Value | None:
    found = None if field is None else member(field, name)
    return None if found is None else read(found)


def _why_off(said: str) -> str:
    """Nothing where it is on: "off: no label" becomes "no label"."""
    if said == _ON:
        return ""
    return said.removeprefix("off").removeprefix(":").strip() or "off"


def _quota(field: Field) -> MilliCpu | Unlimited:
    return UNLIMITED if field.value == UNLIMITED.value else _milli(field)


def _milli(field: Field) -> MilliCpu:
    try:
        found = parse_milli_cpu(text(field))
    except QuantityError:
        raise field.refused("a CPU quantity such as 1200m, or unlimited for a quota") from None
    if found < 0:
        raise field.refused("a CPU quantity from 0 on")
    return found


def _count(field: Field) -> int:
    found = whole(field)
    if found < 0:
        raise field.refused("a number from 0 on")
    return found


def _sentences(field: Field) -> tuple[str, ...]:
    return tuple(" ".join(text(each).split()) for each in elements(field)[:_MOST_PROBLEMS])


def _followed_objects(field: Field) -> FollowedObjects:
    return {
        title: tuple(_active_rule(each) for each in elements(rules)[:MOST_ACTIVE_RULES])
        for title, rules in members(field)[:MOST_OBJECTS]
    }


def _active_rule(field: Field) -> ActiveRule:
    return ActiveRule(
        _of(field, "rule", text) or "",
        _of(field, "state", text) or "",
        _of(field, "since", text) or "",
        _of(field, "preview", flag) or False,
        _of(field, "missing", text) or "",
        _of(field, "vain", text) or "",
    )


class RulesReport(msgspec.Struct, frozen=True):
    """The part of a report that is about rules, as quickly as it can be read: `policies` says
    whether they are followed at all."""

    policies: dict[str, str] = {}
    rules: dict[str, tuple[ActiveRule, ...]] = {}

    def why_off(self) -> str:
        """Why no rule is followed; empty where they are."""
        said = self.policies.get(RULES_POLICY)
        return "its agent knows no rules" if said is None else _why_off(said)


_RULES = msgspec.json.Decoder(RulesReport)


def read_rules(content: str) -> RulesReport | None:
    """None of a report that cannot be read."""
    try:
        return _RULES.decode(content)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


CONDITION = "SlackwaterActing"
#: Reasons that others look for: the agent sees nothing; it has put everything back.
BLIND, RELEASED = "Blind", "Released"


class AgentCondition(ConditionState, frozen=True):
    """The agent's condition. `since` is RFC 3339, empty where it is not known."""

    since: str = ""


class NodeStatusPatch(msgspec.Struct, frozen=True):
    """What the agent writes to its Node: the report annotation and the condition."""

    report: NodeReport
    condition: AgentCondition


def read_status_patch(node: object) -> NodeStatusPatch | None:
    """Of a Node object; None where it has none, or one that cannot be read."""
    field = Field("Node", "", node)
    try:
        report, condition = _read_annotation(field), _acting(field)
    except InvalidError:
        return None
    return NodeStatusPatch(report, condition) if report and condition else None


def _read_annotation(node: Field) -> NodeReport | None:
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
