"""All sources together: who is asked when, what the tick gets, and what one that hangs does not
do to others. Time is moved by hand; the last tests have real threads."""

import threading

import pytest

from slackwater.model.gap import Gap
from slackwater.model.metric import MetricKey, Sample
from slackwater.observation.probes.answers import Answer
from slackwater.observation.probes.node_file import FileTarget
from slackwater.observation.probes.probe_set import MOST_PODS, ProbeSet
from slackwater.observation.probes.sources import (
    NodeFile,
    PodProbe,
    SourceDescription,
    SourceTimes,
    describe_sources,
)
from tests.unit.kube.byte_server import Request, Wire, eventually, serving
from tests.unit.observation.probes.probe_world import (
    PATIENT,
    HandClock,
    ensurance_objects,
    latency,
    make_pod,
    node_probe,
    probe_set,
    reason_of,
    text_answer,
    unstamped,
)

NODE_QOS = "NodeQOS/latency"
POD_QOS = "PodQOS/web"
BRIEF = SourceTimes(0.2)


def pod_probe(port: int | str, times: SourceTimes = PATIENT) -> dict[str, SourceDescription]:
    found = describe_sources(ensurance_objects(port))[POD_QOS]
    assert isinstance(found, PodProbe)
    return {POD_QOS: PodProbe(found.get, found.pod_qos, times)}


def test_only_what_somebody_wants_is_asked() -> None:
    clock = HandClock()
    with serving(text_answer("latency 1\nrequests 5\n")) as server:
        probes = probe_set(clock)
        probes.update({NODE_QOS: node_probe(server.port), "NodeQOS/idle": node_probe(1)}, ())
        assert probes.ask_due() == 0
        assert probes.samples(latency(NODE_QOS), clock()) == Gap("it has not answered yet")
        assert probes.ask_due() == 1
        assert probes.samples(latency(NODE_QOS), clock()) == (Sample(1.0, {}, clock()),)
        assert probes.samples(latency(NODE_QOS, "requests"), clock()) == Gap(
            "it was not asked for this yet"
        )
        assert probes.ask_due() == 1
        assert unstamped(probes.samples(latency(NODE_QOS, "requests"), clock())) == (Sample(5.0),)
        assert probes.ask_due() == 0


def test_once_in_a_period() -> None:
    clock = HandClock()
    with serving(text_answer("latency 1\n")) as server:
        probes = probe_set(clock)
        probes.update({NODE_QOS: node_probe(server.port)}, ())
        asked = []
        for _ in range(20):
            probes.samples(latency(NODE_QOS), clock())
            asked.append(probes.ask_due())
            clock.pass_seconds(0.25)
    # From the second time on shortly before the tick, which is once in four of these.
    assert asked == [1, 0, 0, *[1, 0, 0, 0] * 4, 1]


def test_what_nobody_wants_any_more_is_not_asked() -> None:
    clock = HandClock()
    with serving(text_answer("latency 1\n")) as server:
        probes = probe_set(clock)
        probes.update({NODE_QOS: node_probe(server.port)}, ())
        probes.samples(latency(NODE_QOS), clock())
        asked = 0
        for _ in range(10):
            asked += probes.ask_due()
            clock.pass_seconds(1)
    assert asked == 4


@pytest.mark.parametrize(
    ("times", "seconds", "stale"),
    [
        (PATIENT, 3, False),
        (PATIENT, 3.1, True),
        (SourceTimes(60.0, period=10.0), 30, False),
        (SourceTimes(60.0, period=10.0), 31, True),
        (SourceTimes(60.0, max_age=60.0), 60, False),
        (SourceTimes(60.0, max_age=60.0), 61, True),
        (SourceTimes(60.0, max_age=1.0), 2, True),
    ],
)
def test_an_answer_counts_for_a_while(times: SourceTimes, seconds: float, stale: bool) -> None:
    clock = HandClock()
    with serving(text_answer("latency 1\n")) as server:
        probes = probe_set(clock)
        probes.update({NODE_QOS: node_probe(server.port, times)}, ())
        probes.samples(latency(NODE_QOS), clock())
        assert probes.ask_due() == 1
    clock.pass_seconds(seconds)
    found = probes.samples(latency(NODE_QOS), clock())
    assert isinstance(found, Gap) == stale
    if stale:
        assert reason_of(found) == f"the last answer is {int(seconds)} s old".replace(
            "61 s", "1 min"
        )
        probes.ask_due()
        told = reason_of(probes.samples(latency(NODE_QOS), clock()))
        assert told.endswith(f"old: http://127.0.0.1:{server.port}/: Connection refused")


