"""Where metrics are pushed to, and that a push that fails is one sentence."""

import base64
from collections.abc import Iterator

import pytest

from slackwater.model.gap import Gap
from slackwater.rebalancer import metrics as pushing
from slackwater.rebalancer.metrics import push, target_of
from tests.unit.kube.byte_server import ByteServer, Request, Wire

TEXT = "text/plain; version=0.0.4; charset=utf-8"


@pytest.mark.parametrize(
    ("url", "instance", "target"),
    [
        ("http://gate:9091", "", "http://gate:9091/metrics/job/slackwater-rebalancer"),
        ("http://gate:9091/", "", "http://gate:9091/metrics/job/slackwater-rebalancer"),
        ("https://gate/push/", "", "https://gate/push/metrics/job/slackwater-rebalancer"),
        ("http://gate", "a/b", "http://gate/metrics/job/slackwater-rebalancer/instance/a%2Fb"),
        ("http://gate/metrics/job/mine", "x", "http://gate/metrics/job/mine"),
        ("http://vm/api/v1/import/prometheus", "x", "http://vm/api/v1/import/prometheus"),
        (
            "http://vm/api/v1/import/prometheus?extra_label=a=b",
            "",
            "http://vm/api/v1/import/prometheus?extra_label=a=b",
        ),
        ("http://[::1]:9091", "", "http://[::1]:9091/metrics/job/slackwater-rebalancer"),
        ("http://u:p@gate", "", "http://u:p@gate/metrics/job/slackwater-rebalancer"),
    ],
)
def test_where_it_goes(url: str, instance: str, target: str) -> None:
    assert target_of(url, instance) == target


@pytest.mark.parametrize(
    "url",
    ["gate:9091", "ftp://gate", "http://", "http://:9091", "http://gate:0", "http://gate:x", "//",
     "http://gate:99999", "http://[::1", " "],
)  # fmt: skip
def test_what_is_no_address(url: str) -> None:
    found = target_of(url, "")
    assert found == Gap(f"push is {url!r}, but must be an http or https URL")
    assert push(url, TEXT, b"x 1\n") == f"the metrics were not pushed: {found.reason}"


class Gate:
    """Answers alike, and keeps what came."""

    def __init__(self) -> None:
        self.code, self.said = 200, b""
        self.server = ByteServer(self._answer)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def _answer(self, _request: Request, wire: Wire) -> None:
        wire.answer(self.said, self.code, "text/plain")

    def only(self) -> Request:
        [request] = self.server.requests
        return request


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.server.close()


def test_a_pushgateways_group_is_replaced(gate: Gate) -> None:
    assert push(gate.url, TEXT, b"x 1\n") == ""
    request = gate.only()
    assert (request.method, request.path) == ("PUT", "/metrics/job/slackwater-rebalancer")
    assert (request.header("Content-Type"), request.body) == (TEXT, b"x 1\n")


def test_victoria_metrics_imports_by_post(gate: Gate) -> None:
    gate.code = 204
    assert push(f"{gate.url}/api/v1/import/prometheus", TEXT, b"x 1\n") == ""
    assert (gate.only().method, gate.only().path) == ("POST", "/api/v1/import/prometheus")


def test_credentials_go_into_a_header_and_into_no_sentence(gate: Gate) -> None:
    gate.code = 401
    url = gate.url.replace("http://", "http://me:secret@")
    problem = push(url, TEXT, b"x 1\n")
    expected = base64.b64encode(b"me:secret").decode()
    assert gate.only().header("Authorization") == f"Basic {expected}"
    assert "secret" not in problem
    assert "401" in problem


@pytest.mark.parametrize(
    ("code", "said", "told"),
    [
        (400, b"pushed metrics are invalid\nfor a reason", "'pushed metrics are invalid for a"),
        (500, b"", "it answered 500 ''"),
        (302, b"elsewhere", "it answered 302"),
        (200, b"", ""),
        (202, b"accepted", ""),
        (503, b"\xff\xfe" * 500, "it answered 503"),
    ],
)
def test_what_it_answers(gate: Gate, code: int, said: bytes, told: str) -> None:
    gate.code, gate.said = code, said
    problem = push(gate.url, TEXT, b"x 1\n")
    assert bool(problem) == bool(told)
    assert told in problem
    assert "\n" not in problem
    assert len(problem) < 400


def test_nobody_is_there(gate: Gate) -> None:
    gate.server.close()
    target = f"{gate.url}/metrics/job/slackwater-rebalancer"
    expected = f"the metrics were not pushed to {target}: Connection refused"
    assert push(gate.url, TEXT, b"x 1\n") == expected


def test_one_that_hangs_up(gate: Gate) -> None:
    gate.server.answer = lambda _request, wire: wire.reset()
    target = f"{gate.url}/metrics/job/slackwater-rebalancer"
    expected = f"the metrics were not pushed to {target}: Connection reset by peer"
    assert push(gate.url, TEXT, b"x 1\n") == expected


def test_one_that_does_not_answer(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushing, "_PATIENCE", 0.2)
    gate.server.answer = lambda _request, wire: wire.hang()
    assert push(gate.url, TEXT, b"x 1\n").endswith(": no answer within 0.2 s")
