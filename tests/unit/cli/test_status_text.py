"""What people see of a cluster: every width, many nodes, nothing that harms a terminal."""

import datetime as dt
import io
from typing import Any

import msgspec
import pytest
from rich.console import Console

from slackwater.cli.status import MOST_NODES, MOST_PROBLEMS, MOST_RULES, bar, blocks
from slackwater.contract.node_report import ActiveRule
from slackwater.status.cluster_status import (
    ClusterStatus,
    ManagerRow,
    NodeState,
    NodeStatusRow,
    PolicyRow,
    Totals,
)

NOW = dt.datetime(2026, 11, 17, 10, tzinfo=dt.UTC)
SINCE = "2026-11-17T09:57:00Z"


def node(name: str, problem: str = "", **said: Any) -> NodeStatusRow:
    state = NodeState.PROBLEM if problem else NodeState.WELL
    said = {"quota": 1200, "used": 800, "holding": 3, "since": SINCE, "version": "0.1.0", **said}
    said = {"policies": {"best_effort_share": "on", "quota_burst": "not asked for"}, **said}
    return NodeStatusRow(name, state, 4000, problems=(problem,) if problem else (), **said)


def status(
    *nodes: NodeStatusRow, policies: tuple[PolicyRow, ...] = (), **said: Any
) -> ClusterStatus:
    totals = Totals(
        nodes=len(nodes),
        reporting=len(nodes),
        nodes_with_problems=sum(bool(row.problems) for row in nodes),
        known=(known := sum(row.quota is not None for row in nodes)),
        allocatable=4000 * known if known else None,
        quota=1200 * known if known else None,
        used=800 * known if known else None,
        policies=len(policies),
        policies_invalid=sum(row.valid == "False" for row in policies),
    )
    said = {"manager": ManagerRow("m-1", "2026-11-17T09:59:58Z", True), **said}
    return ClusterStatus(
        at="", server="https://10.0.0.1:6443", totals=totals, nodes=nodes, policies=policies, **said
    )


def lines(shown: ClusterStatus, width: int = 80, wide: bool = False) -> list[str]:
    console = Console(width=width, file=io.StringIO(), record=True, highlight=False)
    for block in blocks(shown, NOW, width, wide):
        console.print(block)
    return [line.rstrip() for line in console.export_text().splitlines()]


INVALID = PolicyRow(
    "NodeQOS", "bad", "False", "False", "Unknown", 3, "throttles", "no agent reports from n1", "",
    ("no action 'x'",),
)  # fmt: skip
UNJUDGED = PolicyRow("PodQOS", "new")
OLD = PolicyRow(
    "NodeQOSEnsurancePolicy", "old", "True", "True", "True", 3, "throttles",
    "all 3 nodes follow it", "cpu on n1, n2",
)  # fmt: skip


def test_a_screen() -> None:
    shown = status(node("n1", "it is too hot"), node("n2"), policies=(INVALID, OLD, UNJUDGED))
    assert lines(shown) == [
        "cluster https://10.0.0.1:6443",
        "manager m-1  heard 2 s ago",
        "nodes 2, 2 with a report, 1 with problems",
        "best effort 1.6 used of 2.4 granted, 8.0 cores in all  █████▒▒░░░░░░░░░░░░░░░░░",
        "",
        "node  state    best effort   quota  used  holding  since",
        "n1    problem  ██▒▒░░░░░░░░  1200m  800m        3  3 min",
        "  it is too hot",
        "n2    well     ██▒▒░░░░░░░░  1200m  800m        3  3 min",
        "",
        "policy       valid  enforced  triggered  nodes",
        "nodeqos/bad  no     no        -              3",
        "  no action 'x'",
        "  throttles",
        "  no agent reports from n1",
        "nep/old      yes    yes       yes            3",
        "  triggered: cpu on n1, n2",
        "  throttles",
        "podqos/new   -      -         -              -",
        "",
        "2 problems found.",
    ]


def test_sums_say_of_how_many_nodes_they_are() -> None:
    shown = lines(status(node("n1"), node("n2"), node("n3", quota=None, used=None)), 100)
    assert shown[3].startswith(
        "best effort 1.6 used of 2.4 granted, 8.0 cores in all, known of 2 of 3 nodes  ████▒▒▒░"
    )


