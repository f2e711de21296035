"""Records of ticks in a few words, for tests of what is made from them."""

from collections.abc import Iterable
from typing import Any

from slackwater.model.cgroup import CgroupRef
from slackwater.model.decision import (
    Event,
    Note,
    NoteKind,
    PolicyAction,
    PolicyReport,
    TickReport,
    Yielded,
)
from slackwater.model.knob import QUOTA
from slackwater.model.plan import Change, Outcome, Result
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Bandwidth, Micros, MilliCpu
from slackwater.policies.best_effort_share import BestEffortShareSettings
from slackwater.policies.ensurance.watermark_settings import WatermarkRules
from slackwater.record.journal import TickInputs, TickRecord
from slackwater.settings.agent_settings import AgentSettings
from tests.unit.policies.nodes import BESTEFFORT, FREE, node

SHARE, RELIEF = "best_effort_share", "watermark_relief"
OURS = Bandwidth(Micros(60_000))


def told(
    course: PolicyAction = PolicyAction.ACTED, claim: int | None = None, policy: str = SHARE
) -> PolicyReport:
    """A policy's line; with a claim, it also tells the seed's event."""
    events = () if claim is None else (Event("NodeCPUThrottleEvent", "cpu", MilliCpu(claim)),)
    return PolicyReport(policy, course, "a reason", {"budget": 600, "threshold": 80}, None, events)


def outcome(result: Result = Result.APPLIED, ref: CgroupRef = BESTEFFORT) -> Outcome:
    return Outcome(Change(ref, QUOTA, FREE, OURS), result)


def note(kind: NoteKind) -> Note:
    return Note(BESTEFFORT, "quota", kind, "somebody else wrote")


def record(
    snapshot: NodeSnapshot | None = None,
    *,
    lines: Iterable[PolicyReport] = (),
    outcomes: Iterable[Outcome] = (),
    notes: Iterable[Note] = (),
    yielded: Iterable[Yielded] = (),
    took: int = 0,
    agent: AgentSettings | None = None,
) -> TickRecord:
    """The policies that told something are those that are on."""
    spoken = tuple(lines)
    settings: dict[str, Any] = {RELIEF: WatermarkRules(enabled=True)}
    share = BestEffortShareSettings(enabled=True)
    on = {line.policy: settings.get(line.policy, share) for line in spoken}
    inputs = TickInputs(None, on, agent or AgentSettings())
    story = TickReport(spoken, (), tuple(notes), tuple(yielded))
    return TickRecord(snapshot or node(), inputs, story, tuple(outcomes), (), Micros(took))
