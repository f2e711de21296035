"""The order of pods. Numbers in the ids are rows of section 10 of the facts about Crane."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.cgroup import Tier
from slackwater.model.metric import Sample
from slackwater.policies.ensurance.metric_attributes import (
    CPU_SORT,
    GENERAL_SORT,
    MEMORY_SORT,
    MetricAttributes,
    SortKey,
    SortRule,
)
from slackwater.policies.ensurance.pod_order import PodFigures, measure_pods, sort_pods, sum_by_pod
from tests.unit.policies.ensurance import batch, seen

NOW = 1_000_000
BE, BU, GU = Tier.BESTEFFORT, Tier.BURSTABLE, Tier.GUARANTEED


def figures(number: int, tier: Tier = BE, **more: Any) -> PodFigures:
    usage = {name: more.pop(name) for name in ("cpu", "memory", "value") if name in more}
    return PodFigures(batch(number, tier=tier, **more), **usage)


def order(*pods: PodFigures, by: tuple[SortRule, ...] = CPU_SORT) -> list[str]:
    return [each.pod.uid for each in sort_pods(pods, by, NOW)]


def test_35_the_class_comes_before_the_priority() -> None:
    assert order(figures(1, BU, priority=-10), figures(2, BE, priority=5)) == ["2", "1"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param({"priority": -5}, {"priority": 0}, id="lower priority"),
        pytest.param({"cpu": 900}, {"cpu": 100}, id="larger usage"),
        pytest.param({"cpu": 1}, {}, id="an unknown usage is none"),
        pytest.param(
            {"cpu": 500, "extended_limits": {"gocrane.io/cpu": 1}},
            {"cpu": 500, "extended_limits": {"gocrane.io/cpu": 4}},
            id="larger share of what it was lent",
        ),
        pytest.param(
            {"cpu": 500, "extended_limits": {"gocrane.io/cpu": 9}},
            {"cpu": 500},
            id="one that was lent something",
        ),
        pytest.param({"started": NOW - 10}, {"started": NOW - 9000}, id="shorter running time"),
        pytest.param({}, {"started": NOW - 1}, id="an unknown start is now"),
    ],
)
def test_who_goes_first(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert order(figures(2, **first), figures(1, **second)) == ["2", "1"]


def test_memorys_twin() -> None:
    pods = (figures(1, memory=10.0, cpu=900), figures(2, memory=20.0, cpu=1))
    assert order(*pods, by=MEMORY_SORT) == ["2", "1"]
    lent: dict[str, Any] = {"extended_limits": {"gocrane.io/memory": 5}}
    pods = (figures(1, memory=10.0), figures(2, memory=10.0, **lent))
    assert order(*pods, by=MEMORY_SORT) == ["2", "1"]


def test_the_general_sort_looks_at_no_usage() -> None:
    pods = (figures(1, cpu=1, started=NOW - 1), figures(2, cpu=9, started=NOW - 2))
    assert order(*pods, by=GENERAL_SORT) == ["1", "2"]


def test_a_sort_of_ones_own() -> None:
    own = (SortRule(SortKey.VALUE), SortRule(SortKey.CLASS_AND_PRIORITY, descending=True))
    pods = (figures(1, value=2.0), figures(2, BE, value=1.0), figures(3, GU, value=1.0))
    assert order(*pods, by=own) == ["3", "2", "1"]


_PODS = st.lists(
    st.tuples(
        st.sampled_from(list(Tier)),
        st.integers(-2, 2),
        st.integers(0, 2),
        st.none() | st.integers(NOW - 2, NOW),
    ),
    max_size=12,
)


@given(_PODS, st.sampled_from([CPU_SORT, MEMORY_SORT, GENERAL_SORT]), st.randoms())
def test_the_order_is_total_and_independent_of_the_input(
    made: list[tuple[Tier, int, int, int | None]],
    by: tuple[SortRule, ...],
    chance: random.Random,
) -> None:
    pods = [
        figures(number, tier, priority=priority, cpu=used, memory=float(used), started=started)
        for number, (tier, priority, used, started) in enumerate(made)
    ]
    shuffled = list(pods)
    chance.shuffle(shuffled)
    assert order(*pods, by=by) == order(*shuffled, by=by)
    assert sorted(order(*pods, by=by)) == sorted(each.pod.uid for each in pods)


def labelled(value: float, uid: str, container: str = "") -> Sample:
    return Sample(value, {"PodUid": uid, "ContainerName": container})


def test_series_of_containers_add_up_unless_the_pod_has_its_own() -> None:
    samples = (labelled(1, "1", "a"), labelled(2, "1", "b"), labelled(7, "2"), Sample(9.0))
    assert sum_by_pod(samples) == {"1": 3, "2": 7}
    assert sum_by_pod((*samples, labelled(4, "1"))) == {"1": 4, "2": 7}


def test_what_is_known_of_pods() -> None:
    memory = {"container_mem_total_usage": (labelled(5, "1", "a"),)}
    metrics = memory | {"queue": (labelled(0.5, "2"),)}
    snapshot = seen(1, batch(1), batch(2), usages={1: 300}, metrics=metrics)
    one, two = measure_pods(snapshot, snapshot.workloads, MetricAttributes("queue"))
    assert (one.cpu, one.memory, one.value) == (300, 5, None)
    assert (two.cpu, two.memory, two.value) == (None, None, 0.5)
