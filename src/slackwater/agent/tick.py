"""One tick: snapshot, memory and settings in; plan, memory and story out. Pure.

Owns what stands between ticks: each policy's memory and standing intents. Silence releases, so
a policy that lacks data holds: its intents stay, for a bounded time. A policy that raises is a
hold, alone; the others go on.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from slackwater.model.decision import Act, Decision, Hold, Intent
from slackwater.model.knob import KnobKey
from slackwater.model.needs import Needs, merge_needs
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.tick_report import (
    NOTHING_TO_DO,
    PolicyAction,
    PolicyReport,
    TickReport,
    share_equal,
)
from slackwater.model.units import Micros
from slackwater.policies.policy import Policy
from slackwater.resolution.planning import Drift, PlannedChanges, plan_changes
from slackwater.resolution.resolver import resolve
from slackwater.settings.agent import AgentSettings

_TOLD_REASONS = 5


class PolicyState(msgspec.Struct, frozen=True):
    """What a policy has between ticks. `held_since` is None while it acts; `intents` is None
    until it has decided for the first time, or held for too long."""

    memory: Any
    intents: tuple[Intent, ...] | None = None
    held_since: Micros | None = None


class TickMemory(msgspec.Struct, frozen=True):
    policies: dict[str, PolicyState] = {}
    drift: dict[KnobKey, Drift] = {}


class TickResult(msgspec.Struct, frozen=True):
    planned: PlannedChanges
    memory: TickMemory
    story: TickReport


def tick(
    snapshot: NodeSnapshot,
    memory: TickMemory,
    policies: Sequence[Policy],
    settings: Mapping[str, Any],
    agent: AgentSettings,
) -> TickResult:
    """`settings` by policy name; a policy without any is off, and what it wanted is released."""
    states: dict[str, PolicyState] = {}
    told: list[PolicyReport] = []
    for policy in policies:
        if settings.get(policy.name) is None:
            continue  # its memory goes with it: switched on again, it starts anew
        before = memory.policies.get(policy.name, PolicyState(policy.first_memory))
        decision = _decide(policy, snapshot, before, settings[policy.name])
        state, line = _after(policy.name, before, decision, snapshot.at, agent.hold_for)
        states[policy.name] = state
        told.append(line)
    intents = [intent for state in states.values() for intent in state.intents or ()]
    grants = resolve(snapshot, intents)
    planned = plan_changes(snapshot, grants, memory.drift, agent)
    if snapshot.early or any(state.intents is None for state in states.values()):
        # Before its time nothing is loosened. After a restart nobody has said yet what becomes of
        # what was adopted: it stays.
        planned = msgspec.structs.replace(planned, releases=())
    story = TickReport(tuple(told), grants, planned.notes, planned.yielded)
    return TickResult(planned, TickMemory(states, planned.drift), story)


def needs_of_policies(
    policies: Sequence[Policy], settings: Mapping[str, Any], off: frozenset[KnobKey]
) -> Needs:
    """What the policies that are on have to see."""
    return merge_needs(
        policy.needs(settings[policy.name], off)
        for policy in policies
        if settings.get(policy.name) is not None
    )


def _decide(
    policy: Policy, snapshot: NodeSnapshot, before: PolicyState, settings: object
) -> Decision:
    try:
        return policy.decide(snapshot, before.memory, settings)
    except Exception as error:  # noqa: BLE001 - one policy's bug is one policy's hold
        return Hold(f"it failed: {type(error).__name__}: {error}", before.memory)


def _after(
    name: str, before: PolicyState, decision: Decision, at: Micros, hold_for: Micros
) -> tuple[PolicyState, PolicyReport]:
    if isinstance(decision, Act):
        state = PolicyState(decision.memory, share_equal(before.intents or (), decision.intents))
        reason = _reasons(decision.intents)
        told = PolicyReport(
            name,
            PolicyAction.ACTED,
            reason,
            decision.numbers,
            None,
            decision.events,
            decision.remarks,
        )
        return state, told
    since = at if before.held_since is None else before.held_since
    if at - since < hold_for:
        state = PolicyState(decision.memory, before.intents, since)
        return state, PolicyReport(
            name, PolicyAction.HELD, decision.reason, decision.numbers, since
        )
    reason = f"{decision.reason}; held for {hold_for // 1_000_000} s, so let go"
    state = PolicyState(decision.memory, (), since)
    return state, PolicyReport(name, PolicyAction.RELEASED, reason, decision.numbers, since)


def _reasons(intents: tuple[Intent, ...]) -> str:
    """The first few: hundreds of pods may have as many, and each grant has its own."""
    because = list(
        dict.fromkeys(f"{i.because.signal} {i.because.seen}, {i.because.limit}" for i in intents)
    )
    more = [f"and {len(because) - _TOLD_REASONS} more"] if len(because) > _TOLD_REASONS else []
    return "; ".join(because[:_TOLD_REASONS] + more) or NOTHING_TO_DO
