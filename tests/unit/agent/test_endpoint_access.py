"""Who may ask what: over TCP metrics and probes, over the socket everything; names of the host."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.agent import endpoint_server
from slackwater.agent.endpoint_server import (
    NETWORK_ROUTES,
    SOCKET_ORDERS,
    SOCKET_ROUTES,
    respond_on_network,
    respond_on_socket,
)
from slackwater.model.problem import ConfigurationProblem
from slackwater.runtime.http_exchange import ListenAddress, Request, Response
from tests.unit.agent.shared_states import LOOPBACK, context, ended, seconds, shared

NOW = seconds(101)


def ask(method: str, target: str, **said: Any) -> Response:
    """Over the socket."""
    return respond_on_socket(context().state, Request(method, target, **said), NOW)


def error(answer: Response) -> str:
    sentence = msgspec.json.decode(answer.body, type=dict[str, str])["error"]
    assert "\n" not in sentence
    return sentence


@pytest.mark.parametrize(
    ("method", "target", "status", "said"),
    [
        ("GET", "/healthz", 200, None),
        ("HEAD", "/healthz", 200, None),
        ("GET", "/healthz?x=1", 200, None),
        ("GET", "/metrics", 200, None),
        ("GET", "/v1/ticks", 503, "no tick yet"),
        ("GET", "/readyz", 503, None),
        ("POST", "/metrics", 405, "/metrics is asked with GET or HEAD, not with 'POST'"),
        ("DELETE", "/healthz", 405, "not with 'DELETE'"),
        ("GET", "/v1/release", 405, "/v1/release is asked with POST, not with 'GET'"),
        ("HEAD", "/v1/release", 405, "not with 'HEAD'"),
        ("GET", "/", 404, "there is no '/'; there are /metrics"),
        ("GET", "/metrics/", 404, "there is no '/metrics/'"),
        ("GET", "/v1", 404, "/v1/release"),
        ("GET", "/../metrics", 404, "there is no"),
        ("POST", "/nowhere", 404, "'/nowhere'"),
        ("GET", "/healthz?" + "&".join(f"a{n}=1" for n in range(17)), 400, "not a valid address"),
        ("GET", "http://[/healthz", 400, "not a valid address"),
    ],
)
def test_paths_and_methods(method: str, target: str, status: int, said: str | None) -> None:
    answer = ask(method, target)
    assert answer.status == status
    if said is not None:
        assert said in error(answer)


def test_a_wrong_method_hears_the_right_ones() -> None:
    assert ask("PUT", "/metrics").headers == {"Allow": "GET, HEAD"}
    assert ask("PUT", "/v1/release").headers == {"Allow": "POST"}


@pytest.mark.parametrize(
    ("listens", "host", "served"),
    [
        ("127.0.0.1", None, True),  # HTTP/1.0; no browser is like that
        ("127.0.0.1", "127.0.0.1:10480", True),
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "localhost:10480", True),
        ("127.0.0.1", "LOCALHOST", True),
        ("127.0.0.1", "127.7.7.7:1", True),
        ("127.0.0.1", "[::1]:10480", True),
        ("::1", "[::1]:10480", True),
        ("127.7.7.7", "127.7.7.7", True),
        ("127.0.0.1", "evil.example:10480", False),
        ("127.0.0.1", "127.0.0.1.evil.example", False),
        ("127.0.0.1", "localhost.evil.example:10480", False),
        ("127.0.0.1", "10.0.0.1:10480", False),
        ("127.0.0.1", "", False),
        ("127.0.0.1", "[::1", False),
        ("127.0.0.1", "[]", False),
        ("::1", "evil.example", False),
        ("0.0.0.0", "node-7.example:10480", True),  # noqa: S104
        ("10.0.0.1", "node-7.example:10480", True),
        ("::", "evil.example", True),
    ],
)
def test_names_that_are_answered_to(listens: str, host: str | None, served: bool) -> None:
    behind = context(address=ListenAddress(listens, 10480))
    answer = respond_on_network(behind, Request("GET", "/healthz", host), NOW)
    assert answer.status == (200 if served else 403)
    if not served:
        assert "does not answer to the name" in error(answer)


def test_over_tcp_there_are_metrics_and_probes_alone() -> None:
    assert set(NETWORK_ROUTES) == {"/metrics", "/healthz", "/readyz"}
    for path in (*SOCKET_ROUTES, *SOCKET_ORDERS):
        for method in ("GET", "HEAD", "POST"):
            answer = respond_on_network(context(), Request(method, f"{path}?target=x"), NOW)
            if path in NETWORK_ROUTES:
                assert answer.status in (200, 405, 503)
            else:
                assert answer.status == 404
                said = f"{path} is on the unix socket in the agent's state folder, for root alone"
                assert error(answer) == said
    answer = respond_on_network(context(), Request("GET", "/v1"), NOW)
    assert error(answer) == "there is no '/v1'; there are /metrics, /healthz, /readyz"


def test_over_tcp_problems_are_not_told() -> None:
    """Their sentences name pods."""
    state = shared()
    state.end_round(ended(100, problems=(ConfigurationProblem("of pod shop/web"),)))
    request = Request("GET", "/readyz")
    assert b"shop/web" in respond_on_socket(state, request, NOW).body
    answer = respond_on_network(context(state), request, NOW)
    assert (answer.status, answer.body) == (503, b'{"ok":false,"because":"no tick yet"}\n')


def test_over_the_socket_any_name_is_answered_to() -> None:
    """No web page reaches a unix socket."""
    assert ask("GET", "/healthz", host="agent").status == 200


def test_the_last_of_two_words_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, str]] = []

    def look(asked: endpoint_server.Query) -> Response:
        seen.append(dict(asked.parameters))
        return Response(200, "text/plain", b"")

    monkeypatch.setitem(SOCKET_ROUTES, "/look", look)
    ask("GET", "/look?target=a%2Fb&target=c%20d&empty=")
    assert seen == [{"target": "c d", "empty": ""}]


def test_looks_and_orders_are_apart() -> None:
    assert not SOCKET_ROUTES.keys() & SOCKET_ORDERS.keys()
    assert set(SOCKET_ROUTES) == {
        "/metrics", "/healthz", "/readyz", "/v1/explain", "/v1/top", "/v1/cpus", "/v1/ticks",
    }  # fmt: skip


@given(st.text(max_size=60), st.text(max_size=60), st.none() | st.text(max_size=30))
def test_whatever_is_asked_there_is_an_answer(method: str, target: str, host: str | None) -> None:
    """A line over HTTP is latin-1; anything at all must do."""
    request = Request(method, target, host, target)
    answer = respond_on_network(context(address=LOOPBACK), request, NOW)
    assert answer.status in (200, 400, 403, 404, 405, 503)
    assert respond_on_socket(shared(), request, NOW).status in (200, 400, 404, 405, 503)
