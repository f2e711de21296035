"""What is told: every effect once, with from, to and because."""

import msgspec
import pytest

from slackwater.model.cgroup import CgroupRef, Level
from slackwater.model.decision import Because, Contribution, Grant, Verb
from slackwater.model.gap import Gap
from slackwater.model.knob import QUOTA, WEIGHT
from slackwater.model.plan import Change, Outcome, Result
from slackwater.model.story import Story
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, MilliCpu
from slackwater.record.journal import Inputs, Journal, TickRecord, entry_of, spelled
from slackwater.settings.agent import AgentSettings
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
    entry = entry_of(Outcome(CHANGE, Result.APPLIED), node(tick=7), (GRANT,))
    assert entry is not None
    assert (entry.tick, entry.what) == (7, "quota of kubepods/besteffort")
    assert (entry.before, entry.after, entry.result) == ("unlimited", "600m", "applied")
    assert entry.because == ("best_effort_share: used by all but best effort 200m, 800m allowed")


def test_each_knob_of_a_group_has_its_own_reason() -> None:
    weight = Change(BESTEFFORT, WEIGHT, 1, 20)
    because = Because("batch-cpu requested", "500m", "weight 20")
    step = Contribution("batch_resources", Verb.SET, 20, 20, because)
    grants = (GRANT, Grant(BESTEFFORT, "weight", 20, (step,)))
    entry = entry_of(Outcome(weight, Result.APPLIED), node(), grants)
    assert entry is not None
    assert entry.because == "batch_resources: batch-cpu requested 500m, weight 20"
    released = entry_of(Outcome(weight, Result.APPLIED), node(), (GRANT,))
    assert released is not None
    assert released.because == "nobody wants it any more"


def test_a_release_says_that_nobody_wants_it() -> None:
    entry = entry_of(Outcome(CHANGE, Result.APPLIED), node(), ())
    assert entry is not None
    assert entry.because == "nobody wants it any more"


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
    entry = entry_of(Outcome(CHANGE, result, detail), node(), (GRANT,))
    assert (entry.result if entry else None) == told


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (OURS, "600m"),
        (FREE, "unlimited"),
        (UNLIMITED, "unlimited"),
        (Gap("not read"), "not read"),
        (True, "True"),
        (100, "100"),
    ],
)
def test_spelling(value: object, text: str) -> None:
    assert spelled(value) == text  # type: ignore[arg-type]


def record(number: int, readings: int = 1) -> TickRecord:
    refs = [CgroupRef(f"kubepods/{each}", each, Level.POD) for each in range(readings)]
    snapshot = msgspec.structs.replace(
        node(tick=number), readings={ref.id: reading(ref, FREE) for ref in refs}
    )
    outcomes = (Outcome(CHANGE, Result.APPLIED),) if number == 3 else ()
    inputs = Inputs(None, {}, AgentSettings())
    return TickRecord(snapshot, inputs, Story(), outcomes, (), Micros(0))


@pytest.mark.parametrize(("readings", "kept"), [(1, [2, 3, 4]), (5, [3, 4]), (8, [4]), (100, [4])])
def test_the_ring_keeps_the_last_ticks_and_stays_small(readings: int, kept: list[int]) -> None:
    journal = Journal(3, kept_readings=10)
    for number in range(5):
        journal.keep(record(number, readings))
    assert [each.snapshot.tick for each in journal.ticks] == kept
    assert journal.latest == journal.ticks[-1]


def test_when_a_knob_was_last_changed() -> None:
    journal = Journal(3)
    assert (journal.latest, journal.changed(BESTEFFORT, "quota")) == (None, None)
    for number in range(5):
        journal.keep(record(number))
    assert journal.changed(BESTEFFORT, "quota") == record(3).snapshot.at
