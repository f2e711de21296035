"""QoS ensurance as a whole: what objects add to its settings, what it needs, how rules count and
tell, and when scheduling is stopped. Numbers in the names are rows of section 10 of the facts about
Crane."""

import itertools
from typing import Any

import msgspec
import pytest

from slackwater.contract.crane.ensurance import AvoidanceAction
from slackwater.contract.crane.ensurance_set import NO_OBJECTS, EnsuranceObjects
from slackwater.contract.crane.objects import read_node_qos_ensurance_policy
from slackwater.model.cgroup import Level, Tier
from slackwater.model.decision import Because, Command, CommandKind, RuleState
from slackwater.model.gap import Gap
from slackwater.model.metric import MetricKey, MetricRequest, Sample
from slackwater.model.needs import Needs, ReadingField
from slackwater.model.plan import CommandProgress, CommandState
from slackwater.model.units import Micros
from slackwater.policies.ensurance.watermark_relief import (
    POLICY,
    WatermarkMemory,
    needs,
    needs_for_now,
)
from slackwater.policies.ensurance.watermark_settings import (
    TaintEffect,
    WatermarkReliefSettings,
    WatermarkRules,
    bind,
)
from tests.unit.policies.ensurance import (
    API,
    HTTP,
    LATENCY,
    STOP,
    Run,
    action,
    batch,
    bound,
    evict,
    objects,
    pod_qos,
    rule,
    seen,
    throttle,
)

USAGE, MEMORY = "cpu_total_usage", "memory_total_usage"
BE, BU, GU = Tier.BESTEFFORT, Tier.BURSTABLE, Tier.GUARANTEED
QUIET, TRIGGERED = RuleState.QUIET, RuleState.TRIGGERED
COOLING, RESTORING = RuleState.COOLING, RuleState.RESTORING
TIMES = frozenset({ReadingField.TIMES})
PROBED = f"NodeQOS/q:{LATENCY}"


def test_off_without_rules_for_the_node() -> None:
    said = "there is no NodeQOS for this node"
    assert bind(WatermarkReliefSettings(), NO_OBJECTS, {}, {}) == said


def test_the_settings_stay_and_the_rules_come_on_top() -> None:
    found = bound(rule(), actions=(throttle(),), demote=False)
    assert (found.demote, found.enabled) == (False, True)
    [each] = found.rules
    assert (each.policy, each.title()) == ("NodeQOS/q", "NodeQOS/q/r")
    assert each.action == throttle()
    assert found.remarks == ()


def test_both_kinds() -> None:
    document = {
        "apiVersion": API,
        "kind": "NodeQOSEnsurancePolicy",
        "metadata": {"name": "old"},
        "spec": {
            "nodeQualityProbe": {"nodeLocalGet": {"localCacheTTLSeconds": 7}},
            "objectiveEnsurances": [rule()],
        },
    }
    old = read_node_qos_ensurance_policy(document, "test")
    new = objects(rule()).node_qos
    found = bind(WatermarkReliefSettings(), EnsuranceObjects(new, (old,)), {}, {})
    assert isinstance(found, WatermarkRules)
    titles = [each.title() for each in found.rules]
    assert titles == ["NodeQOS/q/r", "NodeQOSEnsurancePolicy/old/r"]
    assert found.rules[1].max_age == 7


@pytest.mark.parametrize(
    ("made", "actions", "said"),
    [
        (rule(), (), "there is no AvoidanceAction throttle, so nothing is done"),
        (
            rule(metric=MEMORY),
            (throttle(),),
            f"no pod can be throttled because of {MEMORY}, so throttle does nothing",
        ),
        (
            rule(metric="network_drop_in", does="evict"),
            (evict(),),
            "no pod can be evicted because of network_drop_in, so evict does nothing",
        ),
        (rule(), (throttle(step=0),), "stepCPURatio of throttle is 0, which throttles nothing"),
    ],
)
def test_what_is_wrong_is_a_remark(
    made: dict[str, Any], actions: tuple[Any, ...], said: str
) -> None:
    found = bound(made, actions=actions)
    assert [(each.about, each.text) for each in found.remarks] == [("NodeQOS/q/r", said)]
    run = Run(found)
    assert run.tick(seen(1, metrics={USAGE: 1})).remarks == found.remarks


