"""A rule in explain and in a replay, with the policy itself: what it did to a pod, and why not."""

from typing import Any

import msgspec

from slackwater.agent.recording_replay import Aspect, replay
from slackwater.agent.tick import TickMemory, tick
from slackwater.model.plan import Outcome, Result
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Micros
from slackwater.policies.ensurance import watermark_relief
from slackwater.record.agent_view import AgentView
from slackwater.record.journal import TickInputs, TickRecord, make_entries
from slackwater.record.recording import decode_recording, encode_recording
from slackwater.settings.agent_settings import AgentSettings
from tests.unit.policies.ensurance import STOP, batch, bound, pod_qos, rule, seen, throttle
from tests.unit.record.stories import OFFSET, rows

POLICIES = (watermark_relief.POLICY,)
NAME = watermark_relief.NAME
SETTINGS = bound(
    rule("high", value=1000), rule("low", value=900, does="stop"), actions=(throttle(), STOP)
)
CRITICAL = batch(3, protected="critical")


def run(*usages: int, settings: Any = SETTINGS) -> list[TickRecord]:
    """One tick for each usage of the node."""
    memory, agent = TickMemory(), AgentSettings()
    records = []
    for number, used in enumerate(usages, start=1):
        snapshot = _node(number, used)
        on: dict[str, Any] = {NAME: settings}
        done = tick(snapshot, memory, POLICIES, on, agent)
        outcomes = tuple(Outcome(change, Result.APPLIED) for change in done.planned.changes)
        entries = make_entries(snapshot, outcomes, done.story)
        inputs = TickInputs(memory, on, agent)
        records.append(TickRecord(snapshot, inputs, done.story, outcomes, entries, Micros(0)))
        memory = done.memory
    return records


def _node(number: int, used: int) -> NodeSnapshot:
    usages = {1: used // 2, 2: used // 4}
    metrics = {"cpu_total_usage": used}
    return seen(number, batch(1), batch(2), CRITICAL, usages=usages, metrics=metrics)


def view(records: list[TickRecord]) -> AgentView:
    return AgentView(ticks=tuple(records), offset=OFFSET, policies=POLICIES)


def test_a_throttled_pod_names_the_rule() -> None:
    knobs = [row for row in rows(view(run(2000, 2000, 2000)), "default/pod-1") if row.contributions]
    assert knobs
    signals = [part.because.signal for row in knobs for part in row.contributions]
    assert all("cpu_total_usage" in signal for signal in signals)


def test_a_pod_that_is_left_alone_says_why() -> None:
    told = view(run(2000, 2000))
    [row] = [row for row in rows(told, "default/pod-3") if row.knob is None]
    assert f"{NAME}: no rule touches it: it is critical" in row.remarks
    *_, row = rows(told, "default/pod-1")
    assert f"{NAME}: throttle may touch it when a rule is triggered" in row.remarks


def test_a_pod_qos_without_pods_is_told_before_its_rule_is_triggered() -> None:
    """And once while it is."""
    lonely = pod_qos("p", "throttle", labelSelector={"matchLabels": {"a": "b"}})
    rules = bound(rule("high", value=1000), actions=(throttle(),), pods=(lonely,))
    told = f"PodQOS/p: {NAME}: matches no pod of this node, so throttle touches none"
    for usages in ((100,), (2000, 2000, 2000)):
        found = [row for row in rows(view(run(*usages, settings=rules))) if row.rules]
        assert [list(row.remarks).count(told) for row in found] == [1]


def test_the_node_shows_both_rules() -> None:
    [row] = [row for row in rows(view(run(2000, 2000, 2000))) if row.rules]
    assert {each.rule: each.state for each in row.rules} == dict.fromkeys(
        [each.rule for each in row.rules], "triggered"
    )
    assert len(row.rules) == 2
    assert "stops scheduling" in {each.did for each in row.rules}


def test_rules_and_commands_are_replayed_with_the_objects_of_then() -> None:
    records = run(100, 2000, 2000, 2000, 100)
    assert any(record.story.commands for record in records)
    done = replay(decode_recording(encode_recording(records)), POLICIES)
    assert (done.differences, done.problems) == ((), ())


def test_another_decision_about_a_rule_is_a_difference() -> None:
    """Each tick as if no rule had been there then."""
    records = [
        msgspec.structs.replace(
            each,
            story=msgspec.structs.replace(
                each.story,
                commands=(),
                told=tuple(msgspec.structs.replace(line, rules=()) for line in each.story.told),
            ),
        )
        for each in run(2000, 2000, 2000)
    ]
    done = replay(decode_recording(encode_recording(records)), POLICIES)
    aspects = {each.aspect for each in done.differences}
    assert {Aspect.RULE, Aspect.COMMAND} <= aspects
    taints = [each for each in done.differences if each.what == "taint interference.crane.io"]
    assert {(each.then, each.now) for each in taints} == {("nothing", "asked for")}
