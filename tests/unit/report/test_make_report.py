"""From series to a report: days, what could be sold, workloads, deeds, savings."""

import math

import msgspec
import pytest

from slackwater.model.gap import Gap
from slackwater.report.cluster_report import ClusterReport, NodeDay, WorkloadUse
from slackwater.report.fetch_objects import ListedNode, ListedObjects
from slackwater.report.fetch_series import ClusterSeries, NodeSamples, PodSamples
from slackwater.report.make_report import MOST_TRIED, make_report
from slackwater.report.pod_owners import PodWithOwner
from tests.unit.report.report_world import (
    DAY,
    END,
    SOURCE,
    STEP,
    bare_report,
    node_samples,
    nodes,
    objects,
    own,
    sample_report,
    series,
)

NOBODY = ListedObjects((), ())


def made(found: ClusterSeries, there: ListedObjects = NOBODY) -> ClusterReport:
    return make_report(found, there, SOURCE)


def only(*samples: NodeSamples, pods: tuple[PodSamples, ...] = ()) -> ClusterSeries:
    return msgspec.structs.replace(series(samples, days=1), pods=pods)


# --- nodes


def test_a_nodes_days() -> None:
    """Midnight's sample is the mean of the time before it; what is no number is left out."""
    times = [END - 2 * DAY, END - 1.5 * DAY, END - DAY, END - DAY + 60, END - 60, END]
    values = [5.0, 1.0, 3.0, 4.0, math.nan, -2.0]
    there = ListedObjects((ListedNode("a", (), 8.0),), ())
    [node] = made(only(NodeSamples("a", 16.0, times, values)), there).nodes
    assert (node.allocatable, node.peak) == (8.0, 5.0)
    assert node.used == pytest.approx(13 / 5)
    assert [day.used for day in node.days] == [5.0, 2.0, 2.0]
    assert node.days[1] == NodeDay("2026-11-17", 2.0, 3.0, 6.0)


def test_without_rights_a_node_counts_with_its_cpus() -> None:
    there = ListedObjects(Gap("list nodes: refused"), Gap("list pods: refused"))
    report = made(only(node_samples("a", 2.0, 1)), there)
    assert report.nodes[0].allocatable == 16.0
    assert report.notes[0].startswith("nodes could not be listed, so each counts with all its CPUs")
    assert report.notes[1].startswith("pods could not be listed, so it is not known")


def test_a_node_without_numbers_is_left_out() -> None:
    empty = NodeSamples("b", 4.0, [END], [math.nan])
    assert [each.node for each in made(only(node_samples("a", 2.0, 1), empty)).nodes] == ["a"]


def test_a_node_that_uses_more_than_it_offers_has_nothing_idle() -> None:
    there = ListedObjects((ListedNode("a", (), 1.0),), ())
    [node] = made(only(NodeSamples("a", 4.0, [END], [3.0])), there).nodes
    assert (node.idle, node.days[0].idle) == (0.0, 0.0)


# --- what could be sold


def test_the_whole_sample() -> None:
    report = sample_report()
    offer = report.offer
    assert offer is not None
    assert (offer.nodes, offer.of, offer.days) == (3, 3, 4.0)
    assert offer.ours.estimator == "adaptive"
    assert 0 < offer.ours.sold < offer.oracle < offer.idle < offer.allocatable == 46.5
    for each in offer.estimators:
        assert each.windows == 3 * 96
        assert 0 <= each.time_above <= each.exceeded <= each.worst_node <= 1
    assert report.savings is not None
    assert report.savings.cores == pytest.approx(offer.ours.sold)
    assert report.savings.core_hours_a_day == pytest.approx(24 * offer.ours.sold)
    assert report.savings.nodes == pytest.approx(offer.ours.sold / 15.5)
    assert report.savings.money == pytest.approx(offer.ours.sold * 720 * 0.04)


def test_a_steady_node_is_sold_without_risk() -> None:
    times = [END - STEP * place for place in range(4 * 96)][::-1]
    steady = NodeSamples("a", 10.0, times, [4.0] * len(times))
    offer = made(series([steady], days=4)).offer
    assert offer is not None
    last_day = next(each for each in offer.estimators if each.estimator == "last-day")
    assert (last_day.exceeded, last_day.worst_node, last_day.time_above) == (0.0, 0.0, 0.0)
    assert offer.idle == pytest.approx(6.0)
    assert offer.oracle == pytest.approx(6.0)


def test_a_day_is_too_short_for_a_forecast() -> None:
    report = bare_report()
    assert (report.offer, report.savings) == (None, None)
    [note] = report.notes
    assert note == (
        "no forecast could be tried: no node has samples of more than 1 days; ask for a longer "
        "period with --days, or wait"
    )