@pytest.mark.parametrize(
    ("probe", "value", "limit"),
    [
        pytest.param({"nodeLocalGet": {}}, "1500m", 2, id="Crane's own: rounded up"),
        pytest.param({"nodeLocalGet": {}}, "4k", 4000, id="a suffix"),
        pytest.param(HTTP, "50m", 0.05, id="a probe's: exact"),
        pytest.param(HTTP, 3, 3, id="a probe's number"),
    ],
)
def test_limits(probe: dict[str, Any], value: str | int, limit: float) -> None:
    [each] = bound(rule(value=value), probe=probe).rules
    assert each.limit() == limit


def test_a_metric_of_a_probe_and_of_another_object() -> None:
    [one] = bound(rule(metric=LATENCY), probe=HTTP).rules
    assert one.key() == MetricKey(LATENCY, "NodeQOS/q")
    [two] = bound(rule(metric="PodQOS/web:latency_seconds:p99"), probe=HTTP).rules
    assert two.key() == MetricKey("latency_seconds:p99", "PodQOS/web")


def test_a_rule_that_stops_scheduling_needs_its_metric_and_the_nodes_size_only() -> None:
    found = needs(bound(rule(does="stop"), actions=(STOP,)), frozenset())
    assert found.fields == {}
    size = MetricRequest(MetricKey("cpu_core_numbers"))
    assert found.metrics == {MetricRequest(MetricKey(USAGE), 60), size}


def test_a_throttle() -> None:
    settings = bound(rule(), actions=(throttle(),))
    found = needs(settings, frozenset())
    assert ReadingField.TIMES not in found.at(Level.CONTAINER)
    assert ReadingField.QUOTA in found.at(Level.CONTAINER)
    assert {ReadingField.WEIGHT, ReadingField.IDLE} <= found.at(Level.POD)
    plain = needs(bound(rule(), actions=(throttle(),), demote=False), frozenset())
    assert ReadingField.IDLE not in plain.at(Level.POD)
    watching = needs_for_now(settings, WatermarkMemory(watches=True))
    assert watching == Needs(dict.fromkeys((Level.POD, Level.CONTAINER), TIMES))
    assert needs_for_now(settings, WatermarkMemory(watches=False)) == Needs()


def test_an_eviction() -> None:
    settings = bound(rule(does="evict"), actions=(evict(),))
    assert dict(needs(settings, frozenset()).fields) == {Level.POD: frozenset()}
    watching = needs_for_now(settings, WatermarkMemory(watches=True))
    assert dict(watching.fields) == {Level.POD: TIMES}


def test_a_preview_and_a_missing_action_touch_no_pod() -> None:
    for found in (
        bound(rule(strategy="Preview"), actions=(throttle(),)),
        bound(rule()),
    ):
        assert needs(found, frozenset()).fields == {}
        assert needs_for_now(found, WatermarkMemory(watches=True)) == Needs()


def test_what_percents_are_of_and_working_sets() -> None:
    settings = bound(rule(metric="memory_total_utilization", does="evict"), actions=(evict(),))
    names = {each.key.name for each in needs(settings, frozenset()).metrics}
    assert names == {"memory_total_utilization", "memory_total"}
    watching = needs_for_now(settings, WatermarkMemory(watches=True))
    assert {each.key.name for each in watching.metrics} == {"container_mem_total_usage"}


