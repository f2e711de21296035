"""Two servers' words about the same pods: which containers count, and what is a number."""

import math
from typing import Any

import msgspec
import pytest

from slackwater.model.gap import Gap
from slackwater.rebalancer.merge_usage import choose_container, merge_usage
from slackwater.rebalancer.observed import (
    ContainerAmounts,
    Cores,
    HpaTarget,
    HpaTargetKind,
    NamespaceUsage,
    ObservedWorkload,
    Unavailable,
    WorkloadName,
)
from slackwater.rebalancer.reason import Reason
from slackwater.settings.rebalancer import RequestSource, WorkloadSettings
from tests.unit.rebalancer.workloads import (
    F6,
    HOUR,
    HPA70,
    NO_LIMIT,
    NOON,
    box,
    live,
    observed,
    usage,
)

WEB = WorkloadSettings("shop", "web")
AUTO, SERIES, SPEC = RequestSource.AUTO, RequestSource.PROMETHEUS, RequestSource.SPEC
BOUND = ", but must be 0 to 10000 cores"
SIDECAR = box("proxy", 0.2, 0.5)


def joined(
    workload: ObservedWorkload,
    told: NamespaceUsage,
    settings: WorkloadSettings = WEB,
    source: RequestSource = AUTO,
) -> Any:
    (found,) = merge_usage(workload, told, settings, source, NOON).pods
    return found


def told(*usages: float | Gap, requests: tuple[float | None, ...] = ()) -> NamespaceUsage:
    """Of the pod `a` in web, proxy, ... in this order."""
    boxes = ("web", "proxy", "third")
    return NamespaceUsage(
        {("a", name): amount for name, amount in zip(boxes, usages, strict=False)},  # type: ignore[misc]
        {
            ("a", name): Cores(amount)
            for name, amount in zip(boxes, requests, strict=False)
            if amount is not None
        },
    )


def test_the_seed_s_fleet() -> None:
    found = merge_usage(observed(), usage(), WEB, AUTO, NOON)
    assert found.workload == WorkloadName("shop", "Deployment", "web")
    assert found.hpa_target == HPA70
    assert {each.name: each.usage for each in found.pods} == F6
    assert {each.request for each in found.pods} == {1.0}
    assert {each.limit for each in found.pods} == {NO_LIMIT}
    assert {found.age(each) for each in found.pods} == {HOUR}


def test_what_the_api_server_says_of_a_pod_is_kept() -> None:
    pod = live(
        "a", node="n7", running=False, ready=False, terminating=True, held_back="a static pod"
    )
    found = joined(observed(pod), told(1.0))
    assert (found.uid, found.node, found.held_back) == ("uid-a", "n7", "a static pod")
    assert (found.running, found.ready, found.terminating) == (False, False, True)


def test_a_clock_that_is_behind_makes_a_pod_young_not_negative() -> None:
    found = merge_usage(observed(live("a", started=NOON + 5)), told(1.0), WEB, AUTO, NOON)
    assert found.age(found.pods[0]) == 0.0


def test_series_of_pods_that_are_gone_are_nobody_s() -> None:
    found = merge_usage(observed(live("A")), usage({"A": 1.2, "gone": 0.52}), WEB, AUTO, NOON)
    assert [each.name for each in found.pods] == ["A"]


def test_a_missing_target_is_a_gap_with_its_sentence() -> None:
    problem = Unavailable(Reason.HPA_TARGET_AMBIGUOUS, "two HPAs scale web")
    assert merge_usage(observed(hpa_target=problem), usage(), WEB, AUTO, NOON).hpa_target == Gap(
        "two HPAs scale web"
    )


@pytest.mark.parametrize(
    ("named", "hpa", "boxes", "found"),
    [
        ("proxy", "web", ("web", "proxy"), "proxy"),
        ("*", "web", ("web", "proxy"), "*"),
        # A named one that does not exist is not replaced by another.
        ("typo", "", ("web", "proxy"), "typo"),
        ("", "proxy", ("web", "proxy"), "proxy"),
        ("", "", ("web", "proxy"), "web"),
        ("", "", ("main", "proxy"), "*"),
        ("", "", ("main",), "*"),
    ],
)
def test_which_container(named: str, hpa: str, boxes: tuple[str, ...], found: str) -> None:
    hpa_target = HpaTarget(HpaTargetKind.UTILIZATION, 70, "web", container=hpa)
    workload = observed(live("a", *(box(name) for name in boxes)), hpa_target=hpa_target)
    assert choose_container(workload, WorkloadSettings("shop", "web", container=named)) == found


def test_the_container_may_be_called_like_the_workload_that_the_hpa_scales() -> None:
    """Found by the HPA's name, which is not the Deployment's."""
    workload = observed(live("a", box("web"), SIDECAR))
    assert choose_container(workload, WorkloadSettings("shop", "web-scaler")) == "web"


def test_no_target_needs_no_container() -> None:
    workload = observed(
        live("a", box("main")), hpa_target=Unavailable(Reason.HPA_TARGET_MISSING, "none")
    )
    assert choose_container(workload, WEB) == "*"


