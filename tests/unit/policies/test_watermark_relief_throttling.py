"""Which pods QoS ensurance throttles, demotes and restores. Numbers in the names are rows of
section 10 of the facts about Crane."""

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.cgroup import Tier
from slackwater.model.decision import RuleState, Verb
from slackwater.model.gap import Gap
from slackwater.model.metric import Sample
from slackwater.model.units import Micros
from slackwater.policies.ensurance.watermark_settings import (
    WatermarkRules,
)
from tests.unit.policies.ensurance import (
    HTTP,
    LATENCY,
    STOP,
    Run,
    batch,
    bound,
    box,
    pod_qos,
    rule,
    seen,
    throttle,
)

SECOND = 1_000_000
USAGE, MEMORY = "cpu_total_usage", "memory_total_usage"
BE, BU, GU = Tier.BESTEFFORT, Tier.BURSTABLE, Tier.GUARANTEED
QUIET, TRIGGERED = RuleState.QUIET, RuleState.TRIGGERED
COOLING, RESTORING = RuleState.COOLING, RuleState.RESTORING
PROBED = f"NodeQOS/q:{LATENCY}"


def test_throttled_and_restored_to_the_baseline() -> None:
    run = Run(bound(rule(), actions=(throttle(cool_down=5, step=50),)))
    pod = batch(1)
    run.tick(seen(1, pod, usages={1: 2000}, metrics={USAGE: 6500}))
    assert run.quotas() == {"pod1/c1": 1000}
    assert run.demoted() == {"pod1"}
    assert {i.verb for i in run.last.intents} == {Verb.CAP, Verb.SET}
    assert run.last.rules[0].did == "throttles 1 pod"
    assert run.last.numbers == {
        "cpu_total_usage used": 6500,
        "cpu_total_usage watermark": 6000,
        "cpu_total_usage gap": 550,
        "throttled pods": 1,
    }
    for second in range(2, 7):
        run.tick(seen(second, pod, usages={1: 1000}, metrics={USAGE: 3000}))
        assert run.quotas() == {"pod1/c1": 1000}
        assert run.state() is COOLING
    run.tick(seen(7, pod, usages={1: 1000}, metrics={USAGE: 3000}))
    assert run.quotas() == {"pod1/c1": 1500}
    assert run.demoted() == {"pod1"}
    assert run.state() is RESTORING
    run.tick(seen(8, pod, usages={1: 1500}, metrics={USAGE: 3500}))
    assert (run.last.intents, run.state()) == ((), QUIET)


def test_the_reason_names_the_rule() -> None:
    run = Run(bound(rule(), actions=(throttle(),)))
    run.tick(seen(1, batch(1), usages={1: 2000}, metrics={USAGE: 6500}))
    because = run.last.intents[0].because
    assert because.signal == "NodeQOS/q/r: cpu_total_usage"
    assert (because.seen, because.limit) == ("6500", "limit 6000")


def test_no_pod_more_than_the_gap_needs() -> None:
    run = Run(bound(rule(), actions=(throttle(step=50),)))
    pods = [batch(number) for number in (1, 2, 3)]
    usages = {1: 1000, 2: 3000, 3: 2000}
    # The gap is 1650 m: the largest user releases 1500 m, the next one 1000 m.
    run.tick(seen(1, *pods, usages=usages, metrics={USAGE: 7500}))
    assert run.quotas() == {"pod2/c1": 1500, "pod3/c1": 1000}


def test_15_of_two_rules_the_smaller_watermark() -> None:
    settings = bound(rule("a"), rule("b", value=5000), actions=(throttle(),))
    run = Run(settings)
    run.tick(seen(1, batch(1), usages={1: 2000}, metrics={USAGE: 6500}))
    assert run.last.numbers["cpu_total_usage watermark"] == 5000
    assert run.last.numbers["cpu_total_usage gap"] == 1650
    assert run.last.intents[0].because.limit == "limit 5000"


def test_an_action_whose_step_is_0_throttles_nothing() -> None:
    """Whatever another action does to the same pods."""
    nothing = throttle("nothing", step=0)
    settings = bound(rule("a"), rule("b", does="nothing"), actions=(throttle(), nothing))
    run = Run(settings)
    run.tick(seen(1, batch(1), usages={1: 2000}, metrics={USAGE: 6500}))
    assert [(each.rule, each.did) for each in run.last.rules] == [
        ("a", "throttles 1 pod"),
        ("b", ""),
    ]


def test_of_two_actions_the_larger_step_and_the_larger_minimum() -> None:
    settings = bound(
        rule("a", does="one"),
        rule("b", does="two"),
        actions=(throttle("one", step=10, least=60), throttle("two", step=50, least=10)),
    )
    run = Run(settings)
    run.tick(seen(1, batch(1), usages={1: 2000}, metrics={USAGE: 9000}))
    assert run.quotas() == {"pod1/c1": 1200}


