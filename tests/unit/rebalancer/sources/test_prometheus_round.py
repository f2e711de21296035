"""Who is asked again in one round, and who is not."""

import pytest

from slackwater.http.prometheus_api import QueryResult
from slackwater.http.prometheus_client import (
    PrometheusClient,
    PrometheusError,
    PrometheusTimeoutError,
    PrometheusUnreachableError,
)
from slackwater.rebalancer.sources.round_prometheus import RoundPrometheusClient
from tests.unit.http.prometheus_world import (
    ONE,
    clear_proxies,
    first_then_well,
    refusal,
    settings_for,
    status,
)
from tests.unit.kube.byte_server import Answer, Request, Wire, serving


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    clear_proxies(monkeypatch)


def hang(_request: Request, wire: Wire) -> None:
    wire.hang()


def drop(_request: Request, wire: Wire) -> None:
    wire.reset()


def kind_of(answer: Answer) -> type[PrometheusError]:
    """What a client says in the end, without pauses."""
    patience = 0.3 if answer is hang else 30.0
    with serving(answer) as server:
        client = PrometheusClient(settings_for(server.port, patience, retries=0), lambda _: None)
        with pytest.raises(PrometheusError) as caught:
            client.query("up")
    return type(caught.value)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        pytest.param(hang, PrometheusTimeoutError, id="hangs"),
        pytest.param(drop, PrometheusUnreachableError, id="closes"),
        *(
            pytest.param(status(code), PrometheusUnreachableError, id=str(code))
            for code in (502, 503, 504)
        ),
        *(
            pytest.param(status(code), PrometheusError, id=str(code))
            for code in (400, 401, 403, 404, 422, 429, 500, 302)
        ),
    ],
)
def test_what_is_about_the_server_and_what_about_the_query(
    answer: Answer, kind: type[PrometheusError]
) -> None:
    assert kind_of(answer) is kind


def test_nobody_there_is_silence() -> None:
    with pytest.raises(PrometheusUnreachableError, match=r"127\.0\.0\.1:1: Connection refused"):
        PrometheusClient(settings_for(1, retries=0)).query("up")


@pytest.mark.parametrize("answer", [drop, status(503)])
def test_a_silent_server_is_asked_once(answer: Answer) -> None:
    with serving(answer) as server:
        client = RoundPrometheusClient(settings_for(server.port, retries=0))
        told = [refusal(client) for _ in range(5)]
        assert len(server.requests) == 1
    assert len(set(told)) == 1
    assert told[0].startswith(f"Prometheus at http://127.0.0.1:{server.port}: ")


@pytest.mark.parametrize("code", [400, 422, 429, 500])
def test_an_error_of_one_query_is_that_querys(code: int) -> None:
    with serving(first_then_well(status(code))) as server:
        client = RoundPrometheusClient(settings_for(server.port, retries=0))
        assert f"it answered {code}" in refusal(client)
        assert client.query("up") == (ONE,)


SLOW = PrometheusTimeoutError("no whole answer within 1 s")
GONE = PrometheusUnreachableError("Connection reset by peer")
WELL = QueryResult((ONE,))


class Script:
    """What a server does, question by question, and the seconds that each question was given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *steps: QueryResult | Exception) -> None:
        self.given: list[float] = []
        script = self

        def ask(client: PrometheusClient, _text: str, _at: float | None = None) -> QueryResult:
            script.given.append(client._timeout)
            step = steps[len(script.given) - 1]
            if isinstance(step, Exception):
                raise step
            return step

        monkeypatch.setattr(PrometheusClient, "ask", ask)


def test_a_server_that_hangs_costs_its_time_once_and_a_tenth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Script(monkeypatch, SLOW, SLOW)
    client = RoundPrometheusClient(settings_for(1, timeout=1.0))
    assert [refusal(client) for _ in range(20)] == [str(SLOW)] * 20
    assert script.given == [1.0, 0.1]


def test_one_slow_query_does_not_silence_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """And after a good answer the next one has all its time again."""
    script = Script(monkeypatch, SLOW, WELL, WELL)
    client = RoundPrometheusClient(settings_for(1, timeout=1.0))
    assert refusal(client) == str(SLOW)
    assert [client.query("up") for _ in range(2)] == [(ONE,)] * 2
    assert script.given == [1.0, 0.1, 1.0]


def test_slow_then_gone_is_silence_too(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(monkeypatch, SLOW, GONE)
    client = RoundPrometheusClient(settings_for(1, timeout=1.0))
    assert [refusal(client) for _ in range(4)] == [str(SLOW), *[str(GONE)] * 3]
    assert script.given == [1.0, 0.1]


@pytest.mark.parametrize("silent", [drop, status(503)])
def test_a_new_round_asks_again(silent: Answer) -> None:
    """Whatever the last one found."""
    with serving(first_then_well(silent)) as server:
        settings = settings_for(server.port, retries=0)
        refusal(RoundPrometheusClient(settings))
        assert RoundPrometheusClient(settings).query("up") == (ONE,)
