"""Verbs, leader election and events against the real API server."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from slackwater.contract.resources import CONFIG_MAPS, PODS, Resource
from slackwater.http.errors import CredentialsError, UnreachableError
from slackwater.kube.access import Access
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import Client, PatchKind
from slackwater.kube.credentials.discovery import find_access
from slackwater.kube.events import EventRecorder, EventType, KubeEvent, ObjectReference
from slackwater.kube.lease import Election, LeaseTerms
from slackwater.model.gap import Gap
from tests.cluster.kube_world import AGENT, access_of, serves
from tests.unit.kube.byte_server import eventually
from tests.unit.kube.informer_world import chance
from tools.cluster.control_plane import ControlPlane

UNKNOWN = Resource("no.such.group", "v1", "things", "Thing")


@pytest.fixture
def client(control_plane: ControlPlane) -> Iterator[Client]:
    made = Client(access_of(control_plane), AGENT)
    yield made
    made.close()


def decoded(body: bytes) -> dict[str, Any]:
    found = msgspec.json.decode(body)
    assert isinstance(found, dict)
    return found


def data_of(client: Client, name: str, namespace: str) -> object:
    return decoded(client.get(CONFIG_MAPS, name, namespace)).get("data")


def test_a_life_of_an_object(client: Client, namespace: str) -> None:
    made = client.create(CONFIG_MAPS, {"metadata": {"name": "m"}, "data": {"a": "1"}}, namespace)
    assert decoded(made)["metadata"]["uid"]
    client.patch(CONFIG_MAPS, "m", {"data": {"b": "2"}}, kind=PatchKind.MERGE, namespace=namespace)
    assert data_of(client, "m", namespace) == {"a": "1", "b": "2"}
    client.patch(
        CONFIG_MAPS, "m", {"data": {"c": "3"}}, kind=PatchKind.STRATEGIC, namespace=namespace
    )
    remove = [{"op": "remove", "path": "/data/a"}]
    client.patch(CONFIG_MAPS, "m", remove, kind=PatchKind.JSON, namespace=namespace)
    assert data_of(client, "m", namespace) == {"b": "2", "c": "3"}
    whole = decoded(client.get(CONFIG_MAPS, "m", namespace))
    whole["data"] = {"z": "9"}
    client.replace(CONFIG_MAPS, "m", whole, namespace=namespace)
    with pytest.raises(HttpStatusError) as refused:
        client.replace(CONFIG_MAPS, "m", whole, namespace=namespace)
    assert refused.value.reason == "Conflict"
    client.delete(CONFIG_MAPS, "m", namespace)
    with pytest.raises(HttpStatusError) as refused:
        client.get(CONFIG_MAPS, "m", namespace)
    assert (refused.value.status, refused.value.reason) == (404, "NotFound")


def test_apply_owns_its_fields_and_takes_them(client: Client, namespace: str) -> None:
    """Two managers: each owns its own; a contested field goes to who applied last."""

    def apply(manager: str, **data: str) -> None:
        client.apply(CONFIG_MAPS, "m", {"data": data}, manager=manager, namespace=namespace)

    apply("one", a="1", b="1")
    apply("two", b="2", c="2")
    assert data_of(client, "m", namespace) == {"a": "1", "b": "2", "c": "2"}
    apply("one", a="1")
    assert data_of(client, "m", namespace) == {"a": "1", "b": "2", "c": "2"}
    apply("one")
    assert data_of(client, "m", namespace) == {"b": "2", "c": "2"}
    fields = decoded(client.get(CONFIG_MAPS, "m", namespace))["metadata"]["managedFields"]
    (owned,) = (one["fieldsV1"]["f:data"] for one in fields if one["manager"] == "two")
    assert {"f:b", "f:c"} <= set(owned)


@pytest.mark.parametrize(
    ("do", "reason", "part"),
    [
        (lambda c, ns: c.create(CONFIG_MAPS, {"metadata": {"name": "A_"}}, ns), "Invalid", ".name"),
        (lambda c, ns: c.create(CONFIG_MAPS, {"data": 7}, ns), "BadRequest", "data"),
        (lambda c, ns: c.create(CONFIG_MAPS, b"{", ns), "BadRequest", "unexpected end of JSON"),
        (lambda c, _: c.get(PODS, "x", "no-such-namespace"), "NotFound", 'pods "x" not found'),
        (lambda c, _: c.get(UNKNOWN, "x"), "NotFound", "'404 page not found'"),
    ],
)  # fmt: skip
def test_refusals_have_the_servers_words(
    do: Callable[[Client, str], object],
    reason: str,
    part: str,
    client: Client,
    namespace: str,
) -> None:
    with pytest.raises(HttpStatusError) as refused:
        do(client, namespace)
    assert refused.value.reason == reason
    assert part in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_is_served(client: Client) -> None:
    assert serves(client, PODS)
    assert not serves(client, UNKNOWN)
    assert not serves(client, Resource("apps", "v1", "nothings", "Nothing"))
    assert decoded(client.get_raw("/version"))["major"] == "1"


def pod(name: str) -> dict[str, object]:
    return {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "localhost/pause:1"}]},
    }


def test_eviction(client: Client, namespace: str) -> None:
    made = decoded(client.create(PODS, pod("web"), namespace))
    with pytest.raises(HttpStatusError) as refused:
        client.evict(namespace, "web", uid="00000000-0000-0000-0000-000000000000")
    assert refused.value.reason == "Conflict", "another pod of that name is not touched"
    client.evict(namespace, "web", uid=made["metadata"]["uid"], dry_run=True)
    assert decoded(client.get(PODS, "web", namespace))["metadata"]["uid"]
    client.evict(namespace, "web", uid=made["metadata"]["uid"], grace_seconds=0)
    eventually("the end of the pod", lambda: _is_gone(client, "web", namespace))


def _is_gone(client: Client, name: str, namespace: str) -> bool:
    try:
        client.get(PODS, name, namespace)
    except HttpStatusError as refused:
        return refused.reason == "NotFound"
    return False


def test_a_disruption_budget_holds(client: Client, namespace: str) -> None:
    client.create(PODS, pod("web"), namespace)
    # A pod that nobody has scheduled may always go: only running ones count.
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    client.patch(PODS, "web", {"status": running}, kind=PatchKind.MERGE, namespace=namespace, subresource="status")  # fmt: skip # noqa: E501
    budgets = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    client.create(budgets, {"metadata": {"name": "all"}, "spec": spec}, namespace)
    eventually(
        "the budget's own count",
        lambda: (
            decoded(client.get(budgets, "all", namespace)).get("status", {}).get("expectedPods")
        ),
    )
    with pytest.raises(HttpStatusError) as refused:
        client.evict(namespace, "web")
    assert refused.value.status == 429
    assert refused.value.causes == ("DisruptionBudget",)
    assert "disruption budget" in str(refused.value)


def test_rights_are_the_servers(control_plane: ControlPlane, namespace: str) -> None:
    nobody = Client(_access(control_plane.kubeconfig("nobody", "strangers")), AGENT)
    with pytest.raises(
        HttpStatusError, match='User "nobody" cannot get resource "pods"'
    ) as refused:
        nobody.get(PODS, "x", namespace)
    assert (refused.value.status, refused.value.reason) == (403, "Forbidden")
    nobody.close()


def test_a_certificate_of_another_authority_is_not_believed(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    config = yaml.safe_load(control_plane.kubeconfig().read_text())
    for key in ("certificate-authority", "certificate-authority-data"):
        config["clusters"][0]["cluster"].pop(key, None)
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    stranger = Client(_access(tmp_path / "config"), AGENT)
    with pytest.raises(UnreachableError, match="its certificate is not believed"):
        stranger.get_raw("/version")


def _access(kubeconfig: Path) -> Access:
    found = find_access({}, str(kubeconfig))
    assert not isinstance(found, Gap), found.reason
    return found


def with_user(control_plane: ControlPlane, tmp_path: Path, user: dict[str, object]) -> Access:
    """The cluster of the admin's kubeconfig with another user."""
    config = yaml.safe_load(control_plane.kubeconfig().read_text())
    config["users"][0]["user"] = user
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    return _access(tmp_path / "config")


