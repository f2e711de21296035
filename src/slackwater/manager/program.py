"""The manager's loop: look, judge, write what differs. All replicas look; only the leader writes.

Owns the order of one round and the pause between two. Refuses to judge before it has seen every
kind that the cluster has: an action that was not listed yet is not a missing one.
"""

import datetime as dt
from typing import Protocol

import msgspec

from slackwater.contract.crane_status import EnsuranceStatus, Truth
from slackwater.kube.events import EventType, KubeEvent, ObjectReference
from slackwater.kube.resource import NODES
from slackwater.kube.time_of_day import whole_seconds
from slackwater.manager.policy_object import PolicyObject
from slackwater.manager.policy_status import stands, validity, wanted_status
from slackwater.manager.standing import KindStanding, Notice, Standing
from slackwater.manager.status_writer import Attempt, StatusWriter
from slackwater.manager.watches import Sight
from slackwater.model.plan import Result
from slackwater.model.units import Micros
from slackwater.record.journal import Entry
from slackwater.runtime.change_log import ChangeLog
from slackwater.runtime.leadership import Leadership

#: A burst of changes is one round.
SETTLE = 1.0
#: Without any change of a policy: nodes are counted so often. One round of 5,000 nodes and 20
#: policies takes 0.2 s.
LONGEST_PAUSE = 10.0
INVALID, VALID_AGAIN = "PolicyInvalid", "PolicyValid"


class Eyes(Protocol):
    def look(self) -> Sight: ...


class Messenger(Protocol):
    """Kubernetes events."""

    def send(self, event: KubeEvent) -> None: ...

    def problem(self) -> str: ...


class Parts(msgspec.Struct, frozen=True):
    """What the loop is made of."""

    eyes: Eyes
    leadership: Leadership
    writer: StatusWriter
    messenger: Messenger
    notice: Notice
    log: ChangeLog


class Loop:
    """Guards the number of rounds."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._round = 0

    def once(self, at: Micros, now: dt.datetime) -> None:
        """One round. `at` is the clock that only goes forward, `now` the time of day."""
        self._round += 1
        self._parts.log.round = self._round
        parts = self._parts
        sight = parts.eyes.look()
        leads = parts.leadership.leads()
        problems = {
            **sight.problems(),
            "lease": parts.leadership.problem(),
            "events": parts.messenger.problem(),
        }
        if leads and not sight.waits_for():
            self._judge(sight, at, now)
        for about, text in problems.items():
            parts.log.state(about, text, at)
        leader = parts.leadership.leader()
        parts.log.state("leader", f"{leader or 'nobody'} leads", at)
        parts.notice.end_round(
            Standing(
                ended=at,
                leads=leads,
                leader=leader,
                reporting=sum(each.report is not None for each in sight.nodes.items.values()),
                kinds=_kinds(sight),
                waits_for=sight.waits_for(),
                problems=tuple(f"{about}: {text}" for about, text in problems.items() if text),
            )
        )

    def pause(self, at: Micros) -> float:
        """Seconds until the next round, if nothing changes before."""
        due = self._parts.writer.next_due()
        if due is None:
            return LONGEST_PAUSE
        return min(max((due - at) / 1_000_000, SETTLE), LONGEST_PAUSE)

    def _judge(self, sight: Sight, at: Micros, now: dt.datetime) -> None:
        world = sight.world()
        policies = sight.policies()
        stamp = whole_seconds(now.timestamp())
        for policy in policies:
            wanted = wanted_status(policy, world, stamp)
            if stands(policy, wanted):
                self._parts.writer.settle(policy)
            elif not self._parts.leadership.leads():
                break  # lost while we wrote: from here on it is another's
            elif attempt := self._parts.writer.write(policy, wanted, at):
                self._follow(policy, attempt, at)
                if not attempt.answered:
                    break
        self._parts.writer.forget_all_but({policy.uid for policy in policies})

    def _follow(self, policy: PolicyObject, attempt: Attempt, at: Micros) -> None:
        """What a write has as a consequence: an entry, a count, and an event where it is news."""
        parts = self._parts
        kind, result = policy.resource.kind, attempt.result
        parts.notice.count_write(kind, result.value)
        valid = validity(attempt.wanted)
        said = f"Valid={valid.status.value}" if valid else ""
        because = (valid.message if valid else "") or attempt.wanted.summary
        told = f"{result.value}: {attempt.detail}" if attempt.detail else result.value
        if result is Result.APPLIED or attempt.failures == 1:
            what = f"status of {policy}"
            parts.log.write(Entry(self._round, at, what, after=said, because=because, result=told))
        if result is Result.APPLIED and (news := _news(policy, attempt.wanted)):
            parts.messenger.send(news)
            parts.notice.count_event()


def _news(policy: PolicyObject, wanted: EnsuranceStatus) -> KubeEvent | None:
    """When an object becomes invalid, and when it is mended. By the status that stood there, so a
    manager that was restarted does not say it again."""
    before, after = validity(policy.status), validity(wanted)
    was_invalid = before is not None and before.status is Truth.FALSE
    is_invalid = after is not None and after.status is Truth.FALSE
    said_before = before.message if before else ""
    message = after.message if after else ""
    if is_invalid and not (was_invalid and message == said_before):
        return KubeEvent(_about(policy), INVALID, message, EventType.WARNING)
    if was_invalid and not is_invalid:
        return KubeEvent(_about(policy), VALID_AGAIN, wanted.summary or "mended", EventType.NORMAL)
    return None


def _about(policy: PolicyObject) -> ObjectReference:
    return ObjectReference(
        policy.resource.api_version, policy.resource.kind, policy.name, uid=policy.uid
    )


def _kinds(sight: Sight) -> tuple[KindStanding, ...]:
    nodes = KindStanding(
        NODES.kind,
        len(sight.nodes.items),
        len(sight.nodes.unreadable),
        sight.nodes.heard_at,
        sight.nodes.problem,
        sight.nodes.synced,
    )
    return (
        nodes,
        *(
            KindStanding(
                resource.kind,
                len(view.items),
                sum(_is_invalid(each) for each in view.items.values()),
                view.heard_at,
                view.problem,
                view.synced,
            )
            for resource, view in sight.kinds.items()
        ),
    )


def _is_invalid(policy: PolicyObject) -> bool:
    valid = validity(policy.status)
    return valid is not None and valid.status is Truth.FALSE