def test_a_percentage_is_counted_in_milli_cpu() -> None:
    metric = "cpu_total_utilization"
    run = Run(bound(rule(metric=metric, value=80), actions=(throttle(step=50),)))
    pods = (batch(1), batch(2))
    metrics = {metric: 90, "cpu_core_numbers": 8}
    # 10 % of 8 CPUs and a tenth more are 880 m.
    run.tick(seen(1, *pods, usages={1: 2000, 2: 1000}, metrics=metrics))
    assert run.quotas() == {"pod1/c1": 1000}


def test_all_selected_pods_where_a_percentage_cannot_be_counted() -> None:
    metric = "cpu_total_utilization"
    run = Run(bound(rule(metric=metric, value=80), actions=(throttle(step=50),)))
    run.tick(seen(1, batch(1), batch(2), usages={1: 2000, 2: 1000}, metrics={metric: 90}))
    assert set(run.quotas()) == {"pod1/c1", "pod2/c1"}


def test_down_to_the_minimum_and_no_further() -> None:
    run = Run(bound(rule(), actions=(throttle(step=50, least=20),)))
    pod = batch(1, box(1, "c1", limit=2000))
    seen_quotas = []
    for second in range(1, 6):
        run.tick(seen(second, pod, usages={1: 2000}, metrics={USAGE: 9000}))
        seen_quotas.append(run.quotas()["pod1/c1"])
    assert seen_quotas == [1000, 500, 400, 400, 400]
    assert run.last.rules[0].held == "its pods are at their minimum"


def test_not_demoted_where_the_setting_is_off() -> None:
    run = Run(bound(rule(), actions=(throttle(),), demote=False))
    run.tick(seen(1, batch(1), usages={1: 2000}, metrics={USAGE: 6500}))
    assert run.demoted() == set()
    assert run.quotas()


def test_restoring_stops_below_the_watermark() -> None:
    """The step would take 500 m, and 400 m are left."""
    run = Run(bound(rule(), actions=(throttle(cool_down=1, step=50),)))
    pod = batch(1)
    run.tick(seen(1, pod, usages={1: 2000}, metrics={USAGE: 6500}))
    for second in range(2, 10):
        run.tick(seen(second, pod, usages={1: 1000}, metrics={USAGE: 5600}))
    assert run.quotas() == {"pod1/c1": 1000}
    assert run.state() is RESTORING
    assert run.last.rules[0].held == "there is no room below the watermark"
    run.tick(seen(10, pod, usages={1: 1000}, metrics={USAGE: 5500}))
    assert run.quotas() == {"pod1/c1": 1500}


def test_restored_in_the_reverse_order() -> None:
    run = Run(bound(rule(), actions=(throttle(cool_down=1, step=50),)))
    pods = (batch(1, priority=-9), batch(2, priority=-1))
    usages = {1: 1000, 2: 1000}
    run.tick(seen(1, *pods, usages=usages, metrics={USAGE: 9000}))
    assert run.quotas() == {"pod1/c1": 500, "pod2/c1": 500}
    run.tick(seen(3, *pods, usages={1: 500, 2: 500}, metrics={USAGE: 5750}))
    assert run.quotas() == {"pod1/c1": 500, "pod2/c1": 750}


def test_one_look_above_stops_restoring() -> None:
    run = Run(bound(rule(counts=(2, 2)), actions=(throttle(cool_down=1, step=20),)))
    pod = batch(1)
    for second, used in ((1, 6500), (2, 6500), (3, 10), (4, 10), (5, 6500)):
        run.tick(seen(second, pod, usages={1: 2000}, metrics={USAGE: used}))
    assert run.state() is RESTORING
    quotas = run.quotas()
    run.tick(seen(6, pod, usages={1: 2000}, metrics={USAGE: 10}))
    assert run.quotas() == quotas
    run.tick(seen(7, pod, usages={1: 2000}, metrics={USAGE: 10}))
    assert run.quotas() != quotas


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(bound(rule(), actions=()), id="the action is deleted"),
        pytest.param(bound(rule(does="stop"), actions=(STOP,)), id="another action"),
        pytest.param(
            bound(rule(strategy="Preview"), actions=(throttle(),)), id="it becomes a preview"
        ),
        pytest.param(bound(rule("other"), actions=(throttle(),)), id="another rule"),
        pytest.param(
            bound(rule(), actions=(throttle(),), pods=(pod_qos("p", labelSelector={}),)),
            id="a PodQOS does not allow it",
        ),
    ],
)
def test_what_nobody_asks_for_is_undone_at_once(change: WatermarkRules) -> None:
    run = Run(bound(rule(), actions=(throttle(),)))
    run.tick(seen(1, batch(1), usages={1: 2000}, metrics={USAGE: 6500}))
    assert run.last.intents
    run.settings = change
    run.tick(seen(2, batch(1), usages={1: 2000}, metrics={USAGE: 100}))
    assert run.last.intents == ()
    assert not run.memory.throttled


