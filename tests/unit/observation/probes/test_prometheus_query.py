"""Queries of a Prometheus, against servers that answer as a test says; a real one is asked in
tests/cluster/test_probes.py."""

from pathlib import Path
from typing import Any

import pytest

from slackwater.model.gap import Gap
from slackwater.model.metric import Sample
from slackwater.observation.probes.answers import MOST_SAMPLES, Answer
from slackwater.observation.probes.prometheus_query import QueryTarget
from slackwater.observation.probes.sources import PrometheusQuery, SourceTimes
from tests.unit.kube.byte_server import Answer as ServerAnswer
from tests.unit.kube.byte_server import Request, Wire, serving
from tests.unit.observation.probes.probe_world import PATIENT, HandClock

WANTED = frozenset({"queue-depth"})
FILE, MISSING = "token", "none"


def vector(*series: tuple[dict[str, str], str]) -> ServerAnswer:
    result = [{"metric": labels, "value": [1.0, value]} for labels, value in series]
    data = {"resultType": "vector", "result": result}
    return lambda _request, wire: wire.json({"status": "success", "data": data})


def ask(port: int, times: SourceTimes = PATIENT, **more: Any) -> Answer | Gap:
    url = f"http://127.0.0.1:{port}/prefix/"
    return QueryTarget(PrometheusQuery(url, "a + b", times=times, **more), HandClock()).ask(WANTED)


def test_a_vector() -> None:
    rows = (({"__name__": "up", "job": "a"}, "1.5"), ({"job": "b"}, "NaN"), ({"job": "c"}, "+Inf"))
    with serving(vector(*rows)) as server:
        found = ask(server.port, headers=(("X-Scope-OrgID", "team"),))
        (request,) = server.requests
    assert found == Answer(HandClock().now, {"queue-depth": (Sample(1.5, {"job": "a"}),)})
    assert (request.method, request.path) == ("POST", "/prefix/api/v1/query")
    assert request.body == b"query=a+%2B+b"
    assert request.header("X-Scope-OrgID") == "team"


def test_the_token_is_read_each_time_and_never_shown(tmp_path: Path) -> None:
    token = tmp_path / FILE
    token.write_text("s3cr3t\n")

    def repeat(request: Request, wire: Wire) -> None:
        wire.answer(request.header("Authorization").encode(), 403, "text/plain")

    with serving(repeat) as server:
        found = ask(server.port, token_name=FILE, token_folder=str(tmp_path))
        token.write_text("another\n")
        ask(server.port, token_name=FILE, token_folder=str(tmp_path))
        sent = [each.header("Authorization") for each in server.requests]
    assert sent == ["Bearer s3cr3t", "Bearer another"]
    assert isinstance(found, Gap)
    assert "it answered 403, so the credentials are missing or wrong" in found.reason
    assert "s3cr3t" not in found.reason


@pytest.mark.parametrize("text", ["", "two\nlines", "\u00e4"])
def test_a_token_that_is_none(tmp_path: Path, text: str) -> None:
    token = tmp_path / FILE
    token.write_text(text)
    assert ask(9, token_name=FILE, token_folder=str(tmp_path)) == Gap(
        f"Prometheus at http://127.0.0.1:9/prefix/: {token} must hold one line of ASCII"
    )


def test_a_token_that_is_not_there(tmp_path: Path) -> None:
    found = ask(9, token_name=MISSING, token_folder=str(tmp_path))
    assert isinstance(found, Gap)
    assert found.reason.endswith("none is not readable: No such file or directory")


def test_without_a_folder_no_token_is_read() -> None:
    found = ask(9, token_name=FILE)
    assert found == Gap("Prometheus at http://127.0.0.1:9/prefix/: no folder of tokens is set")


@pytest.mark.parametrize(
    ("answer", "clause"),
    [
        (vector(), None),
        (lambda _r, wire: wire.answer(b"<html>", 200, "text/html"), "the answer is text/html"),
        (lambda _r, wire: wire.answer(b" " * (2 << 20)), "an answer of more than 1 MiB"),
        (lambda _r, wire: wire.reset(), "Connection reset by peer"),
        (
            lambda _r, wire: wire.json(
                {"status": "error", "errorType": "bad_data", "error": "parse error"}, 400
            ),
            "it answered 400: bad_data: parse error",
        ),
        (
            lambda _r, wire: wire.json(
                {"status": "success", "data": {"resultType": "scalar", "result": [1, "2"]}}
            ),
            "the query gives a result of type 'scalar', but must give a vector",
        ),
    ],
)
def test_what_is_no_vector(answer: ServerAnswer, clause: str | None) -> None:
    with serving(answer) as server:
        found = ask(server.port)
    if clause is None:
        assert isinstance(found, Answer)
        assert found.metrics == {"queue-depth": Gap("the query gives no series")}
        return
    assert isinstance(found, Gap)
    start = f"Prometheus at http://127.0.0.1:{server.port}/prefix/: {clause}"
    assert found.reason.startswith(start)


def test_one_that_hangs() -> None:
    with serving(lambda _request, wire: wire.hang()) as server:
        found = ask(server.port, SourceTimes(0.2))
    assert isinstance(found, Gap)
    assert found.reason.endswith("no answer within 0.2 s")


def test_only_numbers_that_are_not_finite() -> None:
    with serving(vector(({}, "NaN"))) as server:
        found = ask(server.port)
    assert isinstance(found, Answer)
    assert found.metrics == {"queue-depth": Gap("the query gives only numbers that are not finite")}


def test_too_many_series() -> None:
    with serving(vector(*(({"n": str(n)}, "1") for n in range(MOST_SAMPLES + 1)))) as server:
        found = ask(server.port)
    assert isinstance(found, Answer)
    assert found.metrics == {"queue-depth": Gap("it has 1001 series, more than 1000")}


def test_an_address_that_is_none() -> None:
    source = PrometheusQuery("http://me:s3cr3t@host:9090", "a")
    found = QueryTarget(source, HandClock()).ask(WANTED)
    assert isinstance(found, Gap)
    assert "the endpoint of Prometheus is 'http://host:9090', but must be" in found.reason
    assert "s3cr3t" not in found.reason
