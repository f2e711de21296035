"""The endpoint on real sockets: it answers, it is bounded, and it never harms the loop."""

import contextlib
import socket
from pathlib import Path

import msgspec
import pytest

from slackwater.agent.shared_state import MOST_WAITING
from slackwater.runtime.http_exchange import CannotListenError, ListenAddress
from slackwater.runtime.unix_server import MOST_AT_ONCE
from tests.unit.agent.served import Served
from tests.unit.agent.shared_states import ended, seconds
from tests.unit.record.tick_records import record


def test_it_answers(served: Served) -> None:
    status, headers, body = served.ask_all("GET", "/healthz")
    assert (status, body) == (200, b'{"ok":true}\n')
    assert headers["Content-Type"] == "application/json"
    assert headers["Content-Length"] == str(len(body))
    assert headers["Server"] == "slackwater"
    assert headers["Cache-Control"] == "no-store"


def test_head_has_no_body(served: Served) -> None:
    status, headers, body = served.ask_all("HEAD", "/metrics")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) > 0


def test_a_loop_that_stalls_is_told(served: Served) -> None:
    served.shared.end_round(ended(100))
    served.now = seconds(190)
    assert served.ask("GET", "/healthz")[0] == 200
    served.now = seconds(191)
    status, body = served.ask("GET", "/healthz")
    assert status == 503
    assert b"the loop has made no progress for 91 s; 90 s are allowed" in body


def test_the_format_that_was_asked_for(served: Served) -> None:
    served.shared.add_tick(record())
    kinds = [
        served.ask_all("GET", "/metrics", Accept=accept)[1]["Content-Type"]
        for accept in ("text/plain", "application/openmetrics-text;version=1.0.0")
    ]
    assert kinds[0].startswith("text/plain")
    assert kinds[1].startswith("application/openmetrics-text")


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "POST"])
def test_other_methods_hear_which_to_use(served: Served, method: str) -> None:
    status, headers, body = served.ask_all(method, "/metrics")
    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    assert set(msgspec.json.decode(body)) == {"error"}


def test_a_foreign_name_is_refused(served: Served) -> None:
    assert served.ask("GET", "/metrics", Host="evil.example")[0] == 403
    assert served.ask("GET", "/metrics", Host="localhost:1")[0] == 200


def test_a_body_is_taken_and_not_minded(served: Served) -> None:
    assert served.ask("POST", "/nowhere", body=b"x" * 1000)[0] == 404


def test_commands_come_by_the_socket(served: Served) -> None:
    served.shared.add_tick(record())
    assert served.ask("GET", "/v1/top")[0] == 404
    assert served.ask_socket("GET", "/v1/top")[0] == 200
    assert served.ask("POST", "/v1/release")[0] == 404
    assert served.released == 0
    assert served.ask_socket("POST", "/v1/release")[0] == 200
    assert served.released == 1
    assert served.ask_socket("GET", "/healthz") == (200, b'{"ok":true}\n')


def test_the_socket_lives_as_long_as_the_endpoint(tmp_path: Path) -> None:
    served = Served(str(tmp_path))
    assert [each.name for each in tmp_path.iterdir()] == ["agent.sock"]
    assert served.reports == [
        f"listening on unix:{tmp_path}/agent.sock",
        f"listening on http://{served.address}",
    ]
    served.close()
    assert list(tmp_path.iterdir()) == []


def test_an_address_in_use_leaves_nothing_behind(served: Served, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(CannotListenError) as caught:
        Served(str(other), served.address)
    assert str(caught.value) == f"cannot listen on {served.address}: Address already in use"
    assert list(other.iterdir()) == []
    assert served.ask("GET", "/healthz")[0] == 200


def test_a_folder_that_is_gone_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CannotListenError) as caught:
        Served(str(tmp_path / "gone"))
    path = f"{tmp_path}/gone/agent.sock"
    assert str(caught.value) == f"cannot listen on {path}: No such file or directory"


def test_few_that_wait_for_a_tick_leave_room_for_the_others(served: Served) -> None:
    """Those that wait for single pods are bounded; one more answers from what is there."""
    served.shared.add_tick(record())
    assert MOST_WAITING < MOST_AT_ONCE / 2
    with contextlib.ExitStack() as places:
        for _ in range(MOST_WAITING):
            places.enter_context(served.shared.detail_place())
        assert served.ask_socket("GET", "/v1/explain?target=nobody")[0] == 404
        assert served.ask_socket("POST", "/v1/release")[0] == 200


def test_ipv6(tmp_path: Path) -> None:
    if not socket.has_ipv6 or not Path("/proc/net/if_inet6").exists():
        pytest.skip("this machine has no IPv6")
    served = Served(str(tmp_path), ListenAddress("::1", 0))
    assert served.ask("GET", "/healthz")[0] == 200
    served.close()
