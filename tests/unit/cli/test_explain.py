"""`slackwater explain`: what a person reads, what a script gets, and exit codes."""

import datetime as dt
import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from rich.console import Console

from slackwater.cli.explain import explanation_blocks, numbers_text
from slackwater.model.decision import Because
from slackwater.model.gap import Gap
from slackwater.record.agent_view import AgentView
from slackwater.record.explanation import (
    ContributionRow,
    Explanation,
    ForeignWrite,
    IdlePolicy,
    KnobWriteAttempt,
    explain,
)
from slackwater.record.rules import CommandRow, RuleRow
from slackwater.record.timestamps import describe_age, parse_timestamp, time_of_day
from tests.unit.cli.served import always, served_agent, slackwater
from tests.unit.policies.nodes import node
from tests.unit.record.stories import Told

pytestmark = pytest.mark.long

NOW = dt.datetime(2026, 1, 1, 0, 0, 13, tzinfo=dt.UTC)
ROW = Explanation(target="besteffort", level="tier", knob="quota", path="kubepods/besteffort")
THEN = "2026-01-01T00:00:01.000Z"


def text(rows: list[Explanation], width: int = 100, wide: bool = False) -> str:
    console = Console(width=width, file=io.StringIO(), record=True, highlight=False)
    for block in explanation_blocks(rows, NOW, wide):
        console.print(block)
    return "\n".join(line.rstrip() for line in console.export_text().splitlines())


def of(view: AgentView, target: str = "") -> list[Explanation]:
    found = explain(view, target)
    assert not isinstance(found, Gap)
    return list(found)


def test_a_knob_reads_as_in_the_manual() -> None:
    assert (
        text(of(Told().tick(node(usage=200)).view()))
        == """\
besteffort tier   quota 600m   (without us: unlimited)   set 12 s ago
  cpu.max of kubepods/besteffort
  1  best_effort_share caps it at 600m: used by all but best effort 200m, 800m allowed
     allocatable 1000m × threshold 80 % = allowed 800m; used 200m; budget 600m; claim 600m
  clipped by best_effort_share"""
    )


@pytest.mark.parametrize(
    ("row", "line"),
    [
        ({"now": None}, "besteffort tier   quota unknown   (without us: unknown)"),
        ({"now": "5m", "granted": "7m"}, "quota 5m, granted 7m   (without"),
        ({"now": "5m", "granted": "5m", "baseline": "9m"}, "quota 5m   (without us: 9m)"),
        ({"since": THEN, "adopted": True}, "   adopted; ours for 12 s"),
        ({"file": None}, "  quota of kubepods/besteffort"),
        ({"contest": "a beats b"}, "  contested: a beats b"),
        ({"holds": (IdlePolicy("p", "no usage", THEN),)}, "  p holds, for 12 s now: no usage"),
        ({"remarks": ("a dry run",)}, "  a dry run"),
        ({"last_drift": ForeignWrite(THEN, "written again")}, "  12 s ago: written again"),
    ],
)
def test_lines_of_a_knob(row: dict[str, Any], line: str) -> None:
    assert line in text([msgspec.structs.replace(ROW, **row)])


RULE = RuleRow(
    "NodeQOS/waterline1", "cpu", "cpu_total_usage", "throttle", "triggered", 6500, 6000, 2, 0, 2, 2,
    since=THEN, until="2026-01-01T00:05:01.000Z", did="throttles 2 pods",
    held="the cool-down is not over",
)  # fmt: skip
NODE = Explanation(target="node", level="node")


def test_a_rule_reads_as_in_the_manual() -> None:
    quiet = msgspec.structs.replace(
        RULE,
        rule="memory",
        state="quiet",
        seen=None,
        above=0,
        since=None,
        until=None,
        did="",
        held="",
    )
    until = time_of_day("2026-01-01T00:05:01.000Z")
    assert (
        text([msgspec.structs.replace(NODE, rules=(RULE, quiet))])
        == f"""\
NodeQOS/waterline1/cpu   triggered for 12 s   cpu_total_usage 6500 > 6000, 2 of 2 above
  action throttle: throttles 2 pods
  until {until}: the cool-down is not over
NodeQOS/waterline1/memory   quiet   cpu_total_usage is not known, limit 6000, 0 of 2 above
  action throttle: nothing is done now"""
    )


