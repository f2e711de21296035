"""What knobs demand of each other: nesting on v1, burst within quota; and who asked for nothing."""

import msgspec
import pytest

from slackwater.model.cgroup import CgroupReading, CgroupRef, CgroupVersion, Level, Tier
from slackwater.model.decision import Because, Grant, GrantValue, Intent, Verb
from slackwater.model.gap import Gap
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, MilliCpu, Unlimited
from slackwater.resolution.resolver import resolve
from tests.unit.policies.nodes import BESTEFFORT, FREE, node

BECAUSE = Because("a signal", "seen", "limit")
POD = CgroupRef("kubepods/besteffort/pod1", 10, Level.POD, Tier.BESTEFFORT, "1")
INNER = CgroupRef("kubepods/besteffort/pod1/c1", 11, Level.CONTAINER, Tier.BESTEFFORT, "1")


def cap(target: CgroupRef, milli: int, by: str = "share") -> Intent:
    return Intent(target, "quota", Verb.CAP, MilliCpu(milli), BECAUSE, by)


def base(target: CgroupRef, milli: int, by: str = "batch") -> Intent:
    return Intent(target, "quota", Verb.BASE, MilliCpu(milli), BECAUSE, by)


def burst(target: CgroupRef, micros: int | Unlimited) -> Intent:
    return Intent(target, "burst", Verb.SET, micros, BECAUSE, "burst")


def snapshot(version: CgroupVersion, quota: Bandwidth | Gap = FREE) -> NodeSnapshot:
    readings = {
        ref.id: CgroupReading(ref, Micros(0), quota=quota) for ref in (BESTEFFORT, POD, INNER)
    }
    return msgspec.structs.replace(node(), readings=readings, version=version)


def granted(found: tuple[Grant, ...]) -> dict[tuple[str, str], GrantValue]:
    return {(grant.target.name(), grant.knob): grant.value for grant in found}


ALL: list[Intent] = [cap(BESTEFFORT, 600), base(POD, 2000), base(INNER, 400), burst(INNER, 90_000)]


@pytest.mark.parametrize(
    ("version", "pod"), [(CgroupVersion.V1, UNLIMITED), (CgroupVersion.V2, 2000)]
)
@pytest.mark.parametrize("turn", range(4))
def test_three_policies_in_any_order(
    version: CgroupVersion, pod: int | Unlimited, turn: int
) -> None:
    found = resolve(snapshot(version), ALL[turn:] + ALL[:turn])
    assert granted(found) == {
        ("besteffort", "quota"): 600,
        ("pod1", "quota"): pod,
        ("c1", "burst"): 40_000,  # its quota is 400 m
        ("c1", "quota"): 400,
    }
    assert found == resolve(snapshot(version), ALL)


def test_on_v1_a_quota_above_the_one_that_binds_it_is_not_set_and_says_whose_that_is() -> None:
    intents = [cap(BESTEFFORT, 300), base(POD, 2000), base(INNER, 1000)]
    found = resolve(snapshot(CgroupVersion.V1), intents)
    assert [grant.value for grant in found] == [300, UNLIMITED, UNLIMITED]
    inner = found[-1]
    assert [(step.by, step.verb) for step in inner.contributions] == [
        ("batch", Verb.BASE),
        ("share", Verb.CAP),
    ]
    assert inner.clipped_by == "share"
    assert "cgroup v1 nests" in inner.contributions[-1].because.limit


def test_a_group_far_above_binds_too() -> None:
    found = resolve(snapshot(CgroupVersion.V1), [cap(BESTEFFORT, 300), base(INNER, 1000)])
    assert granted(found)["c1", "quota"] is UNLIMITED


def test_no_limit_above_binds_nothing() -> None:
    free = Intent(BESTEFFORT, "quota", Verb.CAP, UNLIMITED, BECAUSE, "share")
    found = resolve(snapshot(CgroupVersion.V1), [free, base(POD, 2000)])
    assert granted(found)["pod1", "quota"] == 2000


