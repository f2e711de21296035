"""Why each value is what it is, or why nothing happened: a row for each case."""

from typing import Any

import msgspec
import pytest

from slackwater.model import decision
from slackwater.model.cgroup import CgroupVersion, Tier
from slackwater.model.decision import (
    Because,
    Contribution,
    Grant,
    Note,
    NoteKind,
    PolicyAction,
    Remark,
    Verb,
    Yielded,
)
from slackwater.model.gap import Gap
from slackwater.model.knob import QUOTA
from slackwater.model.plan import Change, Outcome, Result
from slackwater.model.problem import ConfigurationProblem
from slackwater.model.snapshot import Held
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, MilliCpu, Percent, Ratio
from slackwater.model.workload import BurstRequest, MemoryRatios, Workload, WorkloadContainer
from slackwater.policies.best_effort_share import BestEffortShareSettings
from slackwater.record.agent_view import AgentView
from slackwater.record.explanation import Explanation, explain
from tests.unit.policies.nodes import BESTEFFORT, FREE, held, node, pod
from tests.unit.record.stories import Told, only, rows

OURS = Bandwidth(Micros(60_000))
KEPT = (held(BESTEFFORT, FREE, OURS),)
BATCH, WEB = pod(1, Tier.BESTEFFORT), pod(2, Tier.BURSTABLE, 500)
SEES_NOTHING = (
    "the agent sees nothing now: the tree is gone; "
    "all this is of its last look at 2026-01-01T00:00:01.000Z"
)
AMOUNT = {"kubernetes.io/batch-cpu": 5}
ASKING = WorkloadContainer("c", Gap("x"), MilliCpu(0), UNLIMITED, extended_limits=AMOUNT)
OFF = {"best_effort_share": "bestEffortShare.enabled is false"}


def test_the_documented_shape() -> None:
    view = Told().tick(node(usage=200)).view()
    [row] = msgspec.json.decode(msgspec.json.encode(explain(view, "besteffort")))
    documented = {
        "target": "besteffort", "level": "tier", "knob": "quota", "file": "cpu.max",
        "now": "600m", "baseline": "unlimited", "granted": "600m",
        "since": "2026-01-01T00:00:01.000Z", "clippedBy": "best_effort_share", "holds": [],
    }  # fmt: skip
    assert {key: row[key] for key in documented} == documented
    [part] = row["contributions"]
    assert (part["policy"], part["verb"], part["value"]) == ("best_effort_share", "cap", "600m")
    assert part["because"] == {
        "signal": "used by all but best effort", "seen": "200m", "limit": "800m allowed",
    }  # fmt: skip
    assert row["numbers"]["best_effort_share"]["budget"] == 600
    assert (row["apiVersion"], row["kind"]) == ("slackwater.io/v1", "Explanation")
    assert row["outcome"] == {
        "result": "applied", "value": "600m", "at": "2026-01-01T00:00:01.000Z", "detail": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("version", "file"),
    [
        (CgroupVersion.V2, "cpu.max"),
        (CgroupVersion.V1, "cpu.cfs_quota_us"),
        (Gap("not known"), None),
    ],
)
def test_the_file_is_the_versions_own(version: CgroupVersion | Gap, file: str | None) -> None:
    assert only(Told().tick(node(usage=200)).view(version=version)).file == file


def test_what_stands_is_what_was_written_then_what_is_read() -> None:
    told = Told().tick(node(usage=200))
    assert only(told.view()).now == "600m"
    told.tick(node(usage=200, tick=2, quota=OURS, kept=KEPT))
    row = only(told.view())
    assert (row.now, row.baseline, row.since) == ("600m", "unlimited", "2026-01-01T00:00:01.000Z")
    assert not row.adopted


@pytest.mark.parametrize(
    ("result", "detail", "now", "said"),
    [
        (Result.REFUSED, "busy", "unlimited", "the last attempt to write it was refused: busy"),
        (Result.UNSUPPORTED, "", "unlimited", "the last attempt to write it was unsupported"),
        (Result.PLANNED, "", "unlimited", "a dry run: nothing is written"),
    ],
)
def test_what_was_not_written(result: Result, detail: str, now: str, said: str) -> None:
    row = only(Told(result, detail).tick(node(usage=200)).view())
    assert (row.now, row.granted, row.since) == (now, "600m", None)
    assert row.remarks == (said,)


