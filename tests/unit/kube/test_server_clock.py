"""The API server's time of day in place of this machine's."""

import inspect
import time

import pytest

from slackwater.http.errors import UnreachableError
from slackwater.kube import lease
from slackwater.kube.lease import LeaseTerms, boot_clock
from slackwater.kube.server_clock import ServerClock
from slackwater.runtime import leadership
from tests.unit.kube.accesses import plain_client
from tests.unit.kube.byte_server import Request, Wire, serving

AHEAD = 1_000_000.0


class Server:
    """In place of a Client."""

    def __init__(self, said: float | None) -> None:
        self.said = said
        self.asked = 0
        self.down = False

    def server_time(self) -> float | None:
        self.asked += 1
        if self.down:
            raise UnreachableError("away")
        return self.said


class Now:
    def __init__(self) -> None:
        self.seconds = 50.0

    def __call__(self) -> float:
        return self.seconds


def clock_of(server: Server, now: Now) -> ServerClock:
    return ServerClock(server, now, lambda: AHEAD)  # type: ignore[arg-type]


def test_a_node_that_is_ahead_goes_by_the_server() -> None:
    server, now = Server(500.0), Now()
    clock = clock_of(server, now)
    assert clock() == 500.5
    now.seconds += 20
    assert (clock(), server.asked) == (520.5, 1)
    now.seconds += 60
    server.said = 580.0
    assert (clock(), server.asked) == (580.5, 2)


def test_a_server_that_is_away_leaves_what_was_known() -> None:
    server, now = Server(500.0), Now()
    clock = clock_of(server, now)
    clock()
    server.down = True
    now.seconds += 100
    assert clock() == 600.5
    assert now.seconds == 150.0


@pytest.mark.parametrize("said", [None, 0.0])
def test_one_that_was_never_heard_leaves_the_machines_own(said: float | None) -> None:
    server = Server(said)
    server.down = said is not None
    assert clock_of(server, Now())() == AHEAD


@pytest.mark.parametrize(
    ("date", "expected"),
    [("Wed, 18 Nov 2026 14:27:56 GMT", 1_795_012_076.0), ("yesterday", None), ("", None)],
)
def test_the_answers_date_is_read(date: str, expected: float | None) -> None:
    def answer(_request: Request, wire: Wire) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nDate: {date}\r\n\r\n"
        wire.raw(head.encode() + b"{}")

    with serving(answer) as server:
        assert plain_client(server.port).server_time() == expected


# Leases.


def test_a_lease_goes_on_while_the_machine_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """CLOCK_MONOTONIC stands still then: a leader would lead beside its successor."""
    asked: list[int] = []

    def gettime(which: int) -> float:
        asked.append(which)
        return 42.0

    monkeypatch.setattr(time, "clock_gettime", gettime)
    assert boot_clock() == 42.0
    assert asked == [time.CLOCK_BOOTTIME]
    parameters = inspect.signature(lease.Election).parameters
    assert parameters["clock"].default is boot_clock


def test_an_election_has_a_client_of_its_own_whose_patience_fits() -> None:
    """One request that hangs must not be the end of a term; manager and rebalancer share this."""
    assert LeaseTerms().deadline > 2 * leadership._REQUEST_SECONDS
