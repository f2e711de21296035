"""The reader where the API server refuses, is not there, or says what cannot be understood."""

from typing import Any

import pytest

from slackwater.model.gap import Gap
from slackwater.rebalancer.observed import ObservedWorkload, Unavailable
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.sources.cluster_reader import ClusterReader
from slackwater.settings.rebalancer import WorkloadSettings
from tests.unit.contract.served import Object, autoscaler, fleet, owned_pod, stateful_set
from tests.unit.kube.accesses import plain_client
from tests.unit.rebalancer.sources.served_api import serving

WEB = WorkloadSettings("shop", "web")
BAD_REQUEST = (
    "Pod shop/web-1-1: container web: resources.requests.cpu is 'lots', but must be a quantity "
    "such as 250m or 2, zero or more"
)
BAD_TIME = (
    "Pod shop/web-1-1: status.startTime is 'soon', but must be a time such as 2026-11-17T10:00:00Z"
)


def read(*objects: Object, settings: WorkloadSettings = WEB) -> ObservedWorkload | Unavailable:
    with serving(*objects) as api:
        return ClusterReader(api.client).read(settings)


@pytest.mark.parametrize(
    ("plural", "group"),
    [
        ("horizontalpodautoscalers", " of autoscaling"),
        ("deployments", " of apps"),
        ("replicasets", " of apps"),
        ("pods", ""),
    ],
)
def test_a_right_that_is_missing_is_named(plural: str, group: str) -> None:
    with serving(*fleet(), autoscaler()) as api:
        api.refusals[plural] = 403
        reader = ClusterReader(api.client)
        found, again = reader.read(WEB), reader.read(WEB)
        asked = api.asked()
    assert isinstance(found, Unavailable)
    assert found.reason is Reason.KUBERNETES_ERROR
    assert found.because.startswith(
        f"the verb list on {plural}{group} is not granted in namespace shop: GET "
    )
    assert f"403 Forbidden: cannot list resource {plural}" in found.because
    assert again == found
    assert max(asked.values()) == 1  # nobody asks again who was refused


def test_budgets_that_may_not_be_seen_are_a_gap() -> None:
    """A look ahead needs a right of its own; without it the API server tells at each eviction."""
    with serving(*fleet(), autoscaler()) as api:
        api.refusals["poddisruptionbudgets"] = 403
        found = ClusterReader(api.client).read(WEB)
    assert isinstance(found, ObservedWorkload)
    assert isinstance(found.budgets, Gap)
    assert found.budgets.reason.startswith(
        "the verb list on poddisruptionbudgets of policy is not granted in namespace shop: "
    )


def test_a_server_without_the_kind() -> None:
    with serving() as api:
        api.refusals["horizontalpodautoscalers"] = 404
        found = ClusterReader(api.client).read(WEB)
    assert isinstance(found, Unavailable)
    assert found.reason is Reason.KUBERNETES_ERROR
    assert found.because.startswith(
        "the API server does not serve horizontalpodautoscalers of autoscaling/v2: "
    )


@pytest.mark.parametrize(
    ("namespace", "code", "told"),
    [
        ("shop", 404, "namespace shop is not there"),
        # Who may not ask hears what is known all the same.
        ("shop", 403, "no Deployment, StatefulSet, ReplicaSet is called web there either"),
        ("shop", 0, "no Deployment, StatefulSet, ReplicaSet is called web there either"),
        ("default", 0, "there either; default is the namespace where none is named (-n)"),
    ],
)
def test_a_namespace_that_is_not_there(namespace: str, code: int, told: str) -> None:
    with serving() as api:
        api.refusals[namespace] = code
        found = ClusterReader(api.client).read(WorkloadSettings(namespace, "web"))
    assert isinstance(found, Unavailable)
    assert found.reason is Reason.WORKLOAD_MISSING
    assert found.because.endswith(told)


def test_a_server_in_trouble() -> None:
    with serving() as api:
        api.refusals["horizontalpodautoscalers"] = 500
        found = ClusterReader(api.client).read(WEB)
    assert isinstance(found, Unavailable)
    assert found.reason is Reason.KUBERNETES_ERROR
    assert "refused with 500" in found.because


def test_nobody_there() -> None:
    with serving() as api:
        port = api.server.port
    found = ClusterReader(plain_client(port, timeout=1.0)).read(WEB)
    assert isinstance(found, Unavailable)
    assert found.reason is Reason.KUBERNETES_ERROR
    assert "\n" not in found.because


def _bad_request(objects: list[Object]) -> None:
    objects[3]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "lots"


def _bad_time(objects: list[Object]) -> None:
    objects[3]["status"]["startTime"] = "soon"


def _bad_type(objects: list[Object]) -> None:
    objects[3]["spec"]["containers"] = "none"


def _no_name(objects: list[Object]) -> None:
    del objects[0]["metadata"]["name"]


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (_bad_request, BAD_REQUEST),
        (_bad_time, BAD_TIME),
        (
            _bad_type,
            "a Pod of the API server: spec.containers is 'none', but must be a list",
        ),
        (
            _no_name,
            "a Deployment of the API server: metadata.name is missing, but must be a text",
        ),
    ],
)
def test_objects_that_cannot_be_understood(spoil: Any, told: str) -> None:
    objects = fleet()
    spoil(objects)
    assert read(*objects, autoscaler()) == Unavailable(Reason.KUBERNETES_ERROR, told)


def test_one_bad_pod_does_not_spoil_another_workload() -> None:
    objects = fleet()
    _bad_request(objects)
    other = stateful_set("db")
    found = read(
        *objects,
        other,
        owned_pod("db-0", other),
        autoscaler("db", "StatefulSet/db", desired=3, current=3),
        settings=WorkloadSettings("shop", "db"),
    )
    assert isinstance(found, ObservedWorkload)
