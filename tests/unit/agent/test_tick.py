"""The tick: standing intents, holds, failures, releases; pure from snapshot to plan."""

from typing import Any

import msgspec
import pytest

from slackwater.agent.tick import TickMemory, TickResult, tick
from slackwater.model.cgroup import CgroupRef
from slackwater.model.decision import (
    Act,
    Because,
    Command,
    CommandKind,
    Decision,
    Hold,
    Intent,
    Verb,
)
from slackwater.model.gap import Gap
from slackwater.model.knob import Knob, KnobKey, KnobValue
from slackwater.model.needs import Needs
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Bandwidth, Micros, MilliCpu
from slackwater.policies import best_effort_share
from slackwater.policies.best_effort_share import BestEffortShareSettings
from slackwater.policies.policy import Policy
from slackwater.settings.agent_settings import AgentSettings
from tests.unit.policies.nodes import BESTEFFORT, FREE, held, node

OURS = Bandwidth(Micros(60_000))
POLICIES = (best_effort_share.POLICY,)
ON = {"best_effort_share": BestEffortShareSettings(enabled=True)}


def exact(_: CgroupRef, __: Knob, value: KnobValue) -> KnobValue:
    return value


def run(
    snapshot: NodeSnapshot,
    memory: TickMemory | None = None,
    policies: tuple[Policy, ...] = POLICIES,
    settings: dict[str, Any] | None = None,
) -> TickResult:
    chosen = ON if settings is None else settings
    return tick(snapshot, memory or TickMemory(), policies, chosen, AgentSettings())


def needs_nothing(_settings: object, _off: frozenset[KnobKey]) -> Needs:
    return Needs()


def values(done: TickResult) -> list[KnobValue]:
    return [change.new for change in done.planned.changes]


def test_the_road_of_a_sample() -> None:
    done = run(node(usage=200))
    assert values(done) == [OURS]
    [told] = done.story.told
    assert (told.course.value, told.numbers["budget"]) == ("acted", 600)
    [grant] = done.story.grants
    assert [(c.by, c.verb, c.after) for c in grant.contributions] == [
        ("best_effort_share", Verb.CAP, 600)
    ]
    assert grant.clipped_by == "best_effort_share"


def test_planning_again_after_applying_finds_nothing() -> None:
    done = run(node(usage=200))
    after = node(usage=200, tick=2, quota=OURS, kept=(held(BESTEFFORT, FREE, OURS),))
    again = run(after, done.memory)
    assert (again.planned.changes, again.planned.releases) == ((), ())


def test_missing_data_holds_what_stands_and_then_lets_go() -> None:
    memory = run(node(usage=200)).memory
    kept = (held(BESTEFFORT, FREE, OURS),)
    decisions = []
    for second in range(2, 40):
        blind = node(usage=Gap("no usage"), tick=second, quota=OURS, kept=kept)
        done = run(blind, memory)
        memory = done.memory
        decisions.append(done.story.told[0].course.value)
        expected = kept if decisions[-1] == "released" else ()
        assert done.planned.releases == expected
    assert decisions == ["held"] * 30 + ["released"] * 8


def test_sight_again_ends_the_hold() -> None:
    memory = run(node(usage=200)).memory
    memory = run(node(usage=Gap("no usage"), tick=2), memory).memory
    done = run(node(usage=200, tick=3), memory)
    assert done.story.told[0].course.value == "acted"
    assert done.memory.policies["best_effort_share"].held_since is None


def test_switched_off_it_releases_and_forgets() -> None:
    memory = run(node(usage=200)).memory
    kept = (held(BESTEFFORT, FREE, OURS),)
    done = run(node(usage=200, quota=OURS, kept=kept), memory, settings={})
    assert done.planned.releases == kept
    assert done.memory.policies == {}
    again = run(node(usage=0), done.memory)
    assert values(again) == [Bandwidth(Micros(80_000))]  # a first run, no ramp from the old claim


def cap(by: str, milli: int) -> Policy:
    because = Because("test", "x", "y")

    def decide(snapshot: NodeSnapshot, memory: object, settings: object) -> Decision:
        return Act((Intent(BESTEFFORT, "quota", Verb.CAP, MilliCpu(milli), because, by),), memory)

    return Policy(by, None, needs_nothing, decide)


def broken(snapshot: NodeSnapshot, memory: object, settings: object) -> Decision:
    raise ZeroDivisionError("a bug")


def test_a_policy_that_fails_holds_alone() -> None:
    policies = (Policy("broken", None, needs_nothing, broken), cap("other", 300))
    done = run(node(), policies=policies, settings={"broken": 1, "other": 1})
    assert values(done) == [Bandwidth(Micros(30_000))]
    told = {line.policy: (line.course.value, line.reason) for line in done.story.told}
    assert told["broken"] == ("held", "failed with ZeroDivisionError: a bug")
    assert told["other"][0] == "acted"


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_two_policies_at_one_knob_in_any_order(names: tuple[str, str]) -> None:
    amounts = {"a": 500, "b": 300}
    policies = tuple(cap(name, amounts[name]) for name in names)
    done = run(node(), policies=policies, settings={"a": 1, "b": 1})
    assert values(done) == [Bandwidth(Micros(30_000))]
    assert {c.by for c in done.story.grants[0].contributions} == {"a", "b"}


