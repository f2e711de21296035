"""When evictions that were refused are not tried again."""

import pytest

from slackwater.agent.program import is_relief_wanted
from slackwater.model.decision import (
    PolicyAction,
    PolicyReport,
    RuleReport,
    RuleState,
    TickReport,
)


def rule(state: RuleState, *, preview: bool = False) -> RuleReport:
    return RuleReport(
        "NodeQOS/a", "cpu", "cpu_total_usage", "evict", state, 6000.0, preview=preview
    )


ROWS: dict[str, tuple[tuple[RuleReport, ...], bool]] = {
    "no rule": ((), False),
    "quiet": ((rule(RuleState.QUIET),), False),
    "cooling": ((rule(RuleState.COOLING),), False),
    "triggered": ((rule(RuleState.QUIET), rule(RuleState.TRIGGERED)), True),
    "only a preview": ((rule(RuleState.TRIGGERED, preview=True),), False),
}


@pytest.mark.parametrize("what", ROWS)
def test_relief_is_wanted_while_a_rule_is_triggered(what: str) -> None:
    rules, wanted = ROWS[what]
    told = PolicyReport("watermark_relief", PolicyAction.ACTED, "", {}, rules=rules)
    assert is_relief_wanted(TickReport((told,))) is wanted
