"""A loop that stalls and a thread that died make a program unhealthy; nothing else does."""

import threading

import msgspec
import pytest

from slackwater.model.units import Micros
from slackwater.runtime.health import Health, HealthState, ReplicaHealth, health_response

STARTED, ALLOWED = Micros(100_000_000), Micros(90_000_000)


@pytest.mark.parametrize(
    ("beats", "at", "because"),
    [
        ((), 100, ""),
        ((), 190, ""),
        ((), 191, "the loop has made no progress for 91 s; 90 s are allowed"),
        (((150, None),), 240, ""),
        (((150, None),), 241, "the loop has made no progress for 91 s; 90 s are allowed"),
        (((150, 10),), 161, "the loop has made no progress for 11 s; 10 s are allowed"),
        (((150, 10), (160, None)), 170, ""),
    ],
)
def test_a_loop_that_stalls(
    beats: tuple[tuple[int, int | None], ...], at: int, because: str
) -> None:
    health = HealthState(STARTED, ALLOWED)
    for second, allowed in beats:
        silence = None if allowed is None else Micros(allowed * 1_000_000)
        health.beat(Micros(second * 1_000_000), silence)
    assert health.why_unhealthy(Micros(at * 1_000_000)) == because


def test_a_thread_that_died_is_named_until_it_may_end() -> None:
    health, end = HealthState(STARTED, ALLOWED), threading.Event()
    with health.starting_threads():
        watched = threading.Thread(target=end.wait, args=(30,), name="watch of pods")
        watched.start()
    other = threading.Thread(target=end.wait, args=(30,), name="another's")
    other.start()
    assert health.why_unhealthy(STARTED) == ""
    end.set()
    watched.join()
    other.join()
    assert health.why_unhealthy(STARTED) == "threads have died: watch of pods"
    health.forget_threads()
    assert health.why_unhealthy(STARTED) == ""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_fails_at_once_is_not_missed() -> None:
    def fail() -> None:
        raise ZeroDivisionError("a bug")

    health, before = HealthState(STARTED, ALLOWED), threading.excepthook
    with health.starting_threads():
        failing = threading.Thread(target=fail, name="watch of pods")
        failing.start()
        failing.join()
    assert health.why_unhealthy(STARTED) == "threads have died: watch of pods"
    health.forget_threads()
    assert health.why_unhealthy(STARTED) == ""
    assert threading.excepthook == before


@pytest.mark.parametrize(
    ("health", "status", "body"),
    [
        (Health(ok=True), 200, {"ok": True}),
        (Health(ok=False, because="stalled"), 503, {"ok": False, "because": "stalled"}),
        (ReplicaHealth(ok=True, leader="a"), 200, {"ok": True, "leader": "a"}),
    ],
)
def test_the_response(health: Health, status: int, body: dict[str, object]) -> None:
    response = health_response(health)
    assert (response.status, msgspec.json.decode(response.body)) == (status, body)
