"""Gaps to watermarks, and the pods that close them. Numbers in the ids are rows of section 10 of
the facts about Crane."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.gap import Gap
from slackwater.model.metric import MetricKey
from slackwater.policies.ensurance.metric_attributes import (
    NODE_METRICS,
    MetricAttributes,
    ReleaseCount,
    attributes_of,
)
from slackwater.policies.ensurance.pod_order import PodFigures
from slackwater.policies.ensurance.relief import (
    count_gap,
    read_whole,
    release_of,
    take_until_closed,
)
from tests.unit.policies.ensurance import batch, seen

GIB = 1024**3


def known(name: str) -> MetricAttributes:
    return attributes_of(MetricKey(name), NODE_METRICS)


@pytest.mark.parametrize(
    ("metric", "used", "watermark", "node", "gap"),
    [
        pytest.param("cpu_total_usage", 6500, 6000, {}, 550.0, id="17"),
        pytest.param(
            "memory_total_utilization", 80, 50, {"memory_total": 16 * GIB}, 5669356830.72, id="19"
        ),
        pytest.param(
            "cpu_total_utilization", 90, 80, {"cpu_core_numbers": 8}, 880.0, id="percent of CPUs"
        ),
        pytest.param("memory_total_usage", 3000, 1000, {}, 2200.0, id="bytes"),
    ],
)
def test_gaps(
    metric: str, used: float, watermark: float, node: dict[str, float], gap: float
) -> None:
    whole = read_whole(seen(1, metrics=node), known(metric))
    assert count_gap(used, watermark, 10, whole) == pytest.approx(gap)


def test_a_percentage_of_something_unknown_cannot_be_counted() -> None:
    attributes = known("cpu_total_utilization")
    for metrics in ({}, {"cpu_core_numbers": Gap("no")}, {"cpu_core_numbers": ()}):
        assert read_whole(seen(1, metrics=metrics), attributes) is None
    assert count_gap(90, 80, 10, None) is None


def used(*milli: int | None) -> list[PodFigures]:
    return [PodFigures(batch(n), cpu) for n, cpu in enumerate(milli, start=1)]


def cpu(figures: PodFigures) -> float | None:
    return release_of(figures, ReleaseCount.CPU)


def taken(pods: list[PodFigures], gap: float) -> list[str]:
    return [each.pod.uid for each in take_until_closed(pods, gap, cpu)]


def test_21_pod_after_pod_until_the_gap_is_closed() -> None:
    assert taken(used(2000, 1200, 1000, 500), 3520) == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("pods", "gap", "wanted"),
    [
        (used(2000), 0, []),
        (used(2000), -5, []),
        (used(100, 100), 100, ["1"]),
        (used(0, None, 100), 50, ["3"]),
        (used(100, 100), 1000, ["1", "2"]),
    ],
)
def test_who_is_taken(pods: list[PodFigures], gap: float, wanted: list[str]) -> None:
    assert taken(pods, gap) == wanted


@given(st.lists(st.none() | st.integers(0, 4000), max_size=20), st.integers(-100, 20_000))
def test_never_a_pod_more_than_needed(usages: list[int | None], gap: int) -> None:
    pods = used(*usages)
    chosen = list(take_until_closed(pods, gap, cpu))
    amounts = [each.cpu or 0 for each in chosen]
    if chosen:
        assert sum(amounts[:-1]) < gap
    if sum(amounts) < gap:
        assert len(chosen) == sum(bool(each) for each in usages)


def test_what_a_pod_releases() -> None:
    figures = PodFigures(batch(1), 5, 6.0, 7.0, evict_release=8.0)
    assert [release_of(figures, each) for each in ReleaseCount] == [5, 6.0, 7.0, 8.0, None]
