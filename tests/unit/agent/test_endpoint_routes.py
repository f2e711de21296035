"""What is answered: alive, ready, metrics, explanations, recordings; the clock is an argument."""

import threading
from typing import Any

import msgspec
import pytest

from slackwater.agent import endpoint_server
from slackwater.agent.endpoint_server import Query, healthz, readyz, why_lost
from slackwater.agent.shared_state import ReleaseDone, SharedState
from slackwater.model.problem import ConfigurationProblem
from slackwater.model.units import Micros
from slackwater.record.agent_view import RoundState
from slackwater.record.journal import JournalEntry
from slackwater.record.recording import CONTENT_TYPE, decode_recording
from slackwater.runtime.http_exchange import Response
from slackwater.settings.agent_settings import AgentSettings
from tests.unit.agent.shared_states import ended, seconds, shared
from tests.unit.policies.nodes import BESTEFFORT, FREE, held, node
from tests.unit.record.tick_records import OURS, record, told

STARTED = seconds(100)
#: Three periods of 60 s are more than the 90 s of the default.
SLOW = AgentSettings(period=seconds(60))
QUICK = AgentSettings(stalled_after=seconds(10), period=seconds(1))


BAD_THRESHOLD = ConfigurationProblem("threshold is 400")


@pytest.fixture(autouse=True)
def no_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody ticks here, so nobody is waited for."""
    monkeypatch.setattr(endpoint_server, "DETAIL_PATIENCE", 0.0)


def asked(shown: SharedState, second: float = 101, **query: str) -> Query:
    return Query(shown, seconds(second), query)


def said(answer: Response) -> Any:
    assert answer.content_type == "application/json"
    return msgspec.json.decode(answer.body)


@pytest.mark.parametrize(
    ("condition", "second", "because"),
    [
        (RoundState(), 100, ""),  # it has just begun
        (RoundState(), 190, ""),
        (RoundState(), 190.000001, "the loop has made no progress for 90 s; 90 s are allowed"),
        (ended(150), 240, ""),
        (ended(150), 241, "the loop has made no progress for 91 s; 90 s are allowed"),
        (ended(150, settings=SLOW), 330, ""),
        (
            ended(150, settings=SLOW),
            331,
            "the loop has made no progress for 181 s; 180 s are allowed",
        ),
        (ended(150, settings=QUICK), 160, ""),
        (
            ended(150, settings=QUICK),
            161,
            "the loop has made no progress for 11 s; 10 s are allowed",
        ),
        (ended(150, blind="gone"), 151, ""),  # a round without a look is one, too
    ],
)
def test_stalled(condition: RoundState, second: float, because: str) -> None:
    assert_health(condition, second, because)


GONE = "the kubelet's tree is gone"


@pytest.mark.parametrize(
    ("condition", "second", "because"),
    [
        (ended(150, blind=GONE, lost_since=seconds(150)), 151, ""),
        (ended(180, blind=GONE, lost_since=seconds(150)), 180, ""),  # it may come back
        (
            ended(181, blind=GONE, lost_since=seconds(150)),
            181,
            f"{GONE}, for 31 s; a restart looks for it anew",
        ),
        # For want of objects, or of the API server: a restart has no more of them.
        (ended(900, blind="waiting for pods"), 900, ""),
        # Seen again.
        (ended(900), 900, ""),
        # A restart would end the rest that somebody asked for.
        (ended(900, blind=GONE, lost_since=seconds(150), paused="by hand"), 900, ""),
    ],
)
def test_an_agent_that_lost_its_tree_is_restarted(
    condition: RoundState, second: float, because: str
) -> None:
    assert why_lost(condition, seconds(second)) == because
    assert_health(condition, second, because)


def test_a_loop_that_stands_still_is_told_first() -> None:
    condition = ended(150, blind=GONE, lost_since=seconds(150))
    assert_health(condition, 250, "the loop has made no progress for 100 s; 90 s are allowed")


def assert_health(condition: RoundState, second: float, because: str) -> None:
    shown = shared()
    shown.health.beat(STARTED)
    shown.end_round(condition)
    answer = healthz(asked(shown, second))
    assert answer.status == (503 if because else 200)
    assert said(answer) == ({"ok": False, "because": because} if because else {"ok": True})


@pytest.mark.parametrize(
    ("ticks", "condition", "status", "body"),
    [
        (0, RoundState(), 503, {"ok": False, "because": "no tick yet"}),
        (0, ended(101, blind="gone"), 503, {"ok": False, "because": "gone"}),
        (1, ended(101), 200, {"ok": True}),
        (1, ended(101, blind="gone"), 503, {"ok": False, "because": "gone"}),
        (
            1,
            ended(101, problems=(BAD_THRESHOLD,)),
            200,
            {"ok": True, "problems": ["threshold is 400"]},
        ),
        (
            1,
            ended(
                101,
                blind="gone",
                lost_since=seconds(100),
                problems=(BAD_THRESHOLD,),
            ),
            503,
            {"ok": False, "because": "gone", "problems": ["gone", "threshold is 400"]},
        ),
        (1, ended(101, paused="by hand"), 200, {"ok": True, "paused": "by hand"}),
    ],
)
def test_ready(ticks: int, condition: RoundState, status: int, body: dict[str, Any]) -> None:
    shown = shared()
    for number in range(ticks):
        shown.add_tick(record(node(tick=number)))
    shown.end_round(condition)
    answer = readyz(asked(shown))
    assert (answer.status, said(answer)) == (status, body)


def test_metrics_are_made_of_the_board() -> None:
    shown = shared()
    shown.add_tick(record(node(usage=250), lines=(told(),)))
    shown.end_round(ended(101, problems=(ConfigurationProblem("one"),), paused="by hand"))
    answer = endpoint_server.metrics(asked(shown, 103))
    lines = answer.body.decode().splitlines()
    assert answer.content_type.startswith("text/plain")
    for line in (
        'slackwater_ticks_total{kind="regular"} 1.0',
        "slackwater_configuration_problems 1.0",
        "slackwater_paused 1.0",
        "slackwater_node_cpu_usage_cores 0.25",
        "slackwater_last_tick_age_seconds 102.0",
        'slackwater_policy_enabled{policy="best_effort_share"} 1.0',
    ):
        assert line in lines


def with_a_tick() -> SharedState:
    shown = shared()
    kept = (held(BESTEFFORT, FREE, OURS),)
    shown.add_tick(record(node(usage=250, quota=OURS, kept=kept), lines=(told(),)))
    shown.end_round(ended(101))
    return shown


def test_explain() -> None:
    answer = endpoint_server.explain(asked(with_a_tick(), target="besteffort"))
    assert answer.status == 200
    assert {row["target"] for row in said(answer)} == {"besteffort"}


def test_explain_knows_no_such_thing() -> None:
    answer = endpoint_server.explain(asked(with_a_tick(), target="nowhere"))
    assert answer.status == 404
    assert "nowhere" in said(answer)["error"]


@pytest.mark.parametrize(
    ("route", "query", "watched"),
    [
        (endpoint_server.top, {}, True),
        (endpoint_server.explain, {}, False),
        (endpoint_server.explain, {"target": "default/web"}, True),
        (endpoint_server.metrics, {}, False),
        (endpoint_server.ticks, {}, False),
    ],
)
def test_who_looks_at_pods_has_them_read(
    route: endpoint_server.Route, query: dict[str, str], watched: bool
) -> None:
    shown = with_a_tick()
    route(asked(shown, 101, **query))
    assert shown.is_detail_requested(seconds(102)) is watched


def test_top() -> None:
    answer = endpoint_server.top(asked(with_a_tick()))
    assert (answer.status, said(answer)["node"]["usage"]) == (200, 250)


def test_ticks_are_a_recording() -> None:
    shown = shared()
    assert endpoint_server.ticks(asked(shown)).status == 503
    for number in (1, 2):
        shown.add_tick(record(node(tick=number)))
    answer = endpoint_server.ticks(asked(shown))
    assert (answer.status, answer.content_type) == (200, CONTENT_TYPE)
    assert [each.line.snapshot.tick for each in decode_recording(answer.body).ticks] == [1, 2]


def test_a_release_waits_for_the_loop() -> None:
    wake = threading.Event()
    shown = SharedState(shared().journal, shared().tally, wake.set)
    entry = JournalEntry(3, Micros(7), "quota of kubepods/besteffort", result="applied")

    def loop() -> None:
        assert wake.wait()
        shown.finish_release(ReleaseDone((entry,), 1))

    thread = threading.Thread(target=loop)
    thread.start()
    answer = endpoint_server.release(asked(shown))
    thread.join()
    assert answer.status == 200
    assert msgspec.json.decode(answer.body, type=ReleaseDone) == ReleaseDone((entry,), 1)


def test_a_release_that_no_round_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_server, "RELEASE_PATIENCE", 0.0)
    shown = shared()
    answer = endpoint_server.release(asked(shown))
    assert answer.status == 504
    assert "the next one will release" in said(answer)["error"]
    assert shown.is_release_requested()