def test_old_numbers_are_not_shown_as_present_ones() -> None:
    old = msgspec.structs.replace(node("n1", "its agent is gone"), current=False)
    shown = lines(status(old, node("n2")), 100)
    [row] = [line for line in shown if line.startswith("n1")]
    assert row.split() == ["n1", "problem", "(1200m)", "(800m)", "3", "3", "min"]
    assert "(in brackets: as last reported, not of now, and in no sum)" in shown
    assert not any("brackets" in line for line in lines(status(node("n2")), 100))


def test_a_node_without_room_says_so_and_comes_before_those_that_are_well() -> None:
    full = NodeStatusRow(
        "z", NodeState.NO_ROOM, 4000, quota=10, used=10, remarks=("best-effort pods get 10m",)
    )
    shown = status(node("a"), full)
    totals = msgspec.structs.replace(shown.totals, without_room=1)
    seen = lines(msgspec.structs.replace(shown, totals=totals))
    assert seen[2] == "nodes 2, 2 with a report, 1 without room for best effort"
    assert [line.split()[0] for line in seen if line.startswith(("a ", "z "))] == ["z", "a"]
    assert "  best-effort pods get 10m" in seen
    assert seen[-1] == "No problem found."


@pytest.mark.parametrize(
    ("used", "quota", "sums"),
    [
        (18, 20, "0.018 used of 0.02 granted"),
        (100, 1200, "0.1 used of 1.2 granted"),
        (0, 5, "0.0 used of 0.005 granted"),
    ],
)
def test_small_sums_are_not_rounded_to_nothing(used: int, quota: int, sums: str) -> None:
    shown = status(node("n1"))
    totals = msgspec.structs.replace(shown.totals, used=used, quota=quota)
    assert sums in lines(msgspec.structs.replace(shown, totals=totals))[3]


def test_a_policy_that_does_nothing_is_remarked_on() -> None:
    vain = PolicyRow(
        "NodeQOS", "big", "True", "True", "False", 2, "throttles",
        "all 2 nodes follow it; cpu can do nothing on n1: it never triggers", idle=True,
    )  # fmt: skip
    shown = status(node("n1"), policies=(vain, OLD))
    totals = msgspec.structs.replace(shown.totals, policies_idle=1)
    seen = lines(msgspec.structs.replace(shown, totals=totals))
    assert "  all 2 nodes follow it; cpu can do nothing on n1: it never triggers" in seen
    assert "  all 3 nodes follow it" not in seen
    assert seen[-2:] == [
        "1 policy does nothing, on some node or on all: see above.", "No problem found.",
    ]  # fmt: skip


def test_where_nothing_is_known_there_is_no_number_and_no_bar() -> None:
    shown = lines(status(node("n1", quota=None, used=None)))
    assert shown[3] == "best effort not known of any node"


@pytest.mark.parametrize("used", [None, 800])
def test_an_unknown_quota_is_not_the_whole_machine(used: int | None) -> None:
    row = next(line for line in lines(status(node("n1", quota=None, used=used))) if "well" in line)
    assert not set(row) & set("█▒░")


def test_wide_says_what_is_on_and_the_whole_kind() -> None:
    shown = lines(status(node("n1"), policies=(OLD,)), 110, wide=True)
    assert "  on best_effort_share  off quota_burst: not asked for  version 0.1.0" in shown
    assert any(line.startswith("nodeqosensurancepolicy/old ") for line in shown)


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    long = "a sentence of many words " * 20
    nodes = [node(f"worker-{number}.eu-west-1.compute.internal", long) for number in range(3)]
    nodes.append(node("idle", quota="unlimited", used=None, since=None, holding=None))
    shown = status(*nodes, policies=(INVALID, OLD))
    for wide in (False, True):
        assert max(map(len, lines(shown, width, wide))) <= width


def test_a_thousand_nodes_are_a_screen() -> None:
    bad = [node(f"bad-{number:02}", "hot") for number in range(13)]
    good = [node(f"good-{number:03}") for number in range(987)]
    shown = lines(status(*bad, *good))
    assert len(shown) < 50
    assert [line.split()[0] for line in shown if line.startswith("bad-")] == [r.name for r in bad]
    assert f"and {987 - (MOST_NODES - 13)} nodes without problems" in shown
    assert len(lines(status(*bad, *good), wide=True)) > 1000


def test_with_many_problems_the_others_are_only_counted() -> None:
    bad = [node(f"bad-{number:03}", "hot") for number in range(500)]
    good = [node(f"good-{number:03}") for number in range(987)]
    shown = lines(status(*bad, *good))
    assert f"and {500 - MOST_PROBLEMS} nodes with problems; -o wide shows them" in shown
    assert "and 987 nodes without problems" in shown
    assert not any(line.startswith("good-") for line in shown)


