"""Nodes and pods of a served API: what is read, what is forbidden, what is broken."""

from typing import Any

import pytest

from slackwater.http.errors import RequestError
from slackwater.model.gap import Gap
from slackwater.report.fetch_objects import ListedNode, ListedObjects, fetch_objects
from tests.unit.kube.accesses import plain_client
from tests.unit.kube.byte_server import Request, Wire, serving
from tests.unit.kube.fake_api import status

NODES, PODS = "/api/v1/nodes", "/api/v1/pods"


def node(name: str, cpu: object, *addresses: str) -> dict[str, Any]:
    told = [{"type": "InternalIP", "address": each} for each in addresses]
    return {"metadata": {"name": name}, "status": {"allocatable": {"cpu": cpu}, "addresses": told}}


def fetch(there: dict[str, Any]) -> ListedObjects:
    def answer(request: Request, wire: Wire) -> None:
        found = there.get(request.path, [])
        if isinstance(found, int):
            wire.json(status(found, "Forbidden", "no"), found)
            return
        wire.json({"metadata": {"resourceVersion": "1"}, "items": found})

    with serving(answer) as server:
        client = plain_client(server.port)
        try:
            return fetch_objects(client)
        finally:
            client.close()


def test_nodes_with_their_addresses_and_what_they_offer() -> None:
    found = fetch({NODES: [node("a", "15500m", "10.0.0.1"), node("b", 4), node("c", "much")]})
    assert found.nodes == (
        ListedNode("a", ("10.0.0.1",), 15.5), ListedNode("b", (), 4.0), ListedNode("c", (), None)
    )  # fmt: skip
    assert found.names() == {"a": "a", "b": "b", "c": "c", "10.0.0.1": "a"}
    assert found.pods == ()


def test_a_node_that_says_nothing_offers_nothing_that_is_known() -> None:
    assert fetch({NODES: [{"metadata": {"name": "a"}}]}).nodes == (ListedNode("a"),)


def test_an_object_that_cannot_be_read_is_left_out() -> None:
    found = fetch({NODES: [{"metadata": 3}, node("b", "4")], PODS: [{"spec": []}]})
    assert found.nodes == (ListedNode("b", (), 4.0),)
    assert found.pods == ()


@pytest.mark.parametrize("path", [NODES, PODS])
def test_what_is_forbidden_is_a_gap(path: str) -> None:
    found = fetch({NODES: [node("a", "4")], path: 403})
    gap = found.nodes if path == NODES else found.pods
    assert isinstance(gap, Gap)
    assert "refused with 403" in gap.reason
    assert found.names() == ({} if path == NODES else {"a": "a"})


@pytest.mark.parametrize("code", [401, 500])
def test_any_other_refusal_is_the_end(code: int) -> None:
    with pytest.raises(RequestError, match=f"refused with {code}"):
        fetch({NODES: code})
