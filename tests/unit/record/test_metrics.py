"""Metrics: base units, and gaps that are absent."""

import threading
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater import __version__
from slackwater.model.cgroup import CpuPressure, Tier
from slackwater.model.decision import NoteKind, PolicyAction
from slackwater.model.gap import Gap
from slackwater.model.plan import Result
from slackwater.model.problem import ConfigurationProblem
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Bandwidth, Micros
from slackwater.record.metric_table import METRICS, MetricType
from slackwater.record.metrics import (
    BUCKETS,
    MetricInputs,
    TickCounters,
    answer_histogram,
    duration_histogram,
    make_samples,
)
from tests.unit.policies.nodes import BESTEFFORT, FREE, KUBEPODS, node, pod, rate, reading
from tests.unit.record.metric_facts import EVERYTHING, LINK, STALLED, STARTS, facts, full
from tests.unit.record.tick_records import OURS, SHARE, note, outcome, record, told


def shown(told_facts: MetricInputs) -> dict[str, float]:
    """By name and labels' values: name/tier."""
    return {"/".join((s.metric.name, *s.labels)): s.value for s in make_samples(told_facts)}


@pytest.mark.parametrize(
    ("sample", "value"),
    [
        (f"slackwater_build_info/{__version__}", 1),
        ("slackwater_ticks_total/regular", 1),
        ("slackwater_ticks_total/early", 0),
        ("slackwater_blind_rounds_total", 0),
        ("slackwater_blind", 0),
        ("slackwater_paused", 0),
        ("slackwater_last_tick_age_seconds", 4),
        ("slackwater_configuration_problems", 0),
        ("slackwater_configuration_problems_seen_total", 0),
        ("slackwater_node_cpu_allocatable_cores", 2),
        ("slackwater_node_cpu_usage_cores", 1.25),
        ("slackwater_node_cpu_pressure_seconds_total/some", 2.5),
        ("slackwater_node_cpu_pressure_seconds_total/full", 0.5),
        ("slackwater_pods_cpu_usage_cores", 0.9),
        ("slackwater_tier_cpu_usage_cores/besteffort", 0.25),
        ("slackwater_tier_cpu_quota_cores/besteffort", 0.6),
        ("slackwater_tier_cpu_throttled_ratio/besteffort", 1.5),
        ("slackwater_tier_cpu_pressure_seconds_total/besteffort/some", 2.5),
        ("slackwater_pod_cpu_usage_cores/default/pod-1", 0.3),
        ("slackwater_pod_cpu_usage_cores/default/pod-2", 0.25),
        ("slackwater_policy_enabled/best_effort_share", 1),
        ("slackwater_policy_course/best_effort_share/acted", 1),
        ("slackwater_policy_course/best_effort_share/held", 0),
        ("slackwater_policy_ticks_total/best_effort_share/acted", 1),
        ("slackwater_policy_number/best_effort_share/budget", 600),
        ("slackwater_node_cpu_throttle_events_total/cpu", 1),
        ("slackwater_node_cpu_throttle_asked_cores/cpu", 0.6),
        ("slackwater_knob_changes_total/quota/tier/applied", 1),
        ("slackwater_knob_changes_total/quota/tier/refused", 1),
        ("slackwater_knob_repairs_total/quota/tier", 1),
        ("slackwater_knob_yields_total/quota/tier", 1),
        ("slackwater_knobs_held", 1),
        ("slackwater_knobs_yielded", 1),
        (
            "slackwater_rule_info/NodeQOS/waterline1/cpu/cpu_total_usage/throttle/false",
            1,
        ),
        ("slackwater_rule_state/NodeQOS/waterline1/cpu/triggered", 1),
        ("slackwater_rule_state/NodeQOS/waterline1/cpu/quiet", 0),
        ("slackwater_rule_seen/NodeQOS/waterline1/cpu", 6500),
        ("slackwater_rule_limit/NodeQOS/waterline1/cpu", 6000),
        ("slackwater_rule_triggers_total/NodeQOS/waterline1/cpu", 1),
        ("slackwater_rule_restores_total/NodeQOS/waterline1/cpu", 0),
        ("slackwater_rule_gaps_total/NodeQOS/waterline1/cpu", 0),
        ("slackwater_rule_throttled_pods", 0),
        ("slackwater_node_tainted", 0),
        ("slackwater_commands_total/evict/done", 1),
        ("slackwater_commands_in_flight/evict/queued", 1),
        ("slackwater_oversold_sold/gocrane.io/cpu", 3),
        ("slackwater_oversold_sold/gocrane.io/memory", 1024),
        ("slackwater_oversold_allocated/gocrane.io/cpu", 2),
        ("slackwater_oversold_used/gocrane.io/cpu", 2.5),
        ("slackwater_oversold_used/gocrane.io/memory", 4096),
        ("slackwater_oversold_predicted/gocrane.io/cpu", 1.8),
        ("slackwater_oversold_exceeded_total/gocrane.io/cpu", 7),
        ("slackwater_cpus/exclusive", 0),
        ("slackwater_cpus/reserved", 1),
        ("slackwater_cpus/default", 3),
        ("slackwater_pods_refused_cpus", 0),
        ("slackwater_source_age_seconds/pods", 90),
        ("slackwater_source_age_seconds/node", 2.5),
        ("slackwater_source_silent/pods", 1),
        ("slackwater_source_silent/node", 0),
        ("slackwater_node_writes_total/written", 3),
        ("slackwater_node_writes_total/refused", 1),
        ("slackwater_events_lost_total", 2),
        ("slackwater_topology_writes_total/written", 2),
        ("slackwater_topology_unreported", 1),
        ("slackwater_cpu_normalization_ratio", 1.2),
        ("slackwater_cpu_normalization_problem", 0),
        ("slackwater_normalized_pods", 1),
        ("slackwater_pod_normalized_cpu_quota_cores/default/pod-1", 1 / 1.2),
        ("slackwater_node_cpu_amplified_allocatable_cores", 2.4),
        ("slackwater_container_starts_intercepted", 0),
        ("slackwater_container_start_answers_total/create/adjusted", 2),
        ("slackwater_runtime_connections_total", 2),
    ],
)
def test_values_in_base_units(sample: str, value: float) -> None:
    assert shown(facts(full(), link=LINK))[sample] == pytest.approx(value)


