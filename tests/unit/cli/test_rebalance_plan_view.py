"""The plan as data: the seed's example to the digit, and what is not known."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from slackwater.model.gap import Gap
from slackwater.rebalancer.assessment import Assessment, assess
from slackwater.rebalancer.observed import HpaTarget, HpaTargetKind, Unavailable
from slackwater.rebalancer.plan_view import PlanView, as_data, view_of
from slackwater.rebalancer.reason import PROBLEMS, Reason
from slackwater.settings.rebalancer import RequestSource, WorkloadSettings
from tests.unit.rebalancer.workloads import F6, NAME, NOON, live, observed, usage

SETTINGS = WorkloadSettings("shop", "web")


def assessed(given: Mapping[str, float | Gap] = F6, **workload: Any) -> Assessment:
    world = observed(*(live(name) for name in given), **workload)
    return assess(world, usage(given), SETTINGS, RequestSource.AUTO, NOON)


def plain(views: Sequence[PlanView]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(msgspec.json.encode(as_data(views)))
    return found


def test_the_seed_s_example() -> None:
    view = view_of(assessed())
    assert (view.workload, view.namespace, view.workload_kind) == ("web", "shop", "Deployment")
    assert view.hpa is not None
    assert (view.hpa.name, view.hpa.target, view.hpa.unit) == ("web", 70, "percent")
    assert (view.request, view.target, view.threshold) == (1.0, 0.7, 1.05)
    assert (view.average, view.predicted_average) == (1.15, 0.75)
    assert view.improvement == pytest.approx(34.782609)
    assert (view.decision, view.reason, view.problem) == ("rotate", None, False)
    assert view.because == "Improvement 34.8% exceeds minimum 10.0%"
    assert view.evict == ("A", "B", "F", "E")
    assert view.batches == (("A", "F"), ("B", "E"))
    assert all(guard.passed for guard in view.guards)


@pytest.mark.parametrize(
    ("name", "request_share", "target_share", "group"),
    [
        ("A", 120.0, 171.428571, "top"),
        ("B", 110.0, 157.142857, "top"),
        ("C", 80.0, 114.285714, "rest"),
        ("D", 60.0, 85.714286, "rest"),
        ("E", 40.0, 57.142857, "bottom"),
        ("F", 30.0, 42.857143, "bottom"),
    ],
)
def test_both_ratios_are_named(
    name: str, request_share: float, target_share: float, group: str
) -> None:
    """Facts trap 26: the seed's text calls the one by the other's name."""
    pod = next(each for each in view_of(assessed()).pods if each.name == name)
    assert (pod.percent_of_request, pod.percent_of_target) == (request_share, target_share)
    assert (pod.group, pod.usage, pod.request) == (group, F6[name], 1.0)


def test_pods_are_sorted_by_usage_and_the_unknown_come_last() -> None:
    view = view_of(assessed({"p3": 0.5, "p1": Gap("no series"), "p2": 0.5, "p0": 0.9}))
    assert [pod.name for pod in view.pods] == ["p0", "p2", "p3", "p1"]
    last = view.pods[-1]
    assert (last.usage, last.percent_of_target, last.group) == (None, None, "unknown")
    assert last.because


def test_one_workload_is_the_object_itself() -> None:
    data = plain([view_of(assessed())])
    assert list(data)[:3] == ["apiVersion", "kind", "workload"]
    assert (data["apiVersion"], data["kind"]) == ("slackwater.io/v1", "RebalancePlan")
    for name in (
        "workload", "hpa", "pods", "threshold", "average", "predictedAverage", "improvement",
        "decision", "reason", "evict", "guards",
    ):  # fmt: skip
        assert name in data
    pods = data["pods"]
    assert set(pods[0]) >= {
        "name", "usage", "request", "percentOfRequest", "percentOfTarget", "group",
    }  # fmt: skip
    guards = data["guards"]
    assert set(guards[0]) == {"guard", "passed", "because"}


@pytest.mark.parametrize("count", [0, 2, 3])
def test_several_are_a_list(count: int) -> None:
    data = plain([view_of(assessed())] * count)
    assert (data["apiVersion"], data["kind"]) == ("slackwater.io/v1", "RebalancePlanList")
    items = data["items"]
    assert len(items) == count
    assert all(list(each)[:2] == ["apiVersion", "kind"] for each in items)
    assert all(each["kind"] == "RebalancePlan" for each in items)


@pytest.mark.parametrize("reason", list(Reason))
def test_what_could_not_be_read(reason: Reason) -> None:
    view = view_of(Assessment(NAME, reason, "a sentence"))
    assert (view.decision, view.reason, view.because) == ("skip", reason.value, "a sentence")
    assert view.problem == (reason in PROBLEMS)
    assert (view.hpa, view.pods, view.evict, view.batches) == (None, (), (), ())
    assert (view.target, view.threshold, view.average, view.improvement) == (None,) * 4


def test_a_missing_target_leaves_the_pods() -> None:
    problem = Unavailable(Reason.HPA_TARGET_MISSING, "there is no HPA")
    view = view_of(assessed(hpa_target=problem))
    assert (view.hpa, view.reason, view.problem) == (None, "hpa_target_missing", True)
    assert [pod.usage for pod in view.pods] == sorted(F6.values(), reverse=True)
    assert all(pod.percent_of_target is None for pod in view.pods)


def test_an_average_value_is_in_cores() -> None:
    view = view_of(assessed(hpa_target=HpaTarget(HpaTargetKind.AVERAGE_VALUE, 0.7, "web")))
    assert view.hpa is not None
    assert (view.hpa.target, view.hpa.unit, view.target) == (0.7, "cores", 0.7)
    assert view.evict == ("A", "B", "F", "E")


def test_a_skip_evicts_nobody() -> None:
    view = view_of(assessed(dict.fromkeys(F6, 1.3)))
    assert (view.decision, view.reason) == ("skip", "insufficient_improvement")
    assert (view.evict, view.batches, view.improvement) == ((), (), 0.0)


def test_parse_of_encode_is_the_same() -> None:
    view = view_of(assessed())
    assert msgspec.json.decode(msgspec.json.encode(view), type=PlanView) == view
