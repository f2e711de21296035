"""Events for the cluster: on which object, how often, and never a storm."""

from typing import Any

import msgspec
import pytest

from slackwater.kube.events import EventType, KubeEvent, ObjectReference
from slackwater.model.cgroup import Tier
from slackwater.model.decision import Because, Contribution, Grant, NoteKind, Remark, Verb
from slackwater.model.problem import ConfigurationProblem, DocumentName, Problem
from slackwater.model.units import UNLIMITED, Micros, MilliCpu
from slackwater.policies.best_effort_share import NAME
from slackwater.record.agent_view import TOLERATED_SILENCE, AgentView
from slackwater.record.journal import TickRecord
from slackwater.record.node_events import (
    MOST_AT_ONCE,
    QUOTA_INTERVAL,
    REPEAT_AFTER,
    EventContext,
    SentState,
    due_events,
)
from tests.unit.policies.nodes import BESTEFFORT, BURSTABLE, KUBEPODS, node, pod
from tests.unit.record.tick_records import note, record, told

SECOND = 1_000_000
NODE = ObjectReference("v1", "Node", "here", uid="here")
CONFIG = "ConfigMap ns/volcano-agent-configuration"
CONFIG_NAME = DocumentName("", "ConfigMap", "ns", "volcano-agent-configuration")
NO_JSON = Problem("", "'x'", "JSON", document=CONFIG_NAME)
MAP = ObjectReference("v1", "ConfigMap", "volcano-agent-configuration", "ns", "uid-map")


def odd(text: str) -> ConfigurationProblem:
    """About Volcano's configuration."""
    return ConfigurationProblem(f"{CONFIG}: {text}", about=CONFIG_NAME)


class Crier:
    """Tells what is to be told, second by second."""

    def __init__(self) -> None:
        self.said = SentState()
        self.second = 0
        self.tick = 0

    def hear(self, *ticks: TickRecord, after: int = 1, **view: Any) -> list[KubeEvent]:
        self.second += after
        self.tick += 1
        numbered = [
            msgspec.structs.replace(
                each, snapshot=msgspec.structs.replace(each.snapshot, tick=self.tick)
            )
            for each in ticks
        ]
        telling = EventContext("here", Micros(self.second * SECOND), MilliCpu(50), self.uid_of)
        found, self.said = due_events(AgentView(ticks=tuple(numbered), **view), self.said, telling)
        return list(found)

    def uid_of(self, key: str) -> str:
        return "uid-map" if key == "ns/volcano-agent-configuration" else ""


def claimed(milli: int) -> TickRecord:
    return record(lines=(told(claim=milli),))


QUIET = record(lines=(told(),))


def quotas(found: list[KubeEvent]) -> list[str]:
    return [each.message for each in found if each.reason == "NodeCPUThrottle"]


def test_the_first_quota_is_told_on_the_node() -> None:
    [found] = Crier().hear(claimed(600))
    assert found == KubeEvent(
        NODE, "NodeCPUThrottle", "best-effort work may use 600m: a reason", EventType.NORMAL
    )


@pytest.mark.parametrize(
    ("grants", "amount"),
    [
        ([], 0),
        ([(BESTEFFORT, "quota", 10, NAME)], 10),
        ([(BESTEFFORT, "quota", 10, NAME), (KUBEPODS, "quota", 700, NAME)], 10),
        ([(BESTEFFORT, "burst", 10, NAME), (BESTEFFORT, "quota", 700, "quota_burst")], 0),
        ([(KUBEPODS, "quota", 10, NAME), (BURSTABLE, "quota", 20, NAME)], 30),
        ([(BESTEFFORT, "quota", UNLIMITED, NAME)], 0),
    ],
)
def test_the_quota_that_is_told_is_the_granted_one(grants: list[Any], amount: int) -> None:
    """The kernel's smallest one where nothing is left; the pods' together, where they carry it."""
    because = Because("signal", "seen", "limit")
    made = tuple(
        Grant(ref, knob, value, (Contribution(by, Verb.CAP, MilliCpu(0), value, because),))
        for ref, knob, value, by in grants
    )
    found = claimed(0)
    found = msgspec.structs.replace(found, story=msgspec.structs.replace(found.story, grants=made))
    assert quotas(Crier().hear(found)) == [f"best-effort work may use {amount}m: a reason"]


def test_a_quota_that_trembles_is_told_once() -> None:
    crier = Crier()
    told_quotas = [
        text for second in range(600) for text in quotas(crier.hear(claimed(600 + second % 49)))
    ]
    assert told_quotas == ["best-effort work may use 600m: a reason"]


