"""Rules about metrics that users define: their own order of pods, their own count of release."""

from typing import Any

import msgspec
import pytest

from slackwater.contract.crane.ensurance import AvoidanceAction
from slackwater.contract.ensurance_metric import EnsuranceMetric, read_ensurance_metric
from slackwater.contract.ensurance_plugin import PluginAttributes, PluginState
from slackwater.model.decision import RuleState
from slackwater.model.metric import MetricKey, Sample
from slackwater.policies.ensurance.metric_attributes import (
    CPU_SORT,
    GENERAL_SORT,
    MetricAttributes,
    ReleaseCount,
    SortKey,
    SortRule,
    describe_metric,
)
from slackwater.policies.ensurance.watermark_relief import needs
from slackwater.policies.ensurance.watermark_settings import (
    WatermarkReliefSettings,
    WatermarkRules,
    bind,
)
from tests.unit.policies.ensurance import Run, batch, evict, objects, rule, seen, throttle

QUEUE = "EnsuranceMetric/queue-depth:queue_length"
BY_VALUE = ({"by": "classAndPriority"}, {"by": "ownValue", "order": "Descending"})


def metric(**spec: Any) -> EnsuranceMetric:
    source = {"file": {"name": "queue.prom"}, "series": "queue_length"}
    document = {
        "apiVersion": "slackwater.io/v1alpha1",
        "kind": "EnsuranceMetric",
        "metadata": {"name": "queue-depth"},
        "spec": {"source": source, **spec},
    }
    return read_ensurance_metric(document, "test")


def settings(
    own: EnsuranceMetric | None, does: AvoidanceAction, value: int | str = 100, **more: Any
) -> WatermarkRules:
    named = rule(metric="queue-depth", value=value, does=does.metadata.name)
    found = msgspec.structs.replace(
        objects(named, actions=(does,)), metrics=() if own is None else (own,)
    )
    made = bind(WatermarkReliefSettings(**more), found, {}, {})
    assert isinstance(made, WatermarkRules)
    return made


def by_pod(values: dict[int, float], total: float | None = None) -> tuple[Sample, ...]:
    """One pod by its uid, the others by their names, as different sources label them."""
    first, *others = values.items()
    found = [Sample(first[1], {"PodUid": str(first[0])})]
    for number, value in others:
        name = {"PodName": f"pod-{number}", "PodNamespace": "default"}
        cadvisor = {"pod": f"pod-{number}", "namespace": "default"}
        found.append(Sample(value, name if number % 2 else cadvisor))
    return (*found, *(() if total is None else (Sample(total),)))


def test_an_object_as_attributes() -> None:
    spec = {"throttleable": True, "throttleQuantified": True, "release": "ownValue"}
    assert describe_metric(metric(actionPriority=7, sort=list(BY_VALUE), **spec)) == (
        MetricAttributes(
            "queue_length",
            "EnsuranceMetric/queue-depth",
            7,
            (SortRule(SortKey.CLASS_AND_PRIORITY), SortRule(SortKey.VALUE, descending=True)),
            throttleable=True,
            throttle_quantified=True,
            release=ReleaseCount.SERIES,
        )
    )
    assert describe_metric(metric()).sort == GENERAL_SORT


def test_the_pod_that_the_own_sort_puts_first_is_throttled() -> None:
    """And none more: half of its CPU is half of its value, which is more than the gap."""
    own = metric(
        sort=list(BY_VALUE), throttleable=True, throttleQuantified=True, release="ownValue"
    )
    run = Run(settings(own, throttle(step=50)))
    values = by_pod({1: 10, 2: 60, 3: 40}, total=110)
    pods = [batch(number) for number in (1, 2, 3)]
    run.tick(seen(1, *pods, usages={1: 4000, 2: 500, 3: 900}, metrics={QUEUE: values}))
    assert run.quotas() == {"pod2/c1": 250}
    assert run.last.rules[0].metric == QUEUE


