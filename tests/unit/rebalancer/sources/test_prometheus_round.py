"""Who is asked again in one round, and who is not."""

import time

import pytest

from slackwater.rebalancer.sources import prometheus_client
from slackwater.rebalancer.sources.prometheus_client import (
    DeadlineExceededError,
    Prometheus,
    PrometheusError,
    PrometheusUnreachableError,
    RoundPrometheus,
)
from tests.unit.kube.byte_server import Answer, Request, Wire, eventually, serving
from tests.unit.rebalancer.sources.prometheus_world import (
    ONE,
    clear_proxies,
    first_then_well,
    refusal,
    settings_for,
    status,
    well,
)


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
        client = Prometheus(settings_for(server.port, patience, retries=0), lambda _: None)
        with pytest.raises(PrometheusError) as caught:
            client.query("up")
    return type(caught.value)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        pytest.param(hang, DeadlineExceededError, id="hangs"),
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
        Prometheus(settings_for(1, retries=0)).query("up")


@pytest.mark.parametrize("answer", [drop, status(503)])
def test_a_silent_server_is_asked_once(answer: Answer) -> None:
    with serving(answer) as server:
        client = RoundPrometheus(settings_for(server.port, retries=0))
        told = [refusal(client) for _ in range(5)]
        assert len(server.requests) == 1
    assert len(set(told)) == 1
    assert told[0].startswith(f"Prometheus at http://127.0.0.1:{server.port}: ")


@pytest.mark.parametrize("code", [400, 422, 429, 500])
def test_an_error_of_one_query_is_that_querys(code: int) -> None:
    with serving(first_then_well(status(code))) as server:
        client = RoundPrometheus(settings_for(server.port, retries=0))
        assert f"it answered {code}" in refusal(client)
        assert client.query("up") == (ONE,)


def test_a_server_that_hangs_costs_its_time_once_and_a_tenth() -> None:
    began = time.monotonic()
    with serving(hang) as server:
        client = RoundPrometheus(settings_for(server.port, timeout=1.0))
        told = [refusal(client) for _ in range(20)]
        # It may read what it was asked after the asker has left.
        eventually("the second question", lambda: len(server.requests) >= 2)
        assert len(server.requests) == 2
    assert time.monotonic() - began < 10, "twenty times a second would be 20"
    assert (
        told == [f"Prometheus at http://127.0.0.1:{server.port}: no whole answer within 1 s"] * 20
    )


@pytest.fixture
def _half(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the time in place of a tenth, so that nobody has to wait long."""
    monkeypatch.setattr(prometheus_client, "_SHARE", 2)


@pytest.mark.usefixtures("_half")
def test_one_slow_query_does_not_silence_the_others() -> None:
    """And after a good answer the next one has all its time again."""

    def slow(request: Request, wire: Wire) -> None:
        time.sleep(0.6)
        well(request, wire)

    with serving(first_then_well(hang, well, slow)) as server:
        client = RoundPrometheus(settings_for(server.port, timeout=1.0, retries=0))
        assert refusal(client).endswith("no whole answer within 1 s")
        assert [client.query("up") for _ in range(3)] == [(ONE,)] * 3


@pytest.mark.usefixtures("_half")
def test_slow_then_gone_is_silence_too() -> None:
    with serving(first_then_well(hang, drop)) as server:
        client = RoundPrometheus(settings_for(server.port, timeout=0.4, retries=0))
        told = [refusal(client) for _ in range(4)]
        eventually("the second question", lambda: len(server.requests) >= 2)
        assert len(server.requests) == 2
    assert told[0].endswith("no whole answer within 0.4 s")
    assert told[1] == told[2] == told[3] != told[0]


@pytest.mark.parametrize("silent", [drop, status(503)])
def test_a_new_round_asks_again(silent: Answer) -> None:
    """Whatever the last one found."""
    with serving(first_then_well(silent)) as server:
        settings = settings_for(server.port, retries=0)
        refusal(RoundPrometheus(settings))
        assert RoundPrometheus(settings).query("up") == (ONE,)
