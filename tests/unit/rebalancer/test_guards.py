"""What forbids a rotation, with the numbers; also what each says where it lets it pass."""

from typing import Any

import pytest

from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.rebalancer.guards import (
    GuardResult,
    capacity,
    check_guards,
    cooldown,
    hpa_scaling,
    minimum_pods,
    opted_out,
)
from slackwater.rebalancer.last_rotation import judge_rotation
from slackwater.rebalancer.observed import (
    Cores,
    LastRotation,
    NoAutoscaler,
    Scaling,
    Unavailable,
    WorkloadUsage,
)
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.selection import Numbers, Proposal, propose
from slackwater.settings.rebalancer import MoveSettings
from tests.unit.rebalancer.workloads import (
    F6,
    NAME,
    NAN,
    NOON,
    all_with,
    measured,
    numbered,
    observed,
    pod_usage,
    rotated,
)

SEED = MoveSettings()
HOTTEST = "(what the hottest carries today)"
FREE = [
    ("opted_out", "no annotation of the workload forbids it"),
    ("hpa_scaling", "the HPA wants 6 pods, and there are 6"),
    ("rollout", "no rollout is in flight"),
    ("cooldown", "it was not rotated before"),
    ("minimum_pods", "2 of 6 Ready pods stay, minimum required is 2"),
    ("capacity", f"with 2 away at once the other 4 carry 1.10 cores each, at most 1.20 {HOTTEST}"),
]


def all_guards(**other: Any) -> list[GuardResult]:
    workload = observed(**other)
    found = check_guards(propose(measured(), SEED), measured(), workload, SEED, NOON)
    return [opted_out(workload), *found]


def checked(**other: Any) -> list[tuple[str, str, Reason | None]]:
    """Those that forbid it."""
    guards = all_guards(**other)
    assert [each.guard for each in guards] == [name for name, _ in FREE]
    assert all(each.passed is (each.reason is None) for each in guards)
    return [(each.guard, each.because, each.reason) for each in guards if not each.passed]


def test_nothing_forbids_the_seed_s_example() -> None:
    guards = all_guards()
    assert [(each.guard, each.because) for each in guards] == FREE
    assert all(each.passed and each.reason is None for each in guards)


@pytest.mark.parametrize(
    ("other", "guard", "because", "reason"),
    [
        (
            {"opted_out": 'the annotation slackwater.io/rotate is "false"'},
            "opted_out",
            'the annotation slackwater.io/rotate is "false"',
            Reason.OPTED_OUT,
        ),
        # Section 6, row 23.
        (
            {"scaling": Scaling(8, 6)},
            "hpa_scaling",
            "the HPA scales from 6 to 8 pods",
            Reason.HPA_SCALING,
        ),
        (
            {"scaling": Scaling(4, 6)},
            "hpa_scaling",
            "the HPA scales from 6 to 4 pods",
            Reason.HPA_SCALING,
        ),
        (
            {"scaling": Scaling(6, 6, "3 of 6 pods are of the new template")},
            "rollout",
            "3 of 6 pods are of the new template",
            Reason.ROLLOUT_IN_PROGRESS,
        ),
        (
            {"last": rotated("2026-11-17T11:56:00Z")},
            "cooldown",
            "last rotated 4m ago, the pause is 10m",
            Reason.COOLDOWN,
        ),
    ],
)
def test_what_forbids_it(other: dict[str, Any], guard: str, because: str, reason: Reason) -> None:
    assert checked(**other) == [(guard, because, reason)]


def test_without_an_hpa_nobody_knows_how_many_pods_it_wants() -> None:
    none = observed(hpa_target=NoAutoscaler(Reason.HPA_TARGET_MISSING, "no HPA scales web"))
    guard = hpa_scaling(none)
    assert (guard.passed, guard.because, guard.reason) == (None, "not known: no HPA", None)
    # One that has no target for CPU scales all the same.
    other = observed(hpa_target=Unavailable(Reason.HPA_TARGET_MISSING, "no metric cpu"))
    assert hpa_scaling(other).because == "the HPA wants 6 pods, and there are 6"


@pytest.mark.parametrize(
    ("scaling", "because"),
    [
        (Scaling(1, 1), "the HPA wants 1 pod, and there is 1"),
        (Scaling(1, 2), "the HPA scales from 2 to 1 pod"),
        (Scaling(2, 1), "the HPA scales from 1 to 2 pods"),
    ],
)
def test_one_pod_is_not_pods(scaling: Scaling, because: str) -> None:
    assert hpa_scaling(observed(scaling=scaling)).because == because