@pytest.mark.parametrize(
    ("quota", "asked", "value"),
    [
        (Bandwidth(Micros(50_000)), 20_000, 20_000),
        (Bandwidth(Micros(50_000)), 50_000, 50_000),
        (Bandwidth(Micros(50_000)), 80_000, 50_000),
        (Bandwidth(Micros(50_000)), UNLIMITED, 50_000),
        (Bandwidth(Micros(50_000), Micros(50_000)), 80_000, 50_000),
    ],
)
def test_a_burst_is_at_most_the_quota_that_stands(
    quota: Bandwidth, asked: int | Unlimited, value: int
) -> None:
    [found] = resolve(snapshot(CgroupVersion.V2, quota), [burst(INNER, asked)])
    assert found.value == value
    clipped = isinstance(asked, Unlimited) or asked > value
    assert found.clipped_by == ("its own quota" if clipped else None)


@pytest.mark.parametrize("quota", [FREE, Gap("not read")])
def test_without_a_quota_a_burst_means_nothing(quota: Bandwidth | Gap) -> None:
    assert resolve(snapshot(CgroupVersion.V2, quota), [burst(INNER, 1000)]) == ()


@pytest.mark.parametrize(("tier", "value"), [(300, 90_000), (1200, 90_000)])
def test_on_v1_a_burst_stays_while_a_quota_above_stands_in_for_its_own(
    tier: int, value: int
) -> None:
    """It is not written again whenever the quota above moves past what is asked for."""
    intents = [cap(BESTEFFORT, tier), base(INNER, 1000), burst(INNER, 90_000)]
    found = resolve(snapshot(CgroupVersion.V1), intents)
    assert granted(found)["c1", "burst"] == value


def test_a_quota_that_was_not_read_is_granted_nothing() -> None:
    unread = snapshot(CgroupVersion.V2, Gap("gone"))
    assert resolve(unread, [cap(BESTEFFORT, 300)]) == ()


def standing(version: CgroupVersion, **quotas: int) -> NodeSnapshot:
    """Each group reads this quota, in microseconds; the others none."""
    refs = {"tier": BESTEFFORT, "pod": POD, "inner": INNER}
    readings = {
        ref.id: CgroupReading(
            ref, Micros(0), quota=Bandwidth(Micros(quotas[name])) if name in quotas else FREE
        )
        for name, ref in refs.items()
    }
    return msgspec.structs.replace(node(), readings=readings, version=version)


@pytest.mark.parametrize(
    ("quotas", "value", "by"),
    [
        ({}, 1000, None),
        ({"tier": 50_000}, UNLIMITED, "what stands above it"),
        ({"pod": 30_000, "tier": 50_000}, UNLIMITED, "what stands above it"),
        ({"pod": 99_999}, UNLIMITED, "what stands above it"),  # never above it by a rounding
        ({"pod": 100_000}, 1000, None),
        ({"pod": 200_000}, 1000, None),
        ({"inner": 20_000}, 1000, None),  # its own is there to be changed
    ],
)
def test_on_v1_a_strangers_quota_above_binds_too(
    quotas: dict[str, int], value: int | Unlimited, by: str | None
) -> None:
    """Else the kernel answers EINVAL at each tick."""
    [found] = resolve(standing(CgroupVersion.V1, **quotas), [base(INNER, 1000)])
    assert (found.value, found.clipped_by) == (value, by)
    [free] = resolve(standing(CgroupVersion.V2, **quotas), [base(INNER, 1000)])
    assert (free.value, free.clipped_by) == (1000, None)


def test_a_granted_quota_above_counts_as_granted_not_as_it_stands() -> None:
    seen = standing(CgroupVersion.V1, tier=50_000)
    found = resolve(seen, [base(BESTEFFORT, 800), base(INNER, 700)])
    assert granted(found)["c1", "quota"] == 700


def test_the_smallest_quota_above_is_its_policys_doing() -> None:
    found = resolve(snapshot(CgroupVersion.V1), [cap(BESTEFFORT, 0), base(INNER, 1000)])
    assert found[0].clipped_by == "the kernel's smallest quota"
    assert [step.by for step in found[-1].contributions] == ["batch", "share"]
