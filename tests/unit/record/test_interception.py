"""How new containers get their quotas, wherever people look: explain, the report, status."""

import msgspec
import pytest

from slackwater.contract.node_report import read_report
from slackwater.model.units import Micros
from slackwater.record.agent_view import AgentView
from slackwater.record.interception import (
    NOT_INTERCEPTED,
    AnswerResult,
    InterceptionRecord,
    InterceptionState,
    InterceptionWay,
)
from slackwater.record.node_status import node_report
from tests.unit.policies.nodes import node
from tests.unit.record.stories import Told, rows
from tests.unit.record.tick_records import record, told
from tests.unit.status.reported import REPORT, only_node, pod
from tests.unit.status.reported import node as reported

BY_NRI = InterceptionState(InterceptionWay.NRI, "containerd 2.2.9 asks at /s before each start")
NO_SOCKET = InterceptionState(InterceptionWay.RECONCILE, "there is no /s")
DIVIDED = msgspec.structs.replace(told(), policy="normalization")


@pytest.mark.parametrize(
    ("state", "policy", "said"),
    [
        (NOT_INTERCEPTED, True, "reconcile alone: agent.interceptStarts is false"),
        (NO_SOCKET, True, "reconcile alone: there is no /s"),
        (BY_NRI, True, "NRI: containerd 2.2.9 asks at /s before each start"),
        (BY_NRI, False, "NRI: containerd 2.2.9 asks at /s before each start"),
        (NOT_INTERCEPTED, False, ""),
    ],
)
def test_the_way_is_told_where_a_policy_has_quotas(
    state: InterceptionState, policy: bool, said: str
) -> None:
    seen = AgentView(ticks=(record(lines=(DIVIDED if policy else told(),)),), interception=state)
    assert seen.container_starts() == said
    report = node_report(seen)
    assert report.container_starts == (said or None)
    assert read_report(report.text()) == report


def test_explain_says_it_of_the_node_and_not_of_each_pod() -> None:
    view = Told().tick(node(usage=200)).view(interception=BY_NRI)
    remark = f"new containers get their quotas by {BY_NRI.title()}"
    assert [remark in each.remarks for each in rows(view)].count(True) == 1
    assert not any(remark in each.remarks for each in rows(view, "besteffort"))


def test_status_shows_the_report() -> None:
    report = msgspec.structs.replace(REPORT, container_starts=BY_NRI.title())
    assert only_node(reported(report=report), pods=[pod()]).container_starts == BY_NRI.title()


def test_counts() -> None:
    counting = InterceptionRecord()
    for took in (100, 500, 501, 60_000):
        counting.add_answer("create", AnswerResult.ADJUSTED, Micros(took))
    counting.add_connection()
    found = counting.counts()
    assert found.answers == {("create", "adjusted"): 4}
    assert found.durations == (2, 1, 0, 0, 0, 1)
    assert (found.duration_sum, found.connections) == (61_101, 1)