def test_with_a_rule_that_is_triggered_something_happened() -> None:
    row = msgspec.structs.replace(
        NODE, rules=(RULE,), holds=(IdlePolicy("p", "why", course="off"),)
    )
    assert "Besides: p is off: why" in text([row])
    quiet = msgspec.structs.replace(RULE, state="quiet")
    assert "Nothing happened because p is off: why" in text(
        [msgspec.structs.replace(row, rules=(quiet,))]
    )


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (
            CommandRow("evict a/b", "refused", THEN, "cpu 6500", "a budget", THEN),
            f"  evict a/b is refused: a budget; tried again at {time_of_day(THEN)} (cpu 6500)",
        ),
        (
            CommandRow("taint interference.crane.io", "queued", THEN, "cpu 6500, limit 6000"),
            "  taint interference.crane.io is queued (cpu 6500, limit 6000)",
        ),
    ],
)
def test_commands_in_flight(command: CommandRow, line: str) -> None:
    assert line in text([msgspec.structs.replace(NODE, commands=(command,))])


def test_a_yielded_knob_says_until_when() -> None:
    row = msgspec.structs.replace(ROW, yielded_until="2026-01-01T00:10:00Z")
    assert f"left to another writer until {time_of_day('2026-01-01T00:10:00Z')}" in text([row])


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("base", "p starts it from 5m: s 1, 2"),
        ("raise", "p adds 5m, which makes 9m: s 1, 2"),
        ("scale", "p scales it by 5m, which makes 9m: s 1, 2"),
        ("cap", "p caps it at 5m: s 1, 2"),
        ("floor", "p keeps it at no less than 5m: s 1, 2"),
        ("newer", "p newer 5m: s 1, 2"),
    ],
)
def test_verbs(verb: str, words: str) -> None:
    part = ContributionRow("p", verb, "5m", Because("s", "1", "2"), "9m")
    assert f"  1  {words}" in text([msgspec.structs.replace(ROW, contributions=(part,))])


def test_parts_are_numbered_and_a_policys_numbers_are_told_once() -> None:
    parts = tuple(
        ContributionRow(by, "cap", "5m", Because("s", "1", "2")) for by in ("a", "b", "a")
    )
    row = msgspec.structs.replace(ROW, contributions=parts, numbers={"a": {"x": 7, "y": 8}})
    shown = text([row])
    assert [line[2] for line in shown.splitlines() if " caps it" in line] == ["1", "2", "3"]
    assert shown.count("x 7; y 8") == 1


NUMBERS = {
    "allocatable": 1000, "threshold": 80, "allowed": 800, "used": 200, "budget": 600, "claim": 600,
    "recover_from": 25,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "tail"),
    [
        ({}, "claim 600m"),
        ({"claim": 400}, "claim 400m (raises go in steps, from 25 % of the budget on)"),
        ({"claim": 605}, "claim 605m (so small a change is not made)"),
        ({"new": 3}, "claim 600m; new 3"),
    ],
)
def test_numbers_as_a_sum(changed: dict[str, int], tail: str) -> None:
    shown = numbers_text("best_effort_share", NUMBERS | changed)
    assert shown.endswith(tail)
    assert shown.startswith("allocatable 1000m × threshold 80 % = allowed 800m; used 200m; ")


def test_numbers_that_we_do_not_know() -> None:
    assert numbers_text("best_effort_share", {"claim": 1}) == "claim 1"


def test_wide_adds_the_last_attempt() -> None:
    row = msgspec.structs.replace(
        ROW, since=THEN, outcome=KnobWriteAttempt("refused", "5m", THEN, "busy")
    )
    assert "  last attempt 12 s ago: 5m refused: busy\n" in text([row], wide=True)
    assert f"since {THEN}" in text([row], wide=True)
    assert "last attempt" not in text([row])


def silent(target: str = "node", level: str = "node", **besides: Any) -> Explanation:
    return Explanation(target=target, level=level, **besides)