def test_without_a_cluster_nothing_is_said_of_one() -> None:
    clustered = ("source", "node_writes", "events_lost", "topology")
    assert not [name for name in shown(facts(full())) if any(word in name for word in clustered)]


def test_every_metric_of_the_table_can_be_had() -> None:
    seen = {sample.metric.name for sample in make_samples(facts(full(), link=LINK))}
    histograms = {metric.name for metric in METRICS if metric.kind is MetricType.HISTOGRAM}
    assert seen | histograms == {metric.name for metric in METRICS}


def test_answers_to_the_container_runtime() -> None:
    buckets, total = answer_histogram(STARTS)
    assert [count for _, count in buckets] == [1, 1, 1, 2, 2, 3]
    assert buckets[3][0] == "0.005"
    assert total == pytest.approx(0.0644)


#: What comes from a reading of the node.
READ = ("_cores", "_ratio", "pressure", "policy_course", "policy_number")


def test_before_the_first_tick_there_are_counts_and_no_readings() -> None:
    seen = shown(facts())
    assert seen["slackwater_ticks_total/regular"] == 0
    assert seen["slackwater_node_cpu_throttle_events_total/cpu"] == 0
    assert not [name for name in seen if any(word in name for word in (*READ, "age", "knobs"))]


def test_while_blind_the_last_readings_are_not_passed_off_as_todays() -> None:
    seen = shown(facts(full(), blind=True))
    assert seen["slackwater_blind"] == 1
    assert seen["slackwater_last_tick_age_seconds"] == 4
    assert seen["slackwater_knobs_held"] == 1  # they hold on while nobody sees them
    assert not [name for name in seen if any(word in name for word in READ)]


def without(**gaps: Any) -> NodeSnapshot:
    return msgspec.structs.replace(full().snapshot, **gaps)


@pytest.mark.parametrize(
    ("snapshot", "absent"),
    [
        (without(usage=Gap("read once")), "slackwater_node_cpu_usage_cores"),
        (without(allocatable=Gap("no Node")), "slackwater_node_cpu_allocatable_cores"),
        (without(pressure=Gap("no PSI")), "slackwater_node_cpu_pressure_seconds_total/some"),
        (
            without(pressure=CpuPressure(STALLED.some)),
            "slackwater_node_cpu_pressure_seconds_total/full",
        ),
        (without(rates={}), "slackwater_tier_cpu_usage_cores/besteffort"),
        (without(rates={}), "slackwater_tier_cpu_throttled_ratio/besteffort"),
        (without(rates={}), "slackwater_pods_cpu_usage_cores"),
        (without(rates={}), "slackwater_pod_cpu_usage_cores/default/pod-1"),
        (without(readings={}), "slackwater_tier_cpu_quota_cores/besteffort"),
        (
            without(readings={2: reading(BESTEFFORT, Gap("gone"))}),
            "slackwater_tier_cpu_quota_cores/besteffort",
        ),
        (
            without(readings={2: reading(BESTEFFORT, OURS)}),
            "slackwater_tier_cpu_pressure_seconds_total/besteffort/some",
        ),
        (without(tiers={}), "slackwater_tier_cpu_usage_cores/besteffort"),
    ],
)
def test_a_gap_is_an_absent_sample(snapshot: NodeSnapshot, absent: str) -> None:
    assert absent in shown(facts(full()))
    assert absent not in shown(facts(record(snapshot, agent=EVERYTHING)))