def test_a_hold_keeps_its_value_and_says_since_when() -> None:
    told = Told().tick(node(usage=200))
    for second in (2, 3):
        told.tick(node(usage=Gap("no usage"), tick=second, quota=OURS, kept=KEPT))
    row, general = rows(told.view())
    [hold] = row.holds
    assert (hold.policy, hold.reason, hold.course) == ("best_effort_share", "no usage", "held")
    assert hold.since == "2026-01-01T00:00:02.000Z"
    assert (general.knob, general.holds) == (None, row.holds)


def test_a_hold_without_anything_standing() -> None:
    row = only(Told().tick(node(usage=Gap("the node was read only once"))).view())
    assert (row.knob, row.target, row.level) == (None, "node", "node")
    assert [hold.reason for hold in row.holds] == ["the node was read only once"]


def test_a_hold_that_lasted_too_long() -> None:
    told = Told().tick(node(usage=200))
    for second in range(2, 35):
        told.tick(node(usage=Gap("no usage"), tick=second))
    row = only(told.view())
    assert row.knob is None
    assert row.holds[0].course == "released"
    assert row.holds[0].reason.endswith("so released")


@pytest.mark.parametrize(
    ("besides", "remarks", "holds"),
    [
        ({"off": OFF}, (), ["bestEffortShare.enabled is false"]),
        (
            {"off": OFF, "paused": "released manually"},
            ("the agent is paused: released manually",),
            [],
        ),
        (
            {"problems": (ConfigurationProblem("threshold is 400"),)},
            ("the configuration has a problem: threshold is 400",),
            [],
        ),
        (
            {"blind": "the tree is gone"},
            (SEES_NOTHING,),
            [],
        ),
    ],
)
def test_why_nothing_happened(
    besides: dict[str, Any], remarks: tuple[str, ...], holds: list[str]
) -> None:
    row = only(Told().tick(node(usage=200), {}).view(**besides))
    assert (row.knob, row.remarks) == (None, remarks)
    assert [hold.reason for hold in row.holds] == holds


@pytest.mark.parametrize(
    ("blind", "said"),
    [("", "the agent has not looked yet"), ("the tree is gone", "the tree is gone")],
)
def test_before_the_first_tick(blind: str, said: str) -> None:
    assert only(AgentView(blind=blind), "anything").remarks == (said,)


def test_what_an_earlier_agent_left() -> None:
    view = Told().tick(node(usage=Gap("read once"), quota=OURS, kept=KEPT)).view()
    row = only(view, "besteffort")
    assert (row.now, row.granted, row.adopted) == ("600m", None, True)
    assert row.remarks == ("kept until a policy has decided",)
    assert [hold.reason for hold in row.holds] == ["read once"]


def test_what_nobody_wants_any_more() -> None:
    told = Told().tick(node(usage=200))
    told.tick(node(usage=200, tick=2, quota=OURS, kept=KEPT), {})
    last = told.journal.ticks[-1]
    released = Outcome(Change(BESTEFFORT, QUOTA, OURS, FREE), Result.APPLIED)
    record = msgspec.structs.replace(last, outcomes=(released,))
    row = only(told.view(ticks=(record,)), "besteffort")
    assert (row.now, row.granted) == ("unlimited", None)
    assert row.remarks == ("put back: no policy wants it any more",)


def test_an_adopted_value_that_stands_is_ours_since_it_was_noted() -> None:
    row = only(Told().tick(node(usage=200, quota=OURS, kept=KEPT)).view())
    assert (row.adopted, row.since, row.outcome) == (True, "2026-01-01T00:00:00.000Z", None)


def test_a_quota_that_cannot_be_read_is_not_unlimited() -> None:
    told = Told().tick(node(usage=200))
    told.tick(node(usage=200, tick=2, quota=Gap("the cgroup is gone"), kept=KEPT))
    row = only(told.view())
    assert (row.now, row.granted) == (None, "600m")
    assert row.remarks == ("its quota could not be read: the cgroup is gone",)


def test_a_wish_at_a_group_that_was_never_read() -> None:
    row = only(Told().tick(node(usage=200, quota=Gap("no such file"))).view())
    assert row.knob is None
    assert "was not granted, as no value was read there" in row.holds[0].reason


