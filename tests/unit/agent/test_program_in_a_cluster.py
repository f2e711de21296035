"""The loop where objects come later, or stop coming: it waits, holds, and says so."""

import msgspec
import pytest

from slackwater.agent.dependencies import (
    CommandLineOverrides,
)
from slackwater.agent.shared_state import SharedState, view_of
from slackwater.contract.volcano.colocation_config import read_config
from slackwater.model.gap import Gap
from slackwater.model.plan import Adopted, Adoption, LedgerEntry, Ownership
from slackwater.model.problem import ConfigurationProblem
from slackwater.model.snapshot import Freshness
from slackwater.model.units import Micros, Percent
from slackwater.observation.objects.object_set import Objects
from slackwater.policies.best_effort_share import BestEffortShareSettings
from slackwater.record.agent_view import TOLERATED_SILENCE, ClusterLink
from slackwater.record.journal import TickRecord
from slackwater.record.node_status import node_report
from slackwater.settings.agent_document import Settings
from tests.unit.agent.test_program import ON, OURS, Bench, at
from tests.unit.contract.volcano.volcano_config import throttle
from tests.unit.policies.nodes import BESTEFFORT, FREE, held

WAITING = Gap("waiting for pods: no answer; what an earlier run set stays")


def throttling(threshold: int) -> Objects:
    document = throttle(enable=True, cpuThrottlingThreshold=threshold)
    return Objects(colocation=read_config(document, "ConfigMap a/b"))


class ClusterBench(Bench):
    """With something that an earlier run set."""

    def __init__(
        self, objects: Objects | Gap = WAITING, overrides: CommandLineOverrides | None = None
    ) -> None:
        super().__init__(objects, overrides)
        self.kept = (held(BESTEFFORT, FREE, OURS),)
        self.sources: dict[str, Freshness] = {}
        self.shared.link = lambda _at: ClusterLink(self.sources)

    def adopt(self) -> Adoption:
        entry = LedgerEntry(BESTEFFORT, "quota", "file", "-1", "-1", "60000", Micros(0))
        return Adoption((Adopted(entry, Ownership.OURS, OURS),), ())


def test_a_start_without_objects_adopts_and_is_no_error() -> None:
    bench = ClusterBench()
    assert bench.agent.start_waiting(at(0)) == ()
    assert bench.told("quota of kubepods/besteffort") == ["adopted: ours"]


def test_until_objects_come_nothing_is_released_and_nothing_decided() -> None:
    bench = ClusterBench()
    bench.agent.start_waiting(at(0))
    for second in range(1, 100):
        assert bench.agent.once(at(second)) == WAITING
    assert (bench.applied, bench.released, bench.known) == ([], 0, [])
    assert bench.told("folder") == [WAITING.reason]
    condition = bench.shared.last_round
    assert (condition.blind, condition.problems) == (WAITING.reason, ())
    assert (condition.lost_since, condition.lost) == (None, "")  # no reason for a restart
    assert condition.ended == 77
    assert bench.shared.tally.counts().blind_rounds == 99


def test_when_objects_come_the_agent_begins() -> None:
    bench = ClusterBench()
    bench.agent.start_waiting(at(0))
    bench.agent.once(at(1))
    bench.objects = ON
    assert isinstance(bench.agent.once(at(2)), TickRecord)
    assert bench.shared.last_round.blind == ""
    assert bench.released == 0
    assert bench.told("folder") == [WAITING.reason, "recovered"]


def test_objects_that_switch_everything_off_release() -> None:
    """Once it is known that nothing is wanted, nothing is held."""
    bench = ClusterBench()
    bench.agent.start_waiting(at(0))
    bench.agent.once(at(1))
    bench.objects = Objects()
    bench.agent.once(at(2))
    assert bench.released == 1