def test_another_step_and_minimum_count_from_the_next_look_on() -> None:
    run = Run(bound(rule(), actions=(throttle(step=10),)))
    run.tick(seen(1, batch(1), usages={1: 2000}, metrics={USAGE: 9000}))
    run.settings = bound(rule(), actions=(throttle(step=50),))
    run.tick(seen(2, batch(1), usages={1: 1800}, metrics={USAGE: 9000}))
    assert run.quotas() == {"pod1/c1": 900}


def test_a_missing_metric_holds_one_rule_and_the_others_go_on() -> None:
    settings = bound(
        rule("a"),
        rule("b", metric="cpu_load_1_min", value=4),
        actions=(throttle(step=50, cool_down=1),),
        demote=False,
    )
    run = Run(settings)
    pod = batch(1)
    run.tick(seen(1, pod, usages={1: 2000}, metrics={USAGE: 6500, "cpu_load_1_min": 1}))
    assert run.quotas() == {"pod1/c1": 1000}
    lost = {USAGE: Gap("gone"), "cpu_load_1_min": 9}
    run.tick(seen(2, pod, usages={1: 1000}, metrics=lost))
    assert run.quotas() == {"pod1/c1": 500}
    assert run.last.rules[0].held == "gone"
    calm = {USAGE: Gap("gone"), "cpu_load_1_min": 1}
    for second in range(3, 32):
        run.tick(seen(second, pod, usages={1: 500}, metrics=calm))
        assert run.quotas() == {"pod1/c1": 500}, second
    run.tick(seen(32, pod, usages={1: 500}, metrics=calm))
    assert run.quotas() == {"pod1/c1": 750}


def test_a_container_that_restarts_keeps_its_claim() -> None:
    run = Run(bound(rule(), actions=(throttle(),)))
    run.tick(seen(1, batch(1), usages={1: 2000}, metrics={USAGE: 6500}))
    new = box(1, "c1")
    assert not isinstance(new.ref, Gap)
    again = msgspec.structs.replace(new, ref=msgspec.structs.replace(new.ref, id=177))
    run.tick(seen(2, batch(1, again), metrics={USAGE: 5000}))
    [intent] = (i for i in run.last.intents if i.knob == "quota")
    assert (intent.target.id, intent.value) == (177, 1800)


@pytest.mark.parametrize(
    "pod",
    [
        batch(1, protected="static"),
        batch(1, terminating=True),
        batch(1, ref=Gap("it has no cgroup")),
        batch(1, tier=BU),
    ],
)
def test_who_is_not_throttled(pod: Any) -> None:
    run = Run(bound(rule(), actions=(throttle(),)))
    run.tick(seen(1, pod, usages={1: 2000}, metrics={USAGE: 6500}))
    assert run.last.intents == ()
    assert run.last.rules[0].held == "there is no pod that throttle may throttle"


def test_the_demo_a_service_and_burstable_batch_of_low_priority() -> None:
    service = batch(1, box(1, "c1", BU, 1000), tier=BU, priority=1000)
    jobs = [batch(n, box(n, "c1", BU, 500), tier=BU, priority=0) for n in (2, 3)]
    run = Run(bound(rule(metric=LATENCY, value="50m"), actions=(throttle(),), probe=HTTP))
    run.tick(seen(1, service, *jobs, usages={1: 900, 2: 1500, 3: 1500}, metrics={PROBED: 0.08}))
    assert run.demoted() == {"pod2", "pod3"}


def watched(*above: bool, counts: tuple[int, int] = (2, 1), **settings: Any) -> Run:
    found = bound(
        rule(metric=LATENCY, value="50m", counts=counts),
        actions=(throttle(cool_down=3, step=50),),
        probe=HTTP,
        **settings,
    )
    run = Run(found)
    for second, high in enumerate(above):
        value = 0.0501 if high else 0.05
        run.tick(seen(second, batch(1), usages={1: 2000}, metrics={PROBED: value}))
    return run


def test_the_first_trigger_demotes_only() -> None:
    run = watched(True, True)
    assert (run.demoted(), run.quotas()) == ({"pod1"}, {})
    assert run.last.rules[0].did == "demotes 1 pod"


def test_the_quota_follows_where_that_was_not_enough() -> None:
    """Three measurements after the trigger: the next one is still of the time before it."""
    assert watched(*[True] * 4).quotas() == {}
    assert watched(*[True] * 5).quotas() == {"pod1/c1": 1000}
    assert watched(*[True] * 6).quotas() == {"pod1/c1": 500}


