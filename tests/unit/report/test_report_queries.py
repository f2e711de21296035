"""What is asked of Prometheus: its text, and that every answer is bounded."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.report import report_queries as queries
from slackwater.report.report_queries import (
    MOST_NODE_VALUES,
    MOST_VALUES,
    STEPS,
    QueryRange,
    choose_step,
    looks_of,
    split_range,
)

DAY = 86_400.0
ODD = (("cluster", 'prod"eu\\'), ("env", "x"))


@pytest.mark.parametrize(
    ("nodes", "days", "step"),
    [(1, 7, 300), (900, 7, 300), (1000, 7, 600), (5000, 7, 1800), (5000, 60, 3600)],
)
def test_more_nodes_mean_longer_steps(nodes: int, days: float, step: float) -> None:
    assert choose_step(nodes, days * DAY) == step
    if step < STEPS[-1]:
        assert nodes * days * DAY / step <= MOST_NODE_VALUES


@given(
    st.integers(1, 20_000), st.integers(1, 40_000), st.sampled_from(STEPS), st.integers(0, 10**9)
)
def test_parts_are_the_whole_and_each_is_bounded(
    series: int, points: int, step: float, start: int
) -> None:
    """Every moment is asked for once."""
    points = min(points, 300 * max(MOST_VALUES // series, 1))
    whole = QueryRange(float(start), start + step * (points - 1), step)
    parts = list(split_range(whole, series))
    assert (parts[0].start, parts[-1].end) == (whole.start, whole.end)
    counts = [round((part.end - part.start) / step) + 1 for part in parts]
    assert sum(counts) == points
    assert all(count * series <= MOST_VALUES or count == 1 for count in counts)
    assert all(count <= 11_000 for count in counts)
    for before, part in itertools.pairwise(parts):
        assert part.start == before.end + step


def test_no_series_are_one_part() -> None:
    assert len(list(split_range(QueryRange(0, 600, 300), 0))) == 1


@pytest.mark.parametrize(
    ("series", "count"), [(1, 24), (4000, 24), (5000, 20), (20_000, 5), (10**6, 4)]
)
def test_many_pods_are_looked_at_less_often(series: int, count: int) -> None:
    looks = looks_of(0.0, 7 * DAY, series)
    assert looks.end == 7 * DAY
    assert looks.start > 0
    assert round((looks.end - looks.start) / looks.step) + 1 == count


def test_looks_of_a_week_pass_through_the_hours_of_the_day() -> None:
    looks = looks_of(0.0, 7 * DAY, 1)
    hours = {round((looks.start + looks.step * place) / 3600) % 24 for place in range(24)}
    assert len(hours) == 24


TEXTS = {
    "nodes": queries.node_usage(ODD, 300.0),
    "CPUs": queries.node_cpus(ODD),
    "names": queries.node_names(ODD),
    "pods": queries.pod_usage(ODD, 3600.0),
    "count": queries.pod_count(ODD),
    "agents": queries.agents(ODD),
    "on": queries.policies_on(ODD),
    "ticks": queries.policy_ticks(ODD, 3600.0),
    **queries.deeds(ODD, 3600.0),
}


@pytest.mark.parametrize("name", TEXTS)
def test_matchers_are_in_every_query(name: str) -> None:
    text = TEXTS[name]
    assert text.count('cluster="prod\\"eu\\\\",env="x"') == text.count("{")
    assert text.count("{") >= 1
    assert text.count("(") == text.count(")")


def test_the_queries_about_usage() -> None:
    assert queries.node_usage((), 300.0) == (
        'count by (instance) (count by (instance, cpu) (node_cpu_seconds_total{mode="idle"})) - '
        "sum by (instance) (max by (instance, cpu) "
        '(rate(node_cpu_seconds_total{mode="idle"}[300s])))'
    )
    assert queries.pod_usage((), 3600.0) == (
        "sum by (namespace, pod) (max by (namespace, pod, container, id, cpu) (rate("
        'container_cpu_usage_seconds_total{container!="",container!="POD"}[3600s])))'
    )