def test_a_failure_is_told_and_asked_less_often() -> None:
    clock = HandClock()
    with serving(lambda _request, wire: wire.answer(b"", 500)) as server:
        probes = probe_set(clock)
        probes.update({NODE_QOS: node_probe(server.port)}, ())
        asked = []
        for second in range(40):
            probes.samples(latency(NODE_QOS), clock())
            if probes.ask_due():
                asked.append(second)
            clock.pass_seconds(1)
        assert probes.samples(latency(NODE_QOS), clock()) == Gap(
            f"http://127.0.0.1:{server.port}/ answered 500"
        )
        assert asked == [0, 1, 3, 7, 15, 23, 31, 39]
        server.answer = text_answer("latency 1\n")
        clock.pass_seconds(8)
        probes.samples(latency(NODE_QOS), clock())
        probes.ask_due()
        assert unstamped(probes.samples(latency(NODE_QOS), clock())) == (Sample(1.0),)
        clock.pass_seconds(1)
        probes.samples(latency(NODE_QOS), clock())
        assert probes.ask_due() == 1


def test_quantiles_between_two_answers() -> None:
    clock = HandClock()
    key = latency(NODE_QOS, "latency:p99")

    def body(fast: int, slow: int) -> str:
        total = fast + slow
        lines = {"0.1": fast, "1": total, "+Inf": total}
        return "".join(f'latency_bucket{{le="{b}"}} {n}\n' for b, n in lines.items())

    with serving(text_answer(body(0, 1000))) as server:
        probes = probe_set(clock)
        probes.update({NODE_QOS: node_probe(server.port)}, ())
        told = []
        for fast, slow in ((0, 1000), (100, 1000), (100, 1000), (100, 1100), (0, 5), (9, 5)):
            server.answer = text_answer(body(fast, slow))
            probes.samples(key, clock())
            probes.ask_due()
            told.append(probes.samples(key, clock()))
            clock.pass_seconds(1)
    values = [found if isinstance(found, Gap) else round(found[0].value, 3) for found in told]
    assert values == [
        Gap("'latency' was seen only once so far"),
        0.099,
        Gap("the histogram 'latency' had no observations between the last two looks", is_idle=True),
        0.991,
        Gap("the histogram 'latency' began anew"),
        0.099,
    ]


def test_a_rate_counts_the_time_between_two_answers() -> None:
    clock = HandClock()
    key = latency(NODE_QOS, "requests:rate")
    with serving(text_answer("requests 10\n")) as server:
        probes = probe_set(clock)
        probes.update({NODE_QOS: node_probe(server.port)}, ())
        probes.samples(key, clock())
        probes.ask_due()
        clock.pass_seconds(2)
        server.answer = text_answer("requests 40\n")
        probes.samples(key, clock())
        probes.ask_due()
    assert unstamped(probes.samples(key, clock())) == (Sample(15.0),)


def test_without_an_object() -> None:
    found = probe_set(HandClock()).samples(MetricKey("a", "NodeQOS/gone"), HandClock().now)
    assert found == Gap("there is no NodeQOS/gone that could be asked")


def test_a_changed_description_begins_anew_and_others_stay() -> None:
    clock = HandClock()
    with serving(text_answer("latency 1\n")) as server:
        probes = probe_set(clock)
        stays = node_probe(server.port)
        probes.update({"NodeQOS/a": stays, "NodeQOS/b": node_probe(server.port)}, ())
        for title in ("NodeQOS/a", "NodeQOS/b"):
            probes.samples(latency(title), clock())
        assert probes.ask_due() == 2
        probes.update({"NodeQOS/a": stays, "NodeQOS/b": node_probe(server.port, path="/x")}, ())
        assert unstamped(probes.samples(latency("NodeQOS/a"), clock())) == (Sample(1.0),)
        assert reason_of(probes.samples(latency("NodeQOS/b"), clock())) == "it has not answered yet"
        probes.update({}, ())
        assert isinstance(probes.samples(latency("NodeQOS/a"), clock()), Gap)


