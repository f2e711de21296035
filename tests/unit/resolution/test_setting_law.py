"""The law of settings: of several wishes the stricter one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.decision import Because, SettingIntent, Verb
from slackwater.model.knob import KNOBS
from slackwater.model.units import UNLIMITED, Unlimited
from slackwater.resolution.setting_law import grant_setting
from tests.unit.policies.nodes import BESTEFFORT

BECAUSE = Because("a signal", "seen", "limit")
LESS = ("weight", "burst", "memory-max", "memory-high", "cpu-qos-level", "memory-qos-level")
MORE = ("idle", "memory-low", "memory-min")


def wish(knob: str, value: int | Unlimited, by: str = "policy") -> SettingIntent:
    return SettingIntent(BESTEFFORT, knob, value, BECAUSE, by)


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
    found = grant_setting(BESTEFFORT, knob, [wish(knob, v, f"p{v}") for v in values])
    assert (found.value, found.knob) == (granted, knob)
    assert found.clipped_by == f"p{granted}"
    assert found.contributions[-1].by == f"p{granted}"
    assert {step.verb for step in found.contributions} == {Verb.SET}


def test_one_wish_is_granted_and_clips_nobody() -> None:
    found = grant_setting(BESTEFFORT, "weight", [wish("weight", 7)])
    assert (found.value, found.clipped_by, len(found.contributions)) == (7, None, 1)


def test_every_knob_but_quota_and_cpus_has_a_law() -> None:
    lawful = {knob.name for knob in KNOBS} - {"quota", "cpus"}
    assert {*LESS, *MORE} == lawful
    for knob in lawful:
        assert grant_setting(BESTEFFORT, knob, [wish(knob, 1)]).value == 1


amounts = st.one_of(st.integers(0, 2**40), st.just(UNLIMITED))
wishes = st.lists(st.tuples(amounts, st.sampled_from("abc")), min_size=1, max_size=5)


def size(value: int | Unlimited) -> float:
    return float("inf") if isinstance(value, Unlimited) else value


@given(st.sampled_from((*LESS, *MORE)), wishes, st.randoms())
def test_laws(knob: str, said: list[tuple[int | Unlimited, str]], chance: object) -> None:
    intents = [wish(knob, value, by) for value, by in said]
    shuffled = list(intents)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    found = grant_setting(BESTEFFORT, knob, intents)
    assert grant_setting(BESTEFFORT, knob, shuffled) == found
    assert found.value in [value for value, _ in said]
    fewer = grant_setting(BESTEFFORT, knob, intents[:1])
    if knob in LESS:
        assert size(found.value) <= size(fewer.value)
    else:
        assert size(found.value) >= size(fewer.value)