@pytest.mark.parametrize(
    ("counts", "usages", "watches"),
    [
        ((1, 1), [4000], False),
        ((1, 1), [4801], True),  # one measurement is enough, and it is near
        ((2, 1), [5999], False),
        ((2, 1), [6001], True),  # it counts
        ((2, 1), [6001, 5000], False),
        ((1, 1), [6001, 5000], True),  # in force
    ],
)
def test_what_pods_use_is_read_while_a_rule_may_need_it(
    counts: tuple[int, int], usages: list[int], watches: bool
) -> None:
    run = Run(bound(rule(counts=counts), actions=(throttle(),)))
    for tick, usage in enumerate([100] * 5 + usages, 1):
        run.tick(seen(tick, batch(1), metrics={USAGE: usage}, usages={1: 1000}))
    assert run.memory.watches is watches


def test_what_another_policy_has_in_flight_is_no_reason_to_read_it() -> None:
    """Offers of the oversold policy wait for the API server, without one for ever."""
    offer = Command("resource/x", CommandKind.NODE_RESOURCE, "x", Because("", "", ""), "oversold")
    going = (CommandProgress(offer, CommandState.IMPOSSIBLE, Micros(0)),)
    run = Run(bound(rule(), actions=(throttle(),)))
    for tick in range(1, 6):
        run.tick(seen(tick, batch(1), metrics={USAGE: 100}, in_flight=going))
    assert not run.memory.watches


@pytest.mark.parametrize(("act", "does"), [(throttle(), "throttle"), (evict(), "evict")])
def test_nobody_is_touched_before_it_is_known_what_pods_use(
    act: AvoidanceAction, does: str
) -> None:
    """A jump above the value: what pods use is read from this tick on, and known in the next."""
    run = Run(bound(rule(does=does), actions=(act,)))
    for tick in range(1, 6):
        run.tick(seen(tick, batch(1), metrics={USAGE: 100}, usages={}))
    assert not run.memory.watches
    blind = run.tick(seen(6, batch(1), metrics={USAGE: 7000}, usages={}))
    assert (blind.intents, blind.commands) == ((), ())
    assert run.state() is RuleState.TRIGGERED
    assert blind.rules[0].held == "what pods use is measured from now on"
    done = run.tick(seen(7, batch(1), metrics={USAGE: 7000}, usages={1: 2000}))
    assert done.intents or done.commands


def test_9_a_metric_at_its_value_is_not_above() -> None:
    run = Run(bound(rule(does="stop"), actions=(STOP,)))
    run.tick(seen(1, metrics={USAGE: 6000}))
    assert run.state() is QUIET


def test_11_one_series_above_is_enough() -> None:
    metric = "disk_read_kibps"
    run = Run(bound(rule(metric=metric, value=500, does="stop"), actions=(STOP,)))
    run.tick(seen(1, metrics={metric: (Sample(10.0), Sample(700.0))}))
    assert (run.state(), run.last.rules[0].seen) == (TRIGGERED, 700)


def test_a_selector_chooses_series() -> None:
    metric = "disk_read_kibps"
    chosen = {"matchLabels": {"diskName": "sda"}}
    run = Run(bound(rule(metric=metric, value=500, does="stop", selector=chosen), actions=(STOP,)))
    other = Sample(700.0, {"diskName": "sdb"})
    run.tick(seen(1, metrics={metric: (Sample(10.0, {"diskName": "sda"}), other)}))
    assert (run.state(), run.last.rules[0].seen) == (QUIET, 10)
    run.tick(seen(2, metrics={metric: (other,)}))
    assert run.last.rules[0].held == f"no series of {metric} is selected"


@pytest.mark.parametrize(
    ("samples", "held"),
    [
        ((Sample(float("nan")),), "latency_seconds:p99 is not a number"),
        ((), "latency_seconds:p99 has no series"),
        (Gap("connection refused"), "connection refused"),
    ],
)
def test_what_is_no_measurement_holds(samples: Any, held: str) -> None:
    settings = bound(rule(metric=LATENCY, value="50m", does="stop"), actions=(STOP,), probe=HTTP)
    run = Run(settings)
    run.tick(seen(1, metrics={PROBED: samples}))
    assert (run.state(), run.last.rules[0].held) == (QUIET, held)


