"""How several intents about one knob become one value: the strictest, or the CPUs in common."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.cgroup import CgroupReading
from slackwater.model.cpus import CpuSet
from slackwater.model.decision import Because, GrantValue, Intent, Verb
from slackwater.model.knob import CPUS, KNOB, KNOBS, Fold
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, Ratio, Unlimited
from slackwater.resolution.resolver import grant_common_cpus, grant_strictest, resolve
from tests.unit.policies.nodes import BESTEFFORT, node

FULL = Bandwidth(Micros(100_000))
BECAUSE = Because("a signal", "seen", "limit")
LESS = tuple(knob.name for knob in KNOBS if knob.fold is Fold.SMALLEST)
MORE = tuple(knob.name for knob in KNOBS if knob.fold is Fold.LARGEST)


def wish(knob: str, value: GrantValue, by: str = "policy") -> Intent:
    return Intent(BESTEFFORT, knob, Verb.SET, value, BECAUSE, by)


@pytest.mark.parametrize(
    ("knob", "values", "granted"),
    [
        ("weight", (100, 2), 2),
        ("idle", (False, True), True),
        ("burst", (50_000, 20_000), 20_000),
        ("memory-max", (UNLIMITED, 4096), 4096),
        ("memory-high", (8192, UNLIMITED), 8192),
        ("memory-low", (0, 4096), 4096),
        ("memory-min", (8192, 4096), 8192),
        ("cpu-qos-level", (2, -1), -1),
        ("memory-qos-level", (0, -1), -1),
    ],
)
def test_rows(knob: str, values: tuple[int | Unlimited, ...], granted: int | Unlimited) -> None:
    found = grant_strictest(BESTEFFORT, KNOB[knob], [wish(knob, v, f"p{v}") for v in values])
    assert (found.value, found.knob) == (granted, knob)
    assert found.clipped_by == f"p{granted}"
    assert found.contributions[-1].by == f"p{granted}"
    assert {step.verb for step in found.contributions} == {Verb.SET}


def test_one_wish_is_granted_and_clips_nobody() -> None:
    found = grant_strictest(BESTEFFORT, KNOB["weight"], [wish("weight", 7)])
    assert (found.value, found.clipped_by, len(found.contributions)) == (7, None, 1)


def test_the_rows_of_the_knob_table() -> None:
    """What is decided about each knob that a policy uses; a new one needs no row here."""
    assert {"weight", "burst", "memory-max", "memory-high"} < {*LESS}
    assert {"cpu-qos-level", "memory-qos-level"} < {*LESS}
    assert {"idle", "memory-low", "memory-min"} <= {*MORE}
    folds = {knob.name: knob.fold for knob in KNOBS}
    assert (folds["quota"], folds["cpus"]) == (Fold.QUOTA_LAW, Fold.INTERSECTION)


def test_an_intent_about_any_knob_is_granted() -> None:
    """None is lost because no fold takes it."""
    snapshot = msgspec.structs.replace(
        node(), readings={BESTEFFORT.id: CgroupReading(BESTEFFORT, Micros(0), quota=FULL)}
    )
    for knob in KNOBS:
        verb = Verb.CAP if knob.fold is Fold.QUOTA_LAW else Verb.SET
        value = CpuSet(1) if knob is CPUS else 1000
        intent = Intent(BESTEFFORT, knob.name, verb, value, BECAUSE, "policy")
        assert [(each.knob, each.value) for each in resolve(snapshot, [intent])] == [
            (knob.name, value)
        ]


@pytest.mark.parametrize(
    "wrong",
    [
        Intent(BESTEFFORT, "weight", Verb.CAP, 5, BECAUSE, "policy"),
        Intent(BESTEFFORT, "weight", Verb.SET, CpuSet(3), BECAUSE, "policy"),
        Intent(BESTEFFORT, "weight", Verb.SET, Ratio(1, 2), BECAUSE, "policy"),
        Intent(BESTEFFORT, "cpus", Verb.SET, 3, BECAUSE, "policy"),
        Intent(BESTEFFORT, "cpus", Verb.CAP, CpuSet(3), BECAUSE, "policy"),
    ],
)
def test_a_value_that_the_knob_does_not_take_is_a_bug(wrong: Intent) -> None:
    with pytest.raises(TypeError, match=f"^policy: {wrong.knob} takes SET and a "):
        resolve(node(), [wrong])


@pytest.mark.parametrize(
    ("sets", "granted", "clipped_by", "contest"),
    [
        (("0-3",), "0-3", None, None),
        (("0-3", "2-5"), "2-3", "b", None),
        (("0-3", "0-3"), "0-3", None, None),
        (("0-1", "0-7", "1-3"), "1", "a", None),
        (("0-3", "4-5"), "0-3", None, "b's CPUs 4-5 are not among 0-3"),
        (("0-3", "4-5", "3"), "3", "c", "b's CPUs 4-5 are not among 0-3"),
    ],
)
def test_the_cpus_in_common(
    sets: tuple[str, ...], granted: str, clipped_by: str | None, contest: str | None
) -> None:
    intents = [wish("cpus", CpuSet.parse(each), by) for each, by in zip(sets, "abc", strict=False)]
    found = grant_common_cpus(BESTEFFORT, CPUS, intents)
    assert found.value == CpuSet.parse(granted)
    assert (found.clipped_by, found.contest) == (clipped_by, contest)
    assert [step.after for step in found.contributions][-1] == found.value
    assert grant_common_cpus(BESTEFFORT, CPUS, intents[::-1]) == found


amounts = st.one_of(st.integers(0, 2**40), st.just(UNLIMITED))
wishes = st.lists(st.tuples(amounts, st.sampled_from("abc")), min_size=1, max_size=5)


def size(value: int | Unlimited) -> float:
    return float("inf") if isinstance(value, Unlimited) else value


@given(st.sampled_from((*LESS, *MORE)), wishes, st.randoms())
def test_laws(knob: str, said: list[tuple[int | Unlimited, str]], chance: object) -> None:
    intents = [wish(knob, value, by) for value, by in said]
    shuffled = list(intents)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    found = grant_strictest(BESTEFFORT, KNOB[knob], intents)
    assert grant_strictest(BESTEFFORT, KNOB[knob], shuffled) == found
    assert found.value in [value for value, _ in said]
    fewer = grant_strictest(BESTEFFORT, KNOB[knob], intents[:1])
    assert not isinstance(found.value, CpuSet)
    assert not isinstance(fewer.value, CpuSet)
    if knob in LESS:
        assert size(found.value) <= size(fewer.value)
    else:
        assert size(found.value) >= size(fewer.value)
