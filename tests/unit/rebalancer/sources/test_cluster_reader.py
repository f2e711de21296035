"""The reader against a server on loopback: what it asks, what it makes of it, what goes wrong."""

from typing import Any

import msgspec
import pytest

from slackwater.kube.api_time import format_time
from slackwater.model.gap import Gap
from slackwater.rebalancer.last_rotation import ANNOTATION, encode_last_rotation
from slackwater.rebalancer.observed import (
    Budget,
    Cores,
    HpaTarget,
    HpaTargetKind,
    LastRotation,
    NoAutoscaler,
    ObservedWorkload,
    PercentOf,
    Scaling,
    Unavailable,
    WorkloadName,
)
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.sources.cluster_reader import ClusterReader
from slackwater.settings.rebalancer import WorkloadSettings
from tests.unit.contract.served import (
    Object,
    autoscaler,
    budget,
    cpu_metric,
    deployment,
    fleet,
    owned_pod,
    replica_set,
    stateful_set,
)
from tests.unit.rebalancer.sources.served_api import serving
from tests.unit.rebalancer.workloads import at

WEB = WorkloadSettings("shop", "web")
LAST = LastRotation(at("2026-11-17T10:00:00Z"), Cores(1.15), Cores(0.73), PercentOf(34.8), 4)


def read(*objects: Object, settings: WorkloadSettings = WEB) -> ObservedWorkload | Unavailable:
    with serving(*objects) as api:
        return ClusterReader(api.client).read(settings)


def observed(*objects: Object, settings: WorkloadSettings = WEB) -> ObservedWorkload:
    found = read(*objects, settings=settings)
    assert isinstance(found, ObservedWorkload), found
    return found


def with_(**fields: Any) -> WorkloadSettings:
    return msgspec.structs.replace(WEB, **fields)


def test_a_whole_workload() -> None:
    found = observed(*fleet(), autoscaler("keda-hpa-web"), owned_pod("stranger"))
    assert found.workload == WorkloadName("shop", "Deployment", "web")
    assert (found.api_version, found.uid, found.resource_version) == ("apps/v1", "uid-web", "77")
    assert [pod.name for pod in found.pods] == [f"web-1-{n}" for n in range(6)]
    assert found.hpa_target == HpaTarget(HpaTargetKind.UTILIZATION, 70.0, "keda-hpa-web")
    assert found.scaling == Scaling(6, 6)
    assert (found.opted_out, found.last) == ("", None)


def test_a_stateful_set() -> None:
    top = stateful_set("db")
    pods = [owned_pod(f"db-{n}", top) for n in range(3)]
    found = observed(
        top,
        *pods,
        autoscaler("db", "StatefulSet/db", cpu_metric("500m"), desired=3, current=3),
        settings=with_(name="db"),
    )
    assert found.workload == WorkloadName("shop", "StatefulSet", "db")
    assert [pod.name for pod in found.pods] == ["db-0", "db-1", "db-2"]
    assert found.hpa_target == HpaTarget(HpaTargetKind.AVERAGE_VALUE, 0.5, "db")


def test_a_replica_set_of_its_own() -> None:
    top = replica_set("web", replicas=2)
    found = observed(
        top, owned_pod("a", top), autoscaler("web", "ReplicaSet/web", desired=2, current=2)
    )
    assert found.workload.kind == "ReplicaSet"
    assert [pod.name for pod in found.pods] == ["a"]


def test_each_kind_of_a_namespace_is_asked_for_once() -> None:
    other = deployment("other")
    objects = [*fleet(), other, autoscaler(), autoscaler("other", "Deployment/other")]
    with serving(*objects) as api:
        reader = ClusterReader(api.client)
        for name in ("web", "other", "web", "none"):
            reader.read(with_(name=name))
        reader.read(with_(namespace="elsewhere"))
        asked = api.asked()
    shop = "/apis/{}/namespaces/shop/{}"
    assert {path: count for path, count in asked.items() if "/shop/" in path} == {
        shop.format("autoscaling/v2", "horizontalpodautoscalers"): 1,
        shop.format("apps/v1", "deployments"): 1,
        shop.format("apps/v1", "statefulsets"): 1,
        shop.format("apps/v1", "replicasets"): 1,
        shop.format("policy/v1", "poddisruptionbudgets"): 1,
        "/api/v1/namespaces/shop/pods": 1,
    }
    assert {each.method for each in api.server.requests} == {"GET"}