def test_a_metric_that_stays_missing_is_told_in_steady_words() -> None:
    """Not for the first seconds after a start, and not while there was nothing to measure."""
    settings = bound(rule(metric=LATENCY, value="50m", does="stop"), actions=(STOP,), probe=HTTP)
    run = Run(settings)
    told: list[str] = []
    for second in range(1, 60):
        gap = Gap(f"the last answer is {second} s old: Connection refused")
        told.append(run.tick(seen(second, metrics={PROBED: gap})).rules[0].missing)
    first = told.index("the last answer is 16 s old: Connection refused")
    assert set(told[:first]) == {""}
    assert set(told[first:]) == {told[first]}
    assert run.tick(seen(60, metrics={PROBED: 0.01})).rules[0].missing == ""
    for second in range(61, 100):
        idle = Gap("had no observations", is_idle=True)
        assert run.tick(seen(second, metrics={PROBED: idle})).rules[0].missing == ""


def test_what_waiting_does_not_mend_is_told_at_once() -> None:
    settings = bound(rule(metric=LATENCY, value="50m", does="stop"), actions=(STOP,), probe=HTTP)
    lasting = Gap("the pod has no port 'web'", is_lasting=True)
    [report] = Run(settings).tick(seen(1, metrics={PROBED: lasting})).rules
    assert report.missing == report.held == "the pod has no port 'web'"


def measured(value: float, second: int, **labels: str) -> Sample:
    return Sample(value, labels, Micros(second * 1_000_000))


def test_a_measurement_of_a_slow_source_counts_once() -> None:
    """A query is asked each 15 s, and its last answer is seen in every tick."""
    stops = rule(metric=LATENCY, value="50m", does="stop", counts=(2, 2))
    run = Run(bound(stops, actions=(STOP,), probe=HTTP))
    counts: list[tuple[int, int]] = []
    for second in range(1, 61):
        asked = second - second % 15
        value = 0.06 if asked < 30 else 0.01
        run.tick(seen(second, metrics={PROBED: (measured(value, asked),)}))
        [report] = run.last.rules
        assert report.seen == value
        counts.append((report.above, report.below))
    assert counts == [(1, 0)] * 14 + [(2, 0)] * 15 + [(0, 1)] * 15 + [(0, 2)] * 16


def test_the_largest_series_is_the_measurement() -> None:
    """Another pod's answer does not make an old one count again; of equal ones the newest does."""
    stops = rule(metric=LATENCY, value="50m", does="stop", counts=(3, 1))
    run = Run(bound(stops, actions=(STOP,), probe=HTTP))
    for second in (1, 2, 3):
        both = (measured(0.09, 1, pod="a"), measured(0.06, second, pod="b"))
        run.tick(seen(second, metrics={PROBED: both}))
    assert run.last.rules[0].above == 1
    equal = (measured(0.09, 1, pod="a"), measured(0.09, 4, pod="b"))
    run.tick(seen(4, metrics={PROBED: equal}))
    assert run.last.rules[0].above == 2


def test_a_sample_of_the_node_that_was_kept_is_no_new_measurement() -> None:
    run = Run(bound(rule(does="stop", counts=(2, 1)), actions=(STOP,)))
    run.tick(seen(1, metrics={USAGE: 7000}))
    run.tick(seen(2, metrics={USAGE: (measured(7000, 1),)}))
    assert (run.last.rules[0].above, run.last.rules[0].seen) == (1, 7000)
    run.tick(seen(3, metrics={USAGE: 7000}))
    assert run.state() is TRIGGERED


def test_one_good_series_among_others_counts() -> None:
    run = Run(bound(rule(does="throttle"), actions=(throttle(),)))
    samples = (Sample(float("nan")), Sample(float("inf")))
    run.tick(seen(1, batch(1), usages={1: 2000}, metrics={USAGE: samples}))
    assert run.state() is TRIGGERED
    assert run.quotas() == {"pod1/c1": 1800}
    assert run.last.numbers == {"cpu_total_usage watermark": 6000, "throttled pods": 1}


