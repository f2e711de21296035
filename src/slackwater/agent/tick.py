"""One tick: from a snapshot, memory and settings to a plan, new memory and a report. Pure.

Between ticks each policy has its memory and its standing intents. A policy that asks for nothing
releases what it had, so one that lacks data holds instead: its intents stay, for a bounded time. A
policy that raises an exception holds too, and the others go on.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from slackwater.contract.kubernetes_pod import Pod
from slackwater.model.cgroup import Level
from slackwater.model.decision import (
    NOTHING_TO_DO,
    STATES,
    Act,
    Because,
    Command,
    CpuClaim,
    CpuPlacement,
    Decision,
    Hold,
    Intent,
    PolicyAction,
    PolicyReport,
    Remark,
    TickReport,
    join_some,
    share_equal,
)
from slackwater.model.knob import KnobKey
from slackwater.model.needs import Needs, merge_needs
from slackwater.model.snapshot import NodeSnapshot, find_changed_knobs
from slackwater.model.units import Micros
from slackwater.policies.policy import Policy
from slackwater.resolution.placement import Placer
from slackwater.resolution.planning import Drift, PlannedChanges, Planner, find_bursts_in_the_way
from slackwater.resolution.resolver import Resolver
from slackwater.settings.agent_settings import AgentSettings

_TOLD_REASONS = 5
_MANY_INTENTS = 64
_Asked = tuple[tuple[Intent, ...], tuple[CpuClaim, ...]]
_TIER_LEVELS = frozenset({Level.NODE, Level.TIER})


class PolicyState(msgspec.Struct, frozen=True):
    """What a policy has between ticks. `held_since` is None while it acts; `intents` is None
    until it has decided for the first time, or held for too long."""

    memory: Any
    intents: tuple[Intent, ...] | None = None
    held_since: Micros | None = None
    commands: tuple[Command, ...] = ()
    is_settling: bool = False
    claims: tuple[CpuClaim, ...] = ()


class TickMemory(msgspec.Struct, frozen=True):
    policies: dict[str, PolicyState] = {}
    drift: dict[KnobKey, Drift] = {}

    def has_decided(self) -> bool:
        """Whether every policy that is on has said what it wants: before that, after a restart,
        nobody knows what becomes of what the run before left."""
        return all(
            state.intents is not None and not state.is_settling for state in self.policies.values()
        )


class TickResult(msgspec.Struct, frozen=True):
    planned: PlannedChanges
    memory: TickMemory
    story: TickReport


class TickCache:
    """What the ticks before worked out, reused where it cannot have changed.

    The tick stays a function of its arguments: with a cache it gives what it gives without one
    (property-tested). Decisions of policies that ignore counters stand while the workloads and the
    knobs of pods and containers do. Grants depend on `revision` too, which changes whenever these
    do, or the knobs of tiers, or what is ours. Readings, and what is ours, are the same
    objects while nothing changes (observation, execution), so that comparing them costs little.
    """

    def __init__(self) -> None:
        self.resolver = Resolver()
        self.placer = Placer()
        self.planner = Planner()
        self.revision = 0
        self._pods_revision = 0
        self._snapshot: NodeSnapshot | None = None
        self._decisions: dict[str, tuple[int, object, Act]] = {}
        self._reasons: dict[str, tuple[_Asked, str]] = {}

    def look(self, snapshot: NodeSnapshot) -> None:
        """At the snapshot that all calls are about from now on."""
        before, self._snapshot = self._snapshot, snapshot
        changed = find_changed_knobs(before.readings, snapshot.readings) if before else None
        if before is None or changed is None or not _is_same_node(before, snapshot):
            self._pods_revision += 1
            self.revision += 1
            return
        levels = {snapshot.readings[group].ref.level for group in changed}
        self._pods_revision += not levels <= _TIER_LEVELS
        self.revision += bool(changed) or before.held is not snapshot.held

    def decide(
        self, policy: Policy, snapshot: NodeSnapshot, before: PolicyState, settings: object
    ) -> Decision:
        known = self._decisions.get(policy.name)
        if known is not None and known[0] == self._pods_revision and known[1] is settings:
            return known[2]
        self._decisions.pop(policy.name, None)
        decision = decide(policy, snapshot, before, settings)
        if not isinstance(decision, Act):
            return decision
        intents = share_equal(before.intents or (), _share_reasons(decision.intents))
        claims = share_equal(before.claims, decision.claims)
        decision = msgspec.structs.replace(decision, intents=intents, claims=claims)
        if policy.ignores_counters:
            self._decisions[policy.name] = (self._pods_revision, settings, decision)
        return decision

    def reasons(self, policy: str, act: Act) -> str:
        known, asked = self._reasons.get(policy), (act.intents, act.claims)
        if known is None or known[0][0] is not asked[0] or known[0][1] is not asked[1]:
            self._reasons[policy] = known = (asked, _reasons((*act.intents, *act.claims)))
        return known[1]


def _is_same_node(one: NodeSnapshot, other: NodeSnapshot) -> bool:
    """But for readings, what is ours, counters and the clock."""
    return (
        one.workloads is other.workloads
        and one.kubepods == other.kubepods
        and one.tiers == other.tiers
        and one.off == other.off
        and one.refused_cpus == other.refused_cpus
        and one.version is other.version
        and one.pod_formula is other.pod_formula
        and one.container_formula is other.container_formula
        and _is_same_machine(one, other)
    )


def _is_same_machine(one: NodeSnapshot, other: NodeSnapshot) -> bool:
    return (
        (one.topology is other.topology or one.topology == other.topology)
        and one.reserved_cpus == other.reserved_cpus
        and (one.kubelet_cpus is other.kubelet_cpus or one.kubelet_cpus == other.kubelet_cpus)
    )


def tick(
    snapshot: NodeSnapshot,
    memory: TickMemory,
    policies: Sequence[Policy],
    settings: Mapping[str, Any],
    agent: AgentSettings,
    cache: TickCache | None = None,
) -> TickResult:
    """`settings` by policy name; a policy without any is off, and what it wanted is released."""
    cache = cache or TickCache()
    cache.look(snapshot)
    states: dict[str, PolicyState] = {}
    told: list[PolicyReport] = []
    for policy in policies:
        if settings.get(policy.name) is None:
            continue  # its memory goes with it: switched on again, it starts anew
        before = memory.policies.get(policy.name, PolicyState(policy.first_memory))
        decision = cache.decide(policy, snapshot, before, settings[policy.name])
        reason = cache.reasons(policy.name, decision) if isinstance(decision, Act) else ""
        state, line = _after(policy.name, before, decision, reason, snapshot.at, agent.hold_for)
        states[policy.name] = state
        told.append(line)
    claims = tuple(state.claims for state in states.values())
    resolved = cache.placer.place(snapshot, claims, cache.revision)
    intents = (*(state.intents or () for state in states.values()), resolved.intents)
    grants = cache.resolver.resolve(snapshot, intents, cache.revision)
    planned = cache.planner.plan(snapshot, grants, memory.drift, agent)
    commands = tuple(each for state in states.values() for each in state.commands)
    if commands:
        planned = msgspec.structs.replace(planned, commands=commands)
    memory = TickMemory(states, planned.drift)
    if snapshot.early or not memory.has_decided():
        # Before its time nothing is loosened. After a restart nobody has said yet what becomes of
        # what was adopted: it stays.
        planned = msgspec.structs.replace(planned, releases=find_bursts_in_the_way(planned))
    story = TickReport(
        tuple(_with_refusals(told, resolved.placement)),
        grants,
        planned.notes,
        planned.yielded,
        planned.commands,
        resolved.placement,
    )
    return TickResult(planned, memory, story)


def _with_refusals(
    told: Iterable[PolicyReport], placement: CpuPlacement | None
) -> Iterator[PolicyReport]:
    """With a remark of the policy about each pod with a claim that got no CPUs, or has them not
    alone."""
    texts: dict[tuple[str, str], list[str]] = {}
    for each in placement.claims if placement else ():
        if text := each.refused or each.shared:
            texts.setdefault((each.claim.by, each.claim.pod), []).append(text)
    for line in told:
        remarks = [
            Remark(pod, join_some(found)) for (by, pod), found in texts.items() if by == line.policy
        ]
        if remarks:
            line = msgspec.structs.replace(line, remarks=(*line.remarks, *remarks))
        yield line


class PolicyNeeds:
    """What the policies that are on have to see. What follows from settings and pods is worked out
    once for the same ones, as there may be hundreds; what follows from memory, each time."""

    def __init__(self) -> None:
        self._known: tuple[Mapping[str, Any], frozenset[KnobKey], Sequence[Pod]] | None = None
        self._lasting = Needs()

    def find(
        self,
        policies: Sequence[Policy],
        settings: Mapping[str, Any],
        off: frozenset[KnobKey],
        pods: Sequence[Pod],
        memory: TickMemory,
    ) -> Needs:
        """In the next tick of a node with these pods."""
        known = self._known
        same = known is not None and known[0] is settings and known[2] is pods
        if known is None or not same or known[1] != off:
            self._known = (settings, off, pods)
            self._lasting = merge_needs(_find_lasting(policies, settings, off, pods))
        passing = [
            policy.needs_for_now(own, _memory_of(policy, memory))
            for policy in policies
            if (own := settings.get(policy.name)) is not None
        ]
        return merge_needs((self._lasting, *passing))


def _find_lasting(
    policies: Sequence[Policy],
    settings: Mapping[str, Any],
    off: frozenset[KnobKey],
    pods: Sequence[Pod],
) -> Iterator[Needs]:
    for policy in policies:
        own = settings.get(policy.name)
        if own is not None:
            yield policy.needs(own, off)
            yield policy.needs_of_pods(own, pods)


def _memory_of(policy: Policy, memory: TickMemory) -> object:
    state = memory.policies.get(policy.name)
    return policy.first_memory if state is None else state.memory


def decide(
    policy: Policy, snapshot: NodeSnapshot, before: PolicyState, settings: object
) -> Decision:
    try:
        return policy.decide(snapshot, before.memory, settings)
    except Exception as error:  # noqa: BLE001 - one policy's bug is one policy's hold
        return Hold(f"failed with {type(error).__name__}: {error}", before.memory)


def _after(
    name: str, before: PolicyState, decision: Decision, reason: str, at: Micros, hold_for: Micros
) -> tuple[PolicyState, PolicyReport]:
    if isinstance(decision, Act):
        state = PolicyState(
            decision.memory,
            decision.intents,
            commands=decision.commands,
            is_settling=decision.is_settling,
            claims=decision.claims,
        )
        told = PolicyReport(
            name,
            PolicyAction.ACTED,
            reason,
            decision.numbers,
            None,
            decision.events,
            decision.remarks,
            decision.rules,
            decision.offers,
        )
        return state, told
    since = at if before.held_since is None else before.held_since
    if at - since < hold_for:
        # An eviction is asked for once; taints, conditions and node resources stand.
        commands = tuple(c for c in before.commands if c.kind in STATES)
        state = PolicyState(decision.memory, before.intents, since, commands, claims=before.claims)
        return state, PolicyReport(
            name, PolicyAction.HELD, decision.reason, decision.numbers, since
        )
    reason = f"{decision.reason}; held for {hold_for // 1_000_000} s, so released"
    state = PolicyState(decision.memory, (), since)
    return state, PolicyReport(name, PolicyAction.RELEASED, reason, decision.numbers, since)


def _share_reasons(intents: tuple[Intent, ...]) -> tuple[Intent, ...]:
    """Hundreds of pods that ask for the same have one reason object, as grants and the journal keep
    them all."""
    if len(intents) < _MANY_INTENTS:
        return intents
    known: dict[Because, Because] = {}
    return tuple(
        each
        if (because := known.setdefault(each.because, each.because)) is each.because
        else msgspec.structs.replace(each, because=because)
        for each in intents
    )


def _reasons(intents: tuple[Intent | CpuClaim, ...]) -> str:
    """The first few: hundreds of pods may have as many, and each grant has its own."""
    because = list(
        dict.fromkeys(f"{i.because.signal} {i.because.seen}, {i.because.limit}" for i in intents)
    )
    more = [f"and {len(because) - _TOLD_REASONS} more"] if len(because) > _TOLD_REASONS else []
    return "; ".join(because[:_TOLD_REASONS] + more) or NOTHING_TO_DO