@pytest.mark.parametrize(
    ("count", "last"), [(20, "n-019"), (21, "n-020"), (22, "and 2 nodes without problems")]
)
def test_one_row_more_instead_of_a_line_that_counts_one(count: int, last: str) -> None:
    shown = lines(status(*(node(f"n-{number:03}") for number in range(count))))
    assert shown[-3].startswith(last)


def test_all_is_well() -> None:
    assert lines(status(node("n1")))[-1] == "No problem found."


def test_an_empty_cluster() -> None:
    assert lines(status(manager=None)) == [
        "cluster https://10.0.0.1:6443",
        "manager none runs",
        "nodes 0, 0 with a report",
        "",
        "No problem found.",
    ]


def test_what_is_not_known_is_a_dash_and_no_bar() -> None:
    without = NodeStatusRow("n1", NodeState.NO_AGENT, 4000)
    row = next(line for line in lines(status(without)) if line.startswith("n1"))
    assert row.split() == ["n1", "no", "agent", "-", "-", "-", "-"]


def test_notes_and_the_clusters_own_problems() -> None:
    shown = lines(status(node("n1"), notes=("pods are not shown",), problems=("no manager",)))
    assert shown[-3:] == ["pods are not shown", "no manager", "1 problem found."]


def test_control_codes_of_a_report_do_not_reach_the_terminal() -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202e"
    row = node("n1", f"hot{evil}", version=f"1{evil}", policies={f"p{evil}": "on", "q": evil})
    shown = status(row, policies=(PolicyRow("NodeQOS", "p", summary=f"s{evil}"),))
    text = "\n".join(lines(shown, wide=True))
    for sign in "\x1b\x07\u202e":
        assert sign not in text


@pytest.mark.parametrize(
    ("used", "quota", "whole", "drawn"),
    [
        (0, 0, 100, "░░░░░░░░░░"),
        (100, 100, 100, "██████████"),
        (20, 50, 100, "██▒▒▒░░░░░"),
        (50, 20, 100, "█████░░░░░"),
        (500, 900, 100, "██████████"),
        (None, 50, 100, ""),
        (20, None, 100, ""),
        (20, 50, None, ""),
        (20, 50, 0, ""),
    ],
)
def test_bars(used: int | None, quota: int | None, whole: int | None, drawn: str) -> None:
    assert bar(used, quota, whole, 10).plain == drawn


def active(*states: str, preview: bool = False) -> dict[str, tuple[ActiveRule, ...]]:
    rules = [
        ActiveRule(f"r{place}", state, "2026-11-17T09:59:20Z", preview)
        for place, state in enumerate(states)
    ]
    return {"NodeQOS/w": tuple(rules), "NodeQOS/quiet": ()}


def test_rules_that_are_not_quiet_are_below_their_node() -> None:
    hot = node("n1", rules=active("triggered", "cooling"))
    shown = lines(status(node("n0"), hot))
    place = next(number for number, line in enumerate(shown) if line.startswith("n1"))
    assert shown[place + 1 : place + 3] == [
        "  NodeQOS/w/r0 triggered for 40 s",
        "  NodeQOS/w/r1 cooling for 40 s",
    ]
    assert shown[place + 3].startswith("n0 "), "a node with such a rule comes first"
    assert "No problem found." in shown


def test_a_quiet_rule_that_can_never_act_brings_its_node_no_further_up() -> None:
    small = {"NodeQOS/w": (ActiveRule("r", "quiet", vain="it never triggers"),)}
    shown = lines(status(node("n0"), node("n1", rules=small)))
    assert [line.split()[0] for line in shown if line[:2] in ("n0", "n1")] == ["n0", "n1"]


def test_many_rules_of_one_node_are_counted() -> None:
    hot = node("n1", rules=active(*["triggered"] * (MOST_RULES + 2), preview=True))
    shown = lines(status(hot))
    assert "  and 2 rules more; -o wide shows them" in shown
    assert sum("(Preview: nothing is done)" in line for line in shown) == MOST_RULES
    wide = lines(status(hot), wide=True)
    assert sum("(Preview: nothing is done)" in line for line in wide) == MOST_RULES + 2


def test_wide_says_who_follows() -> None:
    assert "  all 3 nodes follow it" in lines(status(node("n1"), policies=(OLD,)), wide=True)