def test_a_report_tells_how_far_it_is() -> None:
    run = Run(bound(rule(counts=(3, 2)), actions=(throttle(),)))
    for second in (1, 2):
        run.tick(seen(second, metrics={USAGE: 6500}))
    [report] = run.last.rules
    assert (report.policy, report.rule, report.metric) == ("NodeQOS/q", "r", USAGE)
    assert (report.action, report.limit, report.seen) == ("throttle", 6000, 6500)
    assert (report.above, report.below) == (2, 0)
    assert (report.avoidance_threshold, report.restore_threshold) == (3, 2)


def test_preview_counts_and_touches_nothing() -> None:
    run = Run(bound(rule(strategy="Preview"), actions=(throttle(),)))
    run.tick(seen(1, batch(1), usages={1: 2000}, metrics={USAGE: 6500}))
    assert (run.last.intents, run.last.commands) == ((), ())
    [report] = run.last.rules
    assert (report.state, report.preview, report.seen) == (TRIGGERED, True, 6500)


def test_a_preview_delays_nobody_elses_restoring() -> None:
    settings = bound(
        rule("a", does="stop"),
        rule("b", value=100, does="stop", strategy="Preview"),
        actions=(action("stop", 10),),
    )
    run = Run(settings)
    run.tick(seen(1, metrics={USAGE: 6500}))
    for second in range(2, 13):
        run.tick(seen(second, metrics={USAGE: 3000}))
    assert run.state(0) is QUIET
    assert run.state(1) is TRIGGERED
    assert not run.last.commands


def test_a_missing_action_tells_and_does_nothing() -> None:
    run = Run(bound(rule()))
    run.tick(seen(1, batch(1), usages={1: 2000}, metrics={USAGE: 6500}))
    assert (run.last.intents, run.last.commands) == ((), ())
    assert run.last.rules[0].held == "there is no AvoidanceAction throttle"


def test_a_look_before_its_time_counts_nothing() -> None:
    run = Run(bound(rule(counts=(2, 1)), actions=(throttle(),)))
    run.tick(seen(1, batch(1), usages={1: 2000}, metrics={USAGE: 6500}))
    early = seen(1, batch(1), usages={1: 2000}, metrics={USAGE: 6500}, early=True)
    run.tick(early)
    assert (run.state(), run.last.rules[0].above) == (QUIET, 1)
    run.tick(seen(2, batch(1), usages={1: 2000}, metrics={USAGE: 6500}))
    quotas = run.quotas()
    run.tick(early)
    assert run.quotas() == quotas


def test_a_rule_about_something_else_starts_anew() -> None:
    run = Run(bound(rule(counts=(2, 1)), actions=(throttle(),)))
    run.tick(seen(1, metrics={USAGE: 6500}))
    run.settings = bound(rule(counts=(2, 1), metric="cpu_load_1_min"), actions=(throttle(),))
    run.tick(seen(2, metrics={USAGE: 6500, "cpu_load_1_min": 9000}))
    assert run.last.rules[0].above == 1


def test_at_rest_no_pod_is_looked_at() -> None:
    class Forbidden(tuple[Any, ...]):
        def __iter__(self) -> Any:
            raise AssertionError("the pods were looked at")

    run = Run(bound(rule(), rule("s", does="stop"), actions=(throttle(), STOP)))
    quiet = seen(1, metrics={USAGE: 100})
    run.tick(msgspec.structs.replace(quiet, workloads=Forbidden((batch(1),))))
    assert run.state() is QUIET


def test_13_the_taint_goes_at_the_first_look_after_the_cool_down() -> None:
    run = Run(bound(rule(does="stop", counts=(1, 2)), actions=(STOP,)))
    run.tick(seen(0, metrics={USAGE: 6500}))
    assert run.stops_scheduling()
    for second in range(10, 301, 10):
        run.tick(seen(second, metrics={USAGE: 100}))
        assert run.stops_scheduling(), second
    run.tick(seen(310, metrics={USAGE: 100}))
    assert not run.last.commands
    assert run.state() is QUIET


