"""QoS ensurance as a whole: rules in, intents, commands and reports out. Numbers in the ids are
rows of section 10 of the facts about Crane."""

import pytest

from slackwater.contract.crane.ensurance_set import NO_OBJECTS
from slackwater.model.decision import RuleState, Verb
from slackwater.policies.watermark_relief import WatermarkReliefSettings, bind
from tests.unit.policies.ensurance import STOP, Run, batch, bound, rule, seen, throttle

USAGE = "cpu_total_usage"


def test_it_is_off_without_rules_for_the_node() -> None:
    assert bind(WatermarkReliefSettings(), NO_OBJECTS, {}) == "there is no NodeQOS for this node"


def test_13_the_taint_goes_at_the_first_look_after_the_cool_down() -> None:
    run = Run(bound(rule(does="stop", counts=(1, 2)), actions=(STOP,)))
    run.tick(seen(0, metrics={USAGE: 6500}))
    assert run.stops_scheduling()
    for second in range(10, 301, 10):
        run.tick(seen(second, metrics={USAGE: 100}))
        assert run.stops_scheduling(), second
    run.tick(seen(310, metrics={USAGE: 100}))
    assert not run.last.commands
    assert run.state() is RuleState.QUIET


def test_9_a_metric_at_its_value_is_not_above() -> None:
    run = Run(bound(rule(does="stop"), actions=(STOP,)))
    run.tick(seen(1, metrics={USAGE: 6000}))
    assert run.state() is RuleState.QUIET


def test_throttled_and_restored_to_the_baseline() -> None:
    run = Run(bound(rule(), actions=(throttle(cool_down=5, step=50),)))
    pod = batch(1)
    run.tick(seen(1, pod, usages={1: 2000}, metrics={USAGE: 6500}))
    assert run.quotas() == {"pod1/c1": 1000}
    assert run.demoted() == {"pod1"}
    assert {i.verb for i in run.last.intents} == {Verb.CAP, Verb.SET}
    for second in range(2, 7):
        run.tick(seen(second, pod, usages={1: 1000}, metrics={USAGE: 3000}))
        assert run.quotas() == {"pod1/c1": 1000}
        assert run.state() is RuleState.COOLING
    run.tick(seen(7, pod, usages={1: 1000}, metrics={USAGE: 3000}))
    assert run.quotas() == {"pod1/c1": 1500}
    assert run.state() is RuleState.RESTORING
    run.tick(seen(8, pod, usages={1: 1500}, metrics={USAGE: 3500}))
    assert (run.last.intents, run.state()) == ((), RuleState.QUIET)


@pytest.mark.parametrize("strategy", ["Preview"])
def test_preview_counts_and_touches_nothing(strategy: str) -> None:
    run = Run(bound(rule(strategy=strategy), actions=(throttle(),)))
    run.tick(seen(1, batch(1), usages={1: 2000}, metrics={USAGE: 6500}))
    assert (run.last.intents, run.last.commands) == ((), ())
    [report] = run.last.rules
    assert (report.state, report.preview, report.seen) == (RuleState.TRIGGERED, True, 6500)
