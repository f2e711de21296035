"""Reading objects without kubectl: which command lines are understood, and where they lead."""

import pytest

from tools.cluster.reading import Served, Wanted, as_kubectl_shows, names, parse, path_of

PODS = Served("/api/v1", "pods", is_namespaced=True)
NODES = Served("/api/v1", "nodes", is_namespaced=False)


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("nodes", Wanted("nodes")),
        ("node n1", Wanted("node", "n1")),
        ("pods -A", Wanted("pods", everywhere=True)),
        ("lease manager -n shop", Wanted("lease", "manager", "shop")),
        (
            "pods -n shop -l app=web",
            Wanted("pods", "", "shop", selectors={"labelSelector": "app=web"}),
        ),
        ("pods --sort-by=.metadata.name", None),
        ("pods one two", None),
        ("pods -n", None),
        ("nodeqos,avoid", None),
        ("pod/one", None),
    ],
)
def test_a_command_is_understood_or_left_to_kubectl(command: str, wanted: Wanted | None) -> None:
    assert parse(command.split()) == wanted


@pytest.mark.parametrize(
    ("wanted", "served", "path"),
    [
        (Wanted("pods"), PODS, "/api/v1/namespaces/default/pods"),
        (Wanted("pods", everywhere=True), PODS, "/api/v1/pods"),
        (Wanted("pod", "a", "shop"), PODS, "/api/v1/namespaces/shop/pods/a"),
        (Wanted("node", "n1"), NODES, "/api/v1/nodes/n1"),
        (
            Wanted("pods", selectors={"labelSelector": "app=web,a!=b"}),
            PODS,
            "/api/v1/namespaces/default/pods?labelSelector=app%3Dweb%2Ca%21%3Db",
        ),
    ],
)
def test_where_it_is(wanted: Wanted, served: Served, path: str) -> None:
    assert path_of(wanted, served) == path


def _group(name: str, resource: str, short: str) -> dict[str, object]:
    resources = [
        {
            "resource": resource,
            "singularResource": resource[:-1],
            "scope": "Namespaced",
            "shortNames": [short],
        }
    ]
    versions = [{"version": "v1", "resources": resources}]
    return {"metadata": {"name": name} if name else {}, "versions": versions}


def test_the_first_group_keeps_a_name_and_the_other_has_its_full_one() -> None:
    core, other = _group("", "events", "ev"), _group("events.k8s.io", "events", "ev")
    found = names([{"items": [core]}, {"items": [other]}])
    assert found["ev"] == found["event"] == Served("/api/v1", "events", is_namespaced=True)
    assert found["events.events.k8s.io"].path == "/apis/events.k8s.io/v1"


def test_items_say_what_they_are() -> None:
    items = [{"metadata": {"name": "a", "managedFields": [{}]}}]
    shown = as_kubectl_shows({"apiVersion": "v1", "kind": "PodList", "items": items})
    assert shown["items"] == [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}]
