"""What the resident rebalancer answers over HTTP."""

import msgspec
import pytest

from slackwater.rebalancer.metrics import RoundMetrics
from slackwater.rebalancer.standing import STALLED_AFTER, Health, Standing, respond
from slackwater.runtime.http_exchange import Request


class Asked:
    """The routes of a rebalancer whose clock a test moves."""

    def __init__(self) -> None:
        self.second = 0.0
        self.standing = Standing(lambda: self.second)

    def get(self, path: str, method: str = "GET") -> tuple[int, bytes]:
        answer = respond(self.standing, RoundMetrics(), Request(method, path))
        return answer.status, answer.body

    def health(self, path: str) -> tuple[int, Health]:
        code, body = self.get(path)
        return code, msgspec.json.decode(body, type=Health)


@pytest.fixture
def asked() -> Asked:
    return Asked()


def test_it_is_alive_from_the_start_and_ready_later(asked: Asked) -> None:
    assert asked.health("/healthz") == (200, Health(True))
    code, health = asked.health("/readyz")
    assert (code, health.because) == (503, "nobody is known to lead yet")


@pytest.mark.parametrize(
    ("leads", "leader", "problem", "code", "because"),
    [
        (True, "us", "", 200, ""),
        (False, "another", "", 200, ""),
        (False, "", "the lease cannot be read", 503, "the lease cannot be read"),
        (False, "", "", 503, "nobody is known to lead yet"),
        (True, "us", "it cannot be renewed", 200, ""),
    ],
)
def test_ready(
    asked: Asked, leads: bool, leader: str, problem: str, code: int, because: str
) -> None:
    asked.standing.seat(leads, leader, problem)
    found, health = asked.health("/readyz")
    assert (found, health.because) == (code, because)
    assert (health.leads, health.leader, health.problem) == (leads, leader, problem)
    assert asked.health("/healthz")[0] == 200


def test_a_loop_that_stands_still_is_not_alive(asked: Asked) -> None:
    asked.second = STALLED_AFTER
    assert asked.health("/healthz")[0] == 200
    asked.second += 1
    code, health = asked.health("/healthz")
    assert code == 503
    assert health.because == "the loop has not moved for 901 s; 900 s are allowed"
    asked.standing.beat()
    assert asked.health("/healthz")[0] == 200


def test_metrics(asked: Asked) -> None:
    code, body = asked.get("/metrics?x=1")
    assert code == 200
    assert b'rebalancer_rotation_decisions_total{reason="rotated"} 0.0\n' in body


@pytest.mark.parametrize(
    ("method", "path", "code", "said"),
    [
        ("GET", "/", 404, "there is no '/'; there are /healthz, /readyz, /metrics"),
        ("GET", "/v1/explain", 404, "there is no '/v1/explain'"),
        ("POST", "/metrics", 405, "/metrics is asked with GET or HEAD, not with 'POST'"),
    ],
)
def test_what_there_is_not(asked: Asked, method: str, path: str, code: int, said: str) -> None:
    found, body = asked.get(path, method)
    assert found == code
    assert said in body.decode()


def test_head_is_answered(asked: Asked) -> None:
    assert asked.get("/healthz", "HEAD")[0] == 200
