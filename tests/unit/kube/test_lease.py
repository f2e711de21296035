"""Leader election, with clocks that tests hold in their hands."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.http.errors import UnreachableError
from slackwater.kube.api_status import HttpStatusError, refusal
from slackwater.kube.api_time import format_micro_time, format_time
from slackwater.kube.client import Client
from slackwater.kube.lease import Election, LeaseTerms
from tests.unit.kube.accesses import plain_client
from tests.unit.kube.byte_server import Request, Wire, eventually, serving
from tests.unit.kube.fake_api import status
from tests.unit.kube.informer_world import chance


class Hand:
    """A clock."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class LeaseServer:
    """One Lease as the API server keeps it: versions, conflicts. In place of a Client."""

    def __init__(self) -> None:
        self.lease: dict[str, object] | None = None
        self.version = 0
        self.down: Exception | None = None
        self.writes = 0

    def get(self, _resource: object, name: str, namespace: str = "") -> bytes:
        self._check()
        if self.lease is None:
            raise refusal(
                "GET", 404, msgspec.json.encode(status(404, "NotFound", name + namespace))
            )
        return msgspec.json.encode(self.lease)

    def create(self, _resource: object, body: object, namespace: str = "") -> bytes:
        self._check()
        if self.lease is not None:
            raise HttpStatusError("POST", 409, "AlreadyExists", namespace)
        return self._store(body)

    def replace(self, _resource: object, name: str, body: object, *, namespace: str = "") -> bytes:
        self._check()
        sent = msgspec.json.decode(msgspec.json.encode(body))
        if sent["metadata"]["resourceVersion"] != str(self.version):
            raise HttpStatusError("PUT", 409, "Conflict", name + namespace)
        return self._store(body)

    def close(self) -> None:
        self._check()

    def spec(self) -> dict[str, object]:
        assert self.lease is not None
        found = self.lease["spec"]
        assert isinstance(found, dict)
        return found

    def _check(self) -> None:
        if self.down:
            raise self.down

    def _store(self, body: object) -> bytes:
        self.writes += 1
        self.version += 1
        lease = msgspec.json.decode(msgspec.json.encode(body))
        lease["metadata"]["resourceVersion"] = str(self.version)
        self.lease = lease
        return msgspec.json.encode(lease)


def election(server: LeaseServer, name: str, clock: Hand, wall: Hand | None = None) -> Election:
    client: Client = server  # type: ignore[assignment]
    return Election(
        client, "sys", "manager", name, jitter=chance(), clock=clock, wall=wall or Hand(1e9)
    )


def test_the_first_takes_it_and_the_second_waits() -> None:
    server, clock = LeaseServer(), Hand()
    one, two = election(server, "one", clock), election(server, "two", clock)
    assert not one.leads()
    one.attempt()
    two.attempt()
    assert (one.leads(), two.leads()) == (True, False)
    assert (one.leader(), two.leader()) == ("one", "one")
    assert server.spec() == {
        "holderIdentity": "one",
        "leaseDurationSeconds": 15,
        "leaseTransitions": 1,
        "acquireTime": "2001-09-09T01:46:40.000000Z",
        "renewTime": "2001-09-09T01:46:40.000000Z",
    }


def test_a_leader_renews_and_stays() -> None:
    server, clock, wall = LeaseServer(), Hand(), Hand(1e9)
    one, two = election(server, "one", clock, wall), election(server, "two", clock)
    for _ in range(20):
        one.attempt()
        two.attempt()
        clock.now += 2.0
        wall.now += 2.0
        assert one.leads()
        assert not two.leads()
    assert server.spec()["acquireTime"] == "2001-09-09T01:46:40.000000Z"
    assert server.spec()["renewTime"] == "2001-09-09T01:47:18.000000Z"
    assert server.spec()["leaseTransitions"] == 1


def test_who_cannot_renew_steps_back_before_another_may_follow() -> None:
    server, clock = LeaseServer(), Hand()
    one, two = election(server, "one", clock), election(server, "two", clock)
    one.attempt()
    two.attempt()
    server.down = UnreachableError("no answer")
    clock.now += 9.9
    one.attempt()
    assert one.leads()
    assert one.problem() == "no answer"
    clock.now += 0.2
    assert not one.leads(), "by the clock alone, whatever its thread does"
    server.down = None
    two.attempt()
    assert not two.leads(), "ten seconds are not fifteen"
    clock.now += 5.0
    two.attempt()
    assert two.leads()
    assert server.spec()["leaseTransitions"] == 2
    one.attempt()
    assert not one.leads()
    assert one.problem() == ""


def test_times_of_day_decide_nothing() -> None:
    """A leader whose clock is a year off is a leader all the same."""
    server, clock = LeaseServer(), Hand()
    one = election(server, "one", clock, Hand(1.0))
    two = election(server, "two", clock, Hand(4e9))
    for _ in range(10):
        one.attempt()
        two.attempt()
        clock.now += 5.0
        assert one.leads()
        assert not two.leads()


def test_somebody_was_faster() -> None:
    """Between our look and our write: the server refuses, and that is an ordinary end."""
    server, clock = LeaseServer(), Hand()
    one, two = election(server, "one", clock), election(server, "two", clock)

    class Racing(LeaseServer):
        """Whoever looks is overtaken before it writes."""

        def get(self, resource: object, name: str, namespace: str = "") -> bytes:
            try:
                return server.get(resource, name, namespace)
            finally:
                two.attempt()

        def create(self, resource: object, body: object, namespace: str = "") -> bytes:
            return server.create(resource, body, namespace)

    one._client = Racing()  # type: ignore[assignment]
    one.attempt()
    assert (one.leads(), two.leads()) == (False, True)
    assert one.problem() == ""


