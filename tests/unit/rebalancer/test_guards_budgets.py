"""What disruption budgets say beforehand."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.decoding import decode_struct
from slackwater.contract.workload_objects import DisruptionBudget, OwnedPod
from slackwater.model.gap import Gap
from slackwater.rebalancer.guards import GuardResult, budget_guard
from slackwater.rebalancer.observed import Budget
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.sources.cluster_reader import covering_budgets
from tests.unit.contract.served import Object, budget, owned_pod
from tests.unit.rebalancer.workloads import pod_usage

GOING = [pod_usage(name, 1.0) for name in "ABEF"]
BATCHES = [GOING[:2], GOING[2:]]
PDB = "PodDisruptionBudget"
SHORT = "; a batch has more of its pods, so the rest waits for another run"
ALL = frozenset("ABCDEF")


def pods(**labels: str) -> list[OwnedPod]:
    """By name, each with its label `app`."""
    made = [owned_pod(name, labels={"app": app}) for name, app in labels.items()]
    return [decode_struct(msgspec.json.encode(each), OwnedPod, "pod") for each in made]


def read(*documents: Object) -> list[DisruptionBudget]:
    return [decode_struct(msgspec.json.encode(each), DisruptionBudget, "pdb") for each in documents]


def test_those_that_cover_some_of_the_pods() -> None:
    found = covering_budgets(
        read(
            budget("z", {"matchLabels": {"app": "web"}}, 2),
            budget("other", {"matchLabels": {"app": "other"}}, 0),
            budget("all", {}, -1),
            budget("nobody", None, 5),
        ),
        pods(a="web", b="web", c="canary"),
    )
    assert found == (
        Budget("all", 0, frozenset("abc")),
        Budget("z", 2, frozenset("ab")),
    )


@pytest.mark.parametrize(
    ("budgets", "passed", "because", "reason"),
    [
        ((), True, "none covers these pods", None),
        ((Budget("x", 0, frozenset("CD")),), True, "none covers these pods", None),
        ((Budget("web", 2, ALL),), True, f"{PDB} web lets 2 more pods go now", None),
        # What run does then: one goes, the next is refused, and it stops.
        ((Budget("web", 1, ALL),), True, f"{PDB} web lets 1 more pod go now{SHORT}", None),
        ((Budget("web", 0, ALL),), False, f"{PDB} web lets 0 more pods go now", Reason.PDB_BLOCKED),
        # Some of them are free to go.
        ((Budget("web", 0, frozenset("AB")),), True,
         f"{PDB} web lets 0 more pods go now{SHORT}", None),
        (
            (Budget("hot", 0, frozenset("AB")), Budget("cold", 1, frozenset("EF"))),
            True,
            f"{PDB} hot lets 0 more pods go now, {PDB} cold lets 1 more pod go now{SHORT}",
            None,
        ),
        (
            (Budget("hot", 0, frozenset("AB")), Budget("cold", 0, frozenset("EF"))),
            False,
            f"{PDB} hot lets 0 more pods go now, {PDB} cold lets 0 more pods go now",
            Reason.PDB_BLOCKED,
        ),
        (
            (Budget("one", 3, ALL), Budget("two", 3, frozenset("BD"))),
            False,
            "B has several disruption budgets (one, two) and cannot be evicted with them",
            Reason.KUBERNETES_ERROR,
        ),
        # Of pods that stay two budgets are their own matter.
        ((Budget("one", 3, ALL), Budget("two", 3, frozenset("CD"))), True,
         f"{PDB} one lets 3 more pods go now", None),
    ],
)  # fmt: skip
def test_what_is_said_to_those_who_are_to_go(
    budgets: tuple[Budget, ...], passed: bool, because: str, reason: Reason | None
) -> None:
    expected = GuardResult("disruption_budget", passed, because, reason)
    assert budget_guard(budgets, BATCHES) == expected


def test_what_may_not_be_seen_does_not_forbid() -> None:
    said = budget_guard(Gap("the verb list is not granted"), BATCHES)
    assert said.passed
    assert said.because == (
        "not known beforehand, each eviction will tell: the verb list is not granted"
    )


def test_where_nobody_goes_nothing_forbids() -> None:
    assert budget_guard((Budget("web", 0, ALL),), []).passed


@given(st.lists(st.builds(Budget, st.text("xyz", min_size=1), st.integers(0, 3),
                          st.frozensets(st.sampled_from("ABCDEF"))), max_size=4))  # fmt: skip
def test_it_forbids_only_with_a_reason(budgets: list[Budget]) -> None:
    said = budget_guard(tuple(budgets), BATCHES)
    assert said.passed is (said.reason is None)
    assert said.because