REMOVE_IT = (
    "which cannot be; remove it: kubectl annotate deployment/web -n shop "
    "slackwater.io/last-rotation-"
)
IN_VAIN = "after 2 rotations in a row that brought too little"
EVEN = measured(dict.fromkeys(F6, 0.7))


def cooled(
    last: LastRotation | Gap | None, usage: WorkloadUsage, settings: MoveSettings = SEED
) -> GuardResult:
    """With the last rotation judged first, as `assess` does it."""
    if isinstance(last, LastRotation):
        last = judge_rotation(last, usage, settings, NOON) or last
    return cooldown(last, NAME, settings, NOON)


@pytest.mark.parametrize(
    ("last", "settings", "passed", "because"),
    [
        (None, SEED, True, "it was not rotated before"),
        (rotated("2026-11-17T11:50:00Z"), SEED, True, "last rotated 10m ago, the pause is 10m"),
        (
            rotated("2026-11-17T11:50:00.000001Z"),
            SEED,
            False,
            "last rotated 10m ago, the pause is 10m",
        ),
        (
            rotated("2026-11-17T11:59:30Z"),
            MoveSettings(cooldown=Micros(30_000_000)),
            True,
            "last rotated 30s ago, the pause is 30s",
        ),
        (
            rotated("2026-11-17T12:00:00Z"),
            MoveSettings(cooldown=Micros(0)),
            True,
            "last rotated 0s ago, the pause is 0s",
        ),
        # Another machine's clock is ahead.
        (
            rotated("2026-11-17T12:01:00Z"),
            SEED,
            False,
            "last rotated 1m ahead of this clock, the pause is 10m",
        ),
        (
            rotated("2026-11-17T12:10:00Z"),
            SEED,
            False,
            "last rotated 10m ahead of this clock, the pause is 10m",
        ),
        (
            rotated("2026-11-17T12:01:00Z"),
            MoveSettings(cooldown=Micros(0)),
            False,
            "last rotated 1m ahead of this clock, the pause is 0s",
        ),
        # No clock is that wrong; a typing error would forbid it for years.
        (
            rotated("2030-01-01T00:00:00Z"),
            SEED,
            False,
            f"last rotated 27372h ahead of this clock, the pause is 10m, {REMOVE_IT}",
        ),
        # Twice without effect: it waits longer. A success, judged now, ends that.
        (
            rotated("2026-11-17T11:30:00Z", misses=2, judged=True),
            SEED,
            False,
            f"last rotated 30m ago, the pause is 40m {IN_VAIN}",
        ),
        (
            rotated("2026-11-17T11:30:00Z", misses=2),
            SEED,
            True,
            "last rotated 30m ago, the pause is 10m",
        ),
        # What cannot be read is not forgotten.
        (
            Gap("slackwater.io/last-rotation is no JSON"),
            SEED,
            False,
            "the time of the last rotation cannot be read: slackwater.io/last-rotation is no JSON",
        ),
    ],
)
def test_cooling_down(
    last: LastRotation | Gap | None, settings: MoveSettings, passed: bool, because: str
) -> None:
    found = cooled(last, EVEN, settings)
    assert (found.passed, found.because) == (passed, because)
    unknown = "cannot be" in because
    reason = Reason.COOLDOWN_UNKNOWN if unknown else Reason.COOLDOWN
    assert found.reason is (None if passed else reason)


def test_a_second_miss_counts_as_soon_as_it_can_be_seen() -> None:
    last = rotated("2026-11-17T11:45:00Z", misses=1)
    assert not cooled(last, measured()).passed
    assert cooled(last, EVEN).passed


def going(count: int) -> Proposal:
    rotate = [pod_usage(f"p{n}", 1.2) for n in range(1, count + 1)]
    numbers = Numbers(Cores(0.7), Cores(1.05), Cores(1.0))
    return Proposal(tuple(rotate), None, "", {}, numbers)


@pytest.mark.parametrize(
    ("running", "terminating", "count", "minimum", "because"),
    [
        # Section 3, rows 22, 23, 24 and 26.
        (5, 0, 2, 3, "3 of 5 Ready pods stay, minimum required is 3"),
        (3, 0, 2, 3, "deletion would leave 1 pods, minimum required is 3"),
        (3, 1, 1, 2, "2 of 3 Ready pods stay, minimum required is 2"),
        (3, 0, 3, 2, "deletion would leave 0 pods, minimum required is 2"),
        # Nobody is to go: nothing to forbid, however few there are.
        (1, 0, 0, 5, "1 pod is Ready, and none is to go"),
        (2, 0, 0, 5, "2 pods are Ready, and none is to go"),
        (6, 0, 4, 2, "2 of 6 Ready pods stay, minimum required is 2"),
        (6, 0, 4, 3, "deletion would leave 2 pods, minimum required is 3"),
    ],
)
def test_the_minimum(
    running: int, terminating: int, count: int, minimum: int, because: str
) -> None:
    usages = numbered(*[1.0] * (running + terminating))
    going_already = {name: {"terminating": True} for name in list(usages)[running:]}
    settings = MoveSettings(minimum_pods=minimum)
    found = minimum_pods(going(count), measured(usages, **going_already), settings)
    assert found.because == because
    assert found.passed is not because.startswith("deletion")
    assert found.reason is (None if found.passed else Reason.MIN_PODS)