def test_a_conflict_is_no_problem_but_other_refusals_are() -> None:
    server, clock = LeaseServer(), Hand()
    one = election(server, "one", clock)
    for reason, problem in [("Conflict", False), ("AlreadyExists", False), ("Forbidden", True)]:
        server.down = HttpStatusError("PUT", 409, reason, "no")
        one.attempt()
        assert bool(one.problem()) is problem


def test_released_it_is_free_at_once() -> None:
    server, clock = LeaseServer(), Hand()
    one, two = election(server, "one", clock), election(server, "two", clock)
    one.attempt()
    two.attempt()
    one.release()
    assert not one.leads()
    assert server.spec()["holderIdentity"] == ""
    two.attempt()
    assert two.leads()


def test_who_does_not_lead_releases_nothing() -> None:
    server, clock = LeaseServer(), Hand()
    one, two = election(server, "one", clock), election(server, "two", clock)
    one.attempt()
    two.attempt()
    before = server.writes
    two.release()
    clock.now += 11
    one.release()
    assert server.writes == before


def test_a_release_that_fails_is_told() -> None:
    server, clock = LeaseServer(), Hand()
    one = election(server, "one", clock)
    one.attempt()
    server.down = UnreachableError("no answer")
    one.release()
    assert not one.leads()
    assert one.problem() == "no answer"


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["one", "two", "three"]),
        st.sampled_from(["attempt", "release", "cut", "heal"]),
        st.floats(0, 6),
    ),
    max_size=60,
)


@settings(max_examples=200)
@given(steps=STEPS, skew=st.floats(0.95, 1.05))
def test_there_is_never_a_second_leader(steps: list[tuple[str, str, float]], skew: float) -> None:
    """The law, also with clocks that run apart by a twentieth and networks that come and go."""
    server = LeaseServer()
    clocks = {"one": Hand(5.0), "two": Hand(1e6), "three": Hand(77.0)}
    rates = {"one": 1.0, "two": skew, "three": 1 / skew}
    all_three = {name: election(server, name, clock) for name, clock in clocks.items()}
    cut: set[str] = set()
    for name, what, seconds in steps:
        for each, clock in clocks.items():
            clock.now += seconds * rates[each]
        server.down = UnreachableError("cut off") if name in cut else None
        match what:
            case "attempt":
                all_three[name].attempt()
            case "release":
                all_three[name].release()
            case "cut":
                cut.add(name)
            case "heal":
                cut.discard(name)
        assert sum(one.leads() for one in all_three.values()) <= 1


def test_in_its_own_thread_over_real_sockets() -> None:
    server = LeaseServer()

    def answer(request: Request, wire: Wire) -> None:
        try:
            match request.method:
                case "GET":
                    wire.answer(server.get(None, "manager"))
                case "POST":
                    wire.answer(server.create(None, msgspec.json.decode(request.body)), 201)
                case _:
                    wire.answer(server.replace(None, "manager", msgspec.json.decode(request.body)))
        except HttpStatusError as refused:
            wire.json(status(refused.status, refused.reason, "no"), refused.status)

    calls: list[int] = []
    with serving(answer) as served:
        terms = LeaseTerms(duration=3600.0, deadline=1800.0, retry=0.05)
        one, two = (
            Election(
                plain_client(served.port),
                "sys",
                "manager",
                name,
                jitter=chance(),
                terms=terms,
                changed=lambda: calls.append(1),
            )
            for name in ("one", "two")
        )
        one.start()
        eventually("a leader", one.leads)
        two.start()
        eventually("that the second knows", lambda: two.leader() == "one")
        one.stop()
        assert not one.leads()
        eventually("a follower", two.leads)
        two.stop()
        assert server.spec()["holderIdentity"] == ""
        assert len(calls) >= 4
        assert served.asked()[0] == "GET /apis/coordination.k8s.io/v1/namespaces/sys/leases/manager"


@pytest.mark.parametrize("body", [b"[]", b'{"metadata": {"resourceVersion": "\xff"}}', b"[" * 5000])
def test_what_is_no_lease_is_told(body: bytes) -> None:
    with serving(lambda _, wire: wire.answer(body)) as served:
        client = plain_client(served.port)
        one = Election(client, "sys", "manager", "one", jitter=chance())
        one.attempt()
        client.close()
    assert "the answer is no Lease" in one.problem()


@pytest.mark.parametrize(
    ("at", "micro", "whole"),
    [
        (0.0, "1970-01-01T00:00:00.000000Z", "1970-01-01T00:00:00Z"),
        (1e9 + 0.25, "2001-09-09T01:46:40.250000Z", "2001-09-09T01:46:40Z"),
        (0.9999999, "1970-01-01T00:00:01.000000Z", "1970-01-01T00:00:00Z"),
        (1.000001, "1970-01-01T00:00:01.000001Z", "1970-01-01T00:00:01Z"),
    ],
)
def test_times_as_kubernetes_writes_them(at: float, micro: str, whole: str) -> None:
    assert (format_micro_time(at), format_time(at)) == (micro, whole)