def test_a_hold_without_standing_intents_changes_nothing() -> None:
    blind = Policy("blind", None, needs_nothing, lambda *_: Hold("nothing to see"))
    done = run(node(), policies=(blind,), settings={"blind": 1})
    assert (done.planned.changes, done.story.grants) == ((), ())
    assert done.story.told[0].reason == "nothing to see"


def test_the_memory_survives_a_round_trip() -> None:
    """What the tick remembers is a value: it can be recorded and replayed."""
    memory = run(node(usage=200)).memory
    assert msgspec.json.encode(memory)


def test_what_was_adopted_stays_until_somebody_decides() -> None:
    """After a restart the first look has no rates yet: best-effort work must not get loose."""
    kept = (held(BESTEFFORT, FREE, OURS),)
    first = run(node(usage=Gap("read only once"), quota=OURS, kept=kept))
    assert (first.planned.releases, first.planned.changes) == ((), ())
    second = run(node(usage=200, tick=2, quota=OURS, kept=kept), first.memory)
    assert (second.planned.releases, second.planned.changes) == ((), ())
    blind, memory = first, first.memory
    for second_number in range(2, 40):
        sightless = node(usage=Gap("blind"), tick=second_number, quota=OURS, kept=kept)
        blind = run(sightless, memory)
        memory = blind.memory
    assert blind.planned.releases == kept  # but not for ever


@pytest.mark.parametrize(
    ("intents", "reason"),
    [
        (0, "nothing to do"),
        (1, "signal 0 seen, limit"),
        (5, "; ".join(f"signal {number} seen, limit" for number in range(5))),
        (800, "; ".join(f"signal {number} seen, limit" for number in range(5)) + "; and 795 more"),
    ],
)
def test_of_many_reasons_a_few_are_told(intents: int, reason: str) -> None:
    """Each tick is kept: hundreds of pods must not make a book of it."""

    def decide(*_: object) -> Decision:
        return Act(
            tuple(
                Intent(
                    BESTEFFORT,
                    "quota",
                    Verb.CAP,
                    MilliCpu(500),
                    Because(f"signal {n}", "seen", "limit"),
                    "x",
                )
                for n in range(intents)
            )
        )

    done = run(node(), policies=(Policy("x", None, needs_nothing, decide),), settings={"x": 1})
    assert done.story.told[0].reason == reason


TAINT = Command(
    "taint/t",
    CommandKind.TAINT,
    "t",
    Because("load", "2", "at most 1"),
    "talker",
    value="NoSchedule",
)
EVICTION = Command(
    "evict/u", CommandKind.EVICT, "d/p", Because("load", "2", "at most 1"), "talker", uid="u"
)


def test_commands_stand_while_their_policy_holds_but_evictions_are_not_repeated() -> None:
    said: list[Decision] = [Act((), commands=(TAINT, EVICTION)), Hold("no data"), Act(())]
    decisions = iter(said)

    def decide(_snapshot: NodeSnapshot, _memory: object, _settings: object) -> Decision:
        return next(decisions)

    talker = (Policy("talker", None, needs_nothing, decide),)
    first = run(node(), None, talker, {"talker": True})
    assert first.planned.commands == (TAINT, EVICTION)
    held = run(node(), first.memory, talker, {"talker": True})
    assert held.planned.commands == (TAINT,)
    assert run(node(), held.memory, talker, {"talker": True}).planned.commands == ()


def test_a_policy_that_never_decided_leaves_it_open_what_stands() -> None:
    def decide(_snapshot: NodeSnapshot, _memory: object, _settings: object) -> Decision:
        return Hold("no data yet")

    silent = (Policy("silent", None, needs_nothing, decide),)
    assert not run(node(), None, silent, {"silent": True}).memory.has_decided()


def test_while_a_policy_settles_nothing_of_the_run_before_is_released() -> None:
    decisions = iter((Act((), is_settling=True), Act(())))

    def decide(_snapshot: NodeSnapshot, _memory: object, _settings: object) -> Decision:
        return next(decisions)

    starting = (Policy("starting", None, needs_nothing, decide),)
    left = node(kept=(held(BESTEFFORT, FREE, OURS),), quota=OURS)
    first = run(left, None, starting, {"starting": True})
    assert (first.planned.releases, first.memory.has_decided()) == ((), False)
    then = run(left, first.memory, starting, {"starting": True})
    assert [each.ref for each in then.planned.releases] == [BESTEFFORT]
    assert then.memory.has_decided()
