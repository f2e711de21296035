"""Each verb as it goes over the wire, and what comes back."""

import threading
from collections.abc import Callable

import msgspec
import pytest

from slackwater.contract.resources import CONFIG_MAPS, NODES, PODS, ObjectSelector
from slackwater.http.errors import RequestError, UnreachableError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import Client, PatchKind
from tests.unit.kube.accesses import AGENT, plain_client
from tests.unit.kube.byte_server import Request, Wire, serving
from tests.unit.kube.fake_api import status

MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


class Item(msgspec.Struct):
    name: str


def read_item(raw: msgspec.Raw) -> str:
    return msgspec.json.decode(raw, type=Item).name


def echo(request: Request, wire: Wire) -> None:
    wire.json({"seen": request.target})


VERBS: list[tuple[str, Callable[[Client], object], str, str, str, object]] = [
    (
        "get",
        lambda c: c.get(PODS, "web", "shop"),
        "GET",
        "/api/v1/namespaces/shop/pods/web",
        "",
        None,
    ),
    ("get of a node", lambda c: c.get(NODES, "n1"), "GET", "/api/v1/nodes/n1", "", None),
    ("ask", lambda c: c.get_raw("/readyz?verbose"), "GET", "/readyz?verbose", "", None),
    (
        "create",
        lambda c: c.create(CONFIG_MAPS, {"data": {"a": "b"}}, "shop"),
        "POST",
        "/api/v1/namespaces/shop/configmaps",
        "application/json",
        {"data": {"a": "b"}},
    ),
    (
        "replace",
        lambda c: c.replace(NODES, "n1", {"spec": {}}, subresource="status"),
        "PUT",
        "/api/v1/nodes/n1/status",
        "application/json",
        {"spec": {}},
    ),
    (
        "apply",
        lambda c: c.apply(NODES, "n1", {"status": {}}, manager="me", subresource="status"),
        "PATCH",
        "/api/v1/nodes/n1/status?fieldManager=me&force=true",
        APPLY,
        {"apiVersion": "v1", "kind": "Node", "status": {}, "metadata": {"name": "n1"}},
    ),
    (
        "apply keeps what the body says",
        lambda c: c.apply(
            NODES, "n1", {"metadata": {"annotations": {"a": "b"}}, "kind": "Node"}, manager="me"
        ),
        "PATCH",
        "/api/v1/nodes/n1?fieldManager=me&force=true",
        APPLY,
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n1", "annotations": {"a": "b"}},
        },
    ),
    (
        "apply of bytes",
        lambda c: c.apply(NODES, "n1", b'{"kind":"Node"}', manager="me"),
        "PATCH",
        "/api/v1/nodes/n1?fieldManager=me&force=true",
        APPLY,
        {"kind": "Node"},
    ),
    (
        "merge patch",
        lambda c: c.patch(PODS, "web", {"a": None}, kind=PatchKind.MERGE, namespace="shop"),
        "PATCH",
        "/api/v1/namespaces/shop/pods/web",
        MERGE,
        {"a": None},
    ),
    (
        "JSON patch of a part",
        lambda c: c.patch(NODES, "n1", [{"op": "test"}], kind=PatchKind.JSON, subresource="status"),
        "PATCH",
        "/api/v1/nodes/n1/status",
        "application/json-patch+json",
        [{"op": "test"}],
    ),
    (
        "strategic patch",
        lambda c: c.patch(NODES, "n1", {}, kind=PatchKind.STRATEGIC),
        "PATCH",
        "/api/v1/nodes/n1",
        "application/strategic-merge-patch+json",
        {},
    ),
    (
        "delete",
        lambda c: c.delete(PODS, "web", "shop"),
        "DELETE",
        "/api/v1/namespaces/shop/pods/web",
        "",
        None,
    ),
    (
        "delete only that object, with its grace",
        lambda c: c.delete(PODS, "web", "shop", uid="u-1", grace_seconds=30),
        "DELETE",
        "/api/v1/namespaces/shop/pods/web",
        "application/json",
        {"preconditions": {"uid": "u-1"}, "gracePeriodSeconds": 30},
    ),
    (
        "evict",
        lambda c: c.evict("shop", "web"),
        "POST",
        "/api/v1/namespaces/shop/pods/web/eviction",
        "application/json",
        {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": "web", "namespace": "shop"},
            "deleteOptions": {},
        },
    ),
    (
        "evict only that pod, with its grace, as a trial",
        lambda c: c.evict("shop", "web", uid="u-1", grace_seconds=0, dry_run=True),
        "POST",
        "/api/v1/namespaces/shop/pods/web/eviction",
        "application/json",
        {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": "web", "namespace": "shop"},
            "deleteOptions": {
                "preconditions": {"uid": "u-1"},
                "gracePeriodSeconds": 0,
                "dryRun": ["All"],
            },
        },
    ),
]


