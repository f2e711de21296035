"""How many may go over all workloads: pairs are kept, and what is left must be worth it."""

from typing import Any

import msgspec
import pytest

from slackwater.rebalancer.assessment import Assessment, apply_caps, assess
from slackwater.rebalancer.observed import Scaling, WorkloadName
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.selection import PodGroup
from slackwater.settings.rebalancer import (
    CapSettings,
    MoveSettings,
    RequestSource,
    WorkloadSettings,
)
from tests.unit.rebalancer.workloads import F6, NOON, live, numbered, observed, usage

SEED = MoveSettings()


def assessed(
    workload: str = "web",
    usages: dict[str, float] = F6,
    namespace: str = "shop",
    moves: MoveSettings = SEED,
    nodes: dict[str, str] | None = None,
    **other: Any,
) -> Assessment:
    pods = [live(pod, node=(nodes or {}).get(pod, f"node-{pod}")) for pod in usages]
    name = WorkloadName(namespace, "Deployment", workload)
    settings = WorkloadSettings(namespace, workload, container="web", moves=moves)
    there = observed(*pods, workload=name, **other)
    return assess(there, usage(usages), settings, RequestSource.AUTO, NOON)


def cut(
    caps: CapSettings, *assessments: Assessment, moves: MoveSettings = SEED
) -> tuple[Assessment, ...]:
    return apply_caps(assessments, caps, lambda _: moves)


def going(found: Assessment) -> str:
    assert found.proposal is not None
    return " ".join(each.name for each in found.proposal.rotate) if found.rotates else ""


@pytest.mark.parametrize(
    ("caps", "usages", "rotate", "batches"),
    [
        (CapSettings(run=4), F6, "A B F E", ["A F", "B E"]),
        # Three: a hot one without its cold one would change nothing.
        (CapSettings(run=3), F6, "A F", ["A F"]),
        (CapSettings(run=2), F6, "A F", ["A F"]),
        (CapSettings(run=1), F6, "", []),
        (CapSettings(namespace=2), F6, "A F", ["A F"]),
        (CapSettings(node=1), F6, "A B F E", ["A F", "B E"]),
        (CapSettings(run=9, node=9, namespace=2), F6, "A F", ["A F"]),
        # One hot, two cold: the second cold one goes where there is room for it.
        (CapSettings(run=3), {**F6, "B": 1.0}, "A F E", ["A F", "E"]),
        (CapSettings(run=2), {**F6, "B": 1.0}, "A F", ["A F"]),
    ],
)
def test_one_workload(
    caps: CapSettings, usages: dict[str, float], rotate: str, batches: list[str]
) -> None:
    (found,) = cut(caps, assessed(usages=usages))
    assert going(found) == rotate
    assert [" ".join(each.name for each in batch) for batch in found.batches] == batches
    assert found.reason is (None if rotate else Reason.CAPPED)


def test_without_caps_nothing_is_touched() -> None:
    before = assessed()
    assert cut(CapSettings(), before) == (before,)


def test_where_all_may_go_only_that_is_told() -> None:
    before = assessed()
    (found,) = cut(CapSettings(run=10, node=1), before)
    *rest, guard = found.guards
    assert tuple(rest) == before.guards
    assert (guard.guard, guard.passed) == ("caps", True)
    assert guard.because == "all 4 may go: at most 10 in a run, 1 from a node"
    assert (found.proposal, found.batches) == (before.proposal, before.batches)


def test_what_is_left_has_its_own_numbers() -> None:
    (found,) = cut(CapSettings(run=2), assessed())
    assert found.because == "Improvement 37.5% exceeds minimum 10.0%"
    assert found.proposal is not None
    assert found.proposal.because == found.because
    numbers = found.proposal.numbers
    assert numbers is not None
    assert numbers.gain is not None
    assert msgspec.structs.astuple(numbers.gain) == pytest.approx((1.2, 0.75, 37.5))
    assert numbers.threshold == pytest.approx(1.05)
    assert {name for name, group in found.proposal.groups.items() if group is PodGroup.REST} == set(
        "BCDE"
    )
    because = {guard.guard: guard.because for guard in found.guards}
    assert len(because) == len(found.guards)
    assert because["caps"] == "2 of 4 pods may go: at most 2 in a run"
    assert because["minimum_pods"] == "4 of 6 Ready pods stay, minimum required is 2"
    assert because["capacity"].startswith("with 2 away at once")


def test_what_is_left_must_be_worth_it() -> None:
    moves = MoveSettings(top_k=2, minimum_improvement=36.0)
    usages = {"A": 1.2, "B": 1.19, "C": 0.8, "D": 0.9, "E": 0.3, "F": 0.2, "G": 0.9}
    assert going(assessed(usages=usages, moves=moves)) == "A B F E"
    strict = MoveSettings(top_k=2, minimum_improvement=45.0)
    (found,) = cut(CapSettings(run=2), assessed(usages=usages, moves=moves), moves=strict)
    assert found.reason is Reason.CAPPED
    assert found.because == (
        "2 of 4 pods may go: at most 2 in a run; Improvement 41.7% below minimum 45.0%"
    )
    assert found.batches == ()


