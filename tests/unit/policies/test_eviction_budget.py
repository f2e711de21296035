"""Budgets of evictions, what is in flight, and when none may be asked for."""

from typing import Any

import pytest

from slackwater.model.decision import Because, Command, CommandKind
from slackwater.model.metric import MetricKey
from slackwater.model.plan import CommandProgress, CommandState
from slackwater.model.snapshot import Freshness
from slackwater.model.units import Micros
from slackwater.policies.ensurance.eviction_budget import (
    EvictionBudget,
    EvictionMemory,
    admit_evictions,
    evictions_in_flight,
    judge_evictions,
    note_in_flight,
    relief_in_flight,
    why_no_eviction,
)
from tests.unit.policies.ensurance import seen

SECOND = 1_000_000
BUDGET = EvictionBudget(per_tick=2, per_minute=3, settle=Micros(10 * SECOND))
WHY = Because("m", "2", "1")


def command(uid: str, **relief: float) -> Command:
    return Command(
        f"evict/{uid}", CommandKind.EVICT, f"default/{uid}", WHY, "w", uid, relief=relief
    )


def going(
    uid: str, state: CommandState = CommandState.DONE, detail: str = "", **relief: float
) -> CommandProgress:
    return CommandProgress(command(uid, **relief), state, Micros(0), detail)


def seconds(count: float) -> Micros:
    return Micros(int(count * SECOND))


def test_as_many_as_the_budgets_leave() -> None:
    wanted = [command(uid) for uid in "abcd"]
    first, memory = admit_evictions(wanted, {}, EvictionMemory(), BUDGET, seconds(1))
    assert [each.uid for each in first] == ["a", "b"]
    second, memory = admit_evictions(wanted[2:], {}, memory, BUDGET, seconds(20))
    assert [each.uid for each in second] == ["c"]
    third, after = admit_evictions(wanted[3:], {}, memory, BUDGET, seconds(40))
    assert (third, after) == ((), memory)
    later = note_in_flight(memory, (), seconds(61))
    assert later.asked == (seconds(20),)
    assert len(admit_evictions(wanted, {}, later, BUDGET, seconds(61))[0]) == 2


def test_relief_of_what_is_refused_or_impossible_does_not_count() -> None:
    progress = [
        going("a", CommandState.QUEUED, cpu_total_usage=100),
        going("b", CommandState.DONE, cpu_total_usage=20),
        going("c", CommandState.REFUSED, cpu_total_usage=3),
        going("d", CommandState.IMPOSSIBLE, cpu_total_usage=4),
    ]
    assert relief_in_flight(progress, MetricKey("cpu_total_usage")) == 120
    assert relief_in_flight(progress, MetricKey("memory_total_usage")) == 0


def test_other_commands_are_no_evictions() -> None:
    taint = CommandProgress(
        Command("taint/x", CommandKind.TAINT, "x", WHY, "w"), CommandState.DONE, Micros(0)
    )
    snapshot = seen(1, in_flight=(taint, going("a")))
    assert [each.command.uid for each in evictions_in_flight(snapshot)] == ["a"]


def test_an_eviction_that_was_taken_and_a_pod_that_is_gone_begin_a_settle_time() -> None:
    asked = EvictionMemory(moved_at=seconds(1))
    queued = [going(uid, CommandState.QUEUED) for uid in "ab"]
    assert note_in_flight(asked, queued, seconds(2)) is asked
    memory = note_in_flight(asked, (going("a"), going("b")), seconds(3))
    assert memory.moved_at == seconds(3)
    memory = note_in_flight(memory, (going("b"),), seconds(5))
    assert memory.moved_at == seconds(5)
    assert note_in_flight(memory, (going("b"),), seconds(6)) is memory


def why(at: float, memory: EvictionMemory, *progress: CommandProgress, **more: Any) -> str:
    snapshot = seen(1, **{"at": seconds(at)} | more)
    return why_no_eviction(snapshot, memory, progress, BUDGET)