def test_budgets_that_cover_its_pods() -> None:
    web, other = {"matchLabels": {"app": "web"}}, {"matchLabels": {"app": "other"}}
    found = observed(*fleet(2), autoscaler(), budget("web", web, 1), budget("other", other, 0))
    assert found.budgets == (Budget("web", 1, frozenset(("web-1-0", "web-1-1"))),)


def test_a_new_reader_sees_what_is_new() -> None:
    with serving(*fleet(), autoscaler()) as api:
        old = ClusterReader(api.client)
        assert isinstance(old.read(WEB), ObservedWorkload)
        api.objects.clear()
        assert isinstance(old.read(WEB), ObservedWorkload)
        assert isinstance(ClusterReader(api.client).read(WEB), Unavailable)


def test_without_an_autoscaler_it_can_be_shown_but_not_judged() -> None:
    found = observed(*fleet())
    assert isinstance(found.hpa_target, Unavailable)
    assert found.hpa_target.reason is Reason.HPA_TARGET_MISSING
    assert (len(found.pods), found.scaling) == (6, Scaling(6, 6))


def test_an_autoscaler_without_a_target_is_a_problem_of_the_aim_alone() -> None:
    found = observed(*fleet(), autoscaler("web", "Deployment/web", cpu_metric("1", kind="Value")))
    assert isinstance(found.hpa_target, Unavailable)
    assert found.hpa_target.reason is Reason.HPA_TARGET_MISSING
    two = observed(*fleet(), autoscaler("a"), autoscaler("b", "Deployment/web", cpu_metric(80)))
    assert isinstance(two.hpa_target, Unavailable)
    assert two.hpa_target.reason is Reason.HPA_TARGET_AMBIGUOUS
    assert len(two.pods) == 6


NEITHER = (
    "no HorizontalPodAutoscaler of namespace shop scales a workload called web or is called web or "
    "keda-hpa-web, and no Deployment, StatefulSet, ReplicaSet is called web there either"
)
UNROTATED = (
    "{} is scaled in namespace shop; only Deployment, StatefulSet, ReplicaSet of apps can be "
    "rotated"
)


@pytest.mark.parametrize(
    ("objects", "settings", "reason", "told"),
    [
        ([], WEB, Reason.WORKLOAD_MISSING, NEITHER),
        (
            [autoscaler()],
            WEB,
            Reason.WORKLOAD_MISSING,
            "Deployment shop/web is not there, though a HorizontalPodAutoscaler scales it",
        ),
        (
            [autoscaler("web", "Rollout/web", group="argoproj.io/v1alpha1")],
            WEB,
            Reason.WORKLOAD_MISSING,
            UNROTATED.format("Rollout web (argoproj.io/v1alpha1)"),
        ),
        (
            [autoscaler("web", "Deployment/web", group="example.com/v1")],
            WEB,
            Reason.WORKLOAD_MISSING,
            UNROTATED.format("Deployment web (example.com/v1)"),
        ),
        (
            [autoscaler("web", "Deployment/web", group="")],
            WEB,
            Reason.WORKLOAD_MISSING,
            UNROTATED.format("Deployment web (no apiVersion)"),
        ),
        (
            fleet(),
            with_(kind="Job"),
            Reason.WORKLOAD_MISSING,
            "kind is Job, but must be one of Deployment, StatefulSet, ReplicaSet to be rotated",
        ),
        (
            [*fleet(), autoscaler()],
            with_(selector="app=consumer"),
            Reason.WORKLOAD_MISSING,
            "none of the 6 pods of Deployment shop/web has the labels app=consumer",
        ),
    ],
)
def test_what_is_not_there(
    objects: list[Object], settings: WorkloadSettings, reason: Reason, told: str
) -> None:
    assert read(*objects, settings=settings) == Unavailable(reason, told)


def test_two_workloads_of_one_name_are_ambiguous() -> None:
    found = read(*fleet(), autoscaler("a"), autoscaler("b", "StatefulSet/web"))
    assert isinstance(found, Unavailable)
    assert found.reason is Reason.HPA_TARGET_AMBIGUOUS


def test_a_selector_narrows_the_pods() -> None:
    objects = fleet()
    objects[2]["metadata"]["labels"] = {"app": "canary"}
    assert len(observed(*objects, autoscaler(), settings=with_(selector="app=web")).pods) == 5


def test_a_bad_selector_is_one_sentence() -> None:
    found = read(*fleet(), autoscaler(), settings=with_(selector="app=web,,"))
    assert isinstance(found, Unavailable)
    assert found.because.startswith("the label selector of Deployment shop/web is 'app=web,,', but")


