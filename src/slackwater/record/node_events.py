"""Decides which Kubernetes events the agent sends, about which object, and how often. Pure.

A state (bad configuration, an option that is ignored, a rule's metric that is missing, a pause) is
reported when it begins, and again every half hour while it lasts, as the server drops events after
an hour. Blindness is reported after a while only: every agent is blind until all is listed. A new
quota is reported when it moved by the smallest step, at most once a minute. That a rule about a
metric triggered, and that it was restored, is reported on change (record.rule_events), and pods
that it slows down are told so (record.pod_events).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from slackwater.contract.node_report import BLIND, RELEASED
from slackwater.kube.events import EventSeries, EventType, KubeEvent, ObjectReference
from slackwater.model.cgroup import Tier
from slackwater.model.decision import NODE, THROTTLE_EVENT, NoteKind
from slackwater.model.knob import QUOTA
from slackwater.model.problem import ConfigurationProblem
from slackwater.model.units import Micros, MilliCpu
from slackwater.record.agent_view import TOLERATED_SILENCE, AgentView
from slackwater.record.journal import TickRecord
from slackwater.record.offers import describe_change, find_changed_offers
from slackwater.record.pod_events import SlowedPods, due_pod_events
from slackwater.record.rule_events import (
    TriggeredRules,
    command_event,
    due_rule_events,
    missing_metric_event,
)
from slackwater.record.rules import latest_rules

_SECOND = 1_000_000
REPEAT_AFTER = Micros(1800 * _SECOND)
QUOTA_INTERVAL = Micros(60 * _SECOND)
#: New states in one round; the others follow in the next ones.
MOST_AT_ONCE = 10

#: The seed's event, Volcano's words for its configuration, and ours.
THROTTLE, FAILED, GOOD = "NodeCPUThrottle", "ConfigApplyFailed", "ConfigApplySuccess"
UNREADABLE, IGNORED, YIELDED = "PodUnreadable", "OptionIgnored", "ValueYielded"
SEES_AGAIN, LEDGER = "SeesAgain", "LedgerProblem"
#: Crane's reason for a new amount of an elastic resource.
OFFERED = "UpdateNode"

#: The objects that get an event of their own, with their apiVersion.
_VERSIONS = {
    "ConfigMap": "v1",
    "Pod": "v1",
    "ColocationConfiguration": "config.volcano.sh/v1alpha1",
}


class SentState(msgspec.Struct, frozen=True):
    """What was reported already: states by their key with the time, since when the agent is
    blind, the last quota for best-effort work with the policy that asked for it, and the rules
    that are triggered."""

    states: Mapping[tuple[str, str, str], Micros] = {}
    tick: int = 0
    blind_since: Micros | None = None
    policy: str = ""
    asked: MilliCpu | None = None
    because: str = ""
    told: MilliCpu | None = None
    told_at: Micros = Micros(0)
    rules: TriggeredRules = {}
    #: What pods were told of being slowed down.
    slowed: SlowedPods = {}
    #: The extended resources that were told, and when.
    offers: Mapping[str, int] = {}
    offers_at: Micros | None = None


class EventContext(msgspec.Struct, frozen=True):
    """The Node's name, the time, the smallest step of a quota, and the uid of a ConfigMap by
    namespace/name."""

    node: str
    at: Micros
    grain: MilliCpu
    uid_of: Callable[[str], str]

    def about_node(self) -> ObjectReference:
        """In events a Node's uid is its name: the kubelet sets it so, and kubectl looks for it."""
        return ObjectReference("v1", "Node", self.node, uid=self.node)


def due_events(
    view: AgentView, sent: SentState, context: EventContext
) -> tuple[tuple[KubeEvent, ...], SentState]:
    """The events to send now, and the state after that."""
    since = (context.at if sent.blind_since is None else sent.blind_since) if view.blind else None
    sent = msgspec.structs.replace(sent, blind_since=since)
    states, told = _due_state_events(view, sent, context)
    after = msgspec.structs.replace(sent, states=states)
    record = view.latest
    if record is None or record.snapshot.tick == sent.tick or view.blind:
        return tuple(told), after
    told += _yield_events(record, context)
    after, rules = _rule_events(record, after, context)
    told += rules
    after, offers = _offer_events(record, after, context)
    told += offers
    after, quota = _quota_events(record, after, context)
    return (*told, *quota), after


