"""What Kubernetes events say to the owners of pods that rules on metrics slow down. Pure.

A pod is told when it gets the lowest weight, when its quota is lowered, and when both are as they
were; not of each step. Of many pods at a time the first few are told in one round, and the others
in the next ones.
"""

from collections.abc import Iterator, Mapping

from slackwater.kube.events import EventType
from slackwater.model.decision import Because, PolicyAction, RuleState, TickReport
from slackwater.model.knob import QUOTA
from slackwater.record.journal import TickRecord
from slackwater.record.rule_events import RuleEvent
from slackwater.record.rules import describe_because

DEMOTED, THROTTLED, RESTORED = "Demoted", "Throttled", "ThrottleRestored"
#: Of pods in one round.
_MOST_PODS = 10
_WORDS = {
    DEMOTED: "runs at the lowest CPU weight to relieve its node",
    THROTTLED: "its CPU quota is lowered to relieve its node",
}
#: By the pod's uid: what it was told last.
SlowedPods = Mapping[str, str]


def due_pod_events(
    record: TickRecord, before: SlowedPods, *, is_first: bool = False
) -> tuple[tuple[RuleEvent, ...], SlowedPods]:
    """What is to be told now, and what is told after that. At the first look of an agent nothing
    is: the run before has told it."""
    if _is_held(record.story) or not (before or _is_any_in_force(record.story)):
        return (), before
    now = dict(_slowed(record))
    if is_first:
        return (), {uid: reason for uid, (reason, _) in now.items()}
    pods = {pod.uid: pod.title() for pod in record.snapshot.workloads if pod.namespace}
    after = {uid: reason for uid, reason in before.items() if uid in pods}
    told: list[RuleEvent] = []
    for uid, event in _due(now, before, pods):
        if len(told) == _MOST_PODS:
            break
        told.append(event)
        if event.reason == RESTORED:
            del after[uid]
        else:
            after[uid] = event.reason
    return tuple(told), after


def _is_held(story: TickReport) -> bool:
    """Whether the policy that has the rules may be one that holds: its values stand, and it says
    nothing about its rules."""
    told = story.told
    return not any(line.rules for line in told) and any(
        line.course is PolicyAction.HELD for line in told
    )


def _is_any_in_force(story: TickReport) -> bool:
    return any(
        rule.state is not RuleState.QUIET and not rule.preview
        for line in story.told
        for rule in line.rules
    )


def _slowed(record: TickRecord) -> Iterator[tuple[str, tuple[str, Because]]]:
    """The pods of which a policy with rules lowers anything, by uid: a lowered quota counts
    before the weight."""
    policies = {line.policy for line in record.story.told if line.rules}
    found: dict[str, tuple[str, Because]] = {}
    for grant in record.story.grants:
        for each in grant.contributions:
            uid = grant.target.owner
            if each.by not in policies or not uid:
                continue
            reason = THROTTLED if grant.knob == QUOTA.name else DEMOTED
            if reason is THROTTLED or uid not in found:
                found[uid] = (reason, each.because)
    yield from found.items()


def _due(
    now: Mapping[str, tuple[str, Because]], before: SlowedPods, pods: Mapping[str, str]
) -> Iterator[tuple[str, RuleEvent]]:
    for uid, title in pods.items():
        if uid in now:
            reason, because = now[uid]
            # One whose quota is back while it still has the lowest weight is about to be restored.
            if before.get(uid) in (None, DEMOTED) and before.get(uid) != reason:
                message = f"{_WORDS[reason]}: {describe_because(because)}"
                yield uid, RuleEvent(reason, message, EventType.WARNING, title, uid)
        elif uid in before:
            message = "its CPU weight and quota are as they were before"
            yield uid, RuleEvent(RESTORED, message, pod=title, uid=uid)