def test_scaled_to_zero_it_has_no_pods_and_that_is_no_problem() -> None:
    found = observed(*fleet(0, replicas=0), autoscaler(desired=0, current=0))
    assert (found.pods, found.scaling) == ((), Scaling(0, 0))


FOUR_OF_SIX = "4 of 6 pods are there, the others are missing"


@pytest.mark.parametrize(
    ("status", "hpa", "scaling"),
    [
        ({}, (6, 6), Scaling(6, 6)),
        ({}, (8, 6), Scaling(8, 6)),
        ({}, (0, 6), Scaling(6, 6)),
        # The HPA has what it wanted, and pods are missing all the same.
        ({"replicas": 4, "updatedReplicas": 4}, (6, 6), Scaling(6, 6, FOUR_OF_SIX)),
        ({"replicas": 4, "updatedReplicas": 4}, (6, 4), Scaling(6, 6, FOUR_OF_SIX)),
        ({"replicas": 4, "updatedReplicas": 4}, (8, 4), Scaling(8, 4, FOUR_OF_SIX)),
        # Somebody scaled it by hand, or the HPA did and has not looked again.
        ({"replicas": 8, "updatedReplicas": 8}, (6, 6), Scaling(6, 8)),
        ({"replicas": 8, "updatedReplicas": 8}, (6, 8), Scaling(6, 8)),
        (
            {"replicas": 7, "updatedReplicas": 1},
            (6, 6),
            Scaling(6, 6, "1 of 6 pods are of the newest template"),
        ),
        (
            {"replicas": 7, "updatedReplicas": 1},
            (8, 6),
            Scaling(8, 6, "1 of 6 pods are of the newest template"),
        ),
    ],
)
def test_in_motion(status: dict[str, Any], hpa: tuple[int, int], scaling: Scaling) -> None:
    objects = fleet(status=status)
    assert observed(*objects, autoscaler(desired=hpa[0], current=hpa[1])).scaling == scaling


@pytest.mark.parametrize("current", [5, 6])
@pytest.mark.parametrize(
    ("count", "told"),
    [
        (1, "1 of 6 pods is Pending: no node was found for it yet"),
        (2, "2 of 6 pods are Pending: no node was found for them yet"),
    ],
)
def test_pods_without_a_node(current: int, count: int, told: str) -> None:
    """Who goes now would wait behind them. One that ends waits for no node any more."""
    objects = fleet()
    for pod in objects[-1 - count :]:
        pod["spec"].pop("nodeName")
        pod["status"] = {"phase": "Pending"}
    objects[-1]["metadata"]["deletionTimestamp"] = "2026-11-17T10:00:00Z"
    found = observed(*objects, autoscaler(desired=6, current=current))
    assert found.scaling == Scaling(6, 6, told)


def test_an_autoscaler_of_that_name_that_scales_another_workload() -> None:
    green = deployment("web-green")
    found = observed(*fleet(), green, autoscaler("web", "Deployment/web-green"))
    assert found.workload.name == "web"
    assert isinstance(found.hpa_target, NoAutoscaler)
    assert found.hpa_target.reason is Reason.HPA_TARGET_MISSING
    assert "web scales Deployment web-green" in found.hpa_target.because


def test_an_autoscaler_of_that_name_counts_where_no_workload_has_it() -> None:
    found = observed(*fleet(), autoscaler("app", "Deployment/web"), settings=with_(name="app"))
    assert (found.workload.name, len(found.pods)) == ("web", 6)
    assert isinstance(found.hpa_target, HpaTarget)


def test_a_rollout_without_an_autoscaler() -> None:
    found = observed(*fleet(status={"replicas": 7, "updatedReplicas": 1}))
    assert found.scaling == Scaling(7, 7, "1 of 6 pods are of the newest template")


def test_annotations_of_the_workload() -> None:
    kept = {ANNOTATION: encode_last_rotation(LAST, format_time), "slackwater.io/rotate": "false"}
    found = observed(*fleet(annotations=kept), autoscaler())
    assert found.last == LAST
    assert found.opted_out == "its annotation slackwater.io/rotate is 'false'"


def test_an_unreadable_last_rotation_is_a_gap() -> None:
    found = observed(*fleet(annotations={ANNOTATION: "yesterday"}), autoscaler())
    assert isinstance(found.last, Gap)
    assert "kubectl annotate deployment/web -n shop slackwater.io/last-rotation-" in (
        found.last.reason
    )