@pytest.mark.parametrize(
    ("quota", "value"),
    [
        (FREE, float("inf")),
        (Bandwidth(Micros(1_000)), 0.01),
        (Bandwidth(Micros(1_001), Micros(50_000)), 0.02002),  # not rounded to milliCPU
    ],
)
def test_a_quota(quota: Bandwidth, value: float) -> None:
    seen = shown(facts(record(node(quota=quota))))
    assert seen["slackwater_tier_cpu_quota_cores/besteffort"] == pytest.approx(value)


def test_pods_only_where_everything_is_asked_for() -> None:
    """`top` makes the agent read pods too; series must not come and go with it."""
    needed = msgspec.structs.replace(full(), inputs=record().inputs)
    assert not [name for name in shown(facts(needed)) if "slackwater_pod_cpu_usage" in name]


def test_pods_of_one_name_are_one_sample() -> None:
    old, new = pod(1, Tier.BURSTABLE), pod(2, Tier.BURSTABLE)
    new = msgspec.structs.replace(new, name=old.name)
    gone = msgspec.structs.replace(pod(3, Tier.BURSTABLE), ref=Gap("its cgroup is not there"))
    snapshot = node(workloads=(old, new, gone), usages={101: 300, 102: 50})
    seen = shown(facts(record(snapshot, agent=EVERYTHING)))
    found = {name: value for name, value in seen.items() if "slackwater_pod_" in name}
    assert found == {"slackwater_pod_cpu_usage_cores/default/pod-1": pytest.approx(0.35)}


@pytest.mark.parametrize(
    ("course", "claim"),
    [(PolicyAction.ACTED, 0.6), (PolicyAction.HELD, 0.6), (PolicyAction.RELEASED, None)],
)
def test_what_was_asked_stands_until_it_is_released(
    course: PolicyAction, claim: float | None
) -> None:
    tally = TickCounters()
    tally.add(record(lines=(told(claim=600),)))
    seen = shown(facts(record(lines=(told(course),)), tally))
    assert seen.get("slackwater_node_cpu_throttle_asked_cores/cpu") == claim
    assert [seen[f"slackwater_policy_course/{SHARE}/{each.value}"] for each in PolicyAction] == [
        each is course for each in PolicyAction
    ]


def test_switched_off_it_asks_for_nothing() -> None:
    tally = TickCounters()
    tally.add(record(lines=(told(claim=600),)))
    seen = shown(facts(record(), tally))
    assert seen["slackwater_policy_enabled/best_effort_share"] == 0
    assert "slackwater_node_cpu_throttle_asked_cores/cpu" not in seen
    assert seen["slackwater_node_cpu_throttle_events_total/cpu"] == 1


def test_problems_and_a_pause() -> None:
    tally = TickCounters()
    tally.add_problems({ConfigurationProblem("one"), ConfigurationProblem("two")})
    seen = shown(facts(None, tally, problems=1, paused=True))
    assert seen["slackwater_paused"] == 1
    assert seen["slackwater_configuration_problems"] == 1
    assert seen["slackwater_configuration_problems_seen_total"] == 2


def test_the_histogram_counts_upwards() -> None:
    tally = TickCounters()
    for took in (500, 700, 50_000, 3_000_000):
        tally.add(record(took=took))
    buckets, total = duration_histogram(tally.counts())
    assert buckets == [
        ("0.001", 2), ("0.005", 2), ("0.02", 2), ("0.1", 3), ("1.0", 3), ("+Inf", 4),
    ]  # fmt: skip
    assert total == pytest.approx(3.0512)


names = st.text(st.characters(codec="utf-8"), max_size=8)


@given(
    pods=st.lists(st.tuples(names, names, st.integers(0, 10**6)), max_size=6),
    usage=st.integers(0, 10**9) | st.just(Gap("not read")),
    blind=st.booleans(),
)
def test_no_series_appears_twice_and_all_is_in_the_table(
    pods: list[tuple[str, str, int]], usage: int | Gap, blind: bool
) -> None:
    workloads = tuple(
        msgspec.structs.replace(pod(number, Tier.BURSTABLE), namespace=namespace, name=name)
        for number, (namespace, name, _) in enumerate(pods)
    )
    snapshot = node(usage=usage, workloads=workloads)
    rates = {100 + number: rate(used) for number, (_, _, used) in enumerate(pods)}
    seen = record(msgspec.structs.replace(snapshot, rates=rates), agent=EVERYTHING)
    found = list(make_samples(facts(seen, blind=blind)))
    keys = [(sample.metric.name, sample.labels) for sample in found]
    assert len(keys) == len(set(keys))
    assert all(sample.metric in METRICS for sample in found)
    assert all(len(sample.labels) == len(sample.metric.labels) for sample in found)


