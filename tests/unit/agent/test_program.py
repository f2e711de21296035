"""The loop around the tick: what it reads, carries out, tells, and shows to others."""

from collections.abc import Collection, Iterable

import msgspec
import pytest

from slackwater.agent.dependencies import (
    AgentDependencies,
    CommandLineOverrides,
)
from slackwater.agent.pause import RELEASED_BY_HAND
from slackwater.agent.program import (
    Agent,
)
from slackwater.agent.shared_state import SharedState
from slackwater.agent.tick_log import log_tick
from slackwater.contract.koordinator.normalization import RATIO_ANNOTATION
from slackwater.contract.kubernetes import Node
from slackwater.contract.volcano.colocation_config import read_config
from slackwater.model.cgroup import Level
from slackwater.model.decision import Act, PolicyAction, PolicyReport, Remark, TickReport
from slackwater.model.gap import Gap
from slackwater.model.knob import KnobKey
from slackwater.model.needs import Needs, ReadingField
from slackwater.model.plan import Adoption, Change, Outcome, Result
from slackwater.model.problem import ConfigurationProblem
from slackwater.model.snapshot import Held, NodeSnapshot, WritePrecision
from slackwater.model.units import Bandwidth, Micros, MilliCpu, Ratio
from slackwater.observation.objects.object_set import Objects
from slackwater.observation.survey import SnapshotInputs
from slackwater.policies.best_effort_share import BestEffortShareSettings
from slackwater.policies.catalog import schema_of
from slackwater.policies.normalization import NormalizationSettings
from slackwater.policies.policy import Policy, SwitchSettings
from slackwater.record.journal import Journal, JournalEntry, TickRecord
from slackwater.record.metrics import TickCounters
from slackwater.runtime.change_log import ChangeLog
from slackwater.settings.agent_document import Settings
from slackwater.settings.agent_settings import AgentSettings
from tests.unit.policies.nodes import BESTEFFORT, FREE, SECOND, node

OURS = Bandwidth(Micros(60_000))
SHARE = BestEffortShareSettings(enabled=True)
ON = Objects(settings=Settings(policies={"best_effort_share": SHARE}))
UNSTATED = Gap("not stated")
BURST_ON = "cpuBurstConfig is enabled, but the node"


class Bench:
    """An agent and everything around it, by hand: the parts' own Protocols."""

    def __init__(
        self, objects: Objects | Gap = ON, overrides: CommandLineOverrides | None = None
    ) -> None:
        self.objects = objects
        self.view: NodeSnapshot | Gap = node(usage=200)
        self.result = Result.APPLIED
        self.kept: tuple[Held, ...] = ()
        self.shut: frozenset[KnobKey] = frozenset()
        self.started: list[tuple[Micros, Needs]] = []
        self.known: list[SnapshotInputs] = []
        self.applied: list[Change] = []
        self.lines: list[JournalEntry] = []
        self.released = 0
        self.calls = 0
        self.shared = SharedState(Journal(60), TickCounters(), self._called)
        dependencies = AgentDependencies(
            self, self, self, self.shared, MilliCpu(2000), lambda: Micros(77)
        )
        self.agent = Agent(dependencies, self.lines.append, overrides or CommandLineOverrides())

    def _called(self) -> None:
        self.calls += 1

    def read(self) -> Objects | Gap:
        return self.objects

    def close_snapshot(self, tick: int, at: Micros, known: SnapshotInputs) -> NodeSnapshot | Gap:
        self.known.append(known)
        if isinstance(self.view, Gap):
            return self.view
        return msgspec.structs.replace(
            self.view, tick=tick, at=at, held=known.held, off=known.off, early=known.early
        )

    def start_counters(self, at: Micros, needs: Needs) -> None:
        self.started.append((at, needs))

    def close(self) -> None:
        self.view = Gap("closed")

    def apply(self, changes: Iterable[Change]) -> list[Outcome]:
        made = list(changes)
        self.applied += made
        return [Outcome(change, self.result, "as told") for change in made]

    def adopt(self) -> Adoption:
        return Adoption((), ())

    def release(self) -> list[Outcome]:
        self.released += 1
        return []

    def let_go(self, knobs: Collection[tuple[int, str]]) -> list[Outcome]:
        self.released += len(knobs)
        return []

    def held(self) -> tuple[Held, ...]:
        return self.kept

    def off(self) -> frozenset[KnobKey]:
        return self.shut

    def precision(self) -> WritePrecision:
        return WritePrecision()

    def told(self, what: str) -> list[str]:
        return [line.because for line in self.lines if line.what == what]