@pytest.mark.parametrize("different", [{"ready": False}, {"running": False}, {"terminating": True}])
def test_who_does_not_serve_is_not_counted(different: dict[str, Any]) -> None:
    found = minimum_pods(going(2), measured(numbered(1, 1, 1, 1, 1), p5=different), SEED)
    assert found.because == "2 of 4 Ready pods stay, minimum required is 2"


def test_a_hot_pod_that_is_not_ready_does_not_leave() -> None:
    """It was not among the Ready pods before it went."""
    found = minimum_pods(going(2), measured(numbered(1, 1, 1, 1), p1={"ready": False}), SEED)
    assert found.because == "2 of 3 Ready pods stay, minimum required is 2"
    assert found.passed


def test_both_guards_count_the_same_pods() -> None:
    """Of seven Ready pods one is young and one of unknown use: with two away, five stay."""
    found = measured({**numbered(1.2, 0.3, 0.5, 0.5, 0.5, 0.5), "p7": NAN}, p6={"age": 10.0})
    going_two = propose(found, MoveSettings(top_k=1))
    assert [each.name for each in going_two.rotate] == ["p1", "p2"]
    assert minimum_pods(going_two, found, SEED).because.startswith("5 of 7 Ready pods stay")
    assert capacity(going_two, found, SEED).because.startswith("with 2 away at once the other 5 ")


def test_section_6_row_9_is_refused_by_the_minimum() -> None:
    three = measured(numbered(1.5, 1.2, 0.2))
    refused = minimum_pods(propose(three, SEED), three, SEED)
    assert (refused.passed, refused.reason) == (False, Reason.MIN_PODS)
    assert refused.because == "deletion would leave 0 pods, minimum required is 2"


BY_LIMIT = " (their smallest CPU limit)"


@pytest.mark.parametrize(
    ("limit", "settings", "passed", "because"),
    [
        (
            2.0,
            SEED,
            True,
            f"with 2 away at once the other 4 carry 1.10 cores each, at most 2.00{BY_LIMIT}",
        ),
        (
            1.0,
            SEED,
            True,
            f"with 1 away at once the other 5 carry 0.88 cores each, at most 1.00{BY_LIMIT}",
        ),
        (
            9.0,
            MoveSettings(batch=1),
            True,
            f"with 1 away at once the other 5 carry 0.88 cores each, at most 9.00{BY_LIMIT}",
        ),
        (
            0.8,
            SEED,
            False,
            "4.40 cores on the 5 pods that stay are more than the 0.80 that each can carry"
            + BY_LIMIT,
        ),
    ],
)
def test_capacity(limit: float, settings: MoveSettings, passed: bool, because: str) -> None:
    found = measured(**all_with(limit=limit))
    guard = capacity(propose(found, settings), found, settings)
    assert (guard.passed, guard.because) == (passed, because)
    assert guard.reason is (None if passed else Reason.CAPACITY_GUARD)


def test_capacity_by_the_threshold() -> None:
    """The one that is hot is not Ready, so what it carries is no example to others."""
    found = measured(numbered(1.2, 0.5, 0.4, 0.4, 0.4), p1={"ready": False})
    said = capacity(propose(found, SEED), found, SEED).because
    assert said.endswith("at most 1.05 (the threshold)")


def test_one_pod_that_stays_is_one() -> None:
    two = measured(numbered(1.2, 1.2), **all_with(numbered(1, 1), limit=1.5))
    said = capacity(going(1), two, SEED).because
    assert said.startswith("2.40 cores on the 1 pod that stays are more than the 1.50")


def test_nobody_can_stand_in_for_the_only_pod() -> None:
    alone = capacity(going(1), measured(numbered(1.2)), SEED)
    assert alone.reason is Reason.CAPACITY_GUARD
    assert alone.because.startswith("1.20 cores on the 0 pods that stay")


def test_where_nobody_goes_there_is_room() -> None:
    assert capacity(going(0), measured(), SEED).because == "no pod is to go"
