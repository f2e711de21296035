"""What is told: every effect once, with from, to and because."""

from typing import Any

import msgspec
import pytest

from slackwater.model.cgroup import CgroupRef, Level
from slackwater.model.cpus import CpuSet
from slackwater.model.decision import Because, Contribution, Grant, TickReport, Verb
from slackwater.model.gap import Gap
from slackwater.model.knob import BURST, CPUS, QUOTA, WEIGHT, Knob
from slackwater.model.plan import Change, Outcome, Result
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, MilliCpu
from slackwater.record.journal import (
    Journal,
    TickInputs,
    TickRecord,
    format_value,
    make_entries,
    make_entry,
)
from slackwater.settings.agent_settings import AgentSettings
from tests.unit.policies.nodes import BESTEFFORT, FREE, node, reading

OURS = Bandwidth(Micros(60_000))
CHANGE = Change(BESTEFFORT, QUOTA, FREE, OURS)
BECAUSE = Because("used by all but best effort", "200m", "800m allowed")
GRANT = Grant(
    BESTEFFORT,
    "quota",
    MilliCpu(600),
    (Contribution("best_effort_share", Verb.CAP, MilliCpu(600), MilliCpu(600), BECAUSE),),
)


def test_an_applied_change() -> None:
    entry = make_entry(Outcome(CHANGE, Result.APPLIED), node(tick=7), GRANT)
    assert entry is not None
    assert (entry.tick, entry.what) == (7, "quota of kubepods/besteffort")
    assert (entry.before, entry.after, entry.result) == ("unlimited", "600m", "applied")
    assert entry.because == ("best_effort_share: used by all but best effort 200m, 800m allowed")


@pytest.mark.parametrize("result", [Result.APPLIED, Result.PLANNED])
def test_a_value_that_was_there_already_is_no_change(result: Result) -> None:
    """What is given back may have had that value by itself: a group that was idle has weight 1."""
    same = msgspec.structs.replace(CHANGE, old=OURS, new=OURS)
    assert make_entry(Outcome(same, result), node(), None) is None
    assert make_entry(Outcome(same, Result.REFUSED, "EBUSY"), node(), None) is not None


def test_each_knob_of_a_group_has_its_own_reason() -> None:
    weight = Change(BESTEFFORT, WEIGHT, 1, 20)
    because = Because("batch-cpu requested", "500m", "weight 20")
    step = Contribution("elastic_resources", Verb.SET, 20, 20, because)
    outcomes = [Outcome(weight, Result.APPLIED)]
    grants = (GRANT, Grant(BESTEFFORT, "weight", 20, (step,)))
    [entry] = make_entries(node(), outcomes, TickReport(grants=grants))
    assert entry.because == "elastic_resources: batch-cpu requested 500m, weight 20"
    [released] = make_entries(node(), outcomes, TickReport(grants=(GRANT,)))
    assert released.because == "no policy wants it any more"


def followers(number: int, knob: Knob, result: Result = Result.APPLIED) -> tuple[Any, Any]:
    """Groups that follow the tier's quota: what became of each, and what each was granted."""
    refs = [CgroupRef(f"{BESTEFFORT.path}/{n}", 100 + n, Level.POD) for n in range(number)]
    old, new = (FREE, OURS) if knob is QUOTA else (1000, 2000)
    outcomes = [Outcome(Change(ref, knob, old, new), result) for ref in refs]
    because = Because("the quota of kubepods/besteffort", "690m", "cgroup v1 nests")
    step = Contribution("share", Verb.CAP, 600, 600, because)
    value = 600 if knob is QUOTA else 2000
    grants = [Grant(ref, knob.name, value, (step,), follows=BESTEFFORT.path) for ref in refs]
    return outcomes, grants


@pytest.mark.parametrize(
    ("number", "result", "lines"),
    [
        (8, Result.APPLIED, 8),
        (9, Result.APPLIED, 1),
        (9, Result.PLANNED, 1),
        (9, Result.REFUSED, 9),
        (9, Result.VANISHED, 9),
        (9, Result.UNCHANGED, 0),
    ],
)
def test_a_crowd_that_follows_is_told_as_one(number: int, result: Result, lines: int) -> None:
    outcomes, grants = followers(number, QUOTA, result)
    told = make_entries(node(), outcomes, TickReport(grants=tuple(grants)))
    assert len(told) == lines


def test_a_crowds_entry_says_who_and_how_far() -> None:
    quotas, granted = followers(9, QUOTA)
    other = msgspec.structs.replace(quotas[0].change, old=OURS, new=Bandwidth(Micros(70_000)))
    quotas[0] = Outcome(other, Result.APPLIED)
    bursts, more = followers(12, BURST)
    tier = Outcome(CHANGE, Result.APPLIED)
    story = TickReport(grants=(GRANT, *granted, *more))
    told = make_entries(node(), [tier, *quotas, *bursts], story)
    assert {each.result for each in told} == {"applied"}
    assert [(each.what, each.before, each.after) for each in told] == [
        ("quota of kubepods/besteffort", "unlimited", "600m"),
        ("quota of 9 groups below kubepods/besteffort", "600m to unlimited", "600m to 700m"),
        ("burst of 12 groups below kubepods/besteffort", "1000", "2000"),
    ]
    assert told[1].because.startswith("on cgroup v1 no quota is above that one")