def test_who_is_capped_has_a_sentence() -> None:
    (found,) = cut(CapSettings(run=1), assessed())
    assert found.because == (
        "0 of 4 pods may go: at most 1 in a run; "
        "a hot and a cold pod go together, so one alone is not rotated"
    )
    assert (found.guards[-1].guard, found.guards[-1].reason) == ("caps", Reason.CAPPED)


def test_where_a_cap_is_used_up_nothing_is_said_of_pairs() -> None:
    _, found = cut(CapSettings(run=4), assessed(), assessed("next"))
    assert found.because == "0 of 4 pods may go: at most 4 in a run"


def test_what_is_left_may_stay_hot() -> None:
    (found,) = cut(CapSettings(run=2), assessed(usages=numbered(3.0, 2.9, 0.9, 0.5, 0.5, 0.4)))
    assert going(found) == "p1 p6"
    assert "1.70 cores on average are still above the threshold 1.05" in found.because


@pytest.mark.parametrize(
    ("caps", "rotate"),
    [
        (CapSettings(run=8), ["A B F E", "A B F E", ""]),
        (CapSettings(run=10), ["A B F E", "A B F E", "A F"]),
        (CapSettings(run=6), ["A B F E", "A F", ""]),
        # The first two are of one namespace.
        (CapSettings(namespace=4), ["A B F E", "", "A B F E"]),
        (CapSettings(namespace=6), ["A B F E", "A F", "A B F E"]),
        (CapSettings(run=8, namespace=6), ["A B F E", "A F", "A F"]),
        # All have their pods on the same nodes.
        (CapSettings(node=1), ["A B F E", "", ""]),
        (CapSettings(node=2), ["A B F E", "A B F E", ""]),
    ],
)
def test_workloads_in_their_order(caps: CapSettings, rotate: list[str]) -> None:
    three = (assessed("web"), assessed("api"), assessed("jobs", namespace="back"))
    found = cut(caps, *three)
    assert [each.workload for each in found] == [each.workload for each in three]
    assert [going(each) for each in found] == rotate


def test_who_is_not_rotated_uses_nothing_up() -> None:
    scaling = assessed("api", scaling=Scaling(9, 6))
    cool = assessed("jobs", dict.fromkeys(F6, 0.1))
    found = cut(CapSettings(run=4), scaling, cool, assessed("web"))
    assert [each.reason for each in found] == [
        Reason.HPA_SCALING,
        Reason.NO_PODS_ABOVE_TOLERANCE,
        None,
    ]
    assert going(found[-1]) == "A B F E"
    assert found[:2] == (scaling, cool)


def test_who_is_capped_uses_nothing_up() -> None:
    found = cut(CapSettings(run=5), assessed("web"), assessed("api"), assessed("jobs"))
    assert [going(each) for each in found] == ["A B F E", "", ""]
    found = cut(CapSettings(run=3), assessed("web"), assessed("api"))
    assert [going(each) for each in found] == ["A F", ""]


@pytest.mark.parametrize(
    ("nodes", "rotate"),
    [
        # A and F share a node: E goes with A, and then B with nobody but F, whose node is used.
        ({"A": "n1", "F": "n1"}, "A E"),
        ({"A": "n1", "B": "n1"}, "A F"),
        ({"F": "n1", "E": "n1"}, "A F"),
        # All hot ones sit where all cold ones do.
        (dict.fromkeys("ABEF", "n1"), ""),
        ({"A": "n1", "F": "n1", "B": "n2", "E": "n2"}, "A E"),
    ],
)
def test_one_from_each_node(nodes: dict[str, str], rotate: str) -> None:
    (found,) = cut(CapSettings(node=1), assessed(nodes=nodes))
    assert going(found) == rotate


def test_a_surplus_of_hot_ones_goes_last() -> None:
    """Three hot, two cold that may go."""
    usages = numbered(2.0, 1.9, 1.8, 0.2, 0.1)
    moves = MoveSettings(top_k=3, minimum_pods=1, minimum_improvement=5.0)
    before = assessed(usages=usages, moves=MoveSettings(top_k=3, minimum_pods=0))
    assert going(before) == "p1 p2 p3 p5 p4"
    for most, rotate in ((5, "p1 p2 p3 p5 p4"), (4, "p1 p2 p5 p4"), (3, "p1 p5"), (2, "p1 p5")):
        (found,) = cut(CapSettings(run=most), before, moves=moves)
        assert going(found) == rotate


def test_each_workload_s_own_settings_are_asked_for() -> None:
    asked: list[WorkloadName] = []

    def settings_of(name: WorkloadName) -> MoveSettings:
        asked.append(name)
        return MoveSettings(batch=1)

    (found,) = apply_caps([assessed()], CapSettings(run=2), settings_of)
    assert [each.name for each in asked] == ["web"]
    assert [len(batch) for batch in found.batches] == [1, 1]
