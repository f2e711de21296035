"""Slackwater's objects in a control plane of their own: names of the whole cluster are taken once.

Owns what the tests of the chart and of its rights share.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import yaml

from slackwater.cli.cluster_options import NAMESPACE
from slackwater.cli.install import manifests
from slackwater.contract.kubernetes_pod import MIRROR
from slackwater.contract.resources import EVENTS, NODES, PODS, ObjectSelector, Resource
from slackwater.http.connection import HttpRequest
from slackwater.kube.access import Access
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import Client, PatchKind
from slackwater.kube.credentials.discovery import find_access
from tools.cluster.control_plane import ControlPlane
from tools.cluster.processes import wait_for

AGENT, MANAGER, REBALANCER = "slackwater-agent", "slackwater-manager", "slackwater-rebalancer"
SECRETS = Resource("", "v1", "secrets", "Secret")
#: Two nodes, and where a pod of each works.
OWN, OTHER, WORK = "node-a", "node-b", "work"
REPORT = {"metadata": {"annotations": {"slackwater.io/report": "{}"}}}
CANNOT = "cannot {} resource"

#: A request, or several: what it answers does not matter.
Ask = Callable[[Client], object]


def documents(text: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(text) if document]


def of_kind(found: list[dict[str, Any]], kind: str, name: str = "") -> dict[str, Any]:
    [one] = [
        each for each in found if each["kind"] == kind and name in ("", each["metadata"]["name"])
    ]
    return one


@contextmanager
def with_rights(plane: ControlPlane, given: str = "") -> Iterator[ControlPlane]:
    """A control plane with Slackwater's objects (those, or the plain manifests), two nodes, a pod
    on each, and our own pods."""
    try:
        plane.open()
        plane.kubectl("apply", "--server-side", "-f", "-", given=given or manifests())
        plane.kubectl("create", "namespace", WORK)
        plane.kubectl("create", "secret", "generic", "hidden", "-n", NAMESPACE)
        plane.kubectl("create", "configmap", "others", "-n", NAMESPACE)
        plane.create(node(OWN), node(OTHER))
        wait_for("service accounts", lambda: _has_accounts(plane))
        plane.create(
            *(pod(f"on-{name}", WORK, name) for name in (OWN, OTHER)),
            pod("agent", NAMESPACE, OWN, AGENT),
            pod("manager", NAMESPACE, OWN, MANAGER),
        )
        yield plane
    finally:
        plane.close()


def _has_accounts(plane: ControlPlane) -> bool:
    found = plane.get("serviceaccounts", "-A")["items"]
    names = {(each["metadata"]["namespace"], each["metadata"]["name"]) for each in found}
    wanted = {(WORK, "default"), ("kube-system", "default")}
    return wanted | {(NAMESPACE, AGENT), (NAMESPACE, MANAGER)} <= names


#: Pods that none of our programs may remove, and what they are called.
SPARED = {"critical": "critical", "mirror": "static", "daemon": "a DaemonSet's"}


def make_spared_pods(plane: ControlPlane) -> None:
    """On the agent's node, and one more in kube-system."""
    critical = pod("critical", WORK, OWN)
    critical["spec"]["priorityClassName"] = "system-node-critical"
    mirror = pod("mirror", WORK, OWN)
    mirror["metadata"]["annotations"] = {MIRROR: "f" * 32}
    del mirror["spec"]["serviceAccountName"]  # which a static pod cannot have
    plane.create(daemon_set("daemons"), critical, mirror, pod("system", "kube-system", OWN))
    daemon = pod("daemon", WORK, OWN)
    uid = plane.get("daemonset", "daemons", "-n", WORK)["metadata"]["uid"]
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "daemons", "uid": uid}
    daemon["metadata"]["ownerReferences"] = [owner]
    plane.create(daemon)


def daemon_set(name: str) -> dict[str, Any]:
    """It makes no pods: no node has its label."""
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {
            "nodeSelector": {"example.com/nowhere": "yes"},
            "containers": [{"name": "main", "image": "nothing"}],
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": WORK},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def node(name: str) -> dict[str, Any]:
    """A Node without a kubelet."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": {"cpu": "4", "memory": "8Gi"}},
    }


def pod(name: str, namespace: str, on: str, account: str = "default") -> dict[str, Any]:
    """A Pod that stands on a node without being scheduled."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "nodeName": on,
            "serviceAccountName": account,
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": "nothing"}],
        },
    }