def test_looks_in_a_row() -> None:
    assert watched(*[True] * 4, False, *[True] * 4).quotas() == {}


def test_restored() -> None:
    run = watched(True, True, False, False, False)
    assert (run.demoted(), run.state()) == ({"pod1"}, COOLING)
    run = watched(True, True, False, False, False, False)
    assert (run.last.intents, run.state()) == ((), QUIET)


def test_the_quota_at_once_where_pods_are_not_demoted() -> None:
    run = watched(True, True, demote=False)
    assert (run.demoted(), run.quotas()) == (set(), {"pod1/c1": 1000})


def test_a_metric_that_can_be_counted_beside_it() -> None:
    """Past the first stage all selected pods are throttled, whatever the other's gap."""
    settings = bound(
        rule("a", metric="cpu_load_1_min", value=4, counts=(2, 1)),
        rule("b", counts=(1, 1)),
        actions=(throttle(step=50),),
    )
    run = Run(settings)
    pods, usages = (batch(1), batch(2)), {1: 2000, 2: 1000}
    metrics = {USAGE: 6100, "cpu_load_1_min": 9}
    run.tick(seen(1, *pods, usages=usages, metrics=metrics))
    assert (run.quotas(), run.demoted()) == ({"pod1/c1": 1000}, {"pod1"})
    run.tick(seen(2, *pods, usages=usages, metrics=metrics))
    assert (set(run.quotas()), run.demoted()) == ({"pod1/c1"}, {"pod1", "pod2"})
    for at in (3, 4):
        run.tick(seen(at, *pods, usages=usages, metrics=metrics))
        assert set(run.quotas()) == {"pod1/c1"}
    run.tick(seen(5, *pods, usages=usages, metrics=metrics))
    assert set(run.quotas()) == {"pod1/c1", "pod2/c1"}


_USED = st.lists(st.tuples(st.integers(1, 3000), st.integers(-3, 0)), min_size=1, max_size=12)
THROTTLING = bound(rule(), actions=(throttle(step=50, least=0),))


@given(_USED, st.integers(6001, 20_000), st.randoms())
def test_never_a_pod_more_than_needed_whatever_the_order_of_the_pods(
    made: list[tuple[int, int]], used: int, chance: random.Random
) -> None:
    """Without what the last one releases the gap stays open."""
    pods = [batch(number, priority=low) for number, (_, low) in enumerate(made, start=1)]
    usages = {number: used for number, (used, _) in enumerate(made, start=1)}
    run = Run(THROTTLING)
    run.tick(seen(1, *pods, usages=usages, metrics={USAGE: used}))
    claimed = {uid: each.claims["c1"].milli for uid, each in run.memory.throttled.items()}
    released = [max(usages[int(uid)] - milli, 0) for uid, milli in claimed.items()]
    gap = 110 * (used - 6000) / 100
    assert sum(released) - released[-1] < gap
    assert sum(released) >= gap or len(released) == len(pods)
    chance.shuffle(pods)
    again = Run(THROTTLING)
    again.tick(seen(1, *pods, usages=usages, metrics={USAGE: used}))
    assert again.quotas() == run.quotas()


def test_what_is_remarked_on_stays_between_two_measurements() -> None:
    """Else the log would say in every other tick that it is over."""
    settings = bound(
        rule(metric=LATENCY, value="50m"),
        actions=(throttle(),),
        pods=(pod_qos("nobody", "throttle", labelSelector={"matchLabels": {"app": "gone"}}),),
        probe=HTTP,
    )
    run = Run(settings)
    for second in range(1, 20):
        sample = Sample(0.06, {}, Micros((second - second % 5) * SECOND))
        run.tick(seen(second, batch(1), usages={1: 1000}, metrics={PROBED: (sample,)}))
        assert [each.about for each in run.last.remarks] == ["PodQOS/nobody"], second
        assert run.last.rules[0].held == "there is no pod that throttle may throttle"


def test_one_step_for_each_measurement_down_and_up() -> None:
    """Of a source that is slower than the ticks: a step whose effect nobody has seen yet is
    enough."""
    act = throttle(cool_down=1)
    run = Run(
        bound(rule(metric=LATENCY, value="50m"), actions=(act,), probe=HTTP, demote=False),
    )
    quotas = []
    for second in range(1, 41):
        asked = second - second % 10
        sample = Sample(0.06 if asked < 20 else 0.01, {}, Micros(asked * SECOND))
        run.tick(seen(second, batch(1), usages={1: 1000}, metrics={PROBED: (sample,)}))
        quotas.append(run.quotas().get("pod1/c1"))
    assert quotas == [900] * 9 + [810] * 10 + [891] * 10 + [980] * 10 + [None]