def test_each_pod_is_asked_and_its_series_are_labelled() -> None:
    """A pod cannot claim to be another."""
    clock = HandClock()
    lie = 'latency{PodName="web-2",PodUid="uid-web-2",handler="/"} 9\n'
    with serving(text_answer(lie)) as one, serving(text_answer("latency 2\n")) as two:
        pods = (
            make_pod("web-1", ports={"metrics": one.port}),
            make_pod("web-2", ports={"metrics": two.port}),
        )
        stranger = make_pod("batch")
        batch = type(stranger)("u", "b", "shop", stranger.tier, stranger.ref, address="127.0.0.1")
        probes = probe_set(clock)
        probes.update(pod_probe("metrics"), (*pods, batch))
        probes.samples(latency(POD_QOS), clock())
        assert probes.ask_due() == 2
        found = probes.samples(latency(POD_QOS), clock())
    shop, now = {"PodNamespace": "shop"}, clock()
    assert found == (
        Sample(9.0, {"PodName": "web-1", "PodUid": "uid-web-1", "handler": "/", **shop}, now),
        Sample(2.0, {"PodName": "web-2", "PodUid": "uid-web-2", **shop}, now),
    )


def test_pods_come_and_go_and_move() -> None:
    clock = HandClock()
    with serving(text_answer("latency 1\n")) as server:
        sources = pod_probe(server.port)
        probes = probe_set(clock)
        probes.update(sources, ())
        assert probes.samples(latency(POD_QOS), clock()) == Gap(
            "no pod of this node is one of PodQOS/web", is_idle=True
        )
        probes.update(sources, (make_pod("web-1", ""),))
        assert probes.ask_due() == 0
        assert probes.samples(latency(POD_QOS), clock()) == Gap(
            "shop/web-1: the pod's address is not known"
        )
        probes.update(sources, (make_pod("web-1"),))
        assert probes.ask_due() == 1
        assert isinstance(probes.samples(latency(POD_QOS), clock()), tuple)
        probes.update(sources, ())
        assert isinstance(probes.samples(latency(POD_QOS), clock()), Gap)


def test_a_port_that_no_pod_has_lasts_until_one_may_have_it() -> None:
    """A pod whose address is not known yet may answer soon."""
    clock = HandClock()
    probes = probe_set(clock)
    pods = tuple(make_pod(f"web-{n}", ports={"admin": 81}) for n in range(2))
    probes.update(pod_probe("metrics"), pods)
    assert probes.samples(latency(POD_QOS), clock()) == Gap(
        "shop/web-0: the pod has no port 'metrics'; and 1 more pods", is_lasting=True
    )
    probes.update(pod_probe("metrics"), (*pods, make_pod("web-2", "", ports={"metrics": 80})))
    found = probes.samples(latency(POD_QOS), clock())
    assert isinstance(found, Gap)
    assert not found.is_lasting


def test_one_pod_that_fails_leaves_the_others() -> None:
    clock = HandClock()
    with (
        serving(text_answer("latency 1\n")) as good,
        serving(lambda _request, wire: wire.hang()) as bad,
    ):
        pods = tuple(
            make_pod(f"web-{n}", ports={"m": good.port if n else bad.port}) for n in range(3)
        )
        probes = probe_set(clock)
        probes.update(pod_probe("m", BRIEF), pods)
        probes.samples(latency(POD_QOS), clock())
        assert probes.ask_due() == 3
        found = probes.samples(latency(POD_QOS), clock())
        assert not isinstance(found, Gap)
        assert [each.labels["PodName"] for each in found] == ["web-1", "web-2"]
        probes.update(pod_probe("m", BRIEF), (pods[0],))
        probes.samples(latency(POD_QOS), clock())
        probes.ask_due()
        told = reason_of(probes.samples(latency(POD_QOS), clock()))
    assert told == f"shop/web-0: http://127.0.0.1:{bad.port}/metrics: no answer within 0.2 s"


