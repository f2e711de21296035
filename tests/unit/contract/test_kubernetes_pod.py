"""Pods as they are written by people and by clusters."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.kubernetes_pod import MIRROR, MirrorClaim, Phase, read_pod
from slackwater.contract.pod_resources import (
    NO_AMOUNTS,
    ContainerKind,
    Limits,
    Requests,
    pod_requests,
)
from slackwater.model.cgroup import Tier
from slackwater.model.gap import Gap
from slackwater.model.problem import InvalidError
from slackwater.model.units import UNLIMITED, Bytes, MilliCpu
from tests.unit.contract.documents import ANYTHING, POD_KEYS, container, limited, pod, shaped

UID = "d2988e14-83bc-4d3d-931a-59f8a3174396"
BATCH_CPU, BATCH_MEMORY = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"


def test_a_whole_pod() -> None:
    spec = {
        "nodeName": "n1",
        "priority": -5,
        "initContainers": [
            container("setup", "1", "64Mi"),
            {**container("mesh", "50m"), "restartPolicy": "Always"},
        ],
        "containers": [
            {
                "name": "app",
                "resources": {
                    "requests": {"cpu": "250m", "memory": "1Gi"},
                    "limits": {"cpu": 2, "memory": "2Gi"},
                },
            }
        ],
        "ephemeralContainers": [{"name": "debug"}],
        "overhead": {"cpu": "10m"},
    }
    status = {
        "phase": "Running",
        "qosClass": "Burstable",
        "initContainerStatuses": [{"name": "mesh", "containerID": "containerd://2"}],
        "containerStatuses": [{"name": "app", "containerID": "containerd://1"}],
        "ephemeralContainerStatuses": [{"name": "debug", "containerID": "containerd://3"}],
    }
    made = read_pod(pod(spec, status, uid=UID, labels={"a": "b"}, annotations={"c": "d"}), "p")
    assert (made.uid, made.cgroup_uid, made.name, made.namespace) == (UID, UID, "web", "default")
    assert (made.labels, made.annotations, made.terminating) == ({"a": "b"}, {"c": "d"}, False)
    assert (made.node_name, made.priority, made.phase) == ("n1", -5, Phase.RUNNING)
    assert made.tier is Tier.BURSTABLE
    seen = [(each.name, each.kind, each.id) for each in made.resources.containers]
    assert seen == [
        ("setup", ContainerKind.INIT, ""),
        ("mesh", ContainerKind.SIDECAR, "containerd://2"),
        ("app", ContainerKind.MAIN, "containerd://1"),
        ("debug", ContainerKind.EPHEMERAL, "containerd://3"),
    ]
    app = made.resources.containers[2]
    assert app.requests == Requests(MilliCpu(250), Bytes(2**30))
    assert app.limits == Limits(MilliCpu(2000), Bytes(2**31))
    assert pod_requests(made.resources).cpu == 1000 + 10  # setup runs before mesh


def test_a_pod_by_hand() -> None:
    made = read_pod({"kind": "Pod", "metadata": {"name": "x", "uid": "my-pod"}}, "p")
    assert (made.uid, made.namespace, made.priority) == ("my-pod", "default", 0)
    assert (made.tier, made.phase) == (Tier.BESTEFFORT, Phase.UNKNOWN)
    assert made.resources.containers == ()
    assert not made.is_finished()


@pytest.mark.parametrize(
    ("spec", "tier"),
    [
        ({"containers": [{"name": "a"}]}, Tier.BESTEFFORT),
        ({"containers": [container("a", "0", "0")]}, Tier.BESTEFFORT),
        ({"containers": [container("a", "1m")]}, Tier.BURSTABLE),
        ({"containers": [limited("a", "1", "1Gi")]}, Tier.GUARANTEED),
        ({"containers": [limited("a", "1", "1Gi"), {"name": "b"}]}, Tier.BURSTABLE),
        ({"containers": [limited("a", "1", None)]}, Tier.BURSTABLE),
        ({"containers": [limited("a", "0", "0")]}, Tier.BESTEFFORT),
        (
            {"resources": {"limits": {"cpu": 1, "memory": "1Gi"}}, "containers": [{"name": "a"}]},
            Tier.GUARANTEED,
        ),
    ],
)
def test_the_class_follows_from_the_spec(spec: object, tier: Tier) -> None:
    assert read_pod(pod(spec), "p").tier is tier


@pytest.mark.parametrize(
    ("name", "tier"),
    [
        ("Guaranteed", Tier.GUARANTEED),
        ("Burstable", Tier.BURSTABLE),
        ("BestEffort", Tier.BESTEFFORT),
    ],
)
def test_the_status_beats_the_spec(name: str, tier: Tier) -> None:
    spec = {"containers": [container("a", "1m")]}
    assert read_pod(pod(spec, {"qosClass": name}), "p").tier is tier
    assert read_pod(pod(spec, {"qosClass": ""}), "p").tier is Tier.BURSTABLE


@pytest.mark.parametrize(
    ("resources", "requests", "limits"),
    [
        (None, Requests(), Limits()),
        ({}, Requests(), Limits()),
        ({"limits": {"cpu": "500m"}}, Requests(MilliCpu(500)), Limits(MilliCpu(500))),
        (
            {"limits": {"memory": "1Ki"}, "requests": {"cpu": "1"}},
            Requests(MilliCpu(1000), Bytes(1024)),
            Limits(UNLIMITED, Bytes(1024)),
        ),
        # An explicit zero request stays zero; a zero limit is none.
        ({"limits": {"cpu": "1"}, "requests": {"cpu": "0"}}, Requests(), Limits(MilliCpu(1000))),
        ({"limits": {"cpu": "0"}, "requests": {"cpu": "1m"}}, Requests(MilliCpu(1)), Limits()),
        ({"limits": {"kubernetes.io/batch-cpu": "500"}}, Requests(), Limits()),
    ],
)
def test_requests_default_to_limits(resources: object, requests: Requests, limits: Limits) -> None:
    made = read_pod(pod({"containers": [{"name": "a", "resources": resources}]}), "p")
    only = made.resources.containers[0]
    assert (only.requests, only.limits) == (requests, limits)


@pytest.mark.parametrize("listed", ["initContainers", "containers", "ephemeralContainers"])
def test_containers_of_every_kind_know_their_extended_resources(listed: str) -> None:
    resources = {
        "requests": {BATCH_CPU: "500", "cpu": "1m"},
        "limits": {BATCH_CPU: 1000, BATCH_MEMORY: "1Gi"},
    }
    made = read_pod(pod({listed: [{"name": "a", "resources": resources}]}), "p")
    only = made.resources.containers[0]
    assert only.extended_requests == {BATCH_CPU: 500, BATCH_MEMORY: 2**30}
    assert only.extended_limits == {BATCH_CPU: 1000, BATCH_MEMORY: 2**30}
    assert (only.requests, only.limits) == (Requests(MilliCpu(1)), Limits())


def test_extended_resources_make_no_class() -> None:
    """So the kubelet puts a batch pod into the best-effort tier."""
    limits = {BATCH_CPU: "500", BATCH_MEMORY: "1Gi"}
    made = read_pod(pod({"containers": [{"name": "a", "resources": {"limits": limits}}]}), "p")
    assert made.tier is Tier.BESTEFFORT
    assert pod_requests(made.resources) == Requests()


@pytest.mark.parametrize("resources", [None, {}, {"limits": {"cpu": 1}, "requests": {"cpu": 1}}])
def test_most_containers_share_one_empty_mapping(resources: object) -> None:
    made = read_pod(pod({"containers": [{"name": "a", "resources": resources}]}), "p")
    only = made.resources.containers[0]
    assert only.extended_requests is only.extended_limits is NO_AMOUNTS


def test_a_bad_extended_amount_leaves_the_pod_readable() -> None:
    bad = {"name": "a", "resources": {"limits": {BATCH_CPU: "200m", BATCH_MEMORY: "1Ki"}}}
    good = {"name": "b", "resources": {"limits": {BATCH_CPU: "200"}}}
    first, second = read_pod(pod({"containers": [bad, good]}), "p").resources.containers
    told = Gap(
        "p: Pod default/web: spec.containers[0].resources.limits['kubernetes.io/batch-cpu'] is "
        "'200m', but must be a whole number of milliCPU, zero or more, such as 200"
    )
    assert first.extended_limits == first.extended_requests == {BATCH_CPU: told, BATCH_MEMORY: 1024}
    assert second.extended_limits == {BATCH_CPU: 200}


@pytest.mark.parametrize("policy", [None, "", "Never", "OnFailure"])
def test_only_always_makes_a_sidecar(policy: object) -> None:
    made = read_pod(pod({"initContainers": [{"name": "i", "restartPolicy": policy}]}), "p")
    assert made.resources.containers[0].kind is ContainerKind.INIT


def test_restart_policy_of_a_main_container_makes_no_sidecar() -> None:
    made = read_pod(pod({"containers": [{"name": "i", "restartPolicy": "Always"}]}), "p")
    assert made.resources.containers[0].kind is ContainerKind.MAIN


@pytest.mark.parametrize(
    ("owners", "node"),
    [
        ([{"kind": "Node", "name": "n", "uid": "u", "controller": True}], ("n", "u")),
        ([{"kind": "Node", "name": "n", "uid": "u"}], ("", "")),
        ([{"kind": "Job", "name": "n", "uid": "u", "controller": True}], ("", "")),
        ([{}, {"kind": "Node", "name": "n", "controller": True}], ("n", "")),
        ([], ("", "")),
        (None, ("", "")),
    ],
)
def test_a_mirror_annotation_is_a_claim(owners: object, node: tuple[str, str]) -> None:
    """Until the node that runs the pod confirms it, the pod is itself."""
    annotations = {MIRROR: "0123456789abcdef0123456789abcdef"}
    made = read_pod(pod(uid=UID, annotations=annotations, ownerReferences=owners), "p")
    assert (made.uid, made.cgroup_uid) == (UID, UID)
    assert made.mirror == MirrorClaim("0123456789abcdef0123456789abcdef", *node)


def test_owners_are_read_of_mirrors_only() -> None:
    assert read_pod(pod(ownerReferences="odd"), "p").mirror is None


@pytest.mark.parametrize("value", ["2026-01-01T00:00:00Z", 5, object()])
def test_any_deletion_timestamp_is_terminating(value: object) -> None:
    """YAML makes a datetime of it, JSON a text: both say the same."""
    assert read_pod(pod(deletionTimestamp=value), "p").terminating


@pytest.mark.parametrize(
    ("phase", "finished"), [("Succeeded", True), ("Failed", True), ("Running", False), ("", False)]
)
def test_finished(phase: str, finished: bool) -> None:
    assert read_pod(pod(status={"phase": phase}), "p").is_finished() is finished


@pytest.mark.parametrize(
    ("document", "end"),
    [
        (pod(uid=None), "metadata.uid is missing, but must be a pod's uid: at most 63 "),
        (pod(uid="../.."), "metadata.uid is '../..', but must be a pod's uid"),
        (pod(uid="UPPER"), "metadata.uid is 'UPPER', but must be a pod's uid"),
        (pod(uid="a" * 64), "metadata.uid is 'aaa"),
        (pod(uid=5), "metadata.uid is 5, but must be a text"),
        (
            pod(annotations={MIRROR: "x"}, ownerReferences=["odd"]),
            "metadata.ownerReferences[0] is 'odd', but must be a mapping",
        ),
        (
            pod(
                annotations={MIRROR: "x"}, ownerReferences=[{"kind": "Node", "controller": "true"}]
            ),
            "metadata.ownerReferences[0].controller is 'true', but must be true or false",
        ),
        (pod([]), "spec is a list, but must be a mapping"),
        (pod({"nodeName": 5}), "spec.nodeName is 5, but must be a text"),
        (pod({"priority": "high"}), "spec.priority is 'high', but must be a whole number"),
        (pod({"containers": {}}), "spec.containers is a mapping, but must be a list"),
        (pod({"containers": [{}]}), "spec.containers[0].name is missing, but must be the contain"),
        (
            pod({"containers": [container("a", "abc")]}),
            "spec.containers[0].resources.requests.cpu is 'abc', but must be a quantity such as ",
        ),
        (
            pod({"initContainers": [{"name": "a"}, container("b", None, "-1")]}),
            "spec.initContainers[1].resources.requests.memory is '-1', but must be a quantity from",
        ),
        (
            pod(
                {
                    "containers": [
                        {
                            "name": "a",
                            "resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}},
                        }
                    ]
                }
            ),
            "spec.containers[0].resources.requests.cpu is 2, but must be at most the limit, which ",
        ),
        (
            pod(
                {
                    "containers": [
                        {
                            "name": "a",
                            "resources": {"requests": {"memory": 2}, "limits": {"memory": 1}},
                        }
                    ]
                }
            ),
            "spec.containers[0].resources.requests.memory is 2, but must be at most the limit, wh",
        ),
        (pod({"overhead": {"cpu": []}}), "spec.overhead.cpu is a list, but must be a quantity"),
        (pod({"resources": 5}), "spec.resources is 5, but must be a mapping"),
        (pod(status=5), "status is 5, but must be a mapping"),
        (pod(status={"phase": "Up"}), "status.phase is 'Up', but must be one of Pending, Running"),
        (
            pod(status={"qosClass": "BE"}),
            "status.qosClass is 'BE', but must be one of Guaranteed, Burstable, BestEffort",
        ),
        (
            pod(status={"containerStatuses": [{"name": "a", "containerID": 5}]}),
            "status.containerStatuses[0].containerID is 5, but must be a text",
        ),
    ],
)
def test_bad_pods_are_named(document: object, end: str) -> None:
    with pytest.raises(InvalidError) as caught:
        read_pod(document, "pods/web.yaml")
    assert str(caught.value).removeprefix("pods/web.yaml: Pod default/web: ").startswith(end)


@given(shaped(POD_KEYS))
def test_any_document_is_a_pod_or_refused(document: object) -> None:
    try:
        read_pod(document, "p")
    except InvalidError as error:
        assert str(error).isprintable()


@given(shaped(POD_KEYS), shaped(POD_KEYS), ANYTHING)
def test_any_pod_reads_or_is_refused(spec: object, status: object, annotations: object) -> None:
    try:
        made = read_pod(pod(spec, status, annotations=annotations), "p")
    except InvalidError as error:
        assert str(error).startswith("p: Pod default/web") or "a key of p: Pod" in str(error)
    else:
        assert pod_requests(made.resources).cpu >= 0


@pytest.mark.parametrize(
    ("status", "metadata", "started"),
    [
        ({"startTime": "1970-01-01T00:00:01Z"}, {}, 1),
        (
            {"startTime": "2026-11-18T03:53:23Z"},
            {"creationTimestamp": "2026-11-18T00:00:00Z"},
            1794974003,
        ),
        ({}, {"creationTimestamp": "2000-02-29T23:59:59Z"}, 951868799),
        ({}, {"creationTimestamp": None}, None),
        ({"startTime": dt.datetime(2100, 3, 1, tzinfo=dt.UTC)}, {}, 4107542400),  # as YAML has it
        ({}, {}, None),
    ],
)
def test_a_pod_started_when_its_node_took_it(
    status: object, metadata: dict[str, object], started: int | None
) -> None:
    assert read_pod(pod({}, status, **metadata), "p").started == started


@given(st.integers(0, 253402300799))
def test_every_time_reads_as_the_library_reads_it(seconds: int) -> None:
    written = dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat().replace("+00:00", "Z")
    assert read_pod(pod({}, {"startTime": written}), "p").started == seconds


@pytest.mark.parametrize(
    "stated",
    [7, "yesterday", "2026-13-01T00:00:00Z", "2026-02-29T00:00:00Z", "2026-01-01T24:00:00Z",
     "1969-12-31T00:00:00Z", "2026-01-01T00:00:00+02:00"],
)  # fmt: skip
def test_a_time_that_is_none_is_refused(stated: object) -> None:
    with pytest.raises(InvalidError, match=r"status\.startTime is .*, but must be a time of UTC"):
        read_pod(pod({}, {"startTime": stated}), "p")


def test_where_a_pod_can_be_reached() -> None:
    def ports(*pairs: tuple[str, int]) -> list[dict[str, object]]:
        return [{"name": name, "containerPort": number} for name, number in pairs]

    spec = {
        "initContainers": [{"name": "mesh", "ports": ports(("admin", 15000))}],
        "containers": [
            {"name": "app", "ports": [*ports(("web", 80)), {"containerPort": 81}]},
            {"name": "other", "ports": ports(("web", 8080), ("metrics", 9090))},
        ],
        "ephemeralContainers": [{"name": "debug", "ports": ports(("debug", 1))}],
        "priorityClassName": "batch",
    }
    made = read_pod(pod(spec, {"podIP": "10.0.0.7"}), "p")
    assert (made.address, made.priority_class) == ("10.0.0.7", "batch")
    assert made.ports == {"admin": 15000, "web": 80, "metrics": 9090, "debug": 1}


@pytest.mark.parametrize("number", [0, 65536, -1, "80", True])
def test_a_port_that_is_none_is_refused(number: object) -> None:
    spec = {"containers": [{"name": "a", "ports": [{"name": "web", "containerPort": number}]}]}
    with pytest.raises(InvalidError, match=r"spec\.containers\[0\]\.ports\[0\]\.containerPort is"):
        read_pod(pod(spec), "p")