def test_a_gap_larger_than_one_pods_release_takes_the_next() -> None:
    own = metric(
        sort=list(BY_VALUE), throttleable=True, throttleQuantified=True, release="ownValue"
    )
    run = Run(settings(own, throttle(step=50)))
    values = by_pod({1: 10, 2: 60, 3: 40}, total=140)
    pods = [batch(number) for number in (1, 2, 3)]
    run.tick(seen(1, *pods, usages={1: 4000, 2: 500, 3: 900}, metrics={QUEUE: values}))
    assert run.quotas() == {"pod2/c1": 250, "pod3/c1": 450}


def test_a_throttle_passes_over_pods_without_a_part_in_the_metric() -> None:
    """Though the order puts them first: another tenant's pods would be throttled for nothing."""
    own = metric(
        sort=[{"by": "ownValue"}], throttleable=True, throttleQuantified=True, release="ownValue"
    )
    run = Run(settings(own, throttle(step=50)))
    pods = [batch(number) for number in (1, 2, 3, 4)]
    values = by_pod({3: 60, 4: 0}, total=140)
    run.tick(seen(1, *pods, usages=dict.fromkeys((1, 2, 3, 4), 1000), metrics={QUEUE: values}))
    assert run.quotas() == {"pod3/c1": 500}
    assert run.demoted() == {"pod3"}


def test_so_does_one_for_a_plug_ins_metric() -> None:
    own = MetricAttributes(
        "queue_length",
        "EnsuranceMetric/queue-depth",
        throttleable=True,
        throttle_quantified=True,
        release=ReleaseCount.PLUGIN,
        plugin="Plugin/queue",
    )
    made = settings(metric(throttleable=True), throttle(step=50))
    run = Run(msgspec.structs.replace(made, metrics=(own,)))
    found = {QUEUE: 140, "Plugin/queue:throttle_release": by_pod({2: 15, 3: 0})}
    pods = [batch(number) for number in (1, 2, 3)]
    run.tick(seen(1, *pods, usages=dict.fromkeys((1, 2, 3), 1000), metrics=found))
    assert run.quotas() == {"pod2/c1": 500}


@pytest.mark.parametrize(
    ("sort", "release", "gone"),
    [
        (BY_VALUE, "ownValue", ["default/pod-2"]),
        ([{"by": "ownValue"}], "ownValue", ["default/pod-1", "default/pod-3"]),
        ([{"by": "cpuUsage"}], "cpuUsage", ["default/pod-2"]),
        ([{"by": "cpuUsage", "order": "Descending"}], "cpuUsage", ["default/pod-1"]),
    ],
)
def test_evictions_in_the_own_order(sort: Any, release: str, gone: list[str]) -> None:
    own = metric(sort=list(sort), evictable=True, evictQuantified=True, release=release)
    run = Run(settings(own, evict()))
    values = by_pod({1: 10, 2: 60, 3: 40}, total=120)
    pods = [batch(number) for number in (1, 2, 3)]
    run.tick(seen(1, *pods, usages={1: 4000, 2: 500, 3: 900}, metrics={QUEUE: values}))
    assert run.evicted() == gone


def test_a_value_is_compared_exactly() -> None:
    run = Run(settings(metric(), evict(), value="50m"))
    run.tick(seen(1, metrics={QUEUE: 0.06}))
    assert run.state() is RuleState.TRIGGERED


def test_the_metric_is_asked_for_and_a_missing_object_is_told() -> None:
    known = settings(metric(), throttle())
    keys = {each.key: each.max_age_seconds for each in needs(known, frozenset()).metrics}
    assert keys[MetricKey("queue_length", "EnsuranceMetric/queue-depth")] == 60
    assert "no pod can be throttled because of queue_length" in known.remarks[0].text
    [remark] = settings(None, throttle()).remarks
    assert remark.text == "there is no EnsuranceMetric queue-depth"


