"""Paths are the API server's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.resources import LEASES, NODES, PODS, Resource


@pytest.mark.parametrize(
    ("resource", "place", "path"),
    [
        (PODS, (), "/api/v1/pods"),
        (PODS, ("shop",), "/api/v1/namespaces/shop/pods"),
        (PODS, ("shop", "web"), "/api/v1/namespaces/shop/pods/web"),
        (PODS, ("shop", "web", "eviction"), "/api/v1/namespaces/shop/pods/web/eviction"),
        (NODES, ("", "n1", "status"), "/api/v1/nodes/n1/status"),
        (NODES, ("ignored", "n1"), "/api/v1/nodes/n1"),
        (
            LEASES,
            ("kube-system", "x"),
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x",
        ),
    ],
)
def test_a_path_leads_to_the_object(resource: Resource, place: tuple[str, ...], path: str) -> None:
    assert resource.path(*place) == path


@pytest.mark.parametrize(
    ("resource", "version"), [(PODS, "v1"), (LEASES, "coordination.k8s.io/v1")]
)
def test_a_version_has_its_group(resource: Resource, version: str) -> None:
    assert resource.api_version == version


@given(name=st.text(min_size=1))
def test_no_name_leads_elsewhere(name: str) -> None:
    """Neither up, nor into a query, nor onto another line."""
    path = PODS.path("shop", name)
    steps = path.split("/")
    assert len(steps) == 7
    assert not set("?# \r\n%".replace("%", "")) & set(steps[-1])
