"""Owned pods, scaled workloads, autoscalers and disruption budgets for the rebalancer."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.decoding import decode_struct
from slackwater.contract.kubernetes_pod import MIRROR
from slackwater.contract.workload_objects import (
    Amount,
    Autoscaler,
    DisruptionBudget,
    OwnedPod,
    ResourceMetric,
    ScaledWorkload,
    began,
    cores_of,
    pod_cores_of,
    rollout_of,
)
from slackwater.model.gap import Gap
from slackwater.model.problem import InvalidError
from tests.unit.contract.documents import ANYTHING
from tests.unit.contract.served import (
    BEGAN,
    autoscaler,
    budget,
    cpu,
    cpu_metric,
    deployment,
    owned_pod,
    replica_set,
    stateful_set,
)


def read(document: dict[str, Any]) -> OwnedPod:
    return decode_struct(msgspec.json.encode(document), OwnedPod, "pod")


def amounts(container: dict[str, Any]) -> tuple[float | Gap, float | Gap]:
    pod = read(owned_pod("a", spec={"containers": [container]}))
    [only] = pod.staying()
    return cores_of(pod, only, Amount.REQUEST), cores_of(pod, only, Amount.LIMIT)


def test_a_whole_pod() -> None:
    pod = read(owned_pod("web-1-a", replica_set("web-1"), labels={"app": "web"}))
    assert (pod.source, pod.spec.node_name) == ("Pod shop/web-1-a", "n1")
    assert pod.metadata.controller is not None
    assert (pod.metadata.controller.kind, pod.metadata.controller.uid) == (
        "ReplicaSet",
        "uid-web-1",
    )
    assert (pod.is_running(), pod.is_ready(), pod.is_finished(), pod.is_static()) == (
        True,
        True,
        False,
        False,
    )


def test_an_owner_that_is_no_controller_replaces_nothing() -> None:
    made = owned_pod("a", replica_set("web-1"))
    made["metadata"]["ownerReferences"][0]["controller"] = False
    assert read(made).metadata.controller is None


@pytest.mark.parametrize(
    ("status", "running", "ready", "finished"),
    [
        ({"phase": "Pending", "conditions": []}, False, False, False),
        ({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}, True, False,
         False),
        ({"phase": "Running", "conditions": [{"type": "Initialized", "status": "True"}]}, True,
         False, False),
        ({"phase": "Succeeded", "conditions": []}, False, False, True),
        ({"phase": "Failed", "conditions": []}, False, False, True),
        ({"phase": "", "conditions": None}, False, False, False),
    ],
)  # fmt: skip
def test_states(status: dict[str, Any], running: bool, ready: bool, finished: bool) -> None:
    pod = read(owned_pod("a", status=status))
    assert (pod.is_running(), pod.is_ready(), pod.is_finished()) == (running, ready, finished)


def test_a_mirror_of_a_static_pod() -> None:
    assert read(owned_pod("a", annotations={MIRROR: "x"})).is_static()


def test_which_containers_stay() -> None:
    spec = {
        "initContainers": [
            cpu("setup", "4"),
            cpu("mesh", "100m", restartPolicy="Always"),
            cpu("odd", "1", restartPolicy="OnFailure"),
        ],
        "containers": [cpu("web", "1"), cpu("log", "50m")],
        "ephemeralContainers": [cpu("debug", "1")],
    }
    pod = read(owned_pod("a", spec=spec))
    assert [each.name for each in pod.staying()] == ["mesh", "web", "log"]


@pytest.mark.parametrize(
    ("request_", "limit", "cores", "most"),
    [
        ("250m", "2", 0.25, 2.0),
        ("1", "", 1.0, None),
        ("", "1500m", 1.5, 1.5),
        ("", "", None, None),
        # The HPA counts a zero that is stated; without limits nothing stands in for it.
        ("0", "1", 0.0, 1.0),
        ("", "0", 0.0, None),
        ("1", "0", 1.0, None),
        ("100u", "", 0.0001, None),
        ("1e3", "", 1000.0, None),
    ],
)
def test_what_a_container_asks_for(
    request_: str, limit: str, cores: float | None, most: float | None
) -> None:
    asked, allowed = amounts(cpu("web", request_, limit))
    assert (None if isinstance(asked, Gap) else asked) == cores
    assert (None if isinstance(allowed, Gap) else allowed) == most
    if isinstance(asked, Gap):
        assert asked.reason == "container web has no CPU request"
    if isinstance(allowed, Gap):
        assert allowed.reason == "container web has no CPU limit"


@pytest.mark.parametrize(
    ("resources", "cores", "most"),
    [
        (None, None, None),
        ({}, None, None),
        ({"requests": {"cpu": "3"}}, 3.0, None),
        ({"requests": {"cpu": "3"}, "limits": {"cpu": "4"}}, 3.0, 4.0),
        ({"limits": {"cpu": "4"}}, 4.0, 4.0),
        ({"requests": {"memory": "1Gi"}}, None, None),
    ],
)
def test_what_a_pod_states_for_itself(
    resources: dict[str, Any] | None, cores: float | None, most: float | None
) -> None:
    pod = read(owned_pod("a", spec={"resources": resources}))
    asked, allowed = pod_cores_of(pod, Amount.REQUEST), pod_cores_of(pod, Amount.LIMIT)
    assert (None if isinstance(asked, Gap) else asked) == cores
    assert (None if isinstance(allowed, Gap) else allowed) == most


def test_what_a_pod_states_wrongly_is_one_sentence() -> None:
    pod = read(owned_pod("a", spec={"resources": {"requests": {"cpu": "?"}}}))
    with pytest.raises(InvalidError, match=r"^Pod shop/a: spec\.resources\.requests\.cpu is '\?'"):
        pod_cores_of(pod, Amount.REQUEST)


@pytest.mark.parametrize("bad", ["-1", "lots", "1e99", "1" * 70, "1 m", "0x10", "NaN"])
def test_amounts_that_are_none_are_one_sentence(bad: str) -> None:
    with pytest.raises(InvalidError) as caught:
        amounts(cpu("web", bad))
    told = str(caught.value)
    assert told.startswith("Pod shop/a: container web: resources.requests.cpu is '")
    assert told.endswith(", but must be a quantity such as 250m or 2, zero or more")
    assert "\n" not in told


@given(st.integers(1, 10**6))
def test_milli_cpus_become_cores(milli: int) -> None:
    assert amounts(cpu("web", f"{milli}m"))[0] == pytest.approx(milli / 1000)


@pytest.mark.parametrize(
    ("status", "created", "path", "value"),
    [
        ({}, "2026-11-17T09:00:00Z", "status.startTime", BEGAN),
        ({"startTime": None}, "2026-11-17T09:00:00Z", "metadata.creationTimestamp",
         "2026-11-17T09:00:00Z"),
        ({"startTime": ""}, "", "metadata.creationTimestamp", None),
    ],
)  # fmt: skip
def test_since_when(status: dict[str, Any], created: str, path: str, value: str | None) -> None:
    made = owned_pod("a", status=status)
    made["metadata"]["creationTimestamp"] = created
    stated = began(read(made))
    assert (stated.path, stated.value) == (path, value)


def rollout(document: dict[str, Any]) -> str:
    read = decode_struct(msgspec.json.encode(document), ScaledWorkload, "workload")
    return rollout_of(document["kind"], read)


UNAVAILABLE = [{"type": "Available", "status": "False"}]


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ({}, ""),
        ({"observedGeneration": 2}, "its controller has seen generation 2 of 3"),
        # The first new pods; with a surge there are more pods than wanted.
        (
            {"replicas": 7, "updatedReplicas": 1},
            "1 of 6 pods are of the newest template",
        ),
        ({"replicas": 5, "updatedReplicas": 0}, "0 of 6 pods are of the newest template"),
        # All new ones are there, an old one remains.
        ({"replicas": 7}, "1 of 7 pods are of an older template and are to go"),
        (
            {"availableReplicas": 3, "conditions": UNAVAILABLE},
            "3 of 6 pods are available, fewer than its strategy allows",
        ),
        # One that is not Ready is what a strategy allows: no rollout.
        ({"availableReplicas": 5}, ""),
        # Being scaled is no rollout: all that are there are new.
        ({"replicas": 4, "updatedReplicas": 4, "availableReplicas": 4}, ""),
        ({"replicas": 9, "updatedReplicas": 9}, ""),
    ],
)
def test_deployments(status: dict[str, Any], told: str) -> None:
    assert rollout(deployment(status=status)) == told


def test_a_deployment_scaled_to_zero_is_at_rest() -> None:
    assert rollout(deployment(replicas=0)) == ""


NEW = {"updateRevision": "db-2"}
ON_DELETE = (
    "its strategy is OnDelete and it has a new revision, which every pod that goes would come back "
    "with"
)


def strategy(kind: str, partition: int = 0) -> dict[str, Any]:
    return {"updateStrategy": {"type": kind, "rollingUpdate": {"partition": partition}}}


@pytest.mark.parametrize(
    ("spec", "status", "told"),
    [
        ({}, {}, ""),
        ({}, {"observedGeneration": 1}, "its controller has seen generation 1 of 3"),
        ({}, {**NEW, "updatedReplicas": 1}, "1 of 3 pods are of the newest revision"),
        # The last pod is new, and the controller will say so in a moment.
        ({}, {**NEW, "updatedReplicas": 3}, ""),
        # Below the partition pods keep the old revision on purpose.
        (strategy("RollingUpdate", 2), {**NEW, "updatedReplicas": 1}, ""),
        (
            strategy("RollingUpdate", 1),
            {**NEW, "updatedReplicas": 1},
            "1 of 2 pods are of the newest revision",
        ),
        (strategy("RollingUpdate", 9), {**NEW, "updatedReplicas": 0}, ""),
        (
            strategy("OnDelete"),
            {**NEW, "updatedReplicas": 0},
            ON_DELETE,
        ),
        ({}, {"availableReplicas": 2}, ""),
        ({}, {"availableReplicas": 1}, "1 of 3 pods are available"),
    ],
)
def test_stateful_sets(spec: dict[str, Any], status: dict[str, Any], told: str) -> None:
    assert rollout(stateful_set(spec=spec, status=status)) == told


def test_a_stateful_set_with_an_update_strategy_without_rolling_update() -> None:
    """OnDelete has no rollingUpdate; the server leaves it out, or says null."""
    spec = {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}
    assert rollout(stateful_set(spec=spec)) == ""


def test_replica_sets_have_no_rollouts_but_a_controller() -> None:
    assert rollout(replica_set("web-1")) == ""
    behind = replica_set("web-1")
    behind["metadata"]["generation"] = 2
    assert rollout(behind) == "its controller has seen generation 1 of 2"


def test_a_workload_without_a_status_is_not_seen_by_its_controller() -> None:
    made = deployment()
    del made["status"]
    assert rollout(made) == "its controller has seen generation 0 of 3"


def read_autoscaler(document: object) -> Autoscaler:
    return decode_struct(msgspec.json.encode(document), Autoscaler, "hpa")


def test_a_whole_one() -> None:
    made = read_autoscaler(autoscaler("keda-hpa-web", "Deployment/web", cpu_metric(70), desired=8))
    target = made.spec.scale_target_ref
    assert (made.name, made.metadata.place) == ("keda-hpa-web", "shop/keda-hpa-web")
    assert (target.api_version, target.kind, target.name) == ("apps/v1", "Deployment", "web")
    assert (made.status.desired_replicas, made.status.current_replicas) == (8, 6)


@pytest.mark.parametrize(
    ("metric", "container", "utilization", "average"),
    [
        (cpu_metric(70), "", 70, None),
        (cpu_metric("700m"), "", None, "700m"),
        (cpu_metric(80, "app"), "app", 80, None),
        (cpu_metric("1", "app"), "app", None, "1"),
    ],
)
def test_what_a_metric_measures(
    metric: dict[str, Any], container: str, utilization: int | None, average: str | None
) -> None:
    [seen] = read_autoscaler(autoscaler("web", "Deployment/web", metric)).spec.metrics
    measured = seen.measured()
    assert isinstance(measured, ResourceMetric)
    assert (measured.name, measured.container) == ("cpu", container)
    target = measured.target
    assert (target.average_utilization, target.average_value) == (utilization, average)


@pytest.mark.parametrize(
    "metric",
    [
        {"type": "External", "external": {"metric": {"name": "cpu"}}},
        {"type": "Pods", "pods": {"metric": {"name": "cpu"}}},
        {"type": "Resource"},
        {"type": "ContainerResource", "resource": {"name": "cpu"}},
        {},
    ],
)
def test_other_metrics_measure_nothing_of_ours(metric: dict[str, Any]) -> None:
    [seen] = read_autoscaler(autoscaler("web", "Deployment/web", metric)).spec.metrics
    assert seen.measured() is None


def test_nulls_count_as_absent() -> None:
    made = autoscaler()
    made["spec"]["metrics"] = None
    made["status"] = None
    made["metadata"]["labels"] = None
    seen = read_autoscaler(made)
    assert (seen.spec.metrics, seen.status.desired_replicas) == ((), 0)


@pytest.mark.parametrize(
    ("part", "value", "sentence"),
    [
        ("spec", None, "hpa: spec is missing, but must be a mapping"),
        ("metadata", {}, "hpa: metadata.name is missing, but must be a text"),
        (
            "spec",
            {"scaleTargetRef": {"kind": "Deployment", "name": 7}},
            "hpa: spec.scaleTargetRef.name is 7, but must be a text",
        ),
        (
            "status",
            {"desiredReplicas": "8"},
            "hpa: status.desiredReplicas is '8', but must be a whole number",
        ),
    ],
)
def test_what_cannot_be_read_is_one_sentence(part: str, value: object, sentence: str) -> None:
    with pytest.raises(InvalidError) as caught:
        read_autoscaler({**autoscaler(), part: value})
    assert str(caught.value) == sentence


def test_what_is_no_json_is_one_sentence() -> None:
    with pytest.raises(InvalidError, match=r"^hpa is '\{', but must be JSON \(.*\)$"):
        decode_struct(b"{", Autoscaler, "hpa")


@given(ANYTHING)
def test_anything_is_an_autoscaler_or_a_sentence(value: object) -> None:
    try:
        document = msgspec.json.encode({**autoscaler(), "spec": value})
    except (TypeError, ValueError, UnicodeError):
        return
    try:
        assert read_bytes(document).spec.scale_target_ref.name is not None
    except InvalidError as error:
        assert str(error).startswith("hpa: spec")


def read_bytes(document: bytes) -> Autoscaler:
    return decode_struct(document, Autoscaler, "hpa")


WEB = {"app": "web", "tier": "a"}


def read_budget(document: dict[str, Any]) -> DisruptionBudget:
    return decode_struct(msgspec.json.encode(document), DisruptionBudget, "pdb")


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "covers"),
    [
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "web", "tier": "b"}}, False),
        (expression("tier", "In", "a", "b"), True),
        (expression("tier", "NotIn", "a"), False),
        (expression("tier", "Exists"), True),
        (expression("canary", "DoesNotExist"), True),
        ({"matchLabels": {"app": "web"}, **expression("tier", "In", "b")}, False),
        # policy/v1: an empty selector is everybody, none is nobody.
        ({}, True),
        (None, False),
    ],
)
def test_whom_it_covers(selector: dict[str, Any] | None, covers: bool) -> None:
    assert read_budget(budget("web", selector, 1)).covers(WEB) is covers


def test_what_it_allows() -> None:
    made = budget("web", {}, 3)
    assert read_budget(made).status.disruptions_allowed == 3
    del made["status"]
    assert read_budget(made).status.disruptions_allowed == 0  # its controller has not come by yet


def test_a_budget_that_cannot_be_read_is_one_sentence() -> None:
    with pytest.raises(InvalidError) as caught:
        read_budget(budget("web", {"matchLabels": "app=web"}, 1))
    assert str(caught.value) == (
        "pdb: spec.selector.matchLabels is 'app=web', but must be a mapping"
    )