def test_the_commands() -> None:
    effect = TaintEffect.NO_SCHEDULE
    run = Run(bound(rule(does="stop"), actions=(STOP,), taint_effect=effect))
    run.tick(seen(1, metrics={USAGE: 6500}))
    taint, condition = run.last.commands
    assert (taint.key, taint.kind) == ("taint/interference.crane.io", CommandKind.TAINT)
    assert (taint.target, taint.value) == ("interference.crane.io", "NoSchedule")
    assert condition.key == "condition/interference-identified"
    assert condition.target == "interference-identified"
    assert run.last.rules[0].did == "stops scheduling"


@pytest.mark.parametrize("does", [throttle(), evict()])
def test_throttle_and_eviction_do_not_imply_it(does: Any) -> None:
    run = Run(bound(rule(does=does.metadata.name), actions=(does,)))
    run.tick(seen(1, metrics={USAGE: 6500}))
    assert not run.last.commands


def test_it_is_asked_for_once_whatever_the_rules() -> None:
    run = Run(bound(rule("a", does="stop"), rule("b", does="stop"), actions=(STOP,)))
    run.tick(seen(1, metrics={USAGE: 6500}))
    assert len(run.last.commands) == 2


def test_the_cool_down_is_the_actions() -> None:
    """A rule that triggers later delays the end of the other's action."""
    settings = bound(
        rule("a", does="stop"),
        rule("b", metric=MEMORY, value=1, does="stop"),
        actions=(action("stop", 10),),
    )
    run = Run(settings)
    run.tick(seen(0, metrics={USAGE: 6500, MEMORY: 0}))
    run.tick(seen(5, metrics={USAGE: 1, MEMORY: 9}))
    run.tick(seen(12, metrics={USAGE: 1, MEMORY: 0}))
    assert run.state(0) is COOLING
    assert run.last.rules[0].until == 15_000_000
    run.tick(seen(16, metrics={USAGE: 1, MEMORY: 0}))
    assert (run.state(0), run.state(1)) == (QUIET, QUIET)
    assert not run.last.commands


def test_a_missing_metric_keeps_it_for_a_time() -> None:
    run = Run(bound(rule(does="stop"), actions=(STOP,)))
    run.tick(seen(0, metrics={USAGE: 6500}))
    lost = Gap("/proc/stat cannot be read")
    for second in range(1, 31):
        run.tick(seen(second, metrics={USAGE: lost}))
        assert run.stops_scheduling()
    [report] = run.last.rules
    assert (report.state, report.seen) == (TRIGGERED, None)
    assert report.held == "/proc/stat cannot be read; missing for 29 s"
    run.tick(seen(31, metrics={USAGE: lost}))
    assert (run.last.commands, run.state()) == ((), QUIET)


def test_the_wait_that_grows_is_told() -> None:
    run = Run(bound(rule(does="stop"), actions=(action("stop", 10),)))
    for at, used in ((0, 6500), (1, 1), (11, 1), (12, 6500), (13, 1), (30, 1)):
        run.tick(seen(at, metrics={USAGE: used}))
    [report] = run.last.rules
    assert (report.state, report.until) == (COOLING, 32_000_000)
    assert report.held == "waits 2 times its cool-down, as it triggered again soon"


def test_settings_and_memory_are_recorded() -> None:
    """Recordings hold both as JSON, and a replay reads them back."""
    settings = bound(
        rule(metric=LATENCY, value="50m"),
        actions=(throttle(),),
        pods=(pod_qos("p", "throttle", labelSelector={}),),
        probe=HTTP,
    )
    run = Run(settings)
    for second in range(3):
        run.tick(seen(second, batch(1), usages={1: 900}, metrics={PROBED: 1}))
    assert POLICY.bound_settings is WatermarkRules
    again = msgspec.json.decode(msgspec.json.encode(settings), type=WatermarkRules)
    assert again == settings
    assert msgspec.json.decode(msgspec.json.encode(run.memory), type=WatermarkMemory) == run.memory


