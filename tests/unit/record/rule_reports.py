"""Reports of rules and commands in a few words, for tests of what is told about them."""

from typing import Any

import msgspec

from slackwater.model.decision import (
    Because,
    Command,
    CommandKind,
    PolicyAction,
    PolicyReport,
    RuleReport,
    RuleState,
)
from slackwater.model.plan import CommandOutcome, CommandProgress, CommandState
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Micros
from slackwater.record.journal import TickRecord
from tests.unit.policies.nodes import node
from tests.unit.record.tick_records import record

RELIEF = "watermark_relief"
BECAUSE = Because("cpu_total_usage", "6500", "limit 6000")


def rule(state: RuleState = RuleState.QUIET, name: str = "cpu", **said: Any) -> RuleReport:
    known: dict[str, Any] = {
        "policy": "NodeQOS/waterline1",
        "metric": "cpu_total_usage",
        "action": "throttle",
        "limit": 6000.0,
        "seen": 6500.0 if state is RuleState.TRIGGERED else 5000.0,
        "above": 2 if state is RuleState.TRIGGERED else 0,
        "below": 0 if state in (RuleState.TRIGGERED, RuleState.QUIET) else 2,
        "avoidance_threshold": 2,
        "restore_threshold": 2,
    }
    return RuleReport(rule=name, state=state, **(known | said))


def line(*rules: RuleReport, course: PolicyAction = PolicyAction.ACTED) -> PolicyReport:
    return PolicyReport(RELIEF, course, "a reason", {}, rules=rules)


def rule_record(
    *rules: RuleReport,
    course: PolicyAction = PolicyAction.ACTED,
    in_flight: tuple[CommandProgress, ...] = (),
    snapshot: NodeSnapshot | None = None,
) -> TickRecord:
    seen = msgspec.structs.replace(snapshot or node(), in_flight=in_flight)
    return record(seen, lines=(line(*rules, course=course),))


def progress(
    state: CommandState = CommandState.QUEUED,
    kind: CommandKind = CommandKind.EVICT,
    target: str = "batch/job-1",
    detail: str = "",
) -> CommandProgress:
    uid = "uid-1" if kind is CommandKind.EVICT else ""
    value = "PreferNoSchedule" if kind is CommandKind.TAINT else ""
    command = Command(f"{kind.value} {target}", kind, target, BECAUSE, RELIEF, uid, value)
    return CommandProgress(command, state, Micros(5_000_000), detail)


def command_outcome(
    state: CommandState = CommandState.DONE, *, undone: bool = False, **said: Any
) -> CommandOutcome:
    """The same, as it is told when it got there."""
    made = progress(state, **said)
    return CommandOutcome(made.command, state, Micros(5_000_000), made.detail, undone)
