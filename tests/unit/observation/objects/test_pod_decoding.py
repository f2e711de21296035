"""What is kept of a pod, whatever a tenant writes into it."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from slackwater.contract.kubernetes_pod import MIRROR, read_pod
from slackwater.model.cgroup import CgroupRef, Level, Tier
from slackwater.model.problem import InvalidError
from slackwater.observation.objects.pod_decoding import POD_ANNOTATIONS, decode_pod
from slackwater.observation.objects.workload_matching import workloads_of

UID = "11111111-2222-4333-8444-000000000001"
LARGE = "x" * 1_400_000


def document(**metadata: Any) -> dict[str, Any]:
    """With every field that is read, and many that are not."""
    owner = {"kind": "Node", "name": "here", "uid": "u-1", "controller": True, "apiVersion": "v1"}
    box = {
        "name": "c",
        "image": "i",
        "env": [{"name": "E", "value": "}]{"}],
        "resources": {"limits": {"cpu": "1", "memory": "1Gi", "kubernetes.io/batch-cpu": "7"}},
        "ports": [{"name": "http", "containerPort": 80, "protocol": "TCP"}],
    }
    first = {"name": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "50m"}}}
    base = {
        "name": "web",
        "namespace": "shop",
        "uid": UID,
        "labels": {"app": "web"},
        "annotations": {"volcano.sh/qos-level": "BE", MIRROR: "0" * 32},
        "ownerReferences": [owner],
        "creationTimestamp": "2026-01-31T12:00:00Z",
        "deletionTimestamp": "2026-01-31T12:00:01Z",
        "managedFields": [{"fieldsV1": {"f:spec": {}}}],
    }
    spec = {
        "nodeName": "here",
        "priority": 7,
        "priorityClassName": "high",
        "overhead": {"cpu": "10m"},
        "resources": {"limits": {"cpu": "2"}},
        "initContainers": [first],
        "containers": [box],
        "ephemeralContainers": [{"name": "debug"}],
        "volumes": [{"name": "v"}],
    }
    status = {
        "phase": "Running",
        "qosClass": "Burstable",
        "startTime": "2026-01-31T12:00:00Z",
        "podIP": "10.0.0.7",
        "initContainerStatuses": [{"name": "i", "containerID": "containerd://a"}],
        "containerStatuses": [{"name": "c", "containerID": "containerd://b", "ready": True}],
        "ephemeralContainerStatuses": [{"name": "debug", "containerID": "containerd://d"}],
    }
    return {"metadata": base | metadata, "spec": spec, "status": status}


def decoded(pod: object) -> Any:
    return decode_pod(msgspec.Raw(json.dumps(pod).encode()), "a test")


def test_every_field_that_is_read_is_decoded() -> None:
    """The same as of the whole document."""
    whole = document()
    assert decoded(whole) == read_pod({"kind": "Pod", **whole}, "a test")
    assert decoded({"metadata": whole["metadata"], "spec": None, "status": None}).priority == 0


def test_only_annotations_that_are_read_are_kept() -> None:
    pod = decoded(document(annotations={"own": LARGE, "volcano.sh/qos-level": "BE"}))
    assert pod.annotations == {"volcano.sh/qos-level": "BE"}


@pytest.mark.parametrize("name", list(POD_ANNOTATIONS))
def test_a_long_value_is_cut(name: str) -> None:
    text = decoded(document(annotations={name: LARGE})).annotations[name]
    assert text == "x" * POD_ANNOTATIONS[name]


class Asked(dict[str, str]):
    """Annotations that note who asks for which."""

    def __init__(self) -> None:
        self.keys_asked: set[str] = set()

    def get(self, key: str, *default: Any) -> Any:
        self.keys_asked.add(key)
        return {"volcano.sh/enable-quota-burst": "true"}.get(key, *default)

    def __contains__(self, key: object) -> bool:
        self.keys_asked.add(str(key))
        return False


def test_no_reader_asks_for_an_annotation_that_is_not_kept() -> None:
    asked = Asked()
    pod = msgspec.structs.replace(
        decoded(document(labels={"koordinator.sh/qosClass": "LSR"})), annotations=asked
    )
    ref = CgroupRef("kubepods/pod", 7, Level.POD, Tier.BURSTABLE, UID)
    workloads_of((pod,), (ref,))
    assert asked.keys_asked
    assert asked.keys_asked <= set(POD_ANNOTATIONS)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"metadata": {"labels": {f"l{n}": "" for n in range(200_000)}}},
            "at most 16384 bytes of labels, containers, resources and ports",
        ),
        (
            {"metadata": {"labels": {f"l{n}": "" for n in range(129)}}},
            "metadata.labels is 129 labels, but must be at most 128 labels",
        ),
        (
            {"spec": {"containers": [{"name": f"c{n}"} for n in range(63)]}},
            "spec is 65 containers, but must be at most 64 containers of all kinds",
        ),
        (
            {"spec": {"containers": [{"name": "c", "resources": {"limits": {"a/b": LARGE}}}]}},
            "at most 16384 bytes",
        ),
    ],
)
def test_what_no_pod_needs_is_refused(more: Mapping[str, Any], said: str) -> None:
    """One sentence that names the pod, and does not repeat what the tenant wrote."""
    pod = document()
    for part, fields in more.items():
        pod[part] |= fields
    with pytest.raises(InvalidError) as caught:
        decoded(pod)
    assert str(caught.value).startswith("a test: Pod shop/web")
    assert said in str(caught.value)
    assert len(str(caught.value)) < 300
