"""Events on pods that rules slow down: on change, not for each step, and bounded."""

import msgspec

from slackwater.kube.events import EventType
from slackwater.model.cgroup import CgroupRef, Level, Tier
from slackwater.model.decision import (
    Because,
    Contribution,
    Grant,
    PolicyAction,
    RuleState,
    Verb,
)
from slackwater.model.units import MilliCpu
from slackwater.model.workload import Workload
from slackwater.record.journal import TickRecord
from slackwater.record.pod_events import SlowedPods, due_pod_events
from tests.unit.policies.nodes import node
from tests.unit.record.rule_reports import RELIEF, rule, rule_record
from tests.unit.record.test_node_events import Crier

ABOVE, QUIET = RuleState.TRIGGERED, RuleState.QUIET
BECAUSE = Because("NodeQOS/q/r: cpu_total_usage", "6500", "6000")


def pod(number: int) -> Workload:
    ref = CgroupRef(f"kubepods/pod{number}", number, Level.POD, Tier.BURSTABLE, str(number))
    return Workload(str(number), f"pod-{number}", "batch", Tier.BURSTABLE, ref)


PODS = tuple(map(pod, range(1, 31)))


def grant(number: int, knob: str, by: str = RELIEF) -> Grant:
    ref = PODS[number - 1].ref
    assert isinstance(ref, CgroupRef)
    given = Contribution(by, Verb.CAP, MilliCpu(100), MilliCpu(100), BECAUSE)
    return Grant(ref, knob, MilliCpu(100), (given,))


def tick(
    *grants: Grant,
    state: RuleState = ABOVE,
    pods: tuple[Workload, ...] = PODS,
    course: PolicyAction = PolicyAction.ACTED,
) -> TickRecord:
    rules = (rule(state),) if course is PolicyAction.ACTED else ()
    done = rule_record(*rules, course=course, snapshot=node(workloads=pods))
    story = msgspec.structs.replace(done.story, grants=grants)
    return msgspec.structs.replace(done, story=story)


def follow(*records: TickRecord, before: SlowedPods | None = None) -> list[list[tuple[str, str]]]:
    """Reasons and pods, tick by tick."""
    slowed, found = before or {}, []
    for each in records:
        told, slowed = due_pod_events(each, slowed)
        found.append([(event.reason, event.pod) for event in told])
    return found


def test_demoted_throttled_and_restored_once_each() -> None:
    weight, quota = grant(1, "idle"), grant(1, "quota")
    found = follow(
        tick(state=QUIET),
        tick(weight),
        tick(weight),
        tick(weight, quota),
        tick(quota, weight),
        tick(weight),
        tick(),
        tick(state=QUIET),
    )
    name = "batch/pod-1"
    assert found == [
        [],
        [("Demoted", name)],
        [],
        [("Throttled", name)],
        [],
        [],
        [("ThrottleRestored", name)],
        [],
    ]


def test_what_is_said() -> None:
    (one, two), _ = due_pod_events(tick(grant(1, "weight"), grant(2, "quota")), {})
    assert one.message == (
        "runs at the lowest CPU weight to relieve its node: NodeQOS/q/r: cpu_total_usage 6500, 6000"
    )
    assert two.message.startswith("its CPU quota is lowered to relieve its node: NodeQOS/q/r")
    assert (one.type, one.uid) == (EventType.WARNING, "1")
    [back], _ = due_pod_events(tick(state=QUIET), {"1": "Throttled"})
    assert back.type is EventType.NORMAL


def test_what_other_policies_ask_for_is_not_told() -> None:
    assert follow(tick(grant(1, "quota", by="elastic_resources"))) == [[]]


def test_a_pod_that_is_gone_is_told_nothing() -> None:
    assert follow(tick(state=QUIET, pods=PODS[1:]), before={"1": "Throttled"}) == [[]]


def test_a_policy_that_holds_changes_nothing() -> None:
    held = tick(state=QUIET, course=PolicyAction.HELD)
    assert due_pod_events(held, {"1": "Throttled"}) == ((), {"1": "Throttled"})


def test_many_pods_are_told_in_several_rounds() -> None:
    all_of_them = tick(*(grant(number, "idle") for number in range(1, 31)))
    found = follow(*[all_of_them] * 4, *[tick()] * 4)
    assert [len(each) for each in found] == [10, 10, 10, 0, 10, 10, 10, 0]
    assert len({each for events in found for each in events}) == 60


def test_at_the_first_look_of_an_agent_nothing_is_told() -> None:
    told, slowed = due_pod_events(tick(grant(1, "quota")), {}, is_first=True)
    assert (told, slowed) == ((), {"1": "Throttled"})


def test_it_is_an_event_of_the_pod() -> None:
    crier = Crier()
    crier.hear(tick(state=QUIET))
    told = crier.hear(tick(grant(3, "quota")))
    assert [(each.about.kind, each.about.name, each.about.namespace) for each in told[1:]] == [
        ("Pod", "pod-3", "batch")
    ]
    assert [each.reason for each in told] == ["AvoidanceTriggered", "Throttled"]