@pytest.mark.parametrize(
    ("metric", "value", "metrics", "why"),
    [
        (USAGE, 3999, {"cpu_core_numbers": 4}, ""),
        (USAGE, 4000, {"cpu_core_numbers": 4}, "cpu_total_usage is 4000 at the most on this node"),
        (USAGE, 4000, {}, ""),
        (USAGE, 4000, {"cpu_core_numbers": Gap("unreadable")}, ""),
        (MEMORY, 999, {"memory_total": 1000}, ""),
        (MEMORY, 1000, {"memory_total": 1000}, f"{MEMORY} is 1000 at the most on this node"),
        ("cpu_total_utilization", 99, {}, ""),
        ("cpu_total_utilization", 100, {}, "cpu_total_utilization is 100 at the most"),
        ("cpu_load_1_min", 4000, {}, ""),
    ],
)
def test_a_rule_that_can_never_trigger_is_remarked_on(
    metric: str, value: int, metrics: dict[str, Any], why: str
) -> None:
    """In the rule's own line too. A metric that may grow without bound is left alone."""
    run = Run(bound(rule(metric=metric, value=value, does="stop"), actions=(STOP,)))
    run.tick(seen(1, metrics={metric: 1} | metrics))
    text = f"it never triggers: {why}" if why else ""
    assert [each.text for each in run.last.remarks] == [text] * bool(text)
    assert (run.last.rules[0].held, run.last.rules[0].vain) == (text, text)


def test_a_triggered_rule_whose_action_cannot_help_says_so() -> None:
    """Not that there is no pod for it."""
    run = Run(bound(rule(metric=MEMORY), actions=(throttle(),)))
    run.tick(seen(1, batch(1), metrics={MEMORY: 10**12}))
    [told] = run.last.rules
    why = f"no pod can be throttled because of {MEMORY}, so throttle does nothing"
    assert (told.state.value, told.held, told.vain) == ("triggered", why, why)


def test_the_numbers_of_a_fraction_are_not_cut_to_nothing() -> None:
    run = Run(bound(rule(metric="latency", value="50m"), actions=(throttle(),), probe=HTTP))
    run.tick(seen(1, batch(1), usages={1: 100}, metrics={"NodeQOS/q:latency": 0.4204}))
    numbers = {key: n for key, n in run.last.numbers.items() if "latency" in key}
    assert numbers["NodeQOS/q:latency used in thousandths"] == 420
    told = POLICY.explain_numbers(numbers)
    assert told.startswith(
        "NodeQOS/q:latency used 0.42; NodeQOS/q:latency watermark 0.05; NodeQOS/q:latency gap 0."
    )


def test_a_pod_qos_with_an_action_that_is_not_there_is_told() -> None:
    """Such as the verb where the name belongs."""
    typo = pod_qos("p", "throttle", "thrott", labelSelector={})
    [remark] = bound(rule(), actions=(throttle(),), pods=(typo,)).remarks
    assert (remark.about, remark.text) == (
        "PodQOS/p",
        "allowedActions: there is no AvoidanceAction 'thrott'",
    )


def test_a_rule_that_gives_back_does_not_say_that_it_throttles() -> None:
    run = Run(bound(rule(value=6000), actions=(throttle(cool_down=1),)))
    for second, used in ((1, 6500), (2, 100), (3, 100), (4, 100)):
        run.tick(seen(second, batch(1), batch(2, tier=BU, priority=9), usages={1: 900, 2: 10},
                      metrics={USAGE: used}))  # fmt: skip
        if run.last.rules[0].state is RuleState.RESTORING:
            break
    assert run.last.rules[0].did == "restores 1 pod"


def test_a_series_of_a_probe_may_be_as_large_as_it_likes() -> None:
    stops = rule(metric="cpu_total_utilization", value=500, does="stop")
    run = Run(bound(stops, actions=(STOP,), probe=HTTP))
    run.tick(seen(1, metrics={"NodeQOS/q:cpu_total_utilization": 1}))
    assert (run.last.remarks, run.last.rules[0].held) == ((), "")


