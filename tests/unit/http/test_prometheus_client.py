"""The client: what it sends, what it tries again, what it tells of a bad answer."""

import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from slackwater.http.prometheus_client import (
    PrometheusClient,
    PrometheusError,
    Series,
)
from slackwater.settings.prometheus import PrometheusSettings
from tests.unit.http.prometheus_world import (
    GOOD,
    ONE,
    first_then_well,
    never,
    refusal,
    settings_for,
    status,
    well,
)
from tests.unit.kube.byte_server import Answer, Request, Wire, serving


def test_a_query() -> None:
    with serving(well) as server:
        assert PrometheusClient(settings_for(server.port)).query("up", 1794917409.8531) == (ONE,)
    (request,) = server.requests
    assert (request.method, request.target) == ("POST", "/api/v1/query")
    assert parse_qs(request.body.decode()) == {"query": ["up"], "time": ["1794917409.853"]}
    assert request.header("Content-Type") == "application/x-www-form-urlencoded"
    assert request.header("Accept-Encoding") == "identity"
    assert request.header("User-Agent").startswith("slackwater/")
    assert request.header("Authorization") == ""


def test_the_instant_is_now_by_default() -> None:
    with serving(well) as server:
        before = time.time()
        PrometheusClient(settings_for(server.port)).query("up")
    asked = float(parse_qs(server.requests[0].body.decode())["time"][0])
    assert before - 0.001 <= asked <= time.time()


def test_a_path_in_front() -> None:
    with serving(well) as server:
        endpoint = f"http://127.0.0.1:{server.port}/select/0/prometheus/"
        assert PrometheusClient(PrometheusSettings(endpoint=endpoint)).query("up") == (ONE,)
    assert server.asked() == ["POST /select/0/prometheus/api/v1/query"]


def test_signs_of_all_kinds_come_through() -> None:
    text = 'up{a="ü→ &=+%\\n"}[5m]'
    with serving(well) as server:
        PrometheusClient(settings_for(server.port)).query(text)
    assert parse_qs(server.requests[0].body.decode())["query"] == [text]


def test_what_is_no_unicode() -> None:
    """An argument or a variable of the environment that is no UTF-8 has such signs."""
    with pytest.raises(PrometheusError, match="the query holds characters that are no Unicode"):
        PrometheusClient(settings_for(1)).query("up{a='\udcff'}")


def test_headers_are_sent(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t0ken\n")
    with serving(well) as server:
        settings = PrometheusSettings(
            endpoint=f"http://127.0.0.1:{server.port}",
            tenant="team-a",
            token_file=str(tmp_path / "token"),
            headers=(("X-Extra", "yes"),),
        )
        PrometheusClient(settings).query("up")
    sent = server.requests[0]
    assert [sent.header(name) for name in ("X-Scope-OrgID", "Authorization", "X-Extra")] == [
        "team-a",
        "Bearer t0ken",
        "yes",
    ]


def test_warnings_come_with_ask() -> None:
    warned = GOOD[:-1] + b',"warnings":["a store is away"]}'
    with serving(lambda _request, wire: wire.answer(warned)) as server:
        found = PrometheusClient(settings_for(server.port)).ask("up")
    assert (found.series, found.warnings) == ((ONE,), ("a store is away",))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (status(500), "it answered 500: 'busy'"),
        (status(404), "it answered 404: 'busy'"),
        (status(401), "it answered 401, so the credentials are missing or wrong: 'busy'"),
        (
            lambda _r, wire: wire.json(
                {"status": "error", "errorType": "bad_data", "error": "parse error"}, 400
            ),
            "it answered 400: bad_data: parse error",
        ),
        (
            lambda _r, wire: wire.answer(b"<html>Log in</html>", 200, "text/html; charset=utf-8"),
            (
                "the answer is text/html instead of JSON, from a proxy or a login page perhaps: "
                "'<html>Log in</html>'"
            ),
        ),
        (
            lambda _r, wire: wire.answer(b"", 302, "text/html", ("Location", "http://b/?c=d")),
            (
                "it sends us on to 'http://b/' (302), and credentials do not follow; name the "
                "endpoint that answers itself"
            ),
        ),
        (
            lambda _r, wire: wire.answer(GOOD[:30]),
            "the answer is not what Prometheus sends: Input data was truncated",
        ),
    ],
)
def test_bad_answers_are_not_asked_for_again(answer: Answer, expected: str) -> None:
    with serving(answer) as server:
        told = refusal(PrometheusClient(settings_for(server.port), sleep=never))
    assert told == f"Prometheus at http://127.0.0.1:{server.port}: {expected}"
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        status(429),
        status(502),
        status(503),
        status(504),
        lambda _r, wire: wire.answer(b""),
        lambda _r, wire: wire.reset(),
        # The beginning of a body, a chunk without its end, half a head: then nobody is there.
        lambda _r, wire: (wire.head(200, ("Content-Length", "500")), wire.raw(GOOD), wire.reset()),
        lambda _r, wire: (wire.begin_chunks(), wire.raw(b"fff\r\nabc"), wire.reset()),
        lambda _r, wire: (wire.raw(b"HTTP/1.1 200 OK\r\nContent-"), wire.reset()),
    ],
)
def test_what_may_pass_is_asked_for_again(answer: Answer) -> None:
    pauses: list[float] = []
    with serving(first_then_well(answer, answer)) as server:
        client = PrometheusClient(settings_for(server.port), pauses.append, random.Random(1))  # noqa: S311
        assert client.query("up") == (ONE,)
    assert len(server.requests) == 3
    assert 0.125 <= pauses[0] <= 0.25 <= pauses[1] <= 0.5


