"""From the shared state to responses: explain and top, and when pods are waited for."""

import threading

import msgspec
import pytest

from slackwater.agent.endpoint_server import SOCKET_ROUTES, Query
from slackwater.agent.shared_state import SharedState, view_of
from slackwater.model.cgroup import CgroupVersion, Tier
from slackwater.model.problem import ConfigurationProblem
from slackwater.model.units import Micros
from slackwater.record.agent_view import RoundState
from slackwater.record.explanation import Explanation
from slackwater.record.journal import Journal
from slackwater.record.metrics import TickCounters
from slackwater.record.overview import Overview
from tests.unit.policies.nodes import node, pod
from tests.unit.record.stories import Told

OFF = {"best_effort_share": "bestEffortShare.enabled is false"}
PROBLEM = ConfigurationProblem("a problem")
SECOND = 1_000_000


def shared(*, ticks: int = 1) -> SharedState:
    made = SharedState(Journal(60), TickCounters(), lambda: None, CgroupVersion.V1)
    told = Told()
    for second in range(1, ticks + 1):
        told.tick(node(usage=200, tick=second, workloads=(pod(1, Tier.BESTEFFORT),)))
    for record in told.journal.ticks:
        made.add_tick(record)
    made.end_round(RoundState(off=OFF, problems=(PROBLEM,)))
    return made


def asked(of: SharedState, path: str, **query: str) -> tuple[int, bytes]:
    answer = SOCKET_ROUTES[path](Query(of, Micros(0), query))
    return answer.status, answer.body


def test_the_view_has_what_the_board_has() -> None:
    shown = shared()
    view = view_of(shown, Micros(5))
    assert (view.ticks, view.off, view.problems) == (shown.journal.ticks, OFF, (PROBLEM,))
    assert view.version is CgroupVersion.V1
    assert view.timestamp(Micros(5)) > "2020"


def test_a_lost_tree_is_among_the_problems_of_top() -> None:
    shown = shared()
    shown.end_round(RoundState(blind="gone", lost_since=Micros(3), problems=(PROBLEM,)))
    view = view_of(shown, Micros(5))
    assert (view.lost, view.problems) == ("gone", (PROBLEM,))
    _, body = asked(shown, "/v1/top")
    assert msgspec.json.decode(body, type=Overview).problems == ("gone", "a problem")


def test_explain_and_top_as_they_are_asked() -> None:
    shown = shared()
    status, body = asked(shown, "/v1/explain")
    rows = msgspec.json.decode(body, type=list[Explanation])
    assert (status, rows[0].target, rows[0].file) == (200, "besteffort", "cpu.cfs_quota_us")
    status, body = asked(shown, "/v1/explain", target="nobody")
    assert status == 404
    assert "there is no 'nobody' here" in msgspec.json.decode(body)["error"]
    status, body = asked(shown, "/v1/top")
    assert (status, msgspec.json.decode(body, type=Overview).pods[0].name) == (200, "pod-1")


@pytest.mark.parametrize(
    ("path", "query", "watched"),
    [
        ("/v1/top", {}, True),
        ("/v1/explain", {"target": "pod-1"}, True),
        ("/v1/explain", {}, False),
    ],
)
def test_who_looks_at_pods_has_them_read(path: str, query: dict[str, str], watched: bool) -> None:
    shown = shared()
    asked(shown, path, **query)
    assert shown.is_detail_requested(Micros(1)) is watched


def test_a_tick_before_the_look_is_not_enough() -> None:
    shown = shared()
    shown.request_detail(Micros(5 * SECOND))
    assert not shown.wait_for_detail(0.01)
    later = Told().tick(node(usage=200, tick=6)).journal.ticks[0]
    thread = threading.Timer(0.05, shown.add_tick, (later,))
    thread.start()
    assert shown.wait_for_detail(10)
    thread.join()
    shown.request_detail(Micros(7 * SECOND))  # still the same look
    assert shown.wait_for_detail(0.01)
