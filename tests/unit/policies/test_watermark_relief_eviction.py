"""Which pods QoS ensurance evicts, and when. Numbers in the names are rows of section 10 of the
facts about Crane."""

import itertools
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.cgroup import Tier
from slackwater.model.decision import RuleState
from slackwater.model.metric import Sample
from slackwater.model.plan import CommandProgress, CommandState
from slackwater.model.snapshot import Freshness
from slackwater.model.units import Micros
from tests.unit.policies.ensurance import (
    HTTP,
    LATENCY,
    Run,
    action,
    batch,
    bound,
    evict,
    pod_qos,
    rule,
    seen,
)

USAGE, MEMORY = "cpu_total_usage", "memory_total_usage"
BE, BU, GU = Tier.BESTEFFORT, Tier.BURSTABLE, Tier.GUARANTEED
QUIET, TRIGGERED = RuleState.QUIET, RuleState.TRIGGERED
COOLING, RESTORING = RuleState.COOLING, RuleState.RESTORING
PROBED = f"NodeQOS/q:{LATENCY}"


PODS = tuple(batch(number, priority=-number) for number in (1, 2, 3, 4))
USAGES = {4: 2000, 3: 1200, 2: 1000, 1: 500}


def evicting(**settings: Any) -> Run:
    return Run(bound(rule(does="evict"), actions=(evict(),), **settings))


def test_21_pod_after_pod_until_the_gap_is_closed() -> None:
    run = evicting()
    run.tick(seen(1, *PODS, usages=USAGES, metrics={USAGE: 9200}))
    assert run.evicted() == ["default/pod-4", "default/pod-3", "default/pod-2"]
    assert run.last.rules[0].did == "evicts 3 pods"


def test_the_command() -> None:
    run = Run(bound(rule(does="evict"), actions=(evict(grace=30),)))
    run.tick(seen(1, batch(7), usages={7: 900}, metrics={USAGE: 6500}))
    [command] = run.last.commands
    assert (command.key, command.uid) == ("evict/7", "7")
    assert (command.grace_seconds, command.relief) == (30, {USAGE: 900})
    assert command.because.signal == "NodeQOS/q/r: cpu_total_usage"


def test_of_several_graces_the_smallest() -> None:
    actions = (evict("a", grace=30), evict("b", grace=5), evict("c"))
    rules = [rule(name, does=name) for name in "abc"]
    run = Run(bound(*rules, actions=actions))
    run.tick(seen(1, batch(7), usages={7: 900}, metrics={USAGE: 6500}))
    assert run.last.commands[0].grace_seconds == 5


def test_relief_in_the_metrics_own_unit() -> None:
    metric = "memory_total_utilization"
    run = Run(bound(rule(metric=metric, value=50, does="evict"), actions=(evict(),)))
    sets = tuple(
        Sample(float(size), {"PodUid": uid, "ContainerName": "c1"})
        for uid, size in (("1", 100), ("2", 300))
    )
    metrics = {metric: 80, "memory_total": 1000, "container_mem_total_usage": sets}
    run.tick(seen(1, batch(1), batch(2), metrics=metrics))
    assert run.evicted() == ["default/pod-2", "default/pod-1"]
    assert run.last.commands[0].relief == {metric: 30}


def test_23_a_rule_about_memory_does_not_ask_for_cpu() -> None:
    run = Run(bound(rule(metric=MEMORY, value=1000, does="evict"), actions=(evict(),)))
    sets = (Sample(400.0, {"PodUid": "1"}), Sample(400.0, {"PodUid": "2"}))
    metrics = {MEMORY: 1300, "container_mem_total_usage": sets}
    run.tick(seen(1, batch(1), batch(2), metrics=metrics))
    assert run.last.numbers[f"{MEMORY} gap"] == 330
    assert len(run.evicted()) == 1


def test_relief_in_flight_counts_until_the_pod_is_gone() -> None:
    run = evicting(settle=0)
    high = {USAGE: 6500}
    run.tick(seen(1, *PODS, usages=USAGES, metrics=high))
    [command] = run.last.commands
    for state, more in (
        (CommandState.DONE, []),
        (CommandState.QUEUED, []),
        (CommandState.REFUSED, ["default/pod-3"]),
    ):
        going = (CommandProgress(command, state, Micros(0)),)
        run.tick(seen(2, *PODS, usages=USAGES, metrics=high, in_flight=going))
        assert run.evicted() == more, state


def test_a_settle_time_before_the_next() -> None:
    run = evicting()
    run.tick(seen(1, *PODS, usages=USAGES, metrics={USAGE: 6500}))
    for second in range(2, 11):
        run.tick(seen(second, *PODS[:3], usages=USAGES, metrics={USAGE: 6500}))
        assert run.evicted() == []
        assert run.last.rules[0].held == "waits to see what the last eviction brought"
    run.tick(seen(11, *PODS[:3], usages=USAGES, metrics={USAGE: 6500}))
    assert run.evicted() == ["default/pod-3"]


def test_evict_replace_evict_slows_down_and_says_so() -> None:
    """The load is not the pods': each of them is replaced, and nothing is gained."""
    run = evicting(evictions_per_tick=1, evictions_per_minute=1000)
    chosen: list[int] = []
    going: tuple[CommandProgress, ...] = ()
    for second in range(1, 400):
        run.tick(seen(second, *PODS, usages=USAGES, metrics={USAGE: 9200}, in_flight=going))
        going = tuple(
            CommandProgress(each, CommandState.DONE, Micros(0)) for each in run.last.commands
        )
        chosen += [second] if going else []
    assert [after - before for before, after in itertools.pairwise(chosen)] == [22, 42, 82, 162]
    [remark] = run.last.remarks
    assert remark.about == "NodeQOS/q/r"
    assert "a rule whose action stops scheduling" in remark.text