def test_a_plugin_gives_tokens_and_new_ones(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    """The first is wrong: the server answers 401, the program is run again, and it works."""
    token = control_plane.kubectl("create", "token", "default", "-n", namespace).strip()
    program = tmp_path / "login"
    program.write_text(
        f"#!{sys.executable}\nimport json, os, pathlib\n"
        f"runs = pathlib.Path({str(tmp_path / 'runs')!r})\n"
        "runs.write_text((runs.read_text() if runs.exists() else '') + 'x')\n"
        f"token = 'wrong' if runs.read_text() == 'x' else {token!r}\n"
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "assert info['spec']['cluster']['server'].startswith('https://')\n"
        "print(json.dumps({'apiVersion': info['apiVersion'], 'kind': 'ExecCredential',"
        " 'status': {'token': token}}))\n"
    )
    program.chmod(0o755)
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./login",
        "interactiveMode": "Never",
        "provideClusterInfo": True,
    }
    client = Client(with_user(control_plane, tmp_path, {"exec": plugin}), AGENT)
    review = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)  # fmt: skip # noqa: E501
    body = {"apiVersion": review.api_version, "kind": review.kind}
    for _ in range(2):
        said = decoded(client.create(review, body))
        assert (
            said["status"]["userInfo"]["username"] == f"system:serviceaccount:{namespace}:default"
        )
    client.close()
    assert (tmp_path / "runs").read_text() == "xx"