ALONE = Because("CPUs that containers hold alone", "1,5", "everybody else has the rest")


def narrowed(number: int) -> tuple[list[Outcome], list[Grant]]:
    """So many containers that leave CPUs to another one, of which the first had fewer before."""
    full, fewer, rest = CpuSet.parse("0-7"), CpuSet.parse("0-5"), CpuSet.parse("0,2-4")
    refs = [CgroupRef(f"kubepods/pod{n}/c", 50 + n, Level.CONTAINER) for n in range(number)]
    changes = [Change(ref, CPUS, full if n else fewer, rest) for n, ref in enumerate(refs)]
    step = Contribution("pins", Verb.SET, rest, rest, ALONE)
    grants = [Grant(ref, CPUS.name, rest, (step,)) for ref in refs]
    return [Outcome(change, Result.APPLIED) for change in changes], grants


def test_a_crowd_that_leaves_cpus_to_another_is_told_as_one() -> None:
    outcomes, grants = narrowed(9)
    [entry] = make_entries(node(), outcomes, TickReport(grants=tuple(grants)))
    assert (entry.what, entry.before, entry.after) == (
        "cpus of 9 groups",
        "2 sets of CPUs",
        "0,2-4",
    )
    assert entry.because.startswith("pins: CPUs that containers hold alone 1,5")
    [released] = make_entries(node(), outcomes, TickReport())
    assert released.because == "no policy wants it any more"
    few, granted = narrowed(3)
    assert len(make_entries(node(), few, TickReport(grants=tuple(granted)))) == 3


def test_a_release_says_that_nobody_wants_it() -> None:
    entry = make_entry(Outcome(CHANGE, Result.APPLIED), node(), None)
    assert entry is not None
    assert entry.because == "no policy wants it any more"


@pytest.mark.parametrize(
    ("result", "detail", "told"),
    [
        (Result.UNCHANGED, "", None),
        (Result.REFUSED, "the kernel said no", "refused: the kernel said no"),
        (Result.UNSUPPORTED, "no such file", "unsupported: no such file"),
        (Result.UNSUPPORTED, "", None),  # said before
        (Result.VANISHED, "the cgroup is gone", "vanished: the cgroup is gone"),
    ],
)
def test_what_did_not_work_is_told_and_nothing_is_told_twice(
    result: Result, detail: str, told: str | None
) -> None:
    entry = make_entry(Outcome(CHANGE, result, detail), node(), GRANT)
    assert (entry.result if entry else None) == told


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (OURS, "600m"),
        (FREE, "unlimited"),
        (UNLIMITED, "unlimited"),
        (Gap("not read"), "not read"),
        (True, "1"),
        (False, "0"),
        (100, "100"),
    ],
)
def test_spelling(value: object, text: str) -> None:
    assert format_value(value) == text  # type: ignore[arg-type]


def record(number: int, readings: int = 1) -> TickRecord:
    refs = [CgroupRef(f"kubepods/{each}", each, Level.POD) for each in range(readings)]
    snapshot = msgspec.structs.replace(
        node(tick=number), readings={ref.id: reading(ref, FREE) for ref in refs}
    )
    outcomes = (Outcome(CHANGE, Result.APPLIED),) if number == 3 else ()
    inputs = TickInputs(None, {}, AgentSettings())
    return TickRecord(snapshot, inputs, TickReport(), outcomes, (), Micros(0))


@pytest.mark.parametrize(("readings", "kept"), [(1, [2, 3, 4]), (5, [3, 4]), (8, [4]), (100, [4])])
def test_the_ring_keeps_the_last_ticks_and_stays_small(readings: int, kept: list[int]) -> None:
    journal = Journal(3, kept_parts=11)
    for number in range(5):
        journal.keep(record(number, readings))
    assert [each.snapshot.tick for each in journal.ticks] == kept
    assert journal.latest == journal.ticks[-1]


def crowd(number: int, moved: int = 0) -> TickRecord:
    """A tick with ten grants, of which the first so many are new."""
    grants = tuple(
        Grant(CgroupRef(f"kubepods/{each}", each, Level.POD), "weight", number * (each < moved), ())
        for each in range(10)
    )
    story = TickReport(grants=grants)
    return msgspec.structs.replace(record(number + 100), story=story)


def test_what_did_not_move_is_kept_once() -> None:
    journal = Journal(9)
    journal.keep(crowd(1))
    journal.keep(crowd(2, moved=3))
    one, two = journal.ticks
    assert two == crowd(2, moved=3)
    same = [a is b for a, b in zip(one.story.grants, two.story.grants, strict=True)]
    assert same == [False] * 3 + [True] * 7


@pytest.mark.parametrize(("moved", "kept"), [(0, 9), (3, 5), (10, 1)])
def test_what_moved_takes_room(moved: int, kept: int) -> None:
    journal = Journal(9, kept_parts=20)
    for number in range(1, 30):
        journal.keep(crowd(number, moved))
    assert len(journal.ticks) == kept


def test_when_a_knob_was_last_changed() -> None:
    journal = Journal(3)
    assert (journal.latest, journal.last_change(BESTEFFORT, "quota")) == (None, None)
    for number in range(5):
        journal.keep(record(number))
    assert journal.last_change(BESTEFFORT, "quota") == record(3).snapshot.at