def test_a_plug_ins_order_and_releases() -> None:
    """Its places and amounts are series, so that a tick is decided from a recording alike."""
    plugin = "Plugin/queue"
    own = MetricAttributes(
        "queue_length",
        "EnsuranceMetric/queue-depth",
        sort=(SortRule(SortKey.PLACE),),
        evictable=True,
        evict_quantified=True,
        release=ReleaseCount.PLUGIN,
        plugin=plugin,
    )
    made = settings(metric(evictable=True), evict())
    run = Run(msgspec.structs.replace(made, metrics=(own,)))
    pods = [batch(number) for number in (1, 2, 3)]
    found = {
        QUEUE: 120,
        f"{plugin}:place": by_pod({1: 2, 2: 1}),
        f"{plugin}:evict_release": by_pod({1: 15, 2: 10, 3: 1000}),
    }
    run.tick(seen(1, *pods, metrics=found))
    assert run.evicted() == ["default/pod-2", "default/pod-1"]
    wanted = {each.key.title() for each in needs(run.settings, frozenset()).metrics}
    assert {f"{plugin}:place", f"{plugin}:throttle_release", f"{plugin}:evict_release"} < wanted


def plugin(name: str, **more: Any) -> PluginState:
    plain: dict[str, Any] = dict.fromkeys(
        ("sortable", "throttleable", "throttle_quantified", "evictable", "evict_quantified"), False
    )
    return PluginState("p", PluginAttributes(name, 8, **plain | more))


def with_plugins(metric_name: str, *plugins: PluginState) -> WatermarkRules:
    found = objects(rule(metric=metric_name, does="evict"), actions=(evict(),))
    made = bind(WatermarkReliefSettings(), msgspec.structs.replace(found, plugins=plugins), {}, {})
    assert isinstance(made, WatermarkRules)
    return made


def test_a_plug_in_may_be_about_a_metric_that_is_measured_anyway() -> None:
    made = with_plugins("cpu_total_usage", plugin("cpu_total_usage", sortable=True, evictable=True))
    first = made.metrics[0]
    assert first.key() == MetricKey("cpu_total_usage")
    assert (first.action_priority, first.plugin, first.release) == (
        8,
        "Plugin/p",
        ReleaseCount.UNKNOWN,
    )
    assert first.sort == (SortRule(SortKey.PLACE), *CPU_SORT)
    assert made.remarks == ()
    keys = {each.key for each in needs(made, frozenset()).metrics}
    assert MetricKey("place", "Plugin/p") in keys


def test_a_plug_in_about_another_metric_changes_nothing() -> None:
    made = with_plugins("cpu_total_usage", plugin("memory_total_usage", evictable=True))
    assert made == with_plugins("cpu_total_usage")


def test_a_plug_in_that_is_off_is_told_with_the_rule_that_lacks_it() -> None:
    lacks = "no plug-in that is switched on measures example.com/queue"
    made = with_plugins("example.com/queue", PluginState("p", problem="it did not answer"))
    assert [(each.about, each.text) for each in made.remarks] == [
        ("NodeQOS/q/r", f"{lacks}; p: it did not answer"),
        ("Plugin/p", "it did not answer"),
    ]
    made = with_plugins("example.com/queue", PluginState("p"))
    assert [each.text for each in made.remarks] == [f"{lacks}; p: it is being loaded"]
    made = with_plugins("example.com/queue", plugin("example.com/other", measures=True))
    assert [each.text for each in made.remarks] == [lacks]


def test_a_recording_has_all_that_a_plug_in_said() -> None:
    """So it replays where the plug-in is not installed."""
    own = plugin("example.com/queue", measures=True, evictable=True, evict_quantified=True)
    made = with_plugins("example.com/queue", own)
    kept = msgspec.json.decode(msgspec.json.encode(made), type=WatermarkRules)
    assert kept == made
    values = by_pod({1: 15, 2: 10})
    found = {
        "Plugin/p:example.com/queue": 6010,
        "Plugin/p:evict_release": values,
        "Plugin/p:place": (),
    }
    shown = seen(1, batch(1), batch(2), metrics=found)
    run, again = Run(made), Run(kept)
    assert run.tick(shown) == again.tick(shown)
    assert run.evicted() == ["default/pod-1"]