@pytest.mark.parametrize(
    ("do", "method", "target", "kind", "body"),
    [row[1:] for row in VERBS],
    ids=[row[0] for row in VERBS],
)
def test_a_verb_is_spelled_as_the_server_wants_it(
    do: Callable[[Client], object], method: str, target: str, kind: str, body: object
) -> None:
    with serving(echo) as server:
        client = plain_client(server.port)
        do(client)
        client.close()
        (request,) = server.requests
    assert (request.method, request.target) == (method, target)
    assert request.header("content-type") == kind
    assert (msgspec.json.decode(request.body) if request.body else None) == body
    assert request.header("user-agent") == AGENT
    assert request.header("accept-encoding") == "identity"
    assert request.header("host") == f"127.0.0.1:{server.port}"


def test_answers_come_as_bytes() -> None:
    with serving(lambda _, wire: wire.json({"kind": "Pod"})) as server:
        client = plain_client(server.port)
        assert client.get(PODS, "web", "shop") == b'{"kind":"Pod"}'
        assert client.create(PODS, {}, "shop") == b'{"kind":"Pod"}'
        client.close()


def test_any_path_may_answer_in_any_type() -> None:
    with serving(lambda _, wire: wire.answer(b"ok", kind="text/plain")) as server:
        client = plain_client(server.port)
        assert client.get_raw("/readyz") == b"ok"
        client.close()


def page(names: list[str], token: str = "", version: str = "7") -> dict[str, object]:
    meta = {"resourceVersion": version, **({"continue": token} if token else {})}
    return {"metadata": meta, "items": [{"name": name} for name in names]}


def test_a_list_is_read_page_by_page() -> None:
    pages = {"": page(["a", "b"], "t 1&x"), "t 1&x": page(["c"])}

    def answer(request: Request, wire: Wire) -> None:
        wire.json(pages[request.query.get("continue", "")])

    with serving(answer) as server:
        client = plain_client(server.port)
        found = client.list(
            PODS, read_item, selector=ObjectSelector("app=web,tier!=x", "spec.nodeName=n1"), page=2
        )
        client.close()
    assert (found.items, found.version) == (["a", "b", "c"], "7")
    first, second = (request.query for request in server.requests)
    wanted = {"limit": "2", "labelSelector": "app=web,tier!=x", "fieldSelector": "spec.nodeName=n1"}
    assert first == wanted
    assert second == {**wanted, "continue": "t 1&x"}
    assert server.connections == 1


def test_a_list_that_is_too_old_begins_again() -> None:
    answers = iter(
        [
            (page(["a"], "t1"), 200),
            (status(410, "Expired", "too old"), 410),
            (page(["b"], "t2", "9"), 200),
            (page(["c"], "", "9"), 200),
        ]
    )
    with serving(lambda _, wire: wire.json(*next(answers))) as server:
        client = plain_client(server.port)
        found = client.list(PODS, read_item)
        client.close()
    assert (found.items, found.version) == (["b", "c"], "9")
    assert [one.query.get("continue", "") for one in server.requests] == ["", "t1", "", "t2"]


def test_a_list_that_is_always_too_old_ends() -> None:
    with serving(lambda _, wire: wire.json(status(410, "Gone", "too old"), 410)) as server:
        client = plain_client(server.port)
        with pytest.raises(HttpStatusError, match="410 Expired: too old"):
            client.list(PODS, read_item)
        client.close()
        assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"items": []}, "not a list: Object missing required field `metadata`"),
        ([], "not a list: Expected `object`, got `array`"),
        ({"metadata": {}, "items": 3}, "not a list: Expected `array"),
    ],
)
def test_what_is_no_list_is_told(body: object, sentence: str) -> None:
    with serving(lambda _, wire: wire.json(body)) as server:
        client = plain_client(server.port)
        with pytest.raises(UnreachableError, match=f"GET /api/v1/pods: the answer is {sentence}"):
            client.list(PODS, read_item)
        client.close()


def test_a_list_of_nothing_is_empty() -> None:
    """Go writes an empty list as null."""
    with serving(lambda _, wire: wire.json({"metadata": {}, "items": None})) as server:
        client = plain_client(server.port)
        assert client.list(PODS, read_item).items == []
        client.close()


def test_a_readers_own_error_is_its_own() -> None:
    with serving(lambda _, wire: wire.json(page(["a"]))) as server:
        client = plain_client(server.port)
        with pytest.raises(ValueError, match="not mine"):
            client.list(PODS, _refuse)
        client.close()


def _refuse(_raw: msgspec.Raw) -> str:
    raise ValueError("not mine")


def test_threads_share_a_client() -> None:
    """A connection is kept from one question to the next; what a burst needed, not for ever."""
    gate = threading.Barrier(4)
    problems: list[RequestError] = []

    def ask() -> None:
        try:
            for _ in range(5):
                gate.wait()
                client.get(PODS, "web", "shop")
        except RequestError as error:
            problems.append(error)
        finally:
            client.close()

    with serving(echo) as server:
        client = plain_client(server.port)
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert problems == []
    assert len(server.requests) == 20
    assert 4 <= server.connections <= 20
