"""Ticks and views in a few words, for tests of what is told about them."""

from typing import Any

import msgspec

from slackwater.agent.tick import TickMemory, tick
from slackwater.model.cgroup import CgroupVersion
from slackwater.model.gap import Gap
from slackwater.model.plan import Outcome, Result
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Micros
from slackwater.policies import best_effort_share
from slackwater.policies.best_effort_share import BestEffortShareSettings
from slackwater.record.agent_view import AgentView
from slackwater.record.explanation import Explanation, explain
from slackwater.record.journal import Journal, TickInputs, TickRecord, make_entries
from slackwater.settings.agent_settings import AgentSettings

ON: dict[str, Any] = {"best_effort_share": BestEffortShareSettings(enabled=True)}
#: 2026-01-01T00:00:00Z, less a clock that stands at zero.
OFFSET = Micros(1_767_225_600_000_000)


class Told:
    """Real ticks one after another, each carried out with the same result."""

    def __init__(self, result: Result = Result.APPLIED, detail: str = "") -> None:
        self.result, self.detail = result, detail
        self.memory = TickMemory()
        self.journal = Journal(60)

    def tick(self, snapshot: NodeSnapshot, settings: dict[str, Any] | None = None) -> "Told":
        policies = ON if settings is None else settings
        agent = AgentSettings()
        done = tick(snapshot, self.memory, (best_effort_share.POLICY,), policies, agent)
        outcomes = tuple(Outcome(c, self.result, self.detail) for c in done.planned.changes)
        inputs = TickInputs(self.memory, policies, agent)
        entries = make_entries(snapshot, outcomes, done.story)
        record = TickRecord(snapshot, inputs, done.story, outcomes, entries, Micros(0))
        self.journal.keep(record)
        self.memory = done.memory
        return self

    def view(self, **besides: Any) -> AgentView:
        view = AgentView(
            ticks=self.journal.ticks,
            offset=OFFSET,
            version=CgroupVersion.V2,
            last_change=self.journal.last_change,
        )
        return msgspec.structs.replace(view, **besides)


def rows(view: AgentView, target: str = "") -> list[Explanation]:
    found = explain(view, target)
    assert not isinstance(found, Gap), found
    return list(found)


def only(view: AgentView, target: str = "") -> Explanation:
    [row] = rows(view, target)
    return row
