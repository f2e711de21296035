"""Pods and groups, matched: who is whose, by which words, and what a pod asks for."""

from collections.abc import Mapping
from typing import Any

import pytest

from slackwater.contract.kubernetes_pod import Pod, read_pod
from slackwater.model.cgroup import CgroupRef, Level, Tier
from slackwater.model.gap import Gap
from slackwater.model.units import UNLIMITED, Micros
from slackwater.model.workload import BurstRequest, MemoryRatios, Workload, WorkloadContainer
from slackwater.observation.objects.workload_matching import Matching, workloads_of

UID = "8f0c1d2e-0000-4000-8000-000000000001"
A, B, C = "a" * 64, "b" * 64, "c" * 64
CPU = "kubernetes.io/batch-cpu"
POD = CgroupRef(f"kubepods/besteffort/pod{UID}", 10, Level.POD, Tier.BESTEFFORT, UID)


def inside(number: int, name: str, uid: str = UID) -> CgroupRef:
    return CgroupRef(f"{POD.path}/{name}", 10 + number, Level.CONTAINER, Tier.BESTEFFORT, uid)


def container(name: str, **resources: Mapping[str, str]) -> dict[str, Any]:
    return {"name": name, "resources": resources}


def pod(*containers: dict[str, Any], status: Mapping[str, Any] | None = None, **more: Any) -> Pod:
    """`more` is of the spec, but annotations."""
    metadata = {"name": "job", "uid": UID, "annotations": more.pop("annotations", {})}
    document = {
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": list(containers), **more},
        "status": status or {},
    }
    return read_pod(document, "a test")


def ids(**of: str) -> list[dict[str, str]]:
    return [{"name": name, "containerID": identity} for name, identity in of.items()]


def only(pods: tuple[Pod, ...], *refs: CgroupRef) -> Workload:
    [found] = workloads_of(pods, refs)
    return found


def refs_of(workload: Workload) -> list[str | None]:
    return [
        each.ref.path if isinstance(each.ref, CgroupRef) else None for each in workload.containers
    ]


@pytest.mark.parametrize(
    ("identity", "directory"),
    [
        (f"containerd://{A}", A),
        (f"docker://{A}", A),
        (f"cri-o://{A}", f"crio-{A}"),
        (f"containerd://{A}", f"cri-containerd-{A}.scope"),
        (A, A),
    ],
)
def test_a_container_is_found_by_its_id(identity: str, directory: str) -> None:
    """facts row 43, and systemd's names."""
    status = {"phase": "Running", "containerStatuses": ids(main=identity)}
    found = only((pod(container("main"), status=status),), POD, inside(1, directory))
    assert refs_of(found) == [f"{POD.path}/{directory}"]
    assert (found.ref, found.tier) == (POD, Tier.BESTEFFORT)


def test_every_kind_of_container_is_there() -> None:
    status = {
        "phase": "Running",
        "initContainerStatuses": ids(first=A, beside=B),
        "ephemeralContainerStatuses": ids(look=C),
    }
    made = pod(
        container("main"),
        status=status,
        initContainers=[container("first"), container("beside") | {"restartPolicy": "Always"}],
        ephemeralContainers=[container("look")],
    )
    found = only((made,), POD, *(inside(n, each) for n, each in enumerate((A, B, C), 1)))
    assert [each.name for each in found.containers] == ["first", "beside", "main", "look"]
    assert refs_of(found) == [f"{POD.path}/{A}", f"{POD.path}/{B}", None, f"{POD.path}/{C}"]


def test_an_id_whose_group_is_gone_or_anothers_is_no_group() -> None:
    """Never the pod's own group, and never a stranger's."""
    status = {"phase": "Running", "containerStatuses": ids(main=A)}
    stranger = inside(1, A, uid="another")
    found = only((pod(container("main"), status=status),), POD, stranger, inside(2, B))
    assert [each.ref for each in found.containers] == [Gap("its cgroup is not there")]


@pytest.mark.parametrize(
    ("status", "containers", "groups", "matched"),
    [
        ({}, 1, [A], [f"{POD.path}/{A}"]),  # written by hand: there is only one
        ({}, 1, [A, B], [None]),
        ({}, 2, [A, B], [None, None]),
        ({}, 1, [], [None]),
        ({"phase": "Pending"}, 1, [A], [None]),  # a lone group is the sandbox's
        ({"phase": "Running"}, 1, [A], [None]),
    ],
)
def test_without_ids_only_what_is_certain_is_matched(
    status: dict[str, str], containers: int, groups: list[str], matched: list[str | None]
) -> None:
    made = pod(*(container(f"c{n}") for n in range(containers)), status=status)
    found = only((made,), POD, *(inside(n, each) for n, each in enumerate(groups, 1)))
    assert refs_of(found) == matched


def test_what_is_not_certain_is_said() -> None:
    found = only((pod(container("a"), container("b")),), POD, inside(1, A), inside(2, B))
    [gap, _] = [each.ref for each in found.containers]
    assert isinstance(gap, Gap)
    assert "does not say which of its cgroups" in gap.reason