def test_nothing_happened_yet() -> None:
    counts = TickCounters().counts()
    assert (counts.ticks, counts.early_ticks, counts.blind_rounds, counts.problems) == (0, 0, 0, 0)
    assert counts.durations == (0,) * (len(BUCKETS) + 1)
    for named in (counts.changes, counts.notes, counts.courses, counts.events, counts.asked):
        assert not named


def test_ticks_are_regular_or_early() -> None:
    tally = TickCounters()
    tally.add(record())
    tally.add(record(msgspec.structs.replace(node(tick=2), early=True)))
    assert (tally.counts().ticks, tally.counts().early_ticks) == (2, 1)


@pytest.mark.parametrize(
    ("took", "bucket"),
    [(0, 0), (1_000, 0), (1_001, 1), (5_000, 1), (100_000, 3), (1_000_000, 4), (1_000_001, 5)],
)
def test_a_duration_is_in_the_bucket_whose_bound_it_does_not_pass(took: int, bucket: int) -> None:
    tally = TickCounters()
    tally.add(record(took=took))
    duration_histogram = tally.counts().durations
    assert [number for number, count in enumerate(duration_histogram) if count] == [bucket]
    assert tally.counts().duration_sum == took


def test_changes_by_knob_level_and_result() -> None:
    tally = TickCounters()
    refused = outcome(Result.REFUSED)
    tally.add(record(outcomes=(outcome(), outcome(), refused, outcome(ref=KUBEPODS))))
    assert tally.counts().changes == {
        ("quota", "tier", "applied"): 2,
        ("quota", "tier", "refused"): 1,
        ("quota", "node", "applied"): 1,
    }


def test_a_release_is_no_tick_and_counts_as_a_change() -> None:
    tally = TickCounters()
    tally.add_outcomes([outcome()])
    assert (tally.counts().ticks, tally.counts().changes) == (0, {("quota", "tier", "applied"): 1})


def test_repairs_and_yields() -> None:
    tally = TickCounters()
    tally.add(record(notes=(note(NoteKind.REPAIR), note(NoteKind.YIELD))))
    tally.add(record(notes=(note(NoteKind.REPAIR),)))
    assert tally.counts().notes == {
        ("quota", "tier", NoteKind.REPAIR): 2,
        ("quota", "tier", NoteKind.YIELD): 1,
    }


def test_courses_and_events() -> None:
    tally = TickCounters()
    for line in (told(claim=600), told(), told(claim=500), told(PolicyAction.HELD)):
        tally.add(record(lines=(line,)))
    counts = tally.counts()
    assert counts.courses == {(SHARE, "acted"): 3, (SHARE, "held"): 1}
    assert counts.events == {("NodeCPUThrottleEvent", "cpu"): 2}
    assert counts.asked == {(SHARE, "NodeCPUThrottleEvent", "cpu"): 500}


def test_blind_rounds_and_problems() -> None:
    tally = TickCounters()
    tally.add_blind_round()
    tally.add_problems({ConfigurationProblem("a"), ConfigurationProblem("b")})
    tally.add_problems(set())
    assert (tally.counts().blind_rounds, tally.counts().problems) == (1, 2)


def test_counts_are_a_picture_not_a_window() -> None:
    tally = TickCounters()
    tally.add(record(outcomes=(outcome(),)))
    before = tally.counts()
    tally.add(record(outcomes=(outcome(), outcome(Result.REFUSED))))
    assert before.changes == {("quota", "tier", "applied"): 1}


@given(st.lists(st.integers(0, 10_000_000), max_size=30))
def test_every_tick_is_in_one_bucket(duration_histogram: list[int]) -> None:
    tally = TickCounters()
    for took in duration_histogram:
        tally.add(record(took=took))
    counts = tally.counts()
    assert sum(counts.durations) == counts.ticks == len(duration_histogram)
    assert counts.duration_sum == sum(duration_histogram)


def test_readers_in_other_threads_never_fail() -> None:
    """A scrape copies the counts while the loop adds kinds that were never seen before."""
    tally, done, failures = TickCounters(), threading.Event(), []

    def read() -> None:
        while not done.is_set():
            seen = tally.counts()
            if sum(seen.durations) != seen.ticks:
                failures.append(seen)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(2_000):
        tally.add(record(lines=(told(policy=f"policy-{number}"),)))
    done.set()
    reader.join()
    assert failures == []
    assert tally.counts().ticks == 2_000