def test_a_new_node_is_not_tried() -> None:
    report = made(series([*nodes(4), node_samples("new", 1.0, 0.5)], days=4))
    assert report.offer is not None
    assert (report.offer.nodes, report.offer.of) == (3, 4)
    assert report.savings is not None
    # Taken from those that were tried to all.
    assert report.savings.cores == pytest.approx(report.offer.ours.sold * 4 / 3)


def test_of_many_nodes_some_are_tried_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slackwater.report.make_report.MOST_TRIED", 3)
    heard: list[tuple[int, int]] = []
    many = [node_samples(f"n{place}", 1.0 + place, 2.1) for place in range(5)]
    report = make_report(
        series(many, days=2.1), NOBODY, SOURCE, lambda done, of: heard.append((done, of))
    )
    assert heard == [(1, 3), (2, 3), (3, 3)]
    assert report.offer is not None
    assert report.offer.allocatable == 48.0
    assert MOST_TRIED > 3


def test_a_hole_in_the_past_is_no_error() -> None:
    whole = node_samples("a", 2.0, 4)
    kept = [place for place, at in enumerate(whole.times) if not 1.2 * DAY < END - at < 1.6 * DAY]
    holed = NodeSamples("a", 16.0, [whole.times[each] for each in kept],
                        [whole.values[each] for each in kept])  # fmt: skip
    offer = made(series([holed], days=4)).offer
    assert offer is not None
    assert offer.ours.windows < 48


# --- workloads


def pod(namespace: str, name: str, *values: float) -> PodSamples:
    return PodSamples(namespace, name, [END - 60 * place for place in range(len(values))], values)


def test_pods_of_one_owner_are_one_workload() -> None:
    listed = (
        PodWithOwner("shop", "web-1", "Deployment/web", 1.0, ended=False),
        PodWithOwner("shop", "web-2", "Deployment/web", 0.5, ended=False),
        PodWithOwner("shop", "web-0", "Deployment/web", 9.0, ended=True),
    )
    used = (pod("shop", "web-1", 1.0, 2.0), pod("shop", "web-2", 1.0, math.nan))
    report = made(only(node_samples("a", 1.0, 1), pods=used), ListedObjects((), listed))
    assert report.workloads == (WorkloadUse("shop", "Deployment/web", 2, 2.0, 2.0, 1.5),)
    assert report.workloads[0].of_request == pytest.approx(4 / 3)
    assert report.workloads[0].unused == 0.0


def test_a_pod_that_came_late_counts_for_the_whole_time() -> None:
    """Mean over all moments that were looked at, as a node's is."""
    used = (pod("a", "x", 1.0, 1.0, 1.0, 1.0), pod("b", "y", 2.0))
    found = {each.workload: each.used for each in made(only(pods=used)).workloads}
    assert found == {"Pod/x": 1.0, "Pod/y": 0.5}


def test_one_that_asks_for_nothing_is_neither_hot_nor_cold() -> None:
    report = sample_report()
    assert "CronJob/nightly" in {each.workload for each in report.workloads}
    assert [each.workload for each in report.hottest(9)] == [
        "Deployment/web", "StatefulSet/database", "Deployment/cart"
    ]  # fmt: skip
    assert [each.workload for each in report.coldest(9)] == [
        "Deployment/cart", "StatefulSet/database"
    ]  # fmt: skip
    assert report.coldest(1)[0].unused == pytest.approx(4 - 0.4 * 1.2)


def test_without_pods_of_the_api_names_have_to_do() -> None:
    there = ListedObjects((), Gap("no"))
    names = {each.workload for each in made(series(nodes(1), days=1), there).workloads}
    assert names == {"Deployment/web", "Deployment/cart", "(gone) database", "CronJob/nightly"}


# --- what Slackwater did


def test_deeds() -> None:
    found = sample_report().slackwater
    assert found is not None
    by_name = {each.policy: each for each in found.policies}
    assert by_name["best_effort_share"].acted == pytest.approx(0.983, abs=0.001)
    assert by_name["core_pinning"].acted is None
    assert (found.nodes, found.changes, found.evictions, found.rotations) == (3, 812, 3, 1)
    assert found.forecast_exceeded == pytest.approx(0.004)


def test_who_sells_nothing_exceeds_nothing() -> None:
    bare = msgspec.structs.replace(own(), means={}, ticks={})
    found = made(series(nodes(1), own_samples=bare, days=1), objects()).slackwater
    assert found is not None
    assert (found.sold, found.best_effort, found.forecast_exceeded) == (None, None, None)


def test_without_slackwater_there_are_no_deeds() -> None:
    assert bare_report().slackwater is None
    assert bare_report().idle > 0
