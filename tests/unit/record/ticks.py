"""Recorded ticks in a few words: an agent's loop without clocks and files."""

from collections.abc import Sequence
from typing import Any

import msgspec

from slackwater.agent.tick import TickMemory, tick
from slackwater.model.cgroup import CgroupRef, Tier
from slackwater.model.gap import Gap
from slackwater.model.plan import Outcome, Result
from slackwater.model.snapshot import NodeSnapshot, WritePrecision
from slackwater.model.units import Bandwidth, Micros
from slackwater.policies import best_effort_share
from slackwater.policies.best_effort_share import BestEffortShareSettings
from slackwater.policies.policy import Policy
from slackwater.record.journal import TickInputs, TickRecord, make_entries
from slackwater.settings.agent_settings import AgentSettings
from tests.unit.policies.nodes import BESTEFFORT, FREE, held, node, reading

POLICIES = (best_effort_share.POLICY,)
ON = {best_effort_share.NAME: BestEffortShareSettings(enabled=True)}


def one(
    snapshot: NodeSnapshot,
    memory: TickMemory,
    settings: dict[str, Any],
    policies: tuple[Policy, ...] = POLICIES,
) -> tuple[TickRecord, TickMemory]:
    """One tick whose changes are all applied, and the memory after it."""
    agent = AgentSettings()
    done = tick(snapshot, memory, policies, settings, agent)
    outcomes = tuple(Outcome(change, Result.APPLIED) for change in done.planned.changes)
    entries = make_entries(snapshot, outcomes, done.story)
    inputs = TickInputs(memory, settings, agent)
    record = TickRecord(snapshot, inputs, done.story, outcomes, entries, Micros(100))
    return record, done.memory


def run(
    usages: Sequence[int | Gap],
    settings: dict[str, Any] | None = None,
    policies: tuple[Policy, ...] = POLICIES,
    tier: CgroupRef = BESTEFFORT,
    precision: WritePrecision | None = None,
) -> list[TickRecord]:
    """A closed loop: the next snapshot shows what was written."""
    memory, quota, records = TickMemory(), FREE, []
    for number, usage in enumerate(usages, start=1):
        kept = (held(tier, FREE, quota),) if quota != FREE else ()
        snapshot = msgspec.structs.replace(
            node(usage=usage, tick=number, quota=quota, kept=kept),
            tiers={Tier.BESTEFFORT: tier},
            readings={tier.id: reading(tier, quota)},
            precision=precision,
        )
        record, memory = one(snapshot, memory, ON if settings is None else settings,
                             policies)  # fmt: skip
        records.append(record)
        for outcome in record.outcomes:
            assert isinstance(outcome.change.new, Bandwidth)
            quota = outcome.change.new
    return records


def threshold(percent: int) -> dict[str, Any]:
    section = ON[best_effort_share.NAME]
    return {best_effort_share.NAME: msgspec.structs.replace(section, threshold=percent)}