def at(second: float) -> Micros:
    return Micros(int(second * SECOND))


def test_one_round_is_written_told_and_shown() -> None:
    bench = Bench()
    assert bench.agent.start(at(0)) == ()
    record = bench.agent.once(at(1))
    assert isinstance(record, TickRecord)
    assert [change.new for change in bench.applied] == [OURS]
    assert bench.shared.journal.latest is record
    assert bench.shared.tally.counts().ticks == 1
    assert bench.shared.last_round.ended == 77
    assert [line.what for line in bench.lines] == [
        "NodeCPUThrottleEvent",
        "quota of kubepods/besteffort",
    ]


def test_the_event_says_what_the_seed_wants_said() -> None:
    bench = Bench()
    bench.agent.once(at(1))
    event = bench.lines[0].event
    assert event is not None
    assert (event.name, event.resource, event.milli) == ("NodeCPUThrottleEvent", "cpu", 600)
    bench.agent.once(at(2))  # the same claim again is no event
    assert [line.what for line in bench.lines].count("NodeCPUThrottleEvent") == 1


def test_the_size_of_the_node() -> None:
    bench = Bench()
    bench.agent.once(at(1))
    here = Node("here", allocatable_cpu=MilliCpu(1500))
    bench.objects = msgspec.structs.replace(ON, nodes=(here,))
    bench.agent.once(at(2))
    unstated = msgspec.structs.replace(here, allocatable_cpu=UNSTATED)
    bench.objects = msgspec.structs.replace(ON, nodes=(unstated,))
    bench.agent.once(at(3))
    assert [known.allocatable for known in bench.known] == [2000, 1500, 2000]


def test_the_size_of_an_amplified_node_is_the_machines_own() -> None:
    annotations = {
        "node.koordinator.sh/resource-amplification-ratio": '{"cpu":1.50}',
        "node.koordinator.sh/raw-allocatable": '{"cpu":"1"}',
    }
    bench = Bench()
    here = Node("here", annotations=annotations, allocatable_cpu=MilliCpu(1500))
    bench.objects = msgspec.structs.replace(ON, nodes=(here,))
    bench.agent.once(at(1))
    [known] = bench.known
    assert (known.allocatable, known.node_resources.amplified_cpu) == (1000, 1500)


def test_what_a_cpu_is_worth_is_the_ratio_while_normalization_is_on() -> None:
    here = Node("here", allocatable_cpu=MilliCpu(1500), annotations={RATIO_ANNOTATION: "1.60"})
    on = {"best_effort_share": SHARE, "normalization": NormalizationSettings()}
    off = {**on, "normalization": NormalizationSettings(enabled=False)}
    bench = Bench()
    for second, policies in enumerate((on, off), start=1):
        bench.objects = Objects(nodes=(here,), settings=Settings(policies=policies))
        bench.agent.once(at(second))
    assert [each.node_resources.cpu_worth for each in bench.known] == [Ratio(160, 100), Ratio(1)]


def test_a_tree_that_is_gone_is_told_once_and_writes_nothing() -> None:
    bench = Bench()
    bench.view = Gap("the kubelet's tree is gone")
    for second in range(3):
        assert isinstance(bench.agent.once(at(second)), Gap)
    assert bench.applied == []
    assert bench.told("survey") == ["the kubelet's tree is gone"]
    assert bench.shared.last_round.blind == "the kubelet's tree is gone"
    bench.view = node(usage=200)
    bench.agent.once(at(4))
    assert bench.told("survey")[1:] == ["recovered"]
    assert bench.shared.last_round.blind == ""