def test_amounts_of_each_container_and_of_the_pod() -> None:
    made = pod(
        container(
            "main",
            requests={"cpu": "250m", "memory": "1Gi", CPU: "400"},
            limits={"memory": "2Gi", CPU: "500"},
        ),
        container("side", limits={CPU: "100"}),
    )
    found = only((made,), POD)
    [main, side] = found.containers
    assert (main.request, main.limit) == (250, UNLIMITED)
    assert (main.memory_request, main.memory_limit) == (2**30, 2**31)
    assert (main.extended_requests, main.extended_limits) == ({CPU: 400}, {CPU: 500})
    assert found.own_limit is UNLIMITED
    assert side.extended_requests == {CPU: 100}  # as SetDefaults_Pod fills it in
    assert (found.extended_requests, found.extended_limits) == ({CPU: 500}, {CPU: 600})


def test_a_pods_own_limit() -> None:
    made = pod(container("main"), resources={"limits": {"cpu": "2"}})
    found = only((made,), POD)
    assert found.own_limit == 2000
    assert [each.limit for each in found.containers] == [UNLIMITED]


@pytest.mark.parametrize(
    ("annotations", "level", "burst", "ratios"),
    [
        ({}, 0, None, None),
        ({"volcano.sh/qos-level": "BE"}, -1, None, None),
        ({"volcano.sh/qos-level": "LC"}, 2, None, None),
        ({"volcano.sh/enable-quota-burst": "true"}, 0, BurstRequest(), None),
        (
            {"volcano.sh/enable-quota-burst": "1", "volcano.sh/quota-burst-time": "5000"},
            0,
            BurstRequest(Micros(5000)),
            None,
        ),
        ({"volcano.sh/quota-burst-time": "5000"}, 0, None, None),
        ({"volcano.sh/colocation-config": "{}"}, 0, None, MemoryRatios()),
        (
            {"volcano.sh/colocation-config": '{"memoryQos": {"highRatio": 7, "minRatio": 3}}'},
            0,
            None,
            MemoryRatios(7, 0, 3),
        ),
    ],
)
def test_words(annotations: dict[str, str], level: int, burst: Any, ratios: Any) -> None:
    found = only((pod(annotations=annotations),), POD)
    assert (found.qos_level, found.burst, found.memory_ratios) == (level, burst, ratios)


@pytest.mark.parametrize(
    ("key", "word"),
    [
        ("volcano.sh/qos-level", "GOLD"),
        ("volcano.sh/enable-quota-burst", "perhaps"),
        ("volcano.sh/colocation-config", "{invalid}"),
        ("volcano.sh/colocation-config", '{"memoryQos": {"highRatio": 101}}'),
    ],
)
def test_a_bad_word_is_a_gap_that_names_its_key(key: str, word: str) -> None:
    found = only((pod(annotations={key: word}),), POD)
    gaps = [
        each
        for each in (found.qos_level, found.burst, found.memory_ratios)
        if isinstance(each, Gap)
    ]
    assert len(gaps) == 1
    assert key in gaps[0].reason


@pytest.mark.parametrize("time", ["abc", "-1", "99999999999999999999", "1.5"])
def test_a_bad_time_bursts_by_the_quota_and_complains(time: str) -> None:
    said = {"volcano.sh/enable-quota-burst": "true", "volcano.sh/quota-burst-time": time}
    found = only((pod(annotations=said),), POD).burst
    assert isinstance(found, BurstRequest)
    assert found.time is None
    assert time in found.complaint


def test_groups_without_objects_and_objects_without_groups() -> None:
    stray = CgroupRef("kubepods/podx", 30, Level.POD, Tier.GUARANTEED, "x")
    absent, found = workloads_of((pod(container("main")),), (stray,))
    assert absent.ref == Gap("its cgroup is not there")
    assert absent.tier is Tier.BESTEFFORT
    assert found == Workload("x", "x", "", Tier.GUARANTEED, stray)


def test_a_finished_pod_is_neither_known_nor_a_stray() -> None:
    assert workloads_of((pod(status={"phase": "Succeeded"}),), (POD,)) == ()


def test_the_same_match_while_nothing_changed() -> None:
    matching, pods, refs = Matching(), (pod(container("main")),), (POD,)
    first = matching.match(pods, refs)
    assert matching.match(pods, refs) is first
    assert matching.match(pods, (POD, inside(1, A))) is not first
    assert matching.match((), refs) != first


def test_a_container_is_named_for_people() -> None:
    found = only((pod(container("main")),), POD)
    assert found.title() == "default/job"
    assert isinstance(found.containers[0], WorkloadContainer)


def test_what_a_choice_among_pods_needs() -> None:
    made = pod(
        {**container("main"), "ports": [{"name": "metrics", "containerPort": 9090}]},
        status={"phase": "Running", "startTime": "2026-11-18T03:53:23Z", "podIP": "10.0.0.7"},
        annotations={"slackwater.io/exempt": "true"},
    )
    found = only((made,), POD)
    assert (found.started, found.terminating, found.protected) == (1794974003, False, "exempt")
    assert (found.address, found.ports) == ("10.0.0.7", {"metrics": 9090})
    plain = only((pod(container("main")),), POD)
    assert (plain.started, plain.protected, plain.address, plain.ports) == (None, "", "", {})
    ending = {"name": "job", "uid": UID, "deletionTimestamp": "2026-11-18T03:53:23Z"}
    assert only((read_pod({"kind": "Pod", "metadata": ending}, "p"),), POD).terminating