def restarted(run: Run) -> Run:
    """With what outlives the agent, through its file."""
    assert POLICY.keep is not None
    text = msgspec.json.encode(POLICY.keep(run.memory, 0))
    again = Run(run.settings)
    again.memory = msgspec.json.decode(text, type=WatermarkMemory)
    return again


def test_after_a_restart_what_a_rule_did_cools_down() -> None:
    run = Run(bound(rule(does="stop"), actions=(action("stop", 10),)))
    run.tick(seen(100, metrics={USAGE: 6500}))
    run = restarted(run)
    for second in range(102, 113):
        run.tick(seen(second, metrics={USAGE: 1}))
        assert run.stops_scheduling(), second
    run.tick(seen(113, metrics={USAGE: 1}))
    assert (run.last.commands, run.state()) == ((), QUIET)


def test_a_cool_down_goes_on_over_a_restart() -> None:
    run = Run(bound(rule(does="stop"), actions=(action("stop", 10),)))
    run.tick(seen(100, metrics={USAGE: 6500}))
    run.tick(seen(101, metrics={USAGE: 1}))
    run = restarted(run)
    run.tick(seen(105, metrics={USAGE: 1}))
    assert run.last.rules[0].until == 110_000_000
    assert run.stops_scheduling()
    run.tick(seen(111, metrics={USAGE: 1}))
    assert not run.last.commands


def test_throttled_pods_are_restored_step_by_step_after_a_restart() -> None:
    run = Run(bound(rule(), actions=(throttle(cool_down=10),)))
    for second in (100, 101):
        run.tick(seen(second, batch(1), usages={1: 1000}, metrics={USAGE: 6500}))
    assert run.quotas() == {"pod1/c1": 810}
    run = restarted(run)
    quotas = []
    for second in range(102, 116):
        run.tick(seen(second, batch(1), usages={1: 800}, metrics={USAGE: 100}))
        quotas.append(run.quotas().get("pod1/c1"))
    assert quotas == [810] * 11 + [891, 980, None]


def test_a_rule_that_is_above_again_after_a_restart_waits_no_longer_for_it() -> None:
    run = Run(bound(rule(does="stop"), actions=(action("stop", 10),)))
    run.tick(seen(100, metrics={USAGE: 6500}))
    run = restarted(run)
    run.tick(seen(101, metrics={USAGE: 6500}))
    assert run.state() is TRIGGERED
    run.tick(seen(102, metrics={USAGE: 1}))
    assert run.last.rules[0].until == 111_000_000


def test_a_rule_that_went_meanwhile_is_undone_at_once() -> None:
    run = Run(bound(rule(), actions=(throttle(),)))
    run.tick(seen(100, batch(1), usages={1: 1000}, metrics={USAGE: 6500}))
    run = restarted(run)
    run.settings = bound(rule(metric=MEMORY, value=10**12), actions=(throttle(),))
    run.tick(seen(101, batch(1), usages={1: 1000}, metrics={MEMORY: 1}))
    assert run.last.intents == ()


def test_what_is_kept_changes_only_when_something_happens() -> None:
    run = Run(bound(rule(does="stop"), actions=(STOP,)))
    assert POLICY.keep is not None
    kept = []
    for second, used in enumerate((1, 1, 6500, 6500, 6500, 1, 1, 1)):
        run.tick(seen(second, metrics={USAGE: used}))
        kept.append(POLICY.keep(run.memory, 0))
    assert [one == other for one, other in itertools.pairwise(kept)] == [
        True,
        False,  # triggered
        True,
        True,
        False,  # cools down
        True,
        True,
    ]


@pytest.mark.parametrize(("counts", "ticks"), [((1, 1), 3), ((5, 2), 7), ((1000, 1), 30)])
def test_after_a_start_nothing_is_undone_before_a_rule_could_trigger(
    counts: tuple[int, int], ticks: int
) -> None:
    run = Run(bound(rule(counts=counts), actions=(throttle(),)))
    settling = [run.tick(seen(tick, usage=10)).is_settling for tick in range(1, ticks + 2)]
    assert settling == [True] * (ticks - 1) + [False] * 2