def test_a_quota_that_moves_all_the_time_is_told_once_a_minute() -> None:
    crier = Crier()
    count = sum(len(crier.hear(claimed(100 * (second % 7)))) for second in range(601))
    assert count <= 11


def test_the_last_quota_is_told_in_the_end_though_nothing_happens_any_more() -> None:
    crier = Crier()
    crier.hear(claimed(600))
    assert quotas(crier.hear(claimed(1000))) == []
    waited = [text for _ in range(QUOTA_INTERVAL // SECOND) for text in quotas(crier.hear(QUIET))]
    assert waited == ["best-effort work may use 1000m: a reason"]


def test_a_policy_that_is_switched_on_again_starts_anew() -> None:
    crier = Crier()
    crier.hear(claimed(600))
    assert crier.hear(record()) == []
    assert len(quotas(crier.hear(claimed(600)))) == 1


def test_one_tick_is_heard_once() -> None:
    """A round that was no tick shows the last one again."""
    crier = Crier()
    yielding = record(lines=(told(),), notes=(note(NoteKind.YIELD),))
    assert [each.reason for each in crier.hear(yielding)] == ["ValueYielded"]
    crier.tick -= 1
    assert crier.hear(yielding) == []


@pytest.mark.parametrize(
    ("problem", "abouts"),
    [
        (
            ConfigurationProblem(
                "", (Problem("", "'x'", "JSON", document=CONFIG_NAME),), CONFIG_NAME
            ),
            [NODE, MAP],
        ),
        (odd("globalConfig.a is 1, but must be 2"), [NODE, MAP]),
        (
            ConfigurationProblem(
                "API server: ColocationConfiguration d/c: spec is odd",
                about=DocumentName("API server", "ColocationConfiguration", "d", "c"),
            ),
            [
                NODE,
                ObjectReference("config.volcano.sh/v1alpha1", "ColocationConfiguration", "c", "d"),
            ],
        ),
        (ConfigurationProblem("the Node here is gone", consequence="it stays"), [NODE]),
        (
            ConfigurationProblem("Node here is odd", about=DocumentName("", "Node", "", "here")),
            [NODE],
        ),
        (ConfigurationProblem("bestEffortShare.threshold is 0, but must be 1"), [NODE]),
    ],
)
def test_bad_configuration_is_told_on_the_node_and_on_its_cause(
    problem: ConfigurationProblem, abouts: list[ObjectReference]
) -> None:
    found = Crier().hear(QUIET, problems=(problem,))
    assert [each.about for each in found] == abouts
    assert {(each.reason, each.message, each.type) for each in found} == {
        ("ConfigApplyFailed", problem.sentence(), EventType.WARNING)
    }


def test_an_unreadable_pod_is_told_on_the_pod_alone() -> None:
    about = DocumentName("API server", "Pod", "shop", "web")
    problem = ConfigurationProblem("API server: Pod shop/web: metadata.uid is missing", about=about)
    [found] = Crier().hear(QUIET, problems=(problem,))
    assert found.about == ObjectReference("v1", "Pod", "web", "shop")
    assert found.reason == "PodUnreadable"


def test_a_problem_is_told_when_it_begins_again_after_a_while_and_when_it_ends() -> None:
    crier = Crier()
    problem = (odd("a is odd"),)
    assert len(crier.hear(QUIET, problems=problem)) == 2
    assert (
        sum(len(crier.hear(QUIET, problems=problem)) for _ in range(REPEAT_AFTER // SECOND - 1))
        == 0
    )
    assert len(crier.hear(QUIET, problems=problem)) == 2
    [good] = crier.hear(QUIET)
    assert (good.about, good.reason) == (NODE, "ConfigApplySuccess")
    assert good.type is EventType.NORMAL
    assert crier.hear(QUIET) == []


def test_several_problems_of_one_object_are_one_event() -> None:
    """The server counts the same reason on the same object together, and shows the last words."""
    problems = (odd("a is odd"), ConfigurationProblem("b is wrong"), odd("c is bad"))
    found = Crier().hear(QUIET, problems=problems)
    by_kind = {each.about.kind: each.message for each in found}
    assert by_kind == {
        "Node": f"{CONFIG}: a is odd; b is wrong; {CONFIG}: c is bad",
        "ConfigMap": f"{CONFIG}: a is odd; {CONFIG}: c is bad",
    }


def remarked(count: int) -> TickRecord:
    pods = tuple(pod(number, Tier.BESTEFFORT) for number in range(count))
    remarks = tuple(Remark(each.title(), "quota-burst-time is 'x'") for each in pods)
    line = msgspec.structs.replace(told(), remarks=remarks)
    return record(node(workloads=pods), lines=(line,))


def test_a_pods_odd_wish_is_told_on_the_pod() -> None:
    [found] = Crier().hear(remarked(1))
    assert found == KubeEvent(
        ObjectReference("v1", "Pod", "pod-0", "default", "0"),
        "OptionIgnored",
        "best_effort_share: quota-burst-time is 'x'",
        EventType.WARNING,
    )


def test_a_remark_about_the_node_is_told_there() -> None:
    line = msgspec.structs.replace(told(), remarks=(Remark("node", "the ratio is odd"),))
    [found] = Crier().hear(record(lines=(line,)))
    assert (found.about.kind, found.reason) == ("Node", "ConfigApplyFailed")
    assert found.message == "best_effort_share: the ratio is odd"


def test_a_pod_without_an_object_is_told_nothing() -> None:
    line = msgspec.structs.replace(told(), remarks=(Remark("gone", "odd"),))
    stray = msgspec.structs.replace(pod(1, Tier.BESTEFFORT), name="gone", namespace="")
    assert Crier().hear(record(node(workloads=(stray,)), lines=(line,))) == []


def test_hundreds_of_odd_pods_are_no_storm_and_none_is_forgotten() -> None:
    crier, made = Crier(), remarked(35)
    counts = [len(crier.hear(made)) for _ in range(6)]
    assert counts == [MOST_AT_ONCE, MOST_AT_ONCE, MOST_AT_ONCE, 5, 0, 0]


def test_what_is_gone_is_not_remembered() -> None:
    crier = Crier()
    crier.hear(remarked(5))
    crier.hear(QUIET)
    assert crier.said.states == {}


def test_a_yielded_value_is_told() -> None:
    repaired, yielded = note(NoteKind.REPAIR), note(NoteKind.YIELD)
    [found] = Crier().hear(record(lines=(told(),), notes=(repaired, yielded)))
    assert (found.about, found.reason, found.type) == (NODE, "ValueYielded", EventType.WARNING)
    assert found.message == "quota of kubepods/besteffort: somebody else wrote"


@pytest.mark.parametrize(
    ("because", "reasons", "kinds"),
    [
        ((), ["Blind"], ["Node"]),
        ((odd("a is odd"),), ["ConfigApplyFailed"] * 2, ["Node", "ConfigMap"]),
    ],
)
def test_blindness_is_told_once_on_what_causes_it(
    because: tuple[ConfigurationProblem, ...], reasons: list[str], kinds: list[str]
) -> None:
    crier = Crier()
    found = [
        each
        for _ in range(40)
        for each in crier.hear(blind="nothing is seen", blind_because=because)
    ]
    assert [each.reason for each in found] == reasons
    assert [each.about.kind for each in found] == kinds


def test_a_start_that_waits_for_a_moment_is_no_news() -> None:
    crier = Crier()
    for _ in range(TOLERATED_SILENCE // SECOND):
        assert crier.hear(blind="waiting for pods: no answer yet") == []
    assert quotas(crier.hear(claimed(600)))
    assert crier.hear(blind="the tree is gone") == []
    [found] = crier.hear(blind="the tree is gone", after=60)
    assert found == KubeEvent(NODE, "Blind", "the tree is gone", EventType.WARNING)


def test_who_sees_again_after_a_told_blindness_says_so_once() -> None:
    crier = Crier()
    crier.hear(blind="the tree is gone")
    [blind] = crier.hear(blind="the tree is gone", after=60)
    assert blind.reason == "Blind"
    [seen, *_] = crier.hear(QUIET)
    assert seen == KubeEvent(NODE, "SeesAgain", "the agent sees the node again")
    assert crier.hear(QUIET) == []


def test_another_reason_to_be_blind_is_no_sight() -> None:
    crier = Crier()
    crier.hear(blind="the tree is gone")
    crier.hear(blind="the tree is gone", after=60)
    [found] = crier.hear(blind="waiting for pods")
    assert found.reason == "Blind"


def test_a_blindness_that_was_not_told_has_no_end_to_tell() -> None:
    crier = Crier()
    crier.hear(blind="waiting")
    assert crier.hear(QUIET) == []


def test_a_release_by_hand_is_told_once() -> None:
    crier = Crier()
    found = [each for _ in range(9) for each in crier.hear(QUIET, paused="released manually")]
    assert found == [KubeEvent(NODE, "Released", "released manually")]


def test_while_blind_an_old_tick_is_not_told_again() -> None:
    crier = Crier()
    assert crier.hear(claimed(600), blind="gone") == []
