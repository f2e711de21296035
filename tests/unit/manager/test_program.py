"""The loop: who writes, when it writes, what it tells, and that it comes to rest."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.contract.resources import AVOIDANCE_ACTIONS, NODE_QOS, POD_QOS
from slackwater.http.errors import UnreachableError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.events import EventType
from slackwater.manager.controllers.policy_status import INVALID, VALID_AGAIN, find_validity
from slackwater.manager.policy_object import PolicyObject
from slackwater.manager.program import LONGEST_PAUSE, SETTLE
from slackwater.manager.state import why_not_ready
from slackwater.model.units import Micros
from tests.unit.manager.managed import Managed
from tests.unit.manager.objects import action, pod_qos, policy, rule

ALL = (action(), policy(), pod_qos("throttle"))
CONFLICT = HttpStatusError("PATCH /x", 409, "Conflict", "somebody was faster")


def named(name: str, *rules: dict[str, object]) -> PolicyObject:
    """A policy of its own uid."""
    return policy(*rules, name=name)


def test_every_object_gets_its_status_once() -> None:
    managed = Managed(ALL)
    managed.go(60)
    assert sorted(name for name, _ in managed.writes) == ["batch", "throttle", "waterline"]
    assert managed.events == []
    assert managed.state.counts().rounds == 60


def test_a_follower_looks_and_writes_nothing() -> None:
    managed = Managed(ALL)
    managed.leading, managed.who_leads = False, "another"
    managed.go(3)
    assert managed.writes == []
    last = managed.state.last_round
    assert last is not None
    assert (last.leads, last.leader) == (False, "another")
    assert why_not_ready(managed.state) == ""
    managed.leading = True
    managed.go()
    assert len(managed.writes) == 3


def test_a_lease_that_is_lost_while_it_writes_stops_it() -> None:
    managed = Managed([named(f"p{number}") for number in range(5)])
    turns = iter([True, True, True, False])  # of the round, then before each write
    managed.leads = lambda: next(turns, False)  # type: ignore[method-assign]
    managed.go()
    assert len(managed.writes) == 2


def test_nothing_is_judged_before_all_is_seen() -> None:
    """A missing action could be one that was not listed yet."""
    managed = Managed(ALL)
    managed.views[AVOIDANCE_ACTIONS] = {"items": {}, "synced": False, "problem": "refused"}
    managed.go(3)
    assert managed.writes == []
    assert why_not_ready(managed.state) == "AvoidanceAction: refused"
    managed.views.clear()
    managed.go()
    assert {name for name, _ in managed.writes} == {"batch", "throttle", "waterline"}
    assert managed.events == []


def test_a_kind_that_is_not_installed_is_told_once_and_the_others_go_on() -> None:
    managed = Managed(ALL)
    missing = {
        "items": {}, "synced": False, "unknown_kind": True, "problem": "there is no such kind",
    }  # fmt: skip
    managed.views[POD_QOS] = missing
    managed.go(5)
    assert {name for name, _ in managed.writes} == {"throttle", "waterline"}
    told = [entry.because for entry in managed.told if entry.what == "PodQOS"]
    assert told == ["the cluster does not know this kind: its definition is not installed"]
    assert why_not_ready(managed.state) == ""
    managed.views.clear()
    managed.go()
    assert managed.writes[-1][0] == "batch"
    assert [e.because for e in managed.told if e.what == "PodQOS"][-1] == "recovered"


def test_without_the_kind_of_actions_a_policy_is_neither_valid_nor_invalid() -> None:
    managed = Managed([policy()])
    managed.views[AVOIDANCE_ACTIONS] = {"items": {}, "unknown_kind": True, "synced": False}
    managed.go()
    [(_, status)] = managed.writes
    valid = find_validity(status)
    assert valid is not None
    assert (valid.status.value, valid.reason) == ("Unknown", "ActionsUnknown")


def test_an_unknown_action_is_an_event_and_so_is_its_mending() -> None:
    managed = Managed([policy(rule("later"))])
    managed.go(10)
    managed.put(action("later"))
    managed.go(10)
    first, second = managed.events
    assert (first.reason, first.type) == (INVALID, EventType.WARNING)
    assert first.message == "rule cpu-usage: there is no AvoidanceAction 'later'"
    assert (first.about.kind, first.about.name, first.about.uid) == (
        "NodeQOS", "waterline", "uid-of-waterline",
    )  # fmt: skip
    assert (second.reason, second.type) == (VALID_AGAIN, EventType.NORMAL)
    assert second.message.startswith("throttle when cpu_total_usage > 6000")
    assert managed.state.counts().events == 2


def test_another_reason_is_another_event() -> None:
    managed = Managed([policy(rule("one"))])
    managed.go()
    managed.put(policy(rule("two"), generation=2))
    managed.go()
    managed.put(policy(rule("two"), generation=3))  # the same reason
    managed.go()
    assert [event.message.rpartition(" ")[2] for event in managed.events] == ["'one'", "'two'"]
    assert len(managed.writes) == 3


def test_a_restarted_manager_says_nothing_again() -> None:
    managed = Managed([policy(rule("nope"))])
    managed.go()
    again = Managed(managed.objects.values())
    again.go(10)
    assert (again.writes, again.events) == ([], [])


def test_a_write_that_fails_is_told_once_and_tried_again() -> None:
    managed = Managed([policy(rule("nope"))])
    managed.fails_with = CONFLICT
    managed.go(7)
    failed = [entry for entry in managed.told if "Conflict" in entry.result]
    assert len(failed) == 1
    assert managed.events == []  # only what is_current there is news
    assert managed.loop.pause(Micros(7_000_000)) == pytest.approx(7, abs=1.1)
    managed.fails_with = None
    managed.go(9)
    assert len(managed.writes) == 1
    assert len(managed.events) == 1
    writes = managed.state.counts().writes
    assert writes["NodeQOS", "refused"] == 3
    assert writes["NodeQOS", "applied"] == 1


def test_when_nobody_answers_the_others_are_not_tried() -> None:
    managed = Managed([named(f"p{number}") for number in range(100)])
    managed.fails_with = UnreachableError("nobody answers")
    managed.go()
    assert sum(managed.state.counts().writes.values()) == 1
    managed.fails_with = None
    managed.go(5)
    assert len(managed.writes) == 100


def test_a_watch_that_lags_causes_no_second_write() -> None:
    managed = Managed(ALL)
    managed.echoes = False
    managed.go(29)
    assert len(managed.writes) == 3


def test_nodes_come_and_go() -> None:
    managed = Managed([action(), policy()])
    managed.go()
    managed.nodes["n2"] = msgspec.structs.replace(managed.nodes["n1"], name="n2")
    managed.go(5)
    assert [status.nodes for name, status in managed.writes if name == "waterline"] == [1, 2]


def test_states_are_told_when_they_change() -> None:
    managed = Managed([])
    managed.go(3)
    managed.lease_problem, managed.who_leads = "the server is gone", ""
    managed.go(3)
    managed.lease_problem, managed.who_leads = "", "me"
    managed.go(3)
    told = [(entry.what, entry.because) for entry in managed.told]
    assert told == [
        ("leader", "me leads"),
        ("lease", "the server is gone"),
        ("leader", "no replica leads"),
        ("lease", "recovered"),
        ("leader", "me leads"),
    ]


def test_events_that_cannot_be_sent_are_a_problem() -> None:
    managed = Managed([])
    managed.recorder.why_not = "events is forbidden"
    managed.go(3)
    last = managed.state.last_round
    assert last is not None
    assert last.problems == ("events: events is forbidden",)
    told = [entry.because for entry in managed.told if entry.what == "events"]
    assert told == ["events is forbidden"]


def test_pauses() -> None:
    managed = Managed([])
    assert managed.loop.pause(Micros(0)) == LONGEST_PAUSE
    managed.put(policy())
    managed.fails_with = CONFLICT
    managed.go()
    assert managed.loop.pause(Micros(1_000_000)) == 2.0
    assert managed.loop.pause(Micros(90_000_000)) == SETTLE


def test_where_it_stands() -> None:
    managed = Managed([action(), policy(rule("nope"))])
    managed.views[NODE_QOS] = {"problem": "the watch broke", "heard_at": Micros(1)}
    managed.go(2)
    last = managed.state.last_round
    assert last is not None
    kinds = {each.kind: each for each in last.kinds}
    assert (kinds["Node"].objects, kinds["NodeQOS"].objects) == (1, 1)
    assert (kinds["NodeQOS"].invalid, kinds["AvoidanceAction"].invalid) == (1, 0)
    assert last.problems == ("NodeQOS: the watch broke",)


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["policy", "action", "drop"]), st.sampled_from(["a", "b", "throttle"])
        ),
        max_size=12,
    )
)
def test_whatever_happens_it_comes_to_rest(steps: list[tuple[str, str]]) -> None:
    """After each change a bounded number of writes, then none; the last status is the truth."""
    managed = Managed([])
    for number, (what, name) in enumerate(steps):
        match what:
            case "policy":
                managed.put(policy(rule(name), name=f"on-{name}", generation=number + 1))
            case "action":
                managed.put(action(name, generation=number + 1))
            case _:
                managed.objects.pop(f"uid-of-{name}", None)
        managed.go(40)
        before = len(managed.writes)
        managed.go(40)
        assert len(managed.writes) == before
    for each in managed.objects.values():
        valid = find_validity(each.status)
        assert valid is not None
        names_one = each.name.startswith("on-")
        there = f"uid-of-{each.name.removeprefix('on-')}" in managed.objects
        assert (valid.status.value == "True") is (there if names_one else True)
