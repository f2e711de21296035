"""Events: counted together, sent sparingly, never in anybody's way."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.http.errors import RequestError, UnreachableError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import Client, PatchKind
from slackwater.kube.events import (
    EventQueue,
    EventRateLimit,
    EventRecorder,
    EventType,
    KubeEvent,
    ObjectReference,
    TokenBucket,
)
from tests.unit.kube.accesses import plain_client
from tests.unit.kube.byte_server import Request, Wire, eventually, serving
from tests.unit.kube.test_lease import Hand

NODE = ObjectReference("v1", "Node", "n1", uid="n1")
POD = ObjectReference("v1", "Pod", "web", "shop", "u-1")


def throttled(
    message: str = "best-effort pods held at 1200m", about: ObjectReference = NODE
) -> KubeEvent:
    return KubeEvent(about, "NodeCPUThrottle", message)


class EventServer:
    """Keeps events by name. In place of a Client."""

    def __init__(self) -> None:
        self.events: dict[str, dict[str, object]] = {}
        self.writes: list[str] = []
        self.down: RequestError | None = None

    def create(self, _resource: object, body: object, namespace: str = "") -> bytes:
        self._check()
        event = msgspec.json.decode(msgspec.json.encode(body))
        assert event["metadata"]["namespace"] == namespace
        name = event["metadata"]["name"]
        assert name not in self.events
        self.events[name] = event
        self.writes.append("create")
        return b"{}"

    def patch(
        self, _resource: object, name: str, body: object, *, kind: PatchKind, namespace: str = ""
    ) -> bytes:
        self._check()
        assert kind is PatchKind.MERGE
        if name not in self.events:
            raise HttpStatusError("PATCH", 404, "NotFound", name)
        changes = msgspec.json.decode(msgspec.json.encode(body))
        assert self.events[name]["metadata"]["namespace"] == namespace  # type: ignore[index]
        self.events[name].update(changes)
        self.writes.append("patch")
        return b"{}"

    def close(self) -> None:
        """Nothing is open."""

    def counts(self) -> list[object]:
        return [event["count"] for event in self.events.values()]

    def _check(self) -> None:
        if self.down:
            raise self.down


class Bench:
    def __init__(self, rate_limit: EventRateLimit | None = None) -> None:
        self.server, self.clock, self.wall = EventServer(), Hand(), Hand(1e9)
        client: Client = self.server  # type: ignore[assignment]
        self.sender = EventRecorder(
            client,
            "slackwater-agent",
            "n1",
            rate_limit=rate_limit or EventRateLimit(),
            clock=self.clock,
            wall=self._tick,
        )

    def _tick(self) -> float:
        """Never the same moment twice."""
        self.wall.now += 0.001
        return self.wall.now

    def flush(self) -> float | None:
        while (pause := self.sender.step()) == 0.0:
            pass
        return pause


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_an_event_as_kubectl_shows_it(bench: Bench) -> None:
    bench.sender.send(KubeEvent(POD, "Throttled", "held at 1200m", EventType.WARNING))
    assert bench.flush() is None
    ((name, event),) = bench.server.events.items()
    assert name.startswith("web.")
    assert event == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "shop"},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "web",
            "namespace": "shop",
            "uid": "u-1",
        },
        "reason": "Throttled",
        "message": "held at 1200m",
        "type": "Warning",
        "count": 1,
        "firstTimestamp": "2001-09-09T01:46:40Z",
        "lastTimestamp": "2001-09-09T01:46:40Z",
        "source": {"component": "slackwater-agent", "host": "n1"},
        "reportingComponent": "slackwater-agent",
        "reportingInstance": "n1",
    }


def test_what_waits_is_counted_together(bench: Bench) -> None:
    for number in range(100):
        bench.sender.send(throttled(f"held at {number}m"))
        bench.wall.now += 1.0
    bench.flush()
    (event,) = bench.server.events.values()
    assert event["count"] == 100
    assert event["message"] == "held at 99m"
    assert event["firstTimestamp"] == "2001-09-09T01:46:40Z"
    assert event["lastTimestamp"] == "2001-09-09T01:48:19Z"
    assert event["metadata"]["namespace"] == "default"  # type: ignore[index]
    assert bench.server.writes == ["create"]


def test_a_series_is_one_object(bench: Bench) -> None:
    for _ in range(3):
        bench.sender.send(throttled())
        bench.flush()
        bench.clock.now += 60.0
    assert bench.server.writes == ["create", "patch", "patch"]
    assert bench.server.counts() == [3]


@pytest.mark.parametrize(
    "other",
    [
        KubeEvent(NODE, "NodeCPURelease", "all is well"),
        KubeEvent(NODE, "NodeCPUThrottle", "x", EventType.WARNING),
        throttled(about=POD),
    ],
    ids=["reason", "severity", "object"],
)
def test_something_else_is_another_object(bench: Bench, other: KubeEvent) -> None:
    bench.sender.send(throttled())
    bench.sender.send(other)
    bench.flush()
    assert bench.server.counts() == [1, 1]


def test_after_a_quiet_time_a_new_one_begins(bench: Bench) -> None:
    bench.sender.send(throttled())
    bench.flush()
    bench.clock.now += 601.0
    bench.sender.send(throttled())
    bench.flush()
    assert bench.server.writes == ["create", "create"]
    assert bench.server.counts() == [1, 1]


def test_one_that_the_server_has_forgotten_is_made_anew(bench: Bench) -> None:
    bench.sender.send(throttled())
    bench.flush()
    bench.server.events.clear()
    bench.sender.send(throttled())
    bench.sender.send(throttled())
    bench.flush()
    assert bench.server.counts() == [2]


def test_no_more_go_out_than_is_allowed() -> None:
    bench = Bench(EventRateLimit(burst=3, every=10.0))
    for number in range(10):
        bench.sender.send(KubeEvent(NODE, f"Reason{number}", "x"))
    assert bench.flush() == pytest.approx(10.0)
    assert len(bench.server.writes) == 3
    bench.clock.now += 9.0
    assert bench.flush() == pytest.approx(1.0)
    bench.clock.now += 1.0
    bench.flush()
    assert len(bench.server.writes) == 4
    bench.clock.now += 3600.0
    bench.flush()
    assert len(bench.server.writes) == 7, "what was saved is bounded"
    assert bench.sender.dropped() == 0


def test_too_many_kinds_are_lost_and_counted() -> None:
    bench = Bench(EventRateLimit(burst=100, max_series=5))
    for number in range(12):
        bench.sender.send(KubeEvent(NODE, f"Reason{number}", "x"))
    bench.sender.send(KubeEvent(NODE, "Reason0", "x"))
    assert bench.sender.dropped() == 7
    bench.flush()
    assert bench.server.counts() == [2, 1, 1, 1, 1]


def test_what_is_remembered_is_bounded() -> None:
    bench = Bench(EventRateLimit(burst=1000, max_series=5))
    for number in range(50):
        bench.sender.send(KubeEvent(NODE, f"Reason{number}", "x"))
        bench.flush()
    assert len(bench.sender._sent) == 5


@pytest.mark.parametrize(
    ("error", "pause"),
    [
        (UnreachableError("no answer"), 5.0),
        (HttpStatusError("POST", 429, "TooManyRequests", "later", 7.0), 7.0),
        (HttpStatusError("POST", 503, "ServiceUnavailable", "later"), 5.0),
    ],
    ids=["unreachable", "busy", "broken"],
)
def test_what_cannot_be_sent_now_is_sent_later(
    error: RequestError, pause: float, bench: Bench
) -> None:
    bench.server.down = error
    bench.sender.send(throttled("first"))
    assert bench.flush() == pause
    assert bench.sender.problem() == str(error)
    bench.sender.send(throttled("second"))
    bench.server.down = None
    bench.flush()
    (event,) = bench.server.events.values()
    assert (event["count"], event["message"]) == (2, "second")
    assert bench.sender.problem() == ""
    assert bench.sender.dropped() == 0


def test_what_would_be_refused_again_is_lost(bench: Bench) -> None:
    bench.server.down = HttpStatusError("POST", 403, "Forbidden", "no")
    for _ in range(3):
        bench.sender.send(throttled())
    assert bench.flush() is None
    assert bench.sender.dropped() == 3
    assert "Forbidden" in bench.sender.problem()


def test_long_texts_and_names_are_cut(bench: Bench) -> None:
    bench.sender.send(KubeEvent(ObjectReference("v1", "Pod", "x" * 253, "shop"), "R", "y" * 5000))
    bench.flush()
    ((name, event),) = bench.server.events.items()
    assert len(name) <= 253
    assert len(str(event["message"])) == 1024


def test_in_its_own_thread_over_real_sockets() -> None:
    def answer(_request: Request, wire: Wire) -> None:
        wire.json({}, 201)

    with serving(answer) as server:
        sender = EventRecorder(plain_client(server.port), "slackwater-agent")
        sender.start()
        sender.send(throttled())
        eventually("the first", lambda: len(server.requests) == 1)
        sender.send(throttled())
        eventually("the second", lambda: len(server.requests) == 2)
        sender.send(KubeEvent(NODE, "Last", "x"))
        sender.stop()
        assert [one.method for one in server.requests] == ["POST", "PATCH", "POST"]
        assert server.asked()[0] == "POST /api/v1/namespaces/default/events"


def test_a_server_that_hangs_keeps_nobody_waiting() -> None:
    with serving(lambda _, wire: wire.hang()) as server:
        sender = EventRecorder(plain_client(server.port, timeout=1.0), "slackwater-agent")
        sender.start()
        for number in range(1000):  # a second each would be too long for any test
            sender.send(throttled(str(number)))
        sender.stop(patience=0.1)
        eventually("the end", sender.problem)


@given(
    moments=st.lists(st.floats(0, 20), max_size=60),
    burst=st.integers(1, 5),
    every=st.floats(0.5, 10),
)
def test_a_bucket_never_gives_more_than_it_has(
    moments: list[float], burst: int, every: float
) -> None:
    """In any stretch of time: at most the burst and one for each `every` seconds of it."""
    bucket, now, spent = TokenBucket(EventRateLimit(burst, every), 0.0), 0.0, list[float]()
    for moment in moments:
        now += moment
        if bucket.seconds_until_free(now) == 0.0:
            bucket.take(now)
            spent.append(now)
    for first, start in enumerate(spent):
        for last in range(first, len(spent)):
            within = spent[last] - start
            assert last - first + 1 <= burst + within / every + 1e-6


@given(
    names=st.lists(st.sampled_from("abc"), max_size=40),
    back=st.booleans(),
)
def test_a_heap_loses_nothing_of_what_it_took(names: list[str], back: bool) -> None:
    queue = EventQueue(2)
    for at, name in enumerate(names):
        queue.add(KubeEvent(NODE, name, name), float(at))
    if back and not queue.is_empty():
        queue.put_back(queue.pop_oldest())
    total = 0
    while not queue.is_empty():
        one = queue.pop_oldest()
        assert one.first <= one.last
        total += one.count
    assert total + queue.dropped() == len(names)