def event(
    kind: str, name: str, namespace: str, host: str, component: str = AGENT
) -> dict[str, Any]:
    about = "" if kind == "Node" else namespace
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "slackwater.", "namespace": namespace},
        "involvedObject": {"kind": kind, "name": name, "uid": name, "namespace": about},
        "reason": "NodeCPUThrottle",
        "type": "Normal",
        "message": "a test",
        "source": {"component": component, "host": host},
        "reportingComponent": component,
        "reportingInstance": host,
    }


def pod_client(plane: ControlPlane, account: str, bound_to: str) -> Client:
    """With the token that the kubelet would give to that pod."""
    uid = plane.get("pod", bound_to, "-n", NAMESPACE)["metadata"]["uid"]
    facts = {"kind": "Pod", "name": bound_to, "uid": uid}
    bound = (f"--bound-object-{key}={value}" for key, value in facts.items())
    return token_client(plane, f"{account}-{bound_to}", account, *bound)


def token_client(plane: ControlPlane, name: str, account: str, *bound: str) -> Client:
    token = plane.kubectl("create", "token", account, "-n", NAMESPACE, *bound)
    return client(plane.token_kubeconfig(name, token.strip()))


def client(kubeconfig: Path) -> Client:
    access = find_access(os.environ, str(kubeconfig))
    assert isinstance(access, Access)
    return Client(access, "slackwater-test", timeout=300)


def refusal(who: Client, ask: Ask) -> str:
    """What the API server said against it; "" where it was done."""
    try:
        ask(who)
    except HttpStatusError as refused:
        return str(refused)
    return ""


def patch_status(name: str, **body: object) -> Ask:
    """A merge by the keys of lists, as the kubelet does."""
    kind = PatchKind.STRATEGIC
    return lambda who: who.patch(NODES, name, body, kind=kind, subresource="status")


def patch(resource: Resource, name: str, namespace: str = "", **body: object) -> Ask:
    return lambda who: who.patch(resource, name, body, kind=PatchKind.MERGE, namespace=namespace)


def make(resource: Resource, body: dict[str, Any]) -> Ask:
    namespace = body["metadata"].get("namespace", "")
    return lambda who: who.create(resource, body, namespace)


def make_event(
    kind: str,
    name: str,
    namespace: str = "default",
    *,
    host: str = OWN,
    component: str = AGENT,
) -> Ask:
    return make(EVENTS, event(kind, name, namespace, host, component))


def evict(namespace: str, name: str, uid: str = "") -> Ask:
    """By that uid, or by the pod's own."""
    return lambda who: who.evict(namespace, name, uid=uid or _uid_of(who, namespace, name))


def try_evicting(namespace: str, name: str) -> Ask:
    return lambda who: who.evict(namespace, name, uid=_uid_of(who, namespace, name), dry_run=True)


def delete_pod(namespace: str, name: str) -> Ask:
    """By its own uid."""
    return lambda who: who.delete(PODS, name, namespace, uid=_uid_of(who, namespace, name))


def try_deleting(namespace: str, name: str) -> Ask:
    """Without a uid, and without effect (dryRun)."""
    path = f"{PODS.path(namespace, name)}?dryRun=All"
    return lambda who: who._transport.fetch_json(HttpRequest("DELETE", path))


def _uid_of(who: Client, namespace: str, name: str) -> str:
    return str(json.loads(who.get(PODS, name, namespace))["metadata"]["uid"])


def delete(resource: Resource, name: str, namespace: str = "") -> Ask:
    return lambda who: who.delete(resource, name, namespace)


def see(resource: Resource, namespace: str = "", name: str = "") -> Ask:
    """Lists them, or those of one name, as an informer does."""
    chosen = ObjectSelector(fields=f"metadata.name={name}" if name else "")
    return lambda who: who.list(resource, _unread, namespace=namespace, selector=chosen)


def _unread(raw: msgspec.Raw) -> msgspec.Raw:
    return raw