def with_story(view: AgentView, **besides: Any) -> AgentView:
    """The same view, of a last tick with another story."""
    last = view.ticks[-1]
    story = msgspec.structs.replace(last.story, **besides)
    return msgspec.structs.replace(
        view, ticks=(*view.ticks[:-1], msgspec.structs.replace(last, story=story))
    )


def test_a_yielded_knob_and_the_last_intrusion() -> None:
    view = Told().tick(node(usage=200)).view()
    until = Yielded(BESTEFFORT, "quota", Micros(601_000_000))
    note = Note(BESTEFFORT, "quota", NoteKind.YIELD, "yielded for 600 s")
    row = only(with_story(view, yielded=(until,), notes=(note,)))
    assert row.yielded_until == "2026-01-01T00:10:01.000Z"
    assert row.last_drift is not None
    assert (row.last_drift.at, row.last_drift.text) == (
        "2026-01-01T00:00:01.000Z", "yielded for 600 s",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("target", "said"), [("", True), ("pod-1", True), ("pod-2", False), ("node", True)]
)
def test_what_a_pod_says_wrongly_is_in_the_answer(target: str, said: bool) -> None:
    sentence = "the annotation volcano.sh/enable-quota-burst is 'abc', but must be true or false"
    two = (pod(1, Tier.BESTEFFORT), pod(2, Tier.BESTEFFORT))
    view = Told().tick(node(usage=200, workloads=two)).view()
    record = view.ticks[-1]
    line = decision.PolicyReport(
        "quota_burst",
        PolicyAction.ACTED,
        "nothing to do",
        {},
        None,
        (),
        (Remark("default/pod-1", sentence),),
    )
    story = msgspec.structs.replace(record.story, told=(*record.story.told, line))
    view = msgspec.structs.replace(view, ticks=(msgspec.structs.replace(record, story=story),))
    remarks = [remark for row in rows(view, target) for remark in row.remarks]
    assert (f"default/pod-1: quota_burst: {sentence}" in remarks) == said


def test_an_idle_groups_weight_is_hidden_and_it_is_said() -> None:
    view = Told().tick(node(usage=200)).view()
    record = view.ticks[-1]
    reading = msgspec.structs.replace(record.snapshot.readings[BESTEFFORT.id], idle=True, weight=1)
    snapshot = msgspec.structs.replace(record.snapshot, readings={BESTEFFORT.id: reading})
    grant = Grant(BESTEFFORT, "weight", 20, ())
    story = msgspec.structs.replace(record.story, grants=(grant,))
    tick = msgspec.structs.replace(record, snapshot=snapshot, story=story, outcomes=())
    [row] = [r for r in rows(msgspec.structs.replace(view, ticks=(tick,))) if r.knob == "weight"]
    assert (row.now, row.granted) == ("1", "20")
    assert any("cpu.idle hides it" in remark for remark in row.remarks)


def test_the_weight_that_goes_with_idle_is_nobodys_and_not_adopted() -> None:
    """The kernel resets it; it is held so that it can be put back after idle."""
    kept = (Held(BESTEFFORT, "weight", 20, 1, Micros(0)),)
    view = Told().tick(node(usage=200, kept=kept)).view()
    record = view.ticks[-1]
    reading = msgspec.structs.replace(record.snapshot.readings[BESTEFFORT.id], idle=True, weight=1)
    snapshot = msgspec.structs.replace(record.snapshot, readings={BESTEFFORT.id: reading})
    story = msgspec.structs.replace(record.story, grants=())
    tick = msgspec.structs.replace(record, snapshot=snapshot, story=story, outcomes=())
    [row] = [r for r in rows(msgspec.structs.replace(view, ticks=(tick,))) if r.knob == "weight"]
    assert (row.granted, row.adopted) == (None, False)
    assert row.remarks == (
        "cpu.idle hides it: an idle group has the lowest weight; it is put back after idle",
    )