def test_since_when_the_tree_is_gone() -> None:
    bench = Bench()
    gone = Gap("the kubelet's tree is gone")
    views: tuple[NodeSnapshot | Gap, ...] = (gone, gone, node(usage=200), gone)
    seen: list[tuple[Micros | None, str]] = []
    for second, view in enumerate(views):
        bench.view = view
        bench.agent.once(at(second))
        seen.append((bench.shared.last_round.lost_since, bench.shared.last_round.lost))
    assert seen == [(at(0), gone.reason), (at(0), gone.reason), (None, ""), (at(3), gone.reason)]


def test_a_folder_that_cannot_be_read_keeps_what_was_known() -> None:
    bench = Bench()
    bench.agent.once(at(1))
    bench.objects = Gap("the folder x cannot be read")
    bench.agent.once(at(2))
    assert bench.told("folder") == ["the folder x cannot be read"]
    assert bench.shared.last_round.problems == (
        ConfigurationProblem("the folder x cannot be read"),
    )
    assert len(bench.applied) == 2  # the policy is still on


BAD = Objects(problems=(ConfigurationProblem("a.yaml: bad"),))


@pytest.mark.parametrize("objects", [Gap("no folder"), BAD])
def test_a_start_needs_something_good(objects: Objects | Gap) -> None:
    assert len(Bench(objects).agent.start(at(0))) == 1


def test_the_command_line_wins_over_the_folder() -> None:
    said = {"agent.period": "2s", "bestEffortShare.threshold": "50"}
    bench = Bench(overrides=CommandLineOverrides(settings=said))
    bench.agent.once(at(1))
    assert bench.agent.settings.period == 2 * SECOND
    assert [change.new for change in bench.applied] == [Bandwidth(Micros(30_000))]


def test_a_wrong_flag_ends_a_start() -> None:
    bench = Bench(overrides=CommandLineOverrides(settings={"agent.period": "5ms"}))
    [problem] = bench.agent.start(at(0))
    assert problem == (
        "agent.period (--period or SLACKWATER_PERIOD) is '5ms', but must be a duration such as "
        "500ms, 1s or 1m30s, 100ms to 1m"
    )


def test_rounds_keep_to_the_period_and_early_ones_do_not_move_them() -> None:
    bench = Bench()
    assert bench.agent.pause(at(10)) == 0
    bench.agent.once(at(10))
    assert bench.agent.pause(at(10.3)) == pytest.approx(0.7)
    bench.agent.once(at(10.3), early=True)
    assert bench.agent.pause(at(10.4)) == pytest.approx(0.6)
    assert [known.early for known in bench.known] == [False, True]
    bench.agent.once(at(11))
    assert bench.agent.pause(at(11.2)) == pytest.approx(0.8)
    assert bench.agent.pause(at(19)) == 0  # far behind: no rounds are made up for


@pytest.mark.parametrize(
    ("begins", "next_is_due"),
    [
        (11, 12),
        (11.4, 12),
        (11.6, 12.6),  # 12 would be less than half a period away
        (14.3, 15.3),  # the process was stopped, or the machine is overloaded
    ],
)
def test_a_late_round_is_not_followed_by_another_at_once(begins: float, next_is_due: float) -> None:
    bench = Bench()
    bench.agent.once(at(10))
    assert bench.agent.pause(at(10.1)) == pytest.approx(0.9)
    bench.agent.once(at(begins))
    assert bench.agent.pause(at(begins)) == pytest.approx(next_is_due - begins)


def test_release_by_hand_lasts() -> None:
    bench = Bench()
    bench.agent.once(at(1))
    bench.shared._release_requested.set()  # as request_release does, from another thread
    written = len(bench.applied)
    for second in range(2, 5):
        bench.agent.once(at(second))
    assert (bench.released, len(bench.applied)) == (1, written)
    assert bench.shared.last_round.paused == RELEASED_BY_HAND
    assert not bench.shared.is_release_requested()