def test_budgets() -> None:
    run = evicting(evictions_per_tick=1, evictions_per_minute=2, settle=0)
    going: list[str] = []
    for second in range(1, 4):
        run.tick(seen(second, *PODS, usages=USAGES, metrics={USAGE: 9200}))
        going += run.evicted()
    assert len(going) == 2
    assert run.last.rules[0].held == "2 evictions in a minute are the most"


def test_none_on_stale_pods() -> None:
    run = evicting()
    stale = {"pods": Freshness(Micros(400_000_000))}
    run.tick(seen(1, *PODS, usages=USAGES, metrics={USAGE: 9200}, sources=stale))
    assert run.evicted() == []
    assert run.last.rules[0].held == "the pods were last heard of 6 min ago"


@pytest.mark.parametrize(
    "pod",
    [
        batch(1, protected="critical"),
        batch(1, protected="static"),
        batch(1, protected="exempt"),
        batch(1, terminating=True),
        batch(1, tier=GU),
        batch(1, namespace=""),
    ],
)
def test_who_is_not_evicted(pod: Any) -> None:
    run = evicting()
    run.tick(seen(1, pod, usages={1: 2000}, metrics={USAGE: 9200}))
    assert run.evicted() == []
    assert run.last.rules[0].held == "there is no pod whose eviction would help"


def test_nothing_once_the_metric_is_below() -> None:
    run = evicting(settle=0)
    run.tick(seen(1, *PODS, usages=USAGES, metrics={USAGE: 6500}))
    run.tick(seen(2, *PODS, usages=USAGES, metrics={USAGE: 5000}))
    assert run.last.commands == ()
    assert run.state() is COOLING


def test_a_metric_that_cannot_be_counted_takes_them_in_order_within_the_budgets() -> None:
    found = bound(
        rule(metric=LATENCY, value="50m", does="evict"),
        actions=(evict(),),
        probe=HTTP,
        evictions_per_tick=2,
    )
    run = Run(found)
    run.tick(seen(1, *PODS, usages=USAGES, metrics={PROBED: 1}))
    assert run.evicted() == ["default/pod-4", "default/pod-3"]


def test_a_pod_that_goes_for_one_metric_counts_for_the_other() -> None:
    settings = bound(
        rule("a", does="evict"),
        rule("b", metric=MEMORY, value=1000, does="evict"),
        actions=(evict(),),
    )
    run = Run(settings)
    sets = (Sample(400.0, {"PodUid": "1"}), Sample(500.0, {"PodUid": "2"}))
    metrics = {USAGE: 6500, MEMORY: 1300, "container_mem_total_usage": sets}
    run.tick(seen(1, batch(1), batch(2), usages={1: 900, 2: 100}, metrics=metrics))
    assert run.evicted() == ["default/pod-1"]
    assert run.last.commands[0].relief == {USAGE: 900, MEMORY: 400}


def test_nobody_can() -> None:
    run = evicting(settle=0)
    run.tick(seen(1, *PODS, usages=USAGES, metrics={USAGE: 6500}))
    [command] = run.last.commands
    going = (CommandProgress(command, CommandState.IMPOSSIBLE, Micros(0), "not here"),)
    run.tick(seen(2, *PODS, usages=USAGES, metrics={USAGE: 6500}, in_flight=going))
    assert (run.evicted(), run.last.rules[0].held) == ([], "not here")


def test_throttled_and_evicted_by_one_action() -> None:
    both = action("both", 300, eviction={}, throttle={"cpuThrottle": {"stepCPURatio": 50}})
    run = Run(bound(rule(does="both"), actions=(both,)))
    run.tick(seen(1, batch(1), usages={1: 2000}, metrics={USAGE: 6500}))
    assert (run.quotas(), run.evicted()) == ({"pod1/c1": 1000}, ["default/pod-1"])
    assert run.last.rules[0].did == "throttles 1 pod, evicts 1 pod"


def test_a_pod_qos_that_matches_nothing_is_told_when_it_matters() -> None:
    lonely = pod_qos("p", "evict", labelSelector={"matchLabels": {"no": "body"}})
    run = Run(bound(rule(does="evict"), actions=(evict(),), pods=(lonely,)))
    run.tick(seen(1, *PODS, usages=USAGES, metrics={USAGE: 9200}))
    assert [each.about for each in run.last.remarks] == ["PodQOS/p"]


_USED = st.lists(st.tuples(st.integers(0, 3000), st.integers(-3, 0)), min_size=1, max_size=12)
NO_BUDGET: dict[str, Any] = {"evictions_per_tick": 100, "evictions_per_minute": 1000}
EVICTING = bound(rule(does="evict"), actions=(evict(),), **NO_BUDGET)


@given(_USED, st.integers(6001, 20_000), st.randoms())
def test_never_a_pod_more_than_needed_whatever_the_order_of_the_pods(
    made: list[tuple[int, int]], used: int, chance: random.Random
) -> None:
    """Without the last one the gap stays open; all go only if all are needed."""
    pods = [batch(number, priority=low) for number, (_, low) in enumerate(made, start=1)]
    usages = {number: used for number, (used, _) in enumerate(made, start=1)}
    run = Run(EVICTING)
    run.tick(seen(1, *pods, usages=usages, metrics={USAGE: used}))
    released = [command.relief[USAGE] for command in run.last.commands]
    gap = 110 * (used - 6000) / 100
    if released:
        assert sum(released[:-1]) < gap
    assert sum(released) >= gap or len(released) == sum(bool(each) for each in usages.values())
    chance.shuffle(pods)
    again = Run(EVICTING)
    again.tick(seen(1, *pods, usages=usages, metrics={USAGE: used}))
    assert again.evicted() == run.evicted()
