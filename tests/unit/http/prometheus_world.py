"""A server on loopback in Prometheus' place, and a client that asks it."""

import pytest

from slackwater.http.prometheus_client import (
    PrometheusClient,
    PrometheusError,
    Series,
)
from slackwater.model.units import Micros
from slackwater.settings.prometheus import PrometheusSettings
from tests.unit.kube.byte_server import Answer, Request, Wire

SECOND = 1_000_000
ONE = Series({"pod": "web-a"}, 1.5)
GOOD = (
    b'{"status":"success","data":{"resultType":"vector","result":'
    b'[{"metric":{"pod":"web-a"},"value":[1794917409.853,"1.5"]}]}}'
)


def well(_request: Request, wire: Wire) -> None:
    wire.answer(GOOD)


def clear_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


def settings_for(port: int, timeout: float = 20.0, retries: int = 2) -> PrometheusSettings:
    return PrometheusSettings(
        endpoint=f"http://127.0.0.1:{port}", timeout=Micros(int(timeout * SECOND)), retries=retries
    )


def refusal(server: PrometheusClient) -> str:
    with pytest.raises(PrometheusError) as caught:
        server.query("up")
    told = str(caught.value)
    assert "\n" not in told
    return told


def first_then_well(*first: Answer) -> Answer:
    """Each answer once, then good ones."""
    left = list(first)

    def answer(request: Request, wire: Wire) -> None:
        (left.pop(0) if left else well)(request, wire)

    return answer


def status(code: int, *headers: tuple[str, str]) -> Answer:
    return lambda _request, wire: wire.answer(b"busy", code, "text/plain", *headers)


def never(_seconds: float) -> None:
    raise AssertionError("nothing was to be waited for")