def test_settling() -> None:
    memory = EvictionMemory((seconds(1),), (), seconds(1))
    assert why(10.9, memory) == "waits to see what the last eviction brought"
    assert why(11, memory) == ""


def test_none_while_one_is_on_its_way() -> None:
    """The API server was away for longer than the settle time."""
    memory = EvictionMemory((seconds(1),), (), seconds(1))
    assert why(30, memory, going("a", CommandState.QUEUED)) == "an eviction is on its way"


PATIENT = EvictionBudget(1, 10, Micros(10 * SECOND), longest_factor=4)


def try_once(memory: EvictionMemory, at: float, used: float, after: float | None) -> EvictionMemory:
    """Asked for, taken and gone within two seconds; judged after the settle time."""
    wanted = [command("a", cpu=100)]
    _, memory = admit_evictions(wanted, {"cpu": used}, memory, PATIENT, seconds(at))
    memory = note_in_flight(memory, (going("a"),), seconds(at + 1))
    memory = note_in_flight(memory, (), seconds(at + 2))
    now = {} if after is None else {"cpu": after}
    assert judge_evictions(memory, now, PATIENT, seconds(at + 11.9)) == memory
    return judge_evictions(memory, now, PATIENT, seconds(at + 12))


def test_evictions_that_bring_nothing_are_further_and_further_apart() -> None:
    memory = EvictionMemory()
    factors = []
    for at in (100, 200, 300):
        memory = try_once(memory, at, 1000, 960)
        factors.append(memory.factor)
    assert factors == [2, 4, 4]
    assert why(341.9, memory) == "waits 40 s after the last eviction: it brought nothing"
    assert why(342, memory) == ""


@pytest.mark.parametrize("after", [None, 940])
def test_one_that_brings_half_of_what_was_expected_ends_that(after: float | None) -> None:
    memory = try_once(EvictionMemory(), 100, 1000, 1000)
    assert try_once(memory, 200, 1000, after).factor == 1


def test_a_refused_one_says_nothing_about_what_evictions_bring() -> None:
    wanted = [command("a", cpu=100)]
    _, memory = admit_evictions(wanted, {"cpu": 1000}, EvictionMemory(), PATIENT, seconds(1))
    memory = note_in_flight(memory, (going("a", CommandState.REFUSED),), seconds(2))
    assert judge_evictions(memory, {"cpu": 1000}, PATIENT, seconds(20)).factor == 1


def test_a_full_minute() -> None:
    memory = EvictionMemory((seconds(1),) * 3, (), seconds(1))
    assert why(30, memory) == "3 evictions in a minute are the most"


def test_nobody_can_evict() -> None:
    assert why(30, EvictionMemory(), going("a", CommandState.IMPOSSIBLE)) == (
        "nobody can evict pods here"
    )
    refused = going("a", CommandState.IMPOSSIBLE, "run with --evict-by-signal")
    assert why(30, EvictionMemory(), refused) == "run with --evict-by-signal"
    assert why(30, EvictionMemory(), going("a", CommandState.REFUSED)) == ""


@pytest.mark.parametrize(
    ("freshness", "wanted"),
    [
        (Freshness(seconds(59)), ""),
        (Freshness(seconds(181)), "the pods were last heard of 3 min ago"),
        (Freshness(seconds(10), "connection refused"), ""),
        (Freshness(seconds(16), "connection refused"), "the pods were last heard of 16 s ago"),
    ],
)
def test_none_on_stale_pods(freshness: Freshness, wanted: str) -> None:
    assert why(30, EvictionMemory(), sources={"pods": freshness}) == wanted


def test_a_budget_of_none() -> None:
    none = EvictionBudget(0, 10, Micros(0))
    assert why_no_eviction(seen(1), EvictionMemory(), (), none) == (
        "no evictions in a tick are allowed"
    )
