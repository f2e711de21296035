"""The rhythm of the resident rebalancer, who acts, and what it says of itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import msgspec
import pytest

from slackwater.model.units import Micros
from slackwater.rebalancer.metrics import RoundMetrics, expose
from slackwater.rebalancer.observed import Unavailable
from slackwater.rebalancer.program import (
    STALLED_AFTER,
    LoopDependencies,
    RebalancerLoop,
    ReplicaState,
)
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.run import RoundDependencies
from slackwater.runtime.change_log import ChangeLog
from slackwater.runtime.health import ReplicaHealth
from slackwater.runtime.http_exchange import Request
from slackwater.runtime.leadership import Leadership, NoElection
from slackwater.runtime.loop import run_loop
from slackwater.runtime.status_endpoint import respond
from slackwater.runtime.wakeup import Woken
from slackwater.settings.rebalancer import RunSettings
from tests.unit.rebalancer.rotating_world import RUN, World

INTERVAL = RUN.interval / 1_000_000


class FakeElection:
    """An election that a test decides."""

    def __init__(self) -> None:
        self.ours = True
        self.why = ""
        self.known = True

    def leads(self) -> bool:
        return self.ours

    def leader(self) -> str:
        if not self.known:
            return ""
        return "us" if self.ours else "another"

    def problem(self) -> str:
        return self.why


class Resident:
    """The loop, its world, and how long it was told to wait."""

    def __init__(self, leadership: Leadership | None = None) -> None:
        self.world = World()
        self.election = FakeElection()
        self.settings = RUN
        self.opened: list[RunSettings] = []
        self.pauses: list[float] = []
        self.tally = RoundMetrics()
        self.state = ReplicaState(lambda: Micros(int(self.world.second * 1_000_000)))
        needs = LoopDependencies(
            lambda: self.settings, self._parts_of, leadership or self.election, self.state,
            self.tally, ChangeLog(self.world.told.append), lambda: self.world.second,
        )  # fmt: skip
        self.loop = RebalancerLoop(needs)

    @contextmanager
    def _parts_of(self, settings: RunSettings) -> Iterator[RoundDependencies]:
        self.opened.append(settings)
        parts = self.world.dependencies()
        yield msgspec.structs.replace(parts, writer=None) if settings.dry_run else parts

    def go(self, seconds: float) -> None:
        """As the program does, for so long."""
        until = self.world.second + seconds
        waits = 0

        def wait(pause: float) -> Woken:
            nonlocal waits
            waits += 1
            if waits > 1:
                self.pauses.append(pause)
                self.world.second += pause
            return Woken.STOP if self.world.second >= until else Woken.TIMEOUT

        run_loop(self.loop.run_round, wait)

    def said(self, what: str) -> list[str]:
        return [each.because for each in self.world.told if each.what == what]


def test_a_round_in_each_interval() -> None:
    resident = Resident()
    resident.go(3 * INTERVAL - 1)
    assert len(resident.opened) == 3
    assert max(resident.pauses) <= 60, "it shows a sign of life each minute"


def test_a_round_counts_from_its_beginning() -> None:
    """The first takes a while: it waits for new pods."""
    resident = Resident()
    resident.loop.once()
    took = resident.world.second
    assert took > 0
    resident.world.second = INTERVAL - 1
    assert resident.loop.once() is None
    assert resident.loop.pause() == 1
    resident.world.second = INTERVAL
    assert resident.loop.once() is not None


def test_it_acts() -> None:
    resident = Resident()
    result = resident.loop.once()
    assert result is not None
    assert resident.world.removed() == "A F B E"
    assert [each.reason for each in result.results] == [Reason.ROTATED]


def test_a_follower_does_nothing() -> None:
    resident = Resident()
    resident.election.ours = False
    resident.go(3 * INTERVAL)
    assert (resident.opened, resident.world.looks, resident.world.calls) == ([], 0, [])
    assert set(resident.pauses) == {60.0}
    assert resident.said("leader") == ["another leads"]


def test_who_takes_over_begins_at_once() -> None:
    resident = Resident()
    resident.election.ours = False
    resident.loop.once()
    resident.election.ours = True
    assert resident.loop.once() is not None
    assert resident.said("leader") == ["another leads", "us leads"]


def test_who_lost_it_and_got_it_back_begins_anew() -> None:
    resident = Resident()
    for ours in (True, False, True):
        resident.election.ours = ours
        resident.loop.once()
    assert len(resident.opened) == 2


def test_being_woken_early_is_no_round() -> None:
    resident = Resident()
    resident.loop.once()
    for _ in range(5):
        assert resident.loop.once() is None
    assert len(resident.opened) == 1


def test_settings_are_asked_for_anew() -> None:
    resident = Resident()
    resident.go(INTERVAL)
    resident.settings = msgspec.structs.replace(RUN, workloads=())
    resident.go(INTERVAL)
    assert [len(each.workloads) for each in resident.opened] == [1, 0]


def test_an_api_server_that_is_away_does_not_end_it() -> None:
    resident = Resident()
    resident.world.problem = Unavailable(Reason.KUBERNETES_ERROR, "nobody answers")
    resident.election.why = "nobody answers"
    resident.go(2 * INTERVAL)
    resident.world.problem, resident.election.why = None, ""
    resident.go(INTERVAL)
    decisions = [each.result for each in resident.world.told if "web" in each.what]
    assert decisions == ["kubernetes_error", "rotated"]
    lease = "the Lease cannot be read or held: nobody answers"
    assert resident.said("lease") == [lease, "recovered"]


def test_who_leads_is_said_once_it_is_known() -> None:
    resident = Resident()
    resident.election.ours = resident.election.known = False
    resident.loop.once()
    assert resident.world.told == []
    resident.election.known = True
    resident.loop.once()
    resident.election.known = False
    resident.loop.once()
    assert resident.said("leader") == ["another leads", "no replica leads"]


def test_a_lease_that_cannot_be_had_is_told_shown_and_counted() -> None:
    """Of a namespace that is not there, say. The election does not wake anybody for that."""
    resident = Resident()
    resident.election.ours = resident.election.known = False
    resident.go(4)
    resident.election.why = "namespaces 'x' not found"
    resident.go(10)
    sentence = "the Lease cannot be read or held: namespaces 'x' not found"
    told = [(each.what, each.because, each.result) for each in resident.world.told]
    assert told == [("lease", sentence, "kubernetes_error")]
    assert max(resident.pauses) <= 2
    assert resident.state.check_ready().because == sentence
    errors = {
        sample.labels: sample.value
        for sample in resident.tally.samples()
        if sample.metric.name == "rebalancer_api_errors_total"
    }
    assert errors[("kubernetes",)] == 5


def test_a_dry_run_needs_no_lease() -> None:
    resident = Resident(NoElection())
    resident.settings = msgspec.structs.replace(RUN, dry_run=True)
    result = resident.loop.once()
    assert result is not None
    assert [each.reason for each in result.results] == [Reason.DRY_RUN]
    assert resident.world.calls == []
    assert resident.state.check_ready().ok


def test_a_dry_run_that_is_switched_off_goes_on_until_a_restart() -> None:
    """It has no lease, and another may."""
    resident = Resident(NoElection())
    resident.loop.once()
    assert resident.world.calls == []
    assert resident.opened[0].dry_run
    assert resident.said("settings") == [
        "the dry run goes on: it began without a Lease; restart to act"
    ]


def test_it_is_counted_and_standing() -> None:
    resident = Resident()
    resident.go(2 * INTERVAL)
    rounds = {
        sample.labels: sample.value
        for sample in resident.tally.samples()
        if sample.metric.name == "rebalancer_executions_total"
    }
    assert rounds == {("success",): 2, ("error",): 0}
    health = resident.state.check_ready()
    assert (health.ok, health.leads, health.leader) == (True, True, "us")


class Asked:
    """The routes of a rebalancer whose clock a test moves."""

    def __init__(self) -> None:
        self.second = 0.0
        self.state = ReplicaState(lambda: Micros(int(self.second * 1_000_000)))

    def get(self, path: str, method: str = "GET") -> tuple[int, bytes]:
        answer = respond(
            Request(method, path),
            self.state.check_alive,
            self.state.check_ready,
            partial(expose, RoundMetrics()),
        )
        return answer.status, answer.body

    def health(self, path: str) -> tuple[int, ReplicaHealth]:
        code, body = self.get(path)
        return code, msgspec.json.decode(body, type=ReplicaHealth)


@pytest.fixture
def asked() -> Asked:
    return Asked()


def test_it_is_alive_from_the_start_and_ready_later(asked: Asked) -> None:
    assert asked.health("/healthz") == (200, ReplicaHealth(True))
    code, health = asked.health("/readyz")
    assert (code, health.because) == (503, "no leader is known yet")


@pytest.mark.parametrize(
    ("leads", "leader", "problem", "code", "because"),
    [
        (True, "us", "", 200, ""),
        (False, "another", "", 200, ""),
        (False, "", "the lease cannot be read", 503, "the lease cannot be read"),
        (False, "", "", 503, "no leader is known yet"),
        (True, "us", "it cannot be renewed", 200, ""),
    ],
)
def test_ready(
    asked: Asked, leads: bool, leader: str, problem: str, code: int, because: str
) -> None:
    asked.state.show_leader(leads, leader, problem)
    found, health = asked.health("/readyz")
    assert (found, health.because) == (code, because)
    assert (health.leads, health.leader, health.problem) == (leads, leader, problem)
    assert asked.health("/healthz")[0] == 200


def test_a_loop_that_stands_still_is_not_alive(asked: Asked) -> None:
    asked.second = STALLED_AFTER / 1_000_000
    assert asked.health("/healthz")[0] == 200
    asked.second += 1
    code, health = asked.health("/healthz")
    assert code == 503
    assert health.because == "the loop has made no progress for 901 s; 900 s are allowed"
    asked.state.beat()
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