def test_a_plugin_that_is_missing_is_told(control_plane: ControlPlane, tmp_path: Path) -> None:
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "no-such-program",
        "interactiveMode": "Never",
        "installHint": "ask your administrator",
    }
    client = Client(with_user(control_plane, tmp_path, {"exec": plugin}), AGENT)
    sentence = "no-such-program: it is not installed; ask your administrator"
    with pytest.raises(CredentialsError, match=sentence):
        client.get_raw("/version")


def test_acting_as_somebody_else(control_plane: ControlPlane, tmp_path: Path) -> None:
    admin = yaml.safe_load(control_plane.kubeconfig().read_text())["users"][0]["user"]
    user = {**admin, "as": "jane", "as-groups": ["readers", "writers"]}
    client = Client(with_user(control_plane, tmp_path, user), AGENT)
    review = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)  # fmt: skip # noqa: E501
    said = decoded(client.create(review, {"apiVersion": review.api_version, "kind": review.kind}))
    client.close()
    assert said["status"]["userInfo"]["username"] == "jane"
    assert {"readers", "writers"} <= set(said["status"]["userInfo"]["groups"])


def test_one_leads_and_another_follows(control_plane: ControlPlane, namespace: str) -> None:
    terms = LeaseTerms(duration=6.0, deadline=4.0, retry=0.3)
    one, two = (
        Election(
            Client(access_of(control_plane), AGENT),
            namespace,
            "manager",
            name,
            jitter=chance(),
            terms=terms,
        )
        for name in ("one", "two")
    )
    one.start()
    eventually("a leader", one.leads)
    two.start()
    eventually("that the other knows", lambda: two.leader() == "one")
    assert not two.leads()
    lease = control_plane.get("lease", "manager", "-n", namespace)
    assert lease["spec"]["holderIdentity"] == "one"
    one.stop()
    eventually("a new leader, long before the lease would end", two.leads)
    two.stop()
    assert not control_plane.get("lease", "manager", "-n", namespace)["spec"].get("holderIdentity")


def test_events_as_kubectl_shows_them(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.apply(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{namespace}"}}
    )
    node = ObjectReference("v1", "Node", f"node-{namespace}", uid=f"node-{namespace}")
    sender = EventRecorder(Client(access_of(control_plane), AGENT), "slackwater-agent", node.name)
    sender.start()
    for number in range(20):
        told = f"best-effort pods held at {number}m"
        sender.send(KubeEvent(node, "NodeCPUThrottle", told, EventType.WARNING))
    sender.stop(10.0)
    assert sender.problem() == ""
    said = control_plane.kubectl("describe", "node", node.name)
    assert "NodeCPUThrottle" in said
    found = json.loads(
        control_plane.kubectl(
            "get",
            "events",
            "-n",
            "default",
            "-o",
            "json",
            "--field-selector",
            f"involvedObject.name={node.name},reason=NodeCPUThrottle",
        )
    )["items"]
    assert sum(event["count"] for event in found) == 20
    assert len(found) == 1
    assert found[0]["message"] == "best-effort pods held at 19m"
    control_plane.kubectl("delete", "node", node.name)