def _due_state_events(
    view: AgentView, sent: SentState, context: EventContext
) -> tuple[dict[tuple[str, str, str], Micros], list[KubeEvent]]:
    now = {_key(each): each for each in _merge_alike(_current_states(view, sent, context))}
    kept = {key: at for key, at in sent.states.items() if key in now}
    due = [key for key in now if key not in kept or context.at - kept[key] >= REPEAT_AFTER]
    chosen = due[:MOST_AT_ONCE]
    told = [now[key] for key in chosen]
    before, after = ({key[0] for key in keys} for keys in (sent.states, now))
    if FAILED in before - after:
        told.append(KubeEvent(context.about_node(), GOOD, "the configuration is good again"))
    if BLIND in before and not view.blind:
        told.append(KubeEvent(context.about_node(), SEES_AGAIN, "the agent sees the node again"))
    return kept | dict.fromkeys(chosen, context.at), told


def _merge_alike(found: Iterable[KubeEvent]) -> Iterator[KubeEvent]:
    """One for each series: they would be counted as one event anyway."""
    groups: dict[EventSeries, list[KubeEvent]] = {}
    for each in found:
        groups.setdefault(each.series, []).append(each)
    for alike in groups.values():
        message = "; ".join(dict.fromkeys(each.message for each in alike))
        yield msgspec.structs.replace(alike[0], message=message)


def _key(each: KubeEvent) -> tuple[str, str, str]:
    about = each.about
    return each.reason, f"{about.kind} {about.namespace}/{about.name}", each.message


def _current_states(view: AgentView, sent: SentState, context: EventContext) -> Iterator[KubeEvent]:
    """Every state that is worth an event while it lasts."""
    for problem in (*view.blind_because, *view.problems):
        yield from _problem_events(problem, context)
    blind_since = None if view.blind_because else sent.blind_since
    if blind_since is not None and context.at - blind_since >= TOLERATED_SILENCE:
        yield KubeEvent(context.about_node(), BLIND, view.blind, EventType.WARNING)
    for sentence in view.ledger:
        yield KubeEvent(context.about_node(), LEDGER, sentence, EventType.WARNING)
    if view.paused:
        yield KubeEvent(context.about_node(), RELEASED, view.paused)
    record = view.latest
    if record is None:
        return
    yield from _rule_states(view, record, context)
    pods = {pod.title(): pod for pod in record.snapshot.workloads}
    for line in record.story.told:
        for remark in line.remarks:
            if remark.about == NODE:
                said = f"{line.policy}: {remark.text}"
                yield KubeEvent(context.about_node(), FAILED, said, EventType.WARNING)
            pod = pods.get(remark.about)
            if pod is not None and pod.namespace:
                about = ObjectReference("v1", "Pod", pod.name, pod.namespace, pod.uid)
                yield KubeEvent(about, IGNORED, f"{line.policy}: {remark.text}", EventType.WARNING)


def _rule_states(view: AgentView, record: TickRecord, context: EventContext) -> Iterator[KubeEvent]:
    """Commands that got nowhere, and rules without their metric."""
    commands = (command_event(each) for each in record.snapshot.in_flight)
    missing = (missing_metric_event(each) for each in latest_rules(view.ticks))
    for found in filter(None, (*commands, *missing)):
        about = found.pod_reference() or context.about_node()
        yield KubeEvent(about, found.reason, found.message, found.type, found.rule)


def _problem_events(problem: ConfigurationProblem, context: EventContext) -> Iterator[KubeEvent]:
    """On the Node, and on the object at fault; what is wrong with one pod on that pod alone."""
    sentence, about = problem.sentence(), problem.about
    kind = about.kind if about else ""
    if kind != "Pod":
        yield KubeEvent(context.about_node(), FAILED, sentence, EventType.WARNING)
    if about is None or kind not in _VERSIONS:
        return
    uid = context.uid_of(f"{about.namespace}/{about.name}") if kind == "ConfigMap" else ""
    fault = ObjectReference(_VERSIONS[kind], kind, about.name, about.namespace, uid)
    reason = UNREADABLE if kind == "Pod" else FAILED
    yield KubeEvent(fault, reason, sentence, EventType.WARNING)