def test_many_pods_are_asked_less_often() -> None:
    """Nobody in particular: all of them, half as often."""
    clock = HandClock()
    with serving(text_answer("latency 1\n")) as server:
        pods = tuple(make_pod(f"web-{n}") for n in range(MOST_PODS + 1))
        probes = probe_set(clock)
        probes.update(pod_probe(server.port), pods)
        asked = []
        for _ in range(5):
            probes.samples(latency(POD_QOS), clock())
            asked.append(probes.ask_due())
            clock.pass_seconds(1)
        found = probes.samples(latency(POD_QOS), clock())
    assert asked == [111, 0, 111, 0, 111]
    assert not isinstance(found, Gap)
    assert len(found) == 111


def started(clock: HandClock) -> ProbeSet:
    probes = probe_set(clock)
    probes.start()
    return probes


def test_threads_ask_and_the_tick_never_waits() -> None:
    clock = HandClock()
    asked = threading.Event()
    answered = threading.Event()

    def wait(_request: Request, wire: Wire) -> None:
        asked.set()
        answered.wait()
        wire.answer(b"latency 1\n", 200, "text/plain")

    with serving(wait) as server:
        probes = started(clock)
        probes.update({NODE_QOS: node_probe(server.port)}, ())
        assert probes.samples(latency(NODE_QOS), clock()) == Gap("it has not answered yet")
        asked.wait()
        clock.pass_seconds(1)
        assert probes.samples(latency(NODE_QOS), clock()) == Gap("it has not answered yet")
        answered.set()
        eventually(
            "an answer", lambda: isinstance(probes.samples(latency(NODE_QOS), clock()), tuple)
        )
        probes.stop()
        assert server.connections <= 2


def test_whoever_hangs_keeps_nobody_waiting() -> None:
    """Ten that hang beside one that answers: it is asked in every period."""
    clock = HandClock()
    with (
        serving(text_answer("latency 1\n")) as good,
        serving(lambda _request, wire: wire.hang()) as bad,
    ):
        sources: dict[str, SourceDescription] = {
            f"NodeQOS/bad-{n}": node_probe(bad.port, SourceTimes(0.05)) for n in range(10)
        }
        sources[NODE_QOS] = node_probe(good.port)
        probes = started(clock)
        probes.update(sources, ())
        for turn in range(1, 6):

            def is_asked(turn: int = turn) -> bool:
                for title in sources:
                    probes.samples(latency(title), clock())
                return len(good.requests) >= turn

            eventually("the good one asked again", is_asked)
            clock.pass_seconds(1)
        found = probes.samples(latency(NODE_QOS), clock())
        probes.stop()
    assert unstamped(found) == (Sample(1.0),)
    names = [each.name for each in threading.enumerate() if each.name == "probes"]
    assert len(names) <= 4


def test_threads_end() -> None:
    clock = HandClock()
    with serving(text_answer("latency 1\n")) as server:
        probes = started(clock)
        probes.update({NODE_QOS: node_probe(server.port)}, ())
        eventually(
            "an answer", lambda: isinstance(probes.samples(latency(NODE_QOS), clock()), tuple)
        )
        probes.stop()
    eventually("no thread", lambda: all(each.name != "probes" for each in threading.enumerate()))


def test_an_error_of_ours_is_told_and_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two sources, and the first one's code raises: the thread ends, another one asks on."""
    clock = HandClock()
    raised: list[object] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)

    def fail(self: FileTarget, names: frozenset[str]) -> Answer | Gap:
        raise RuntimeError("a bug")

    monkeypatch.setattr(FileTarget, "ask", fail)
    with serving(text_answer("latency 1\n")) as server:
        probes = started(clock)
        probes.update(
            {"EnsuranceMetric/a": NodeFile("/", "a"), NODE_QOS: node_probe(server.port)}, ()
        )

        def both() -> bool:
            one = probes.samples(latency("EnsuranceMetric/a"), clock())
            other = probes.samples(latency(NODE_QOS), clock())
            return one == Gap("asking it ended in an error of ours") and isinstance(other, tuple)

        eventually("both", both)
        probes.stop()
    assert raised
