"""What the manager answers: alive, ready, its numbers."""

from typing import Any

import msgspec
import pytest

from slackwater import __version__
from slackwater.manager.controllers.controller import WriteVerb
from slackwater.manager.program import respond
from slackwater.manager.state import (
    METRICS,
    STALLED_AFTER,
    KindSummary,
    ManagerState,
    NormalizedNode,
    PredictionSummary,
    QuerySummary,
    RoundSummary,
)
from slackwater.model.units import Micros
from slackwater.runtime.http_exchange import Request, Response

SECOND = 1_000_000
AT = Micros(10 * SECOND)
KINDS = (
    KindSummary("Node", 1000, 0, Micros(9 * SECOND), synced=True),
    KindSummary("NodeQOS", 3, 1, Micros(9 * SECOND), "the watch broke", synced=True),
    KindSummary("PodQOS", 0, 0, Micros(0), "there is no such kind"),
)
LEADS = RoundSummary(
    AT,
    leads=True,
    leader="me",
    reporting=998,
    kinds=KINDS,
    problems=("NodeQOS: the watch broke",),
    predictions=(
        PredictionSummary("cpu", "fft", 3, 0.25),
        PredictionSummary("memory", "percentile", 1),
    ),
    unpredicted=2,
    queries=QuerySummary(7, 1, 8640),
)


def ask(
    state: ManagerState, path: str, at: int = AT, method: str = "GET", accept: str = ""
) -> Response:
    return respond(state, Request(method, path, accept=accept), Micros(at))


def told(answer: Response) -> Any:
    return msgspec.json.decode(answer.body)


def shown(standing: RoundSummary = LEADS) -> ManagerState:
    state = ManagerState(Micros(0))
    state.end_round(standing)
    return state


def test_before_the_first_round_it_is_alive_and_not_ready() -> None:
    fresh = ManagerState(Micros(0))
    assert ask(fresh, "/healthz").status == 200
    assert told(ask(fresh, "/readyz")) == {"ok": False, "because": "no round yet"}
    assert ask(fresh, "/readyz").status == 503


@pytest.mark.parametrize(("age", "status"), [(STALLED_AFTER, 200), (STALLED_AFTER + 1, 503)])
@pytest.mark.parametrize("rounds", [0, 1])
def test_a_loop_that_stalls_is_not_healthy(age: int, status: int, rounds: int) -> None:
    state = ManagerState(AT) if not rounds else shown()
    answer = ask(state, "/healthz", AT + age)
    assert answer.status == status
    if status == 503:
        assert (
            told(answer)["because"] == "the loop has made no progress for 120 s; 120 s are allowed"
        )


def test_a_follower_is_ready() -> None:
    state = shown(RoundSummary(AT, leads=False, leader="another"))
    answer = ask(state, "/readyz")
    assert answer.status == 200
    assert told(answer) == {"ok": True, "leader": "another"}


def test_what_was_never_listed_is_why_it_is_not_ready() -> None:
    state = shown(RoundSummary(AT, unsynced=("Node: forbidden", "NodeQOS: not listed yet")))
    answer = ask(state, "/readyz")
    assert answer.status == 503
    assert told(answer)["because"] == "Node: forbidden; NodeQOS: not listed yet"


def test_problems_are_told_and_no_reason_against_it() -> None:
    answer = ask(shown(), "/readyz?verbose")
    assert answer.status == 200
    assert told(answer)["problems"] == ["NodeQOS: the watch broke"]


def test_other_paths_and_methods_hear_which_there_are() -> None:
    lost = ask(shown(), "/nowhere")
    assert lost.status == 404
    assert told(lost)["error"] == "there is no '/nowhere'; there are /healthz, /readyz, /metrics"
    wrong = ask(shown(), "/metrics", method="POST")
    assert (wrong.status, wrong.headers["Allow"]) == (405, "GET, HEAD")


def numbers(answer: Response) -> dict[str, float]:
    lines = [line for line in answer.body.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_metrics() -> None:
    state = shown()
    state.count_write(WriteVerb.STATUS, "NodeQOS", "applied")
    state.count_write(WriteVerb.STATUS, "NodeQOS", "applied")
    state.count_write(WriteVerb.STATUS, "PodQOS", "refused")
    state.count_event()
    answer = ask(state, "/metrics", AT + SECOND)
    assert answer.content_type.startswith("text/plain")
    found = numbers(answer)
    assert found == {
        f'slackwater_build_info{{version="{__version__}"}}': 1,
        "slackwater_manager_leader": 1,
        "slackwater_manager_rounds_total": 1,
        "slackwater_manager_last_round_age_seconds": 1,
        'slackwater_manager_status_writes_total{kind="NodeQOS",result="applied"}': 2,
        'slackwater_manager_status_writes_total{kind="PodQOS",result="refused"}': 1,
        "slackwater_manager_events_total": 1,
        'slackwater_manager_objects{kind="Node"}': 1000,
        'slackwater_manager_objects{kind="NodeQOS"}': 3,
        'slackwater_manager_invalid_objects{kind="Node"}': 0,
        'slackwater_manager_invalid_objects{kind="NodeQOS"}': 1,
        'slackwater_manager_watch_age_seconds{kind="Node"}': 2,
        'slackwater_manager_watch_age_seconds{kind="NodeQOS"}': 2,
        'slackwater_manager_watch_synced{kind="Node"}': 1,
        'slackwater_manager_watch_synced{kind="NodeQOS"}': 1,
        'slackwater_manager_watch_synced{kind="PodQOS"}': 0,
        "slackwater_manager_nodes_reporting": 998,
        "slackwater_manager_problems": 1,
        "slackwater_manager_predictions_not_ready": 2,
        "slackwater_manager_template_invalid": 0,
        'slackwater_manager_history_queries_total{result="answered"}': 7,
        'slackwater_manager_history_queries_total{result="failed"}': 1,
        "slackwater_manager_history_samples_total": 8640,
        'slackwater_manager_predictions{estimator="fft",resource="cpu"}': 3,
        'slackwater_manager_prediction_error_ratio{estimator="fft",resource="cpu"}': 0.25,
        'slackwater_manager_predictions{estimator="percentile",resource="memory"}': 1,
        "slackwater_manager_slo_config_invalid": 0,
    }


def test_metrics_of_normalization() -> None:
    nodes = (NormalizedNode("a", 135, 16_000, 21_600), NormalizedNode("b", None, None, None))
    ended = RoundSummary(
        AT, slo_config_invalid=True, normalized=nodes, notices={"normalization": 2}
    )
    found = numbers(ask(shown(ended), "/metrics"))
    assert {
        'slackwater_manager_normalization_ratio{node="a"}': 1.35,
        'slackwater_manager_node_raw_allocatable_cores{node="a"}': 16,
        'slackwater_manager_node_allocatable_cores{node="a"}': 21.6,
        'slackwater_manager_notices{controller="normalization"}': 2,
        "slackwater_manager_slo_config_invalid": 1,
    }.items() <= found.items()
    assert not any('node="b"' in name for name in found)


def test_metrics_before_the_first_round_and_as_openmetrics() -> None:
    fresh = ask(ManagerState(Micros(0)), "/metrics", accept="application/openmetrics-text")
    assert fresh.content_type.startswith("application/openmetrics-text")
    assert "slackwater_manager_leader" not in fresh.body.decode()
    assert fresh.body.endswith(b"# EOF\n")


def test_names_are_prometheus_names() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert metric.name.startswith("slackwater_")
        assert metric.prose.endswith(".")
