"""The bed itself: a real API server that keeps its state, and another beside it."""

import json
import os
from collections.abc import Callable

import pytest

from tools.cluster.control_plane import CONTROL_PLANE, ControlPlane
from tools.cluster.processes import ClusterError, wait_for

#: The bar is for a quiet machine; a test run is rarely alone on it.


def config_map(name: str, namespace: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
    }


def test_pods_are_listed(control_plane: ControlPlane, namespace: str) -> None:
    assert control_plane.get("pods", "-n", namespace)["items"] == []


def test_a_wrong_call_is_told_in_kubectls_words(control_plane: ControlPlane) -> None:
    with pytest.raises(ClusterError, match="doesn't have a resource type"):
        control_plane.kubectl("get", "nonsense")


@pytest.mark.parametrize(
    "command",
    ["namespaces", "ns default", "cm -A", "sa -n kube-system", "crd", "clusterrole view"],
)
def test_reading_is_what_kubectl_shows(control_plane: ControlPlane, command: str) -> None:
    shown = json.loads(control_plane.kubectl("get", *command.split(), "-o", "json"))
    read = control_plane._reading.get(command.split())
    assert read is not None
    if "items" in shown:  # kubectl gives a list of its own making
        assert read["items"] == shown["items"]
    else:
        assert read == shown


def test_controllers_work(control_plane: ControlPlane, namespace: str) -> None:
    """A deployment's pods come from the controller manager; the scheduler finds no node."""
    labels = {"app": "sleep"}
    container = {"name": "main", "image": "localhost/busybox:1"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    control_plane.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "sleep", "namespace": namespace},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": labels},
                "template": template,
            },
        }
    )
    pods = wait_for(
        "two pods",
        lambda: control_plane.get("pods", "-n", namespace)["items"][1:],
    )
    assert pods[0]["metadata"]["labels"]["app"] == "sleep"


def test_users_are_who_their_certificates_say(control_plane: ControlPlane, namespace: str) -> None:
    nobody = control_plane.kubeconfig("jane", "readers")
    said = control_plane.kubectl("auth", "whoami", "-o", "json", kubeconfig=nobody)
    assert '"jane"' in said
    assert '"readers"' in said
    with pytest.raises(ClusterError, match='User "jane" cannot list resource "pods"'):
        control_plane.kubectl("get", "pods", "-n", namespace, kubeconfig=nobody)


def test_a_token_is_a_kubeconfig(control_plane: ControlPlane, namespace: str) -> None:
    token = control_plane.kubectl("create", "token", "default", "-n", namespace).strip()
    kubeconfig = control_plane.token_kubeconfig(f"{namespace}-default", token)
    said = control_plane.kubectl("auth", "whoami", "-o", "json", kubeconfig=kubeconfig)
    assert f"system:serviceaccount:{namespace}:default" in said


def test_the_audit_log_tells_who_asked_for_what(
    control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.apply(config_map("seen", namespace))
    asked = [line for line in control_plane.audit() if line["verb"] == "create"]
    objects = [line["objectRef"] for line in asked if line["objectRef"].get("name") == "seen"]
    assert [o["namespace"] for o in objects] == [namespace]
    assert asked[-1]["user"]["username"] == "admin"


@pytest.mark.parametrize("program", CONTROL_PLANE)
def test_a_killed_program_comes_back_with_its_state(
    program: str, control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.apply(config_map("kept", namespace))
    control_plane.kill(program)
    assert not control_plane.ready(program)
    control_plane.start(program)
    wait_for("the API server", lambda: control_plane.ready("kube-apiserver"))
    assert control_plane.get("configmap", "kept", "-n", namespace)["metadata"]["name"] == "kept"


def test_a_paused_server_says_nothing_until_it_is_resumed(
    control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.pause("kube-apiserver")
    try:
        with pytest.raises(ClusterError, match=r"(?i)timeout|deadline"):
            control_plane.kubectl("get", "pods", "-n", namespace, "--request-timeout=1s")
    finally:
        control_plane.resume("kube-apiserver")
    assert control_plane.get("pods", "-n", namespace)["items"] == []


def test_two_control_planes_are_strangers(
    control_plane: ControlPlane,
    namespace: str,
    make_control_plane: Callable[[], ControlPlane],
) -> None:
    other = make_control_plane()
    assert namespace not in str(other.get("namespaces"))
    with pytest.raises(ClusterError, match="certificate signed by unknown authority"):
        other.kubectl("get", "pods", f"--server={control_plane.server}")
    pids = [other.processes.pid(program) for program in CONTROL_PLANE]
    other.close()
    assert [pid for pid in pids if os.path.exists(f"/proc/{pid}")] == []