@pytest.mark.parametrize(
    ("reading", "watched", "shut", "deepest"),
    [
        ("needed", False, frozenset[KnobKey](), Level.TIER),
        ("needed", True, frozenset[KnobKey](), Level.CONTAINER),
        ("everything", False, frozenset[KnobKey](), Level.CONTAINER),
        ("needed", False, frozenset({KnobKey(2, "quota")}), Level.POD),
    ],
)
def test_what_is_read(
    reading: str, watched: bool, shut: frozenset[KnobKey], deepest: Level
) -> None:
    bench = Bench(overrides=CommandLineOverrides(settings={"agent.reading": reading}))
    bench.shut = shut
    bench.agent.once(at(0))  # its settings are known from the first look on
    if watched:
        bench.shared.request_detail(at(1))
    bench.agent.once(at(2))
    levels = list(Level)
    found = max(bench.known[-1].needs.fields, key=levels.index)
    assert (found, bench.known[-1].off) == (deepest, shut)
    bench.agent.once(at(60))  # nobody looks any more
    if watched:
        assert Level.CONTAINER not in bench.known[-1].needs.fields


def test_a_failure_is_told_once_and_its_end_too() -> None:
    bench = Bench()
    bench.result = Result.REFUSED
    for second in range(3):
        bench.agent.once(at(second))
    quota = "quota of kubepods/besteffort"
    assert len(bench.told(quota)) == 1
    bench.result = Result.APPLIED
    bench.agent.once(at(4))
    assert len(bench.told(quota)) == 2


def test_a_dry_run_tells_a_plan_once() -> None:
    bench = Bench()
    bench.result = Result.PLANNED
    for second in range(3):
        bench.agent.once(at(second))
    assert len(bench.told("quota of kubepods/besteffort")) == 1
    bench.view = node(usage=400)
    bench.agent.once(at(4))
    assert len(bench.told("quota of kubepods/besteffort")) == 2


def test_a_hold_is_told_when_it_begins_and_ends() -> None:
    bench = Bench()
    bench.agent.once(at(1))
    bench.view = node(usage=Gap("no usage"))
    for second in range(2, 5):
        bench.agent.once(at(second))
    bench.view = node(usage=200)
    bench.agent.once(at(6))
    assert bench.told("best_effort_share") == ["held: no usage", "recovered"]


def test_switched_off_lets_go_of_what_is_held() -> None:
    bench = Bench()
    bench.agent.once(at(1))
    bench.kept = (Held(BESTEFFORT, "quota", FREE, OURS, Micros(0)),)
    bench.objects = Objects()
    bench.agent.once(at(2))
    assert bench.released == 1
    assert bench.agent.settings == AgentSettings()


def test_an_agent_with_nothing_on_says_why_once() -> None:
    bench = Bench(Objects())
    for second in range(3):
        bench.agent.once(at(second))
    [line] = bench.told("policies")
    assert line.startswith("no policy is on: best_effort_share: bestEffortShare.enabled is false")
    bench.objects = ON
    bench.agent.once(at(4))
    assert bench.told("policies")[1:] == ["recovered"]


def test_a_policy_that_goes_off_and_on_says_so() -> None:
    bench = Bench()
    bench.agent.once(at(1))
    assert bench.told("best_effort_share") == []
    bench.objects = Objects()
    for second in (2, 3):
        bench.agent.once(at(second))
    why = "off: bestEffortShare.enabled is false, and there is no cpuThrottlingConfig"
    assert bench.told("best_effort_share") == [why]
    assert bench.told("quota_burst") == []  # nobody ever wanted it
    bench.objects = ON
    bench.agent.once(at(4))
    assert bench.told("best_effort_share") == [why, "recovered"]