def test_configuration_that_is_wrong_from_the_start_holds_as_well() -> None:
    bench = ClusterBench(throttling(400))
    bench.agent.start_waiting(at(0))
    found = bench.agent.once(at(1))
    assert isinstance(found, Gap)
    assert "cpuThrottlingThreshold is 400" in found.reason
    assert (bench.released, bench.applied) == (0, [])
    report = node_report(view_of(bench.shared, at(1)))
    assert report.holding == 1  # adopted, and it stands
    bench.objects = throttling(40)
    assert isinstance(bench.agent.once(at(2)), TickRecord)
    assert bench.shared.last_round.kept is None


def test_objects_that_cannot_be_read_any_more_stay_as_they_were() -> None:
    bench = ClusterBench(ON)
    bench.agent.start_waiting(at(0))
    bench.agent.once(at(1))
    bench.objects = Gap("the informers are gone")
    found = bench.agent.once(at(2))
    assert isinstance(found, TickRecord)
    assert "best_effort_share" in found.inputs.policies
    assert bench.shared.last_round.problems == (ConfigurationProblem("the informers are gone"),)


def test_a_wrong_flag_ends_a_start_whatever_the_cluster_says() -> None:
    bench = ClusterBench(overrides=CommandLineOverrides(settings={"agent.period": "5ms"}))
    [problem] = bench.agent.start_waiting(at(0))
    assert "agent.period (--period or SLACKWATER_PERIOD) is '5ms'" in problem
    assert bench.told("quota of kubepods/besteffort") == []


def test_how_fresh_each_source_is_reaches_the_snapshot() -> None:
    bench = ClusterBench(ON)
    bench.sources = {"pods": Freshness(Micros(7), "refused")}
    bench.agent.once(at(1))
    assert bench.known[0].sources == bench.sources


def test_a_server_that_is_away_is_told_once_and_its_return_too() -> None:
    bench = ClusterBench(ON)
    bench.agent.once(at(1))
    for second in range(30):
        age = Micros(second * 1_000_000)
        bench.sources = {"pods": Freshness(age, f"attempt {second}"), "node": Freshness(age, "x")}
        bench.agent.once(at(2 + second))
    bench.sources = {}
    bench.agent.once(at(40))
    assert bench.told("API server") == [
        "no updates of pods, node; the last known objects are used",
        "recovered",
    ]


def test_a_short_absence_is_not_told() -> None:
    bench = ClusterBench(ON)
    bench.sources = {"pods": Freshness(Micros(TOLERATED_SILENCE - 1), "reset")}
    bench.agent.once(at(1))
    assert bench.told("API server") == []


@pytest.mark.parametrize("known", [True, False])
def test_a_folder_that_vanishes_between_start_and_first_round_releases_nothing(
    known: bool,
) -> None:
    """The same law without a cluster."""
    bench = Bench(ON)
    bench.kept = (held(BESTEFFORT, FREE, OURS),)
    assert bench.agent.start(at(0)) == ()
    if known:
        bench.agent.once(at(1))
    bench.objects = Gap("the folder is gone")
    bench.agent.once(at(2))
    assert bench.released == 0


def test_problems_are_told_under_the_name_of_their_origin() -> None:
    bench = ClusterBench(WAITING)
    parts = msgspec.structs.replace(bench.agent._dependencies, origin="cluster")
    agent = type(bench.agent)(parts, bench.lines.append)
    agent.once(at(1))
    assert bench.told("cluster") == [WAITING.reason]


def test_settings_and_configuration_change_without_a_restart() -> None:
    bench = ClusterBench(ON)
    bench.agent.start_waiting(at(0))
    bench.agent.once(at(1))
    share = BestEffortShareSettings(enabled=True, threshold=Percent(50))
    bench.objects = Objects(settings=Settings(policies={"best_effort_share": share}))
    found = bench.agent.once(at(2))
    assert isinstance(found, TickRecord)
    assert found.inputs.policies["best_effort_share"] == share


def test_without_a_cluster_there_is_no_link() -> None:
    assert isinstance(Bench().shared, SharedState)
    assert Bench().shared.link(at(1)) == ClusterLink()
