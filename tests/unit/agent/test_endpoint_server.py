"""The endpoint on real sockets: it answers, it is bounded, and it never harms the loop."""

import socket
from pathlib import Path

import msgspec
import pytest

from slackwater.agent.endpoint_file import read_endpoint_file
from slackwater.agent.endpoint_server import EndpointServer
from slackwater.runtime.http_exchange import CannotListenError, ListenAddress
from tests.unit.agent.served import Served
from tests.unit.agent.shared_states import ended, seconds, shared
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


def test_two_cannot_listen_at_one_place(served: Served, tmp_path: Path) -> None:
    with pytest.raises(CannotListenError) as caught:
        EndpointServer(
            served.endpoint.address, "", shared(), lambda: seconds(0), served.reports.append
        )
    where = served.endpoint.address
    assert str(caught.value) == f"cannot listen on {where}: Address already in use"
    assert read_endpoint_file(str(tmp_path)) is not None  # the first one's


def test_the_note_lives_as_long_as_the_endpoint(tmp_path: Path) -> None:
    served = Served(str(tmp_path))
    note = read_endpoint_file(str(tmp_path))
    assert note is not None
    assert note.address == served.endpoint.address
    assert len(note.token) == 64
    other = Served("")
    assert other.endpoint.address.port != 0
    served.endpoint.close()
    other.endpoint.close()
    assert read_endpoint_file(str(tmp_path)) is None
    assert list(tmp_path.iterdir()) == []


def test_tokens_are_not_used_twice(tmp_path: Path) -> None:
    notes = []
    for _ in range(2):
        served = Served(str(tmp_path))
        notes.append(read_endpoint_file(str(tmp_path)))
        served.endpoint.close()
    assert None not in notes
    assert notes[0] != notes[1]


def test_a_state_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    served = Served(str(tmp_path / "gone"))
    assert served.ask("GET", "/healthz")[0] == 200
    served.endpoint.close()
    [complaint] = served.complaints
    assert "cannot be noted" in complaint


def test_ipv6(tmp_path: Path) -> None:
    if not socket.has_ipv6 or not Path("/proc/net/if_inet6").exists():
        pytest.skip("this machine has no IPv6")
    served = Served(str(tmp_path), ListenAddress("::1", 0))
    assert served.ask("GET", "/healthz")[0] == 200
    assert read_endpoint_file(str(tmp_path)) is not None
    served.endpoint.close()