def _yield_events(record: TickRecord, context: EventContext) -> list[KubeEvent]:
    return [
        KubeEvent(
            context.about_node(),
            YIELDED,
            f"{note.knob} of {note.target.path}: {note.text}",
            EventType.WARNING,
        )
        for note in record.story.notes
        if note.kind is NoteKind.YIELD
    ]


def _rule_events(
    record: TickRecord, sent: SentState, context: EventContext
) -> tuple[SentState, list[KubeEvent]]:
    found, rules = due_rule_events(record.story, sent.rules, context.at)
    pods, slowed = due_pod_events(record, sent.slowed, is_first=not sent.tick)
    told = [
        KubeEvent(
            each.pod_reference() or context.about_node(),
            each.reason,
            each.message,
            each.type,
            each.rule,
        )
        for each in (*found, *pods)
    ]
    return msgspec.structs.replace(sent, rules=rules, slowed=slowed), list(_merge_alike(told))


def _offer_events(
    record: TickRecord, sent: SentState, context: EventContext
) -> tuple[SentState, list[KubeEvent]]:
    """Offers that are other ones than those that were told, at most once a minute."""
    changed, now = find_changed_offers(record, sent.offers)
    if not changed:
        return sent, []
    if sent.offers_at is not None and context.at - sent.offers_at < QUOTA_INTERVAL:
        return sent, []
    told = [
        KubeEvent(
            context.about_node(), OFFERED, describe_change(each, sent.offers.get(each.resource))
        )
        for each in changed
    ]
    return msgspec.structs.replace(sent, offers=now, offers_at=context.at), told


def _quota_events(
    record: TickRecord, sent: SentState, context: EventContext
) -> tuple[SentState, tuple[KubeEvent, ...]]:
    """The last quota asked for, once it is far enough from the one reported last."""
    if sent.policy and sent.policy not in record.inputs.policies:
        forgotten = SentState(
            sent.states,
            record.snapshot.tick,
            rules=sent.rules,
            slowed=sent.slowed,
            offers=sent.offers,
            offers_at=sent.offers_at,
        )
        return forgotten, ()
    events = [
        (line.policy, event.milli, line.reason)
        for line in record.story.told
        for event in line.events
        if event.name == THROTTLE_EVENT
    ]
    policy, asked, because = events[-1] if events else (sent.policy, sent.asked, sent.because)
    after = msgspec.structs.replace(
        sent, tick=record.snapshot.tick, policy=policy, asked=asked, because=because
    )
    if asked is None or not _is_quota_change(asked, sent, context):
        return after, ()
    message = f"best-effort work may use {_granted_quota(record, policy, asked)}m: {because}"
    told = KubeEvent(context.about_node(), THROTTLE, message)
    return msgspec.structs.replace(after, told=asked, told_at=context.at), (told,)


def _granted_quota(record: TickRecord, policy: str, asked: MilliCpu) -> int:
    """What became of the claim: the kernel has a smallest quota, and other policies may cap it.
    If the tier's own group cannot be written, its pods carry the quota together."""
    granted = {
        grant.target.id: grant.value
        for grant in record.story.grants
        if grant.knob == QUOTA.name and any(step.by == policy for step in grant.contributions)
    }
    tier = record.snapshot.tiers.get(Tier.BESTEFFORT)
    if tier is not None and tier.id in granted:
        granted = {tier.id: granted[tier.id]}
    amounts = [value for value in granted.values() if isinstance(value, int)]
    return sum(amounts) if amounts else asked


def _is_quota_change(asked: MilliCpu, sent: SentState, context: EventContext) -> bool:
    if sent.told is None:
        return True
    far = abs(asked - sent.told) >= context.grain
    return far and context.at - sent.told_at >= QUOTA_INTERVAL
