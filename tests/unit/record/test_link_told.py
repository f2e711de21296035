"""What is wrong with the ties to the cluster is told wherever people look."""

import msgspec
import pytest

from slackwater.agent.endpoint_server import Query, healthz, metrics, readyz
from slackwater.agent.shared_state import SharedState
from slackwater.model.snapshot import Freshness
from slackwater.model.units import Micros
from slackwater.record.agent_view import ClusterLink
from slackwater.record.explanation import NOT_YET
from slackwater.record.journal import Journal
from slackwater.record.metrics import TickCounters
from slackwater.record.overview import SourceRow, make_overview
from tests.unit.policies.nodes import node
from tests.unit.record.stories import Told, rows

AWAY = ClusterLink(
    {"pods": Freshness(Micros(61_250_000), "connection refused"), "node": Freshness(Micros(7))}
)
SENTENCE = "nothing was heard of pods for 1 min: connection refused"
VIEW = Told().tick(node(usage=200)).view(link=AWAY)


def test_explain_says_it_of_every_target() -> None:
    for target in ("", "besteffort", "node"):
        assert any(SENTENCE in row.remarks for row in rows(VIEW, target))


def test_explain_says_it_before_the_first_tick() -> None:
    [row] = rows(msgspec.structs.replace(VIEW, ticks=()))
    assert row.remarks == (NOT_YET, SENTENCE)
    [row] = rows(msgspec.structs.replace(VIEW, ticks=(), blind="waiting for pods"))
    assert row.remarks == ("waiting for pods", SENTENCE)


@pytest.mark.parametrize("view", [VIEW, msgspec.structs.replace(VIEW, ticks=())])
def test_top_shows_ages_and_what_is_wrong(view: object) -> None:
    shown = make_overview(view)  # type: ignore[arg-type]
    assert shown.problems == (SENTENCE,)
    assert shown.sources == (SourceRow("pods", 61.2, "connection refused"), SourceRow("node", 0.0))


def shared(link: ClusterLink) -> SharedState:
    made = SharedState(Journal(3), TickCounters(), lambda: None, link=lambda _at: link)
    for record in Told().tick(node(usage=200)).journal.ticks:
        made.add_tick(record)
    return made


@pytest.mark.parametrize("route", [healthz, readyz])
def test_health_tells_it_and_stays_good(route: object) -> None:
    """A restart would not bring the API server back, and values stand as they should."""
    answer = route(Query(shared(AWAY), Micros(5)))  # type: ignore[operator]
    assert answer.status == 200
    assert msgspec.json.decode(answer.body) == {"ok": True, "cluster": [SENTENCE]}


@pytest.mark.parametrize("route", [healthz, readyz])
def test_without_trouble_there_is_no_word_of_it(route: object) -> None:
    answer = route(Query(shared(ClusterLink()), Micros(5)))  # type: ignore[operator]
    assert msgspec.json.decode(answer.body) == {"ok": True}


def test_metrics_have_the_ages() -> None:
    body = metrics(Query(shared(AWAY), Micros(5))).body.decode()
    assert 'slackwater_source_age_seconds{source="pods"} 61.25' in body
    assert 'slackwater_source_silent{source="node"} 0.0' in body
