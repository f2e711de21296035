"""Which workload a pod belongs to, and what it asks for."""

from typing import Any

import msgspec
import pytest

from slackwater.report.pod_owners import (
    PodWithOwner,
    guess_workload,
    read_owned_pod,
    workloads_by_name,
)


def pod(name: str, *owners: tuple[str, str], phase: str = "Running", **cpu: str) -> msgspec.Raw:
    references = [{"kind": kind, "name": owner, "controller": True} for kind, owner in owners]
    containers = [{"name": each, "resources": {"requests": {"cpu": said}}}
                  for each, said in cpu.items()]  # fmt: skip
    value: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "shop", "ownerReferences": references},
        "spec": {"containers": [*containers, {"name": "bare"}]},
        "status": {"phase": phase},
    }
    return msgspec.Raw(msgspec.json.encode(value))


@pytest.mark.parametrize(
    ("name", "owner", "workload"),
    [
        ("web-5d8f7b9c6d-b4d2x", ("ReplicaSet", "web-5d8f7b9c6d"), "Deployment/web"),
        ("odd-b4d2x", ("ReplicaSet", "odd"), "ReplicaSet/odd"),
        ("db-0", ("StatefulSet", "db"), "StatefulSet/db"),
        ("agent-b4d2x", ("DaemonSet", "agent"), "DaemonSet/agent"),
        ("kube-apiserver-n1", ("Node", "n1"), "Pod/kube-apiserver-n1"),
        ("nightly-29101440-x2x4v", ("Job", "nightly-29101440"), "CronJob/nightly"),
        ("once-x2x4v", ("Job", "once"), "Job/once"),
    ],
)
def test_a_pods_owner(name: str, owner: tuple[str, str], workload: str) -> None:
    assert read_owned_pod(pod(name, owner)).workload == workload


def test_a_pod_on_its_own_is_its_own_workload() -> None:
    found = read_owned_pod(pod("alone", a="500m", b="1.5"))
    assert found == PodWithOwner("shop", "alone", "Pod/alone", 2.0, ended=False)


@pytest.mark.parametrize(("phase", "ended"), [("Succeeded", True), ("Failed", True), ("", False)])
def test_a_pod_that_has_ended(phase: str, ended: bool) -> None:
    assert read_owned_pod(pod("job", phase=phase)).ended is ended


def test_an_odd_request_is_none() -> None:
    assert read_owned_pod(pod("odd", a="much", b="250m", c="-4")).requested == 0.25


def test_an_owner_that_does_not_control_is_no_owner() -> None:
    raw = b'{"metadata":{"name":"x","ownerReferences":[{"kind":"A","name":"b"}]}}'
    assert read_owned_pod(msgspec.Raw(raw)).workload == "Pod/x"


def test_what_is_no_pod_is_an_error() -> None:
    with pytest.raises(msgspec.DecodeError):
        read_owned_pod(msgspec.Raw(b'{"metadata":[]}'))


KNOWN = {"web": "Deployment/web", "db": "StatefulSet/db", "my-agent": "DaemonSet/my-agent"}


@pytest.mark.parametrize(
    ("name", "workload"),
    [
        ("web-5d8f7b9c6d-b4d2x", "Deployment/web"),
        ("db-12", "StatefulSet/db"),
        ("my-agent-b4d2x", "DaemonSet/my-agent"),
        ("gone-5d8f7b9c6d-b4d2x", "Deployment/gone"),
        ("gone-b4d2x", "(gone) gone"),
        ("gone-3", "(gone) gone"),
        ("nightly-29101440-x2x4v", "CronJob/nightly"),
        ("alone", "Pod/alone"),
    ],
)
def test_a_pod_that_is_gone_is_known_by_its_name(name: str, workload: str) -> None:
    assert guess_workload(name, KNOWN) == workload


def test_names_by_namespace() -> None:
    pods = [read_owned_pod(pod("db-0", ("StatefulSet", "db")))]
    assert workloads_by_name(pods) == {"shop": {"db": "StatefulSet/db"}}
