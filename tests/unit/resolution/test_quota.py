"""The quota law and its laws."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.cgroup import CgroupRef, Level
from slackwater.model.cpus import CpuSet
from slackwater.model.decision import Because, Intent, IntentValue, Verb
from slackwater.model.units import UNLIMITED, Micros, MilliCpu, Ratio, Unlimited
from slackwater.resolution.quota import Amount, grant_quota, granted_quota, quota_amount

TARGET = CgroupRef("kubepods/besteffort", 7, Level.TIER)
SMALLEST = 10


def intent(verb: Verb, value: IntentValue, by: str = "someone") -> Intent:
    return Intent(TARGET, "quota", verb, value, Because("signal", "seen", "limit"), by)


def m(milli: int) -> MilliCpu:
    return MilliCpu(milli)


def size(value: int | Unlimited) -> float:
    return float("inf") if isinstance(value, Unlimited) else value


AMOUNTS = st.one_of(st.just(UNLIMITED), st.integers(0, 64_000).map(MilliCpu))
INTENTS = st.one_of(
    st.builds(intent, st.sampled_from([Verb.BASE, Verb.RAISE, Verb.CAP, Verb.FLOOR]), AMOUNTS),
    st.builds(intent, st.just(Verb.SCALE), st.builds(Ratio, st.integers(1, 5), st.integers(1, 5))),
)


@pytest.mark.parametrize(
    ("baseline", "intents", "granted", "clipped", "contest"),
    [
        (UNLIMITED, [], UNLIMITED, None, None),
        (m(500), [], m(500), None, None),
        (UNLIMITED, [intent(Verb.CAP, m(1200))], m(1200), "someone", None),
        (m(500), [intent(Verb.CAP, m(1200))], m(500), None, None),
        (UNLIMITED, [intent(Verb.CAP, m(0))], m(SMALLEST), "the kernel's smallest quota", None),
        (m(500), [intent(Verb.BASE, m(800))], m(800), None, None),
        (m(500), [intent(Verb.RAISE, m(100)), intent(Verb.RAISE, m(300))], m(800), None, None),
        (m(1000), [intent(Verb.SCALE, Ratio(1, 3))], m(334), None, None),
        (
            m(1000),
            [intent(Verb.RAISE, m(500)), intent(Verb.SCALE, Ratio(1, 2)), intent(Verb.CAP, m(600))],
            m(600),
            "someone",
            None,
        ),
        (
            m(1000),
            [intent(Verb.CAP, m(200), "cutter"), intent(Verb.FLOOR, m(300), "keeper")],
            m(300),
            "cutter",
            "keeper's floor beats cutter's cap",
        ),
        (UNLIMITED, [intent(Verb.SCALE, Ratio(1, 2))], UNLIMITED, None, None),
    ],
)
def test_rows(
    baseline: Amount,
    intents: list[Intent],
    granted: Amount,
    clipped: str | None,
    contest: str | None,
) -> None:
    grant = grant_quota(TARGET, baseline, intents)
    assert (grant.value, grant.clipped_by, grant.contest) == (granted, clipped, contest)


BY_1_2 = intent(Verb.SCALE, Ratio(100, 120))


@pytest.mark.parametrize(
    ("base", "intents", "period", "written"),
    [
        (1000, [BY_1_2], 100_000, 83_334),
        (2000, [BY_1_2], 100_000, 166_667),
        (1000, [BY_1_2], 50_000, 41_667),
        (1000, [BY_1_2, BY_1_2], 100_000, 69_445),
        (10, [BY_1_2], 100_000, 1_000),  # the kernel's smallest
        (1000, [BY_1_2, intent(Verb.CAP, m(833))], 100_000, 83_300),
        (1000, [BY_1_2, intent(Verb.CAP, m(834))], 100_000, 83_334),
        (1000, [BY_1_2, intent(Verb.CAP, UNLIMITED)], 100_000, 83_334),
        (1000, [BY_1_2, intent(Verb.FLOOR, m(833))], 100_000, 83_334),
        (1000, [BY_1_2, intent(Verb.FLOOR, m(834))], 100_000, 83_400),
        (1000, [BY_1_2, intent(Verb.FLOOR, UNLIMITED)], 100_000, UNLIMITED),
        (1000, [intent(Verb.RAISE, m(200)), BY_1_2], 100_000, 100_000),
    ],
)
def test_a_scaled_quota_is_rounded_once_to_a_microsecond(
    base: int, intents: list[Intent], period: int, written: int | Unlimited
) -> None:
    grant = grant_quota(TARGET, m(base), intents)
    assert granted_quota(grant, Micros(period)).limit == written


@given(st.integers(1, 64_000), st.integers(100, 500))
def test_a_scaled_quota_is_the_ceiling(base: int, hundredths: int) -> None:
    grant = grant_quota(TARGET, m(base), [intent(Verb.SCALE, Ratio(100, hundredths))])
    exact = -(-base * 100 * 100 // hundredths)
    assert granted_quota(grant, Micros(100_000)).limit == max(exact, 1000)


@given(AMOUNTS, st.lists(INTENTS), st.randoms(use_true_random=False))
def test_the_order_of_intents_does_not_matter(
    baseline: Amount, intents: list[Intent], random: Random
) -> None:
    shuffled = list(intents)
    random.shuffle(shuffled)
    assert grant_quota(TARGET, baseline, intents) == grant_quota(TARGET, baseline, shuffled)


@given(AMOUNTS, st.lists(INTENTS), AMOUNTS)
def test_a_cap_never_raises(baseline: Amount, intents: list[Intent], cap: Amount) -> None:
    without = quota_amount(grant_quota(TARGET, baseline, intents))
    capped = quota_amount(grant_quota(TARGET, baseline, [*intents, intent(Verb.CAP, cap)]))
    assert size(capped) <= size(without)


@given(AMOUNTS, st.lists(INTENTS), AMOUNTS, st.sampled_from([Verb.RAISE, Verb.FLOOR]))
def test_a_raise_or_a_floor_never_lowers(
    baseline: Amount, intents: list[Intent], value: Amount, verb: Verb
) -> None:
    without = quota_amount(grant_quota(TARGET, baseline, intents))
    more = quota_amount(grant_quota(TARGET, baseline, [*intents, intent(verb, value)]))
    assert size(more) >= size(without)


@given(AMOUNTS)
def test_no_intents_means_the_baseline(baseline: Amount) -> None:
    assert size(quota_amount(grant_quota(TARGET, baseline, []))) == max(size(baseline), SMALLEST)


@given(AMOUNTS, st.lists(INTENTS, min_size=1))
def test_the_last_contribution_is_the_grant_or_the_kernels_floor(
    baseline: Amount, intents: list[Intent]
) -> None:
    grant = grant_quota(TARGET, baseline, intents)
    last = grant.contributions[-1].after
    assert not isinstance(last, CpuSet)
    assert size(quota_amount(grant)) == max(size(last), SMALLEST)


@pytest.mark.parametrize(
    "wrong",
    [
        intent(Verb.SCALE, m(5)),
        intent(Verb.CAP, Ratio(1, 2)),
        intent(Verb.SET, m(5)),
        intent(Verb.CAP, CpuSet(3)),
    ],
)
def test_a_policy_that_mixes_units_is_a_bug(wrong: Intent) -> None:
    with pytest.raises(TypeError, match="someone"):
        grant_quota(TARGET, m(1000), [wrong])