def test_tries_have_an_end() -> None:
    pauses: list[float] = []
    with serving(status(503)) as server:
        told = refusal(PrometheusClient(settings_for(server.port), pauses.append))
    assert (
        told == f"Prometheus at http://127.0.0.1:{server.port}: it answered 503: 'busy' (3 tries)"
    )
    assert (len(server.requests), len(pauses)) == (3, 2)


def test_retry_after_is_honoured() -> None:
    pauses: list[float] = []
    with serving(first_then_well(status(429, ("Retry-After", "3")))) as server:
        assert PrometheusClient(settings_for(server.port), pauses.append).query("up") == (ONE,)
    assert 3.0 < pauses[0] < 3.5


def test_a_pause_beyond_the_timeout_is_not_waited_for() -> None:
    with serving(status(503, ("Retry-After", "3600"))) as server:
        told = refusal(PrometheusClient(settings_for(server.port), sleep=never))
    assert told.endswith("it answered 503: 'busy'")
    assert len(server.requests) == 1


def test_threads_may_share_it() -> None:
    found: list[tuple[Series, ...]] = []
    with serving(well) as server:
        client = PrometheusClient(settings_for(server.port))
        threads = [
            threading.Thread(target=lambda: found.append(client.query("up"))) for _ in range(8)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert found == [(ONE,)] * 8


def test_secrets_stay_ours(tmp_path: Path) -> None:
    """Also where the server shows what it was sent."""
    (tmp_path / "password").write_text("p4ssw0rd")

    def echo(request: Request, wire: Wire) -> None:
        told = f"you sent {request.header('Authorization')} and p4ssw0rd".encode()
        wire.answer(told, 500, "text/plain")

    with serving(echo) as server:
        settings = PrometheusSettings(
            endpoint=f"http://127.0.0.1:{server.port}",
            username="me",
            password_file=str(tmp_path / "password"),
        )
        told = refusal(PrometheusClient(settings))
    assert told.endswith("it answered 500: 'you sent Basic *** and ***'")


def test_redirects_get_no_credentials(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t0ken")
    with serving(well) as other:
        target = f"http://127.0.0.1:{other.port}/api/v1/query"
        with serving(
            lambda _r, wire: wire.answer(b"", 307, "text/plain", ("Location", target))
        ) as server:
            settings = PrometheusSettings(
                endpoint=f"http://127.0.0.1:{server.port}", token_file=str(tmp_path / "token")
            )
            told = refusal(PrometheusClient(settings))
    assert target in told
    assert other.requests == []


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            PrometheusSettings(endpoint="localhost"),
            (
                "the endpoint of Prometheus is 'localhost', but must be an address such as "
                "http://localhost:9090 or https://metrics.example.com/prometheus, without a user "
                "or a question mark"
            ),
        ),
        (
            PrometheusSettings(token_file="/no/such/file"),  # noqa: S106
            (
                "Prometheus at http://localhost:9090: /no/such/file is not readable: "
                "No such file or directory"
            ),
        ),
        (
            PrometheusSettings(endpoint="https://localhost", ca_file="/no/such/file"),
            (
                "Prometheus at https://localhost: /no/such/file cannot be read: "
                "No such file or directory"
            ),
        ),
    ],
)
def test_bad_settings(settings: PrometheusSettings, expected: str) -> None:
    assert refusal(PrometheusClient(settings, sleep=never)) == expected


def test_ssl_is_not_loaded_before_a_query() -> None:
    """A plan of the command line that fails early, or asks metrics.k8s.io, does not pay for it."""
    program = (
        "import sys, slackwater.rebalancer.sources.prometheus_usage as _; "
        "sys.exit('http.client' in sys.modules or 'ssl' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
