"""The rhythm of the resident rebalancer, who acts, and what it says of itself."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from slackwater.rebalancer.loop import Alone, Loop, LoopParts, Seat, go_round
from slackwater.rebalancer.metrics import RoundMetrics
from slackwater.rebalancer.observed import Unavailable
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.run import RoundDependencies
from slackwater.rebalancer.standing import Standing
from slackwater.settings.rebalancer import RunSettings
from tests.unit.rebalancer.rotating_world import RUN, World

INTERVAL = RUN.interval / 1_000_000


class Chair:
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

    def __init__(self, seat: Seat | None = None) -> None:
        self.world = World()
        self.chair = Chair()
        self.settings = RUN
        self.opened: list[RunSettings] = []
        self.pauses: list[float] = []
        self.tally = RoundMetrics()
        self.standing = Standing(lambda: self.world.second)
        parts = LoopParts(
            lambda: self.settings, self._parts_of, seat or self.chair, self.standing, self.tally,
            self.world.told.append, lambda: self.world.second,
        )  # fmt: skip
        self.loop = Loop(parts)

    @contextmanager
    def _parts_of(self, settings: RunSettings) -> Iterator[RoundDependencies]:
        self.opened.append(settings)
        parts = self.world.parts()
        yield msgspec.structs.replace(parts, writer=None) if settings.dry_run else parts

    def go(self, seconds: float) -> None:
        """As go_round does, for so long."""
        until = self.world.second + seconds

        def wait(pause: float) -> bool:
            self.pauses.append(pause)
            self.world.second += pause
            return self.world.second >= until

        go_round(self.loop, wait)

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
    resident.chair.ours = False
    resident.go(3 * INTERVAL)
    assert (resident.opened, resident.world.looks, resident.world.calls) == ([], 0, [])
    assert set(resident.pauses) == {60.0}
    assert resident.said("leader") == ["another leads"]


def test_who_takes_over_begins_at_once() -> None:
    resident = Resident()
    resident.chair.ours = False
    resident.loop.once()
    resident.chair.ours = True
    assert resident.loop.once() is not None
    assert resident.said("leader") == ["another leads", "us leads"]


def test_who_lost_it_and_got_it_back_begins_anew() -> None:
    resident = Resident()
    for ours in (True, False, True):
        resident.chair.ours = ours
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
    resident.chair.why = "nobody answers"
    resident.go(2 * INTERVAL)
    resident.world.problem, resident.chair.why = None, ""
    resident.go(INTERVAL)
    decisions = [each.result for each in resident.world.told if "web" in each.what]
    assert decisions == ["kubernetes_error", "rotated"]
    lease = "the Lease cannot be read or held: nobody answers"
    assert resident.said("lease") == [lease, "all is well again"]


def test_who_leads_is_said_once_it_is_known() -> None:
    resident = Resident()
    resident.chair.ours = resident.chair.known = False
    resident.loop.once()
    assert resident.world.told == []
    resident.chair.known = True
    resident.loop.once()
    resident.chair.known = False
    resident.loop.once()
    assert resident.said("leader") == ["another leads", "nobody leads"]


def test_a_lease_that_cannot_be_had_is_told_shown_and_counted() -> None:
    """Of a namespace that is not there, say. The election does not wake anybody for that."""
    resident = Resident()
    resident.chair.ours = resident.chair.known = False
    resident.go(4)
    resident.chair.why = "namespaces 'x' not found"
    resident.go(10)
    sentence = "the Lease cannot be read or held: namespaces 'x' not found"
    told = [(each.what, each.because, each.result) for each in resident.world.told]
    assert told == [("lease", sentence, "kubernetes_error")]
    assert max(resident.pauses) <= 2
    assert resident.standing.ready().because == sentence
    errors = {
        sample.labels: sample.value
        for sample in resident.tally.samples()
        if sample.metric.name == "rebalancer_api_errors_total"
    }
    assert errors[("kubernetes",)] == 5


def test_a_dry_run_needs_no_lease() -> None:
    resident = Resident(Alone())
    resident.settings = msgspec.structs.replace(RUN, dry_run=True)
    result = resident.loop.once()
    assert result is not None
    assert [each.reason for each in result.results] == [Reason.DRY_RUN]
    assert resident.world.calls == []
    assert resident.standing.ready().ok


def test_a_dry_run_that_is_switched_off_goes_on_until_a_restart() -> None:
    """It has no lease, and another may."""
    resident = Resident(Alone())
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
    health = resident.standing.ready()
    assert (health.ok, health.leads, health.leader) == (True, True, "us")


@pytest.mark.parametrize("rounds", [1, 4])
def test_go_round_ends_when_it_is_told(rounds: int) -> None:
    resident = Resident()
    waits = iter([False] * (rounds - 1) + [True])
    go_round(resident.loop, lambda _: next(waits))
    assert next(waits, None) is None