@pytest.mark.parametrize(
    ("container", "boxes", "series", "used", "asked", "limit"),
    [
        # One container: the others' numbers do not matter, not even missing ones.
        ("", (box("web", 1.0, 2.0), SIDECAR), told(1.1, 0.1), 1.1, 1.0, 2.0),
        ("", (box("web", 1.0, 2.0), SIDECAR), told(1.1), 1.1, 1.0, 2.0),
        ("proxy", (box("web", 1.0, 2.0), SIDECAR), told(1.1, 0.1), 0.1, 0.2, 0.5),
        # The whole pod: the sum, or a gap where a part is missing.
        ("*", (box("web", 1.0, 2.0), SIDECAR), told(1.1, 0.1), 1.2, 1.2, 2.5),
        (
            "*",
            (box("web", 1.0), SIDECAR),
            told(1.1),
            Gap("no usage of container proxy"),
            1.2,
            NO_LIMIT,
        ),
        (
            "*",
            (box("web", Gap("web asks for no CPU")), SIDECAR),
            told(1.1, 0.1),
            1.2,
            Gap("web asks for no CPU"),
            NO_LIMIT,
        ),
        # Another source's container is not ours.
        ("*", (box("main"),), told(1.1), Gap("no usage of container main"), 1.0, NO_LIMIT),
        (
            "typo",
            (box("web"),),
            told(1.1),
            Gap("it has no container typo"),
            Gap("it has no container typo"),
            Gap("it has no container typo"),
        ),
        # A sidecar may ask for nothing; a pod that does has nothing to take percents of.
        ("*", (box("web"), box("proxy", 0.0)), told(1.1, 0.1), 1.2, 1.0, NO_LIMIT),
        ("*", (box("web", 0.0),), told(1.1), 1.1, Gap("its CPU request is zero"), NO_LIMIT),
    ],
)
def test_amounts_are_of_the_same_containers(
    container: str,
    boxes: tuple[ContainerAmounts, ...],
    series: NamespaceUsage,
    used: Any,
    asked: Any,
    limit: Any,
) -> None:
    settings = WorkloadSettings("shop", "web", container=container)
    found = joined(observed(live("a", *boxes)), series, settings)
    for amount, wanted in ((found.usage, used), (found.request, asked), (found.limit, limit)):
        assert amount == (wanted if isinstance(wanted, Gap) else pytest.approx(wanted))


@pytest.mark.parametrize(
    ("usages", "reason"),
    [
        ((math.nan,), f"the usage of container web is nan{BOUND}"),
        ((math.inf,), f"the usage of container web is inf{BOUND}"),
        ((-0.25,), f"the usage of container web is -0.25{BOUND}"),
        # More than any machine has: as absurd as no number, and 300 digits wide.
        ((1e300,), f"the usage of container web is 1e+300{BOUND}"),
        ((10_000.5,), f"the usage of container web is 10000.5{BOUND}"),
        ((Gap("two series of one container"),), "two series of one container"),
        ((), "no usage of container web"),
    ],
)
def test_what_is_no_number_is_a_gap(usages: tuple[float, ...], reason: str) -> None:
    assert joined(observed(live("a")), told(*usages)).usage == Gap(reason)


def test_no_use_is_a_number() -> None:
    assert joined(observed(live("a")), told(0.0)).usage == 0.0


@pytest.mark.parametrize(
    ("source", "series", "found"),
    [
        (AUTO, 0.5, 0.5),
        (AUTO, None, 1.0),
        (SERIES, 0.5, 0.5),
        (SERIES, None, Gap("no series of the request of container web")),
        (SPEC, 0.5, 1.0),
        (SPEC, None, 1.0),
        (AUTO, math.nan, Gap(f"the request of container web is nan{BOUND}")),
        (SPEC, math.nan, 1.0),
    ],
)
def test_where_the_request_is_from(
    source: RequestSource, series: float | None, found: float | Gap
) -> None:
    series_of = told(1.0, requests=(series,))
    assert joined(observed(live("a")), series_of, source=source).request == found


def test_each_container_s_request_is_from_where_it_is_known() -> None:
    pod = live("a", box("web", 1.0), box("proxy", 0.2))
    whole = WorkloadSettings("shop", "web", container="*")
    found = joined(observed(pod), told(1.0, 0.1, requests=(0.6, None)), whole)
    assert found.request == pytest.approx(0.8)


def test_a_pod_without_containers() -> None:
    pod = live("a")
    empty = type(pod)("a", "uid-a", "n1", 0.0, ())
    assert joined(observed(empty), told(1.0)).usage == Gap("it has no containers")


@pytest.mark.parametrize(
    ("named", "source", "request_", "limit"),
    [
        ("*", AUTO, 3.0, 4.0),
        ("*", SPEC, 3.0, 4.0),
        # There is no series of what a pod states for itself.
        ("*", SERIES, 1.25, 4.0),
        ("web", AUTO, 1.0, 2.0),
    ],
)
def test_what_a_pod_states_for_itself_goes_before_its_containers(
    named: str, source: RequestSource, request_: float, limit: float
) -> None:
    """As for the HPA, where a metric is of the whole pod."""
    whole = ContainerAmounts("", Cores(3.0), Cores(4.0))
    pod = msgspec.structs.replace(live("a", box("web", 1.0, 2.0), SIDECAR), pod_level=whole)
    settings = msgspec.structs.replace(WEB, container=named)
    found = joined(observed(pod), told(1.0, 0.1, requests=(1.0, 0.25)), settings, source)
    assert (found.request, found.limit) == (request_, limit)


def test_containers_that_do_not_count_are_kept_apart() -> None:
    """With the most that one of each uses; a Gap only where nothing is known of it."""
    pods = [live(name, box("web"), box("proxy"), box("log")) for name in ("A", "B", "C")]
    told = usage({"A": 1.0, "B": 1.0, "C": 1.0})
    told.usage.update({("A", "proxy"): Cores(0.2), ("B", "proxy"): Cores(0.7)})
    settings = WorkloadSettings("shop", "web", container="web")
    found = merge_usage(observed(*pods), told, settings, RequestSource.AUTO, NOON)
    assert found.container == "web"
    assert found.left_out == {"log": Gap("no usage of container log"), "proxy": Cores(0.7)}