def test_a_contest_and_several_parts_in_order() -> None:
    steps = (
        Contribution("a", Verb.SCALE, Ratio(1, 2), MilliCpu(500), Because("x", "1", "2")),
        Contribution("b", Verb.CAP, MilliCpu(300), MilliCpu(300), Because("y", "3", "4")),
    )
    grant = Grant(BESTEFFORT, "quota", MilliCpu(400), steps, "b", "c's floor beats b's cap")
    row = only(with_story(Told().tick(node(usage=200)).view(), grants=(grant,), told=()))
    assert [(p.policy, p.verb, p.value, p.after) for p in row.contributions] == [
        ("a", "scale", "1/2", "500m"), ("b", "cap", "300m", "300m"),
    ]  # fmt: skip
    assert (row.granted, row.contest) == ("400m", "c's floor beats b's cap")


def test_a_raise_that_is_not_worth_a_write() -> None:
    stood = Bandwidth(Micros(779_300))
    kept = (held(BESTEFFORT, FREE, stood),)
    snapshot = node(allocatable=10_000, usage=200, quota=stood, kept=kept)
    keen = {"best_effort_share": BestEffortShareSettings(enabled=True, jitter=Percent(0))}
    row = only(Told().tick(snapshot, keen).view())
    assert (row.now, row.granted) == ("7793m", "7800m")
    assert row.remarks == ("a raise this small is not worth a write (agent.raiseDeadband)",)


def test_an_empty_story_says_nothing_is_to_do() -> None:
    view = with_story(Told().tick(node(usage=200)).view(), told=(), grants=())
    assert only(view) == Explanation(target="node", level="node")


ALL_OFF = {
    name: f"{name} is switched off somewhere"
    for name in ("elastic_resources", "qos_level", "memory_qos", "quota_burst")
}
WEIGHT_STEP = Contribution("elastic_resources", Verb.SET, 20, 20, Because("a", "b", "c"))


def with_weight(workload: Workload, **besides: Any) -> AgentView:
    """A tick in which somebody set this pod's weight."""
    assert not isinstance(workload.ref, Gap)
    ref = msgspec.structs.replace(workload.ref, owner=workload.uid)
    told = Told().tick(node(usage=200, workloads=(msgspec.structs.replace(workload, ref=ref),)))
    record = told.journal.ticks[0]
    grant = Grant(ref, "weight", 20, (WEIGHT_STEP,))
    story = msgspec.structs.replace(record.story, grants=(*record.story.grants, grant))
    ticks = (msgspec.structs.replace(record, story=story),)
    return msgspec.structs.replace(told.view(**besides), ticks=ticks)


@pytest.mark.parametrize(
    ("wishes", "missed"),
    [
        ({}, set()),
        ({"qos_level": -1}, {"qos_level"}),
        ({"qos_level": Gap("GOLD")}, {"qos_level"}),
        ({"burst": BurstRequest()}, {"quota_burst"}),
        ({"memory_ratios": MemoryRatios()}, {"memory_qos"}),
        ({"qos_level": -1, "burst": Gap("odd")}, {"qos_level", "quota_burst"}),
        ({"containers": (ASKING,)}, {"elastic_resources"}),
    ],
)
def test_a_pod_is_told_why_what_it_asks_for_is_off(wishes: Any, missed: set[str]) -> None:
    workload = msgspec.structs.replace(WEB, **wishes)
    found = rows(with_weight(workload, off=ALL_OFF), "pod-2")
    assert found[0].knob == "weight"
    assert {hold.policy for row in found for hold in row.holds} == missed
    assert {hold.course for row in found for hold in row.holds} <= {"off"}


def test_who_says_why_is_not_said_to_have_nothing_to_do() -> None:
    told = Told().tick(node(usage=200, workloads=(WEB,)))
    remark = Remark("default/pod-2", "only cgroup v2 has memory.high")
    line = decision.PolicyReport(
        "memory_qos", PolicyAction.ACTED, "nothing to do", {}, remarks=(remark,)
    )
    record = told.journal.ticks[0]
    story = msgspec.structs.replace(record.story, told=(*record.story.told, line))
    view = told.view(ticks=(msgspec.structs.replace(record, story=story),))
    for target in ("", "pod-2"):
        row = next(each for each in rows(view, target) if each.knob is None)
        assert "default/pod-2: memory_qos: only cgroup v2 has memory.high" in row.remarks
        assert "memory_qos" not in [hold.policy for hold in row.holds]
    others = rows(view, "burstable")[0]
    assert [hold.policy for hold in others.holds] == ["memory_qos"]