@pytest.mark.parametrize(
    ("labels", "features", "why"),
    [
        (
            {},
            ("*",),
            f'{BURST_ON} has no label volcano.sh/colocation: "true"',
        ),
        (
            {"volcano.sh/colocation": "maybe"},
            ("*",),
            f"{BURST_ON}'s label volcano.sh/colocation is 'maybe', which is not true",
        ),
        (
            {"volcano.sh/colocation": "true"},
            ("Resources",),
            "quotaBurst.enabled is false, and --supported-features has no CPUBurst",
        ),
    ],
)
def test_what_a_colocation_config_wants_on_is_told_at_once(
    labels: dict[str, str], features: tuple[str, ...], why: str
) -> None:
    here = Node("here", labels=labels, allocatable_cpu=MilliCpu(1500))
    wanted = read_config({"globalConfig": {"cpuBurstConfig": {"enable": True}}}, "a map")
    bench = Bench(
        Objects(colocation=wanted, nodes=(here,)), CommandLineOverrides(features=features)
    )
    for second in (1, 2):
        bench.agent.once(at(second))
    assert bench.told("quota_burst") == [f"off: {why}"]
    assert bench.told("qos_level") == []  # nobody enabled it


class Logged:
    """What the log has of ticks whose policies went as a test says."""

    def __init__(self) -> None:
        self.entries: list[JournalEntry] = []
        self._log = ChangeLog(self.entries.append)

    def tick(self, *reports: PolicyReport) -> None:
        log_tick(self._log, node(), (), TickReport(reports))

    def lines(self) -> list[tuple[str, str]]:
        return [(each.what, each.because) for each in self.entries]


def test_all_remarks_about_a_pod_are_logged() -> None:
    told = tuple(Remark("shop/web", text) for text in ("c1 has none", "c2 has none"))
    logged = Logged()
    logged.tick(PolicyReport("share", PolicyAction.ACTED, "", {}, remarks=told))
    assert logged.lines() == [("shop/web: share", "c1 has none; c2 has none")]


def test_how_a_policy_went_is_logged_when_it_changes() -> None:
    logged = Logged()
    for action, reason in (
        (PolicyAction.ACTED, "as usual"),
        (PolicyAction.HELD, "no samples"),
        (PolicyAction.HELD, "no samples"),
        (PolicyAction.RELEASED, "no samples; let go"),
        (PolicyAction.ACTED, "as usual"),
    ):
        logged.tick(PolicyReport("share", action, reason, {}))
    assert logged.lines() == [
        ("share", "held: no samples"),
        ("share", "released: no samples; let go"),
        ("share", "recovered"),
    ]


def test_remarks_of_two_policies_on_one_pod_are_two() -> None:
    logged, remark = Logged(), Remark("default/a", "bad")
    for remarks in ((remark,), (remark,), ()):
        logged.tick(
            *(
                PolicyReport(name, PolicyAction.ACTED, "", {}, remarks=remarks)
                for name in ("one", "two")
            )
        )
    assert sorted(logged.lines()) == [
        ("default/a: one", "bad"),
        ("default/a: one", "recovered"),
        ("default/a: two", "bad"),
        ("default/a: two", "recovered"),
    ]


def test_the_log_names_the_round() -> None:
    bench = Bench()
    bench.agent.start(at(0))
    bench.agent.once(at(1))
    bench.view = Gap("the kubelet's tree is gone")
    bench.agent.once(at(2))
    assert [line.tick for line in bench.lines if line.what == "survey"] == [2]


def test_counters_are_started_as_soon_as_a_policy_will_need_them() -> None:
    """So that the next tick has rates: a policy that triggers then need not wait for another."""
    wanted = Needs({Level.POD: frozenset({ReadingField.TIMES})})

    def needs_for_now(_: object, memory: object) -> Needs:
        return wanted if memory else Needs()

    def decide(snapshot: NodeSnapshot, _: object, __: object) -> Act:
        return Act((), snapshot.tick == 2)

    policy = Policy("toy", None, lambda _, __: Needs(), decide, needs_for_now=needs_for_now)
    bench = Bench(Objects(settings=Settings(policies={"toy": SwitchSettings(enabled=True)})))
    depends = bench.agent._dependencies
    bench.agent._dependencies = msgspec.structs.replace(depends, policies=(policy,))
    bench.agent._schema = schema_of((policy,))
    bench.agent.start(at(0))
    for second in (1, 2, 3):
        bench.agent.once(at(second))
    assert [needs for _, needs in bench.started] == [wanted, Needs()]
    assert [known.needs for known in bench.known] == [Needs(), Needs(), wanted]
