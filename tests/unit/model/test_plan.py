"""What is kept of writes that failed."""

import pytest

from slackwater.model.cgroup import CgroupRef, Level
from slackwater.model.cpus import CpuSet
from slackwater.model.decision import join_some
from slackwater.model.knob import CPUS, WEIGHT, Knob
from slackwater.model.plan import Change, Outcome, Result, follow_refusals

REF = CgroupRef("kubepods/pod1/a", 7, Level.CONTAINER)
WHY = "a group below has other CPUs"


def outcome(result: Result, knob: Knob = CPUS) -> Outcome:
    return Outcome(Change(REF, knob, CpuSet(), CpuSet.of((1,))), result, WHY)


@pytest.mark.parametrize(
    ("known", "outcomes", "want"),
    [
        ({}, [outcome(Result.REFUSED)], {7: WHY}),
        ({7: "another reason"}, [outcome(Result.REFUSED)], {7: WHY}),
        ({7: WHY}, [outcome(Result.APPLIED)], {}),
        ({7: WHY}, [outcome(Result.UNCHANGED)], {}),
        ({7: WHY}, [outcome(Result.VANISHED)], {}),
        ({7: WHY}, [], {7: WHY}),
        ({7: WHY}, [outcome(Result.APPLIED, WEIGHT)], {7: WHY}),
        ({}, [outcome(Result.REFUSED, WEIGHT)], {}),
        ({8: WHY}, [outcome(Result.REFUSED)], {7: WHY, 8: WHY}),
    ],
)
def test_a_refusal_lasts_until_an_attempt_succeeds(
    known: dict[int, str], outcomes: list[Outcome], want: dict[int, str]
) -> None:
    assert follow_refusals(known, outcomes, CPUS) == want


@pytest.mark.parametrize(
    ("clauses", "want"),
    [([], ""), (["a", "b", "c"], "a; b; c"), (["a", "b", "c", "d", "e"], "a; b; c; and 2 more")],
)
def test_a_sentence_has_few_clauses(clauses: list[str], want: str) -> None:
    assert join_some(clauses) == want
