"""Threads that die are noticed at the next probe, in a cluster and without one."""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from slackwater.agent import launch
from slackwater.agent.building import BuiltAgent
from slackwater.agent.endpoint_server import Query, healthz, metrics
from slackwater.agent.shared_state import SharedState
from slackwater.model.units import Micros
from slackwater.record.journal import Journal
from slackwater.record.metrics import TickCounters


def nothing(*_: object) -> tuple[()]:
    return ()


class Dying:
    """Starts a thread that dies of a mistake of ours when it is told to."""

    def __init__(self) -> None:
        self.told = threading.Event()
        self.thread = threading.Thread(target=self._run, name="watch of pods", daemon=True)
        self.start_informers = self.start = self.thread.start
        self.start_writer = self.stop = nothing

    def _run(self) -> None:
        self.told.wait()
        raise ZeroDivisionError

    def die(self) -> None:
        self.told.set()
        self.thread.join()


def built(shared: SharedState, **parts: object) -> BuiltAgent:
    agent = SimpleNamespace(start=nothing, start_waiting=nothing, close=nothing)
    optional = ("cluster", "commands", "sources", "interception")
    every = {"agent": agent, "shared": shared, **dict.fromkeys(optional)}
    return cast("BuiltAgent", SimpleNamespace(**{**every, **parts}))


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> SharedState:
    monkeypatch.setattr(threading, "excepthook", nothing)
    made = SharedState(Journal(60), TickCounters(), lambda: None)
    made.health.beat(Micros(0))
    return made


def look(shared: SharedState) -> tuple[int, bool, bool]:
    """Status of /healthz, and whether /metrics counts one live thread, and one dead."""
    query = Query(shared, Micros(1))
    text = metrics(query).body.decode()
    one = 'slackwater_threads{{state="{}"}} 1'
    return healthz(query).status, one.format("alive") in text, one.format("dead") in text


def in_a_cluster(part: Dying, shared: SharedState) -> Any:
    return launch._connected(built(shared, cluster=part), once=False, dry_run=False)


def alone(part: Dying, shared: SharedState) -> Any:
    return launch._started(built(shared, commands=part))


@pytest.mark.parametrize("place", [in_a_cluster, alone])
def test_a_dead_thread_is_noticed(
    shared: SharedState, place: Callable[[Dying, SharedState], Any]
) -> None:
    part = Dying()
    with place(part, shared):
        assert look(shared) == (200, True, False)
        part.die()
        assert look(shared) == (503, False, True)
    assert look(shared)[0] == 200, "at its end threads may stop"