OFF = IdlePolicy("p", "p.enabled is false", None, "off")
LET_GO, IDLE = IdlePolicy("p", "x", THEN, "released"), IdlePolicy("q", "idle", None, "acted")
PAUSED = ("the agent is paused",)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([silent()], "Nothing happened: there is nothing to do"),
        ([silent(holds=(OFF,))], "Nothing happened because p is off: p.enabled is false"),
        ([silent("a/b", "pod", remarks=("so it is",))], "Nothing happened to a/b because so it is"),
        (
            [silent(remarks=PAUSED, holds=(LET_GO, IDLE))],
            "Nothing happened because:\n  the agent is paused\n  p let go: x\n  q: idle",
        ),
        ([ROW, silent(remarks=PAUSED)], "\n\nBesides: the agent is paused"),
        ([ROW, silent(remarks=PAUSED, holds=(OFF,))], "\nBesides:\n  the agent is paused\n  p is"),
    ],
)
def test_why_nothing_happened(rows: list[Explanation], said: str) -> None:
    assert said in text(rows)


def test_a_pod_that_only_its_tier_holds_begins_with_the_tier() -> None:
    shown = text([silent("a/b", "pod", remarks=("so it is",)), ROW])
    assert shown.startswith("besteffort tier")
    assert shown.rstrip().endswith("Nothing happened to a/b itself because so it is")


def test_answers_about_several_pods_stay_in_their_order() -> None:
    shown = text([silent("a/b", "pod"), ROW, silent("c/b", "pod")])
    assert shown.index("a/b") < shown.index("besteffort tier") < shown.index("c/b")


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_every_width_keeps_every_word(width: int) -> None:
    rows = of(Told().tick(node(usage=200)).view())
    shown = text(rows, width)
    assert max(map(len, shown.splitlines())) <= width
    assert shown.split() == text(rows, 200).split()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3599, "59 min"), (3600, "1 h"), (200_000, "2 d"),
     (-5, "0 s")],
)  # fmt: skip
def test_ages(seconds: int, words: str) -> None:
    assert (
        describe_age(THEN, dt.datetime.fromisoformat(THEN) + dt.timedelta(seconds=seconds)) == words
    )


def test_times_that_are_none() -> None:
    assert (parse_timestamp("soon"), describe_age("soon", NOW)) == (None, "an unknown time")
    assert time_of_day("soon") == "soon"
    assert time_of_day("2026-01-01T12:00:01", dt.UTC) == "12:00:01"


def test_the_command_against_a_server() -> None:
    rows = of(Told().tick(node(usage=200)).view())
    with served_agent(always(rows)) as server:
        done = slackwater("explain", "besteffort", "--state", str(Path(server.address).parent))
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("besteffort tier   quota 600m   (without us: unlimited)")
        assert server.asked == ["/v1/explain?target=besteffort"]
        found = json.loads(slackwater("explain", "-o", "json", "--agent", server.address).stdout)
        assert found == json.loads(msgspec.json.encode(rows))
        listed = slackwater("explain", "-o", "yaml", SLACKWATER_AGENT=server.address).stdout
        assert yaml.safe_load(listed) == found
        wide = slackwater("explain", "-o", "wide", "--agent", server.address).stdout
        assert "last attempt" in wide


def test_an_unknown_target_is_one_sentence() -> None:
    error = {"error": "there is no 'x' here: there are node"}
    with served_agent(always(error, 404)) as server:
        done = slackwater("explain", "x", "--agent", server.address)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "slackwater: there is no 'x' here: there are node\n"


@pytest.mark.parametrize("command", ["explain", "top"])
def test_no_agent_is_one_sentence_that_says_how_to_start_one(command: str, tmp_path: Path) -> None:
    done = slackwater(command, "--state", str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "start one with `slackwater agent --standalone DIR`" in done.stderr


@pytest.mark.parametrize("command", ["explain", "top"])
@pytest.mark.parametrize("arguments", [("--agent", "x" * 200), ("-o", "xml"), ("--nonsense",)])
def test_wrong_usage_is_two(command: str, arguments: tuple[str, ...]) -> None:
    done = slackwater(command, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


def test_pods_go_with_a_tier() -> None:
    found = slackwater("explain", "default/web", "--pods")
    assert found.returncode == 2
    assert "--pods goes with a tier: guaranteed, burstable, besteffort" in found.stderr
