"""What a Node shows of its agent: the words for each state, and amounts that keep still."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater import __version__
from slackwater.contract.node_report import (
    MOST_ACTIVE_RULES,
    MOST_OBJECTS,
    ActiveRule,
    read_report,
)
from slackwater.model.cgroup import CgroupRef
from slackwater.model.decision import (
    Because,
    Contribution,
    Grant,
    PolicyAction,
    Remark,
    RuleState,
    Verb,
)
from slackwater.model.gap import Gap
from slackwater.model.plan import Result
from slackwater.model.problem import ConfigurationProblem
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, MilliCpu
from slackwater.record.agent_view import AgentView
from slackwater.record.journal import TickRecord
from slackwater.record.node_status import (
    final_status_patch,
    is_settling,
    node_report,
    node_status_patch,
    usage_step,
)
from tests.unit.policies.nodes import BESTEFFORT, FREE, held, node
from tests.unit.record.cpu_ticks import EXCLUSIVE, pinned_tick, placed, pod_with_cpus
from tests.unit.record.rule_reports import rule, rule_record
from tests.unit.record.tick_records import OURS, SHARE, outcome, record, told

SECOND = 1_000_000
HELD = (held(BESTEFFORT, FREE, OURS),)


def step(by: str = SHARE) -> Contribution:
    because = Because("signal", "seen", "limit")
    return Contribution(by, Verb.CAP, MilliCpu(600), MilliCpu(600), because)


GRANT = Grant(BESTEFFORT, "quota", MilliCpu(600), (step(),))
OFF = {"quota_burst": "quotaBurst.enabled is false"}


#: The log went with the pod; the ledger stays on the node.
AGAIN = "`slackwater release` on the node tries again, from the ledger in the agent's state folder"


def view(*ticks: TickRecord, **said: Any) -> AgentView:
    return AgentView(ticks=ticks, **said)


def granted(made: TickRecord, *grants: Grant) -> TickRecord:
    story = msgspec.structs.replace(made.story, grants=grants or (GRANT,))
    return msgspec.structs.replace(made, story=story)


STANDING = record(node(quota=OURS, kept=HELD, best_effort=220), lines=(told(),))
ACTED = granted(STANDING)


@pytest.mark.parametrize(
    ("shown", "status", "reason", "message"),
    [
        (view(), "Unknown", "Blind", "the agent has not looked yet"),
        (view(blind="waiting for pods"), "Unknown", "Blind", "waiting for pods"),
        (view(ACTED, blind="the tree is gone"), "Unknown", "Blind", "the tree is gone"),
        (view(record(), paused="released manually"), "False", "Released", "released manually"),
        (
            view(record(node(kept=HELD)), paused="released manually"),
            "True",
            "Released",
            "released manually; 1 value could not be restored",
        ),
        (
            view(record(), off=OFF),
            "False",
            "Off",
            "no policy is on: quota_burst: quotaBurst.enabled is false",
        ),
        (view(record()), "False", "Off", "no policy is on"),
        (view(record(node(kept=HELD))), "True", "Off", "no policy is on"),
        (
            view(record(node(kept=HELD), lines=(told(PolicyAction.HELD),))),
            "True",
            "Holding",
            "best_effort_share cannot see what it needs; see slackwater explain",
        ),
        (
            view(record(lines=(told(PolicyAction.RELEASED),))),
            "False",
            "Holding",
            "best_effort_share cannot see what it needs; see slackwater explain",
        ),
        (view(ACTED), "True", "Acting", "values are held by best_effort_share"),
        (view(STANDING), "True", "Acting", "values of before are held"),
        (
            view(record(lines=(told(),))),
            "False",
            "NothingToDo",
            "best_effort_share on, and nothing needs to be changed",
        ),
    ],
)
def test_the_condition_in_each_state(
    shown: AgentView, status: str, reason: str, message: str
) -> None:
    condition = node_status_patch(shown).condition
    assert (condition.status, condition.reason, condition.message) == (status, reason, message)


def test_only_those_are_named_that_hold_something() -> None:
    """Two are on; one has a part in what is held, the other only in what could not be written."""
    burst = Grant(BESTEFFORT, "burst", 5, (step("quota_burst"),))
    both = record(node(quota=OURS, kept=HELD), lines=(told(), told(policy="quota_burst")))
    condition = node_status_patch(view(granted(both, GRANT, burst))).condition
    assert condition.message == "values are held by best_effort_share"
    shared = Grant(BESTEFFORT, "quota", MilliCpu(600), (step("quota_burst"), step(), step()))
    condition = node_status_patch(view(granted(both, shared))).condition
    assert condition.message == "values are held by best_effort_share, quota_burst"


@pytest.mark.parametrize(
    ("course", "since", "blind", "settling"),
    [
        (PolicyAction.HELD, 10, "", True),
        (PolicyAction.HELD, 9, "", True),
        (PolicyAction.HELD, 8, "", False),
        (PolicyAction.HELD, None, "", False),
        (PolicyAction.HELD, 10, "the tree is gone", False),
        (PolicyAction.ACTED, 10, "", False),
        (PolicyAction.RELEASED, 10, "", False),
    ],
)
def test_a_hold_that_just_began_may_be_a_first_look(
    course: PolicyAction, since: int | None, blind: str, settling: bool
) -> None:
    at = None if since is None else Micros(since * SECOND)
    line = msgspec.structs.replace(told(course), since=at)
    assert is_settling(view(record(node(tick=10), lines=(line,)), blind=blind)) is settling


def test_nothing_is_settling_before_the_first_tick() -> None:
    assert not is_settling(view())


@pytest.mark.parametrize(
    ("left", "status", "message"),
    [
        (0, "False", "everything was restored on exit"),
        (1, "True", f"the agent ended, and 1 value could not be restored; {AGAIN}"),
        (3, "True", f"the agent ended, and 3 values could not be restored; {AGAIN}"),
    ],
)
def test_the_last_words(left: int, status: str, message: str) -> None:
    status_patch = final_status_patch(view(ACTED, off=OFF), left)
    assert (status_patch.condition.status, status_patch.condition.reason) == (status, "Released")
    assert status_patch.condition.message == message
    report = status_patch.report
    assert (report.holding, report.quota, report.used, report.since) == (left, None, None, None)
    assert report.policies == {SHARE: "", **OFF}


def test_the_whole_report() -> None:
    report = node_report(view(ACTED, off=OFF, problems=(ConfigurationProblem("a sentence"),)))
    assert report.version == __version__
    assert report.since == "1970-01-01T00:00:00Z"
    assert report.period == "1s"
    assert (report.quota, report.used) == (600, 200)
    assert report.holding == 1
    assert report.policies == {SHARE: "", **OFF}
    assert report.problems == ("a sentence",)


def test_before_the_first_tick_it_says_what_it_can() -> None:
    report = node_report(view(blind="waiting", problems=(ConfigurationProblem("odd"),)))
    assert (report.version, report.problems) == (__version__, ("odd",))
    assert (report.quota, report.used, report.holding, report.since) == (None,) * 4


def test_what_was_adopted_is_held_before_the_first_tick() -> None:
    assert node_report(view(blind="the settings are wrong", kept=1)).holding == 1


def test_while_blind_old_readings_are_not_passed_off_as_todays() -> None:
    report = node_report(view(ACTED, blind="the tree is gone"))
    assert (report.quota, report.used) == (None, None)
    assert report.holding == 1


@pytest.mark.parametrize("ticks", [(), (ACTED,)])
def test_a_lost_tree_is_a_problem_and_waiting_is_none(ticks: tuple[TickRecord, ...]) -> None:
    lost = view(
        *ticks,
        blind="the tree is gone",
        lost_since=Micros(0),
        problems=(ConfigurationProblem("odd"),),
    )
    assert node_report(lost).problems == ("the tree is gone", "odd")
    assert node_report(view(*ticks, blind="waiting for pods")).problems == ()


@pytest.mark.parametrize(
    ("made", "quota"),
    [
        (record(node(quota=OURS)), 600),
        (record(node(quota=FREE)), UNLIMITED),
        (record(node(quota=Gap("unread"))), None),
        (granted(record(node(quota=FREE), outcomes=(outcome(),))), 600),
        (granted(record(node(quota=FREE), outcomes=(outcome(Result.REFUSED),))), UNLIMITED),
        (record(msgspec.structs.replace(node(), tiers={})), None),
        (record(msgspec.structs.replace(node(), readings={})), None),
    ],
)
def test_the_quota_is_what_stands_there_after_the_tick(made: TickRecord, quota: object) -> None:
    assert node_report(view(made)).quota == quota


@pytest.mark.parametrize(
    ("made", "count"),
    [
        (record(), 0),
        (record(node(kept=HELD)), 1),
        (granted(record(outcomes=(outcome(),))), 1),
        (granted(record(outcomes=(outcome(Result.REFUSED),))), 0),
        (granted(record(node(kept=HELD), outcomes=(outcome(),))), 1),
        (record(node(kept=HELD), outcomes=(outcome(),)), 0),  # put back
        (record(node(kept=HELD), outcomes=(outcome(Result.VANISHED),)), 0),
        (record(node(kept=HELD), outcomes=(outcome(Result.REFUSED),)), 1),
    ],
)
def test_what_is_held_is_counted_after_the_tick(made: TickRecord, count: int) -> None:
    assert node_report(view(made)).holding == count


def test_usage_that_kept_a_small_quota_is_not_told_above_it() -> None:
    """Of a step of 100m, 60m is 100m: 0.1 used of 0.0 granted."""
    small = Bandwidth(Micros(7_000))
    made = record(node(allocatable=2000, usage=2000, best_effort=60, quota=small))
    report = node_report(view(made))
    assert (report.quota, report.used) == (70, 70)
    over = record(node(allocatable=2000, usage=2000, best_effort=160, quota=small))
    assert node_report(view(over)).used == 200


@pytest.mark.parametrize(
    ("allocatable", "used", "shown"),
    [(1000, 0, 0), (1000, 24, 0), (1000, 25, 50), (1000, 74, 50), (1000, 75, 100),
     (64_000, 1599, 0), (64_000, 1600, 3200), (10, 3, 3)],
)  # fmt: skip
def test_usage_is_told_in_steps_of_the_machine(allocatable: int, used: int, shown: int) -> None:
    made = record(node(allocatable=allocatable, best_effort=used))
    assert node_report(view(made)).used == shown


@given(st.integers(0, 100_000), st.integers(1, 256_000))
def test_a_step_is_never_far_from_the_truth(used: int, allocatable: int) -> None:
    shown = view(record(node(allocatable=allocatable, best_effort=used)))
    step = usage_step(shown)
    told_used = node_report(shown).used
    assert told_used is not None
    assert told_used % step == 0
    assert abs(told_used - used) <= step // 2 + 1


def test_unknown_usage_is_left_out() -> None:
    assert node_report(view(record(node(best_effort=None)))).used is None


@pytest.mark.parametrize("allocatable", [Gap("not stated"), MilliCpu(0), MilliCpu(3)])
def test_a_machine_of_unknown_size_has_the_finest_step(allocatable: MilliCpu | Gap) -> None:
    snapshot = msgspec.structs.replace(node(), allocatable=allocatable)
    assert usage_step(view(record(snapshot))) == 1
    assert usage_step(view()) == 1


def test_since_is_when_something_of_ours_last_changed() -> None:
    def changed(ref: CgroupRef, _knob: str) -> Micros | None:
        return Micros(90 * SECOND) if ref == BESTEFFORT else None

    shown = view(ACTED, last_change=changed, offset=Micros(1_000_000 * SECOND))
    assert node_report(shown).since == "1970-01-12T13:48:10Z"
    fresh = view(granted(record(node(tick=7), outcomes=(outcome(),))))
    assert node_report(fresh).since == "1970-01-01T00:00:07Z"
    assert node_report(view(record())).since is None


def test_a_flood_of_problems_is_bounded() -> None:
    flood = tuple(ConfigurationProblem(f"{n} {'x' * 999}") for n in range(99))
    report = node_report(view(record(), problems=flood))
    assert len(report.problems) == 10
    assert max(map(len, report.problems)) == 300
    assert all(each.endswith("...") for each in report.problems)
    assert len(report.text()) < 5_000


def test_a_long_message_is_cut_at_a_word() -> None:
    off = {f"policy_{number}": "no word here is half a word" for number in range(30)}
    message = node_status_patch(view(record(), off=off)).condition.message
    assert 380 < len(message) <= 400
    assert message.endswith("...")
    words = set(" ".join(f"{name}: {why};" for name, why in off.items()).split())
    assert message.removesuffix("...").removeprefix("no policy is on: ").split()[-1] in words


def test_a_quota_that_only_trembles_is_the_same_face_to_people() -> None:
    """The message has no number of the moment in it."""
    quotas = [Bandwidth(Micros(micros)) for micros in (60_000, 61_000)]
    status_patches = [
        node_status_patch(view(record(node(quota=quota, kept=HELD), lines=(told(),))))
        for quota in quotas
    ]
    assert status_patches[0].condition == status_patches[1].condition


def test_objects_that_are_followed_and_the_rules_that_are_not_quiet() -> None:
    rules = (
        rule(RuleState.TRIGGERED, "cpu", since=Micros(5 * SECOND)),
        rule(RuleState.QUIET, "memory"),
        rule(RuleState.COOLING, "load", policy="NodeQOS/other", preview=True),
        rule(RuleState.QUIET, "disk", policy="NodeQOS/quiet"),
    )
    report = node_report(view(rule_record(*rules)))
    assert report.rules == {
        "NodeQOS/waterline1": (ActiveRule("cpu", "triggered", "1970-01-01T00:00:05Z"),),
        "NodeQOS/other": (ActiveRule("load", "cooling", preview=True),),
        "NodeQOS/quiet": (),
    }
    assert final_status_patch(view(rule_record(*rules)), 0).report.rules == {}


def test_a_rule_without_its_metric_is_a_problem_of_the_node() -> None:
    report = node_report(view(rule_record(rule(seen=None, missing="Connection refused"))))
    assert report.problems == (
        "rule NodeQOS/waterline1/cpu: its metric is missing: Connection refused",
    )
    lacking = ActiveRule("cpu", "quiet", missing="Connection refused")
    assert report.rules == {"NodeQOS/waterline1": (lacking,)}
    assert read_report(report.text()) == report


def test_a_rule_that_can_never_act_is_told_and_is_no_problem_of_the_node() -> None:
    """Another node of the same pool may be larger."""
    report = node_report(view(rule_record(rule(vain="it never triggers"))))
    assert report.problems == ()
    assert report.rules == {
        "NodeQOS/waterline1": (ActiveRule("cpu", "quiet", vain="it never triggers"),)
    }
    assert read_report(report.text()) == report


def test_while_a_policy_holds_its_rules_are_those_of_before() -> None:
    """It says nothing about them then, and what it did stands."""
    before, held = rule_record(rule(RuleState.TRIGGERED)), rule_record(course=PolicyAction.HELD)
    told = node_report(view(before)).rules
    assert told
    assert node_report(view(before, held, held)).rules == told
    assert node_report(view(before, rule_record(course=PolicyAction.RELEASED))).rules == {}
    assert node_report(view(held)).rules == {}


def test_a_report_of_many_rules_is_bounded() -> None:
    many = [
        rule(RuleState.TRIGGERED, f"rule-{'x' * 50}-{place}", policy=f"NodeQOS/{place:060}")
        for place in range(1000)
    ]
    report = node_report(view(rule_record(*many)))
    assert len(report.rules) == MOST_OBJECTS
    assert sum(map(len, report.rules.values())) == MOST_ACTIVE_RULES
    assert len(report.text()) < 20_000


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ((), ()),
        (("late",), ("no CPUs of their own for prod/late: none is free",)),
        (("b", "a"), ("no CPUs of their own for 2 pods, such as prod/a: none is free",)),
    ],
)
def test_pods_without_the_cpus_that_they_ask_for_are_one_problem(
    names: tuple[str, ...], said: tuple[str, ...]
) -> None:
    pods = [pod_with_cpus(number, name, EXCLUSIVE) for number, name in enumerate(names, 1)]
    tick = pinned_tick(
        pods,
        [placed(pod, EXCLUSIVE, "", refused="none is free") for pod in pods],
        "0-7",
        [Remark(pod.title(), "none is free") for pod in pods],
    )
    assert node_report(view(tick)).problems == said
    assert node_report(view(tick, blind="nothing is seen")).problems == ()
