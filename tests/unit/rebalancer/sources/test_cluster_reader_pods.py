"""Pods of a workload by the owner chain, and what is kept of them."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.decoding import decode_struct, parse_bool
from slackwater.contract.kubernetes_pod import MIRROR
from slackwater.contract.label_selector import LabelSelector, parse_selector
from slackwater.contract.workload_objects import OwnedPod, ScaledWorkload
from slackwater.model.gap import Gap
from slackwater.model.problem import InvalidError
from slackwater.rebalancer.observed import ContainerAmounts, Cores, PodUsage
from slackwater.rebalancer.sources.cluster_reader import (
    EVICT,
    PREFER_NO_EVICTION,
    ROTATE,
    group_by_controller,
    pod_held_back,
    pods_owned_by,
    read_pod,
    select_pods,
    workload_opted_out,
)
from tests.unit.contract.served import (
    Object,
    cpu,
    deployment,
    owned_pod,
    replica_set,
    stateful_set,
)

WEB, OTHER = deployment("web"), deployment("other")
SETS = [replica_set("web-1", WEB), replica_set("web-2", WEB), replica_set("other-1", OTHER)]
#: 2026-11-17T10:00:00Z.
TEN = 1794909600.0


def pods(*documents: Object) -> list[OwnedPod]:
    return [decode_struct(msgspec.json.encode(each), OwnedPod, "pod") for each in documents]


def sets() -> dict[str, list[ScaledWorkload]]:
    every = [decode_struct(msgspec.json.encode(each), ScaledWorkload, "set") for each in SETS]
    return group_by_controller(every)


def owned(uid: str, *documents: Object) -> list[str]:
    found = pods_owned_by(uid, group_by_controller(pods(*documents)), sets())
    return [each.metadata.name for each in found]


def test_a_deployments_pods_are_its_replica_sets() -> None:
    every = (
        owned_pod("a", SETS[0]),
        owned_pod("b", SETS[1]),
        owned_pod("c", SETS[2]),
        owned_pod("bare"),
        owned_pod("d", {"kind": "DaemonSet", "metadata": {"name": "web", "uid": "uid-ds"}}),
        owned_pod("e", {"kind": "Node", "metadata": {"name": "n1", "uid": "n1"}}),
    )
    assert owned("uid-web", *every) == ["a", "b"]
    assert owned("uid-other", *every) == ["c"]
    assert owned("uid-nobody", *every) == []


def test_by_uid_and_not_by_name() -> None:
    """A ReplicaSet that was deleted and made again has its name and another uid."""
    past = replica_set("web-1", WEB)
    past["metadata"]["uid"] = "uid-of-the-past"
    assert owned("uid-web", owned_pod("a", past)) == []


def test_a_stateful_sets_and_a_replica_sets_pods_are_their_own() -> None:
    every = (owned_pod("db-0", stateful_set("db")), owned_pod("a", SETS[0]))
    assert owned("uid-db", *every) == ["db-0"]
    assert owned("uid-web-1", *every) == ["a"]


@pytest.mark.parametrize(
    ("phase", "counts"), [("Running", 1), ("Pending", 1), ("Failed", 0), ("Succeeded", 0)]
)
def test_finished_pods_are_no_pods(phase: str, counts: int) -> None:
    assert len(owned("uid-web", owned_pod("a", SETS[0], status={"phase": phase}))) == counts


def test_pods_without_a_controller_are_nobodys_even_where_uids_are_empty() -> None:
    assert owned("", owned_pod("bare")) == []


def test_what_is_kept_of_a_pod() -> None:
    spec = {
        "nodeName": "n7",
        "initContainers": [cpu("mesh", "100m", restartPolicy="Always"), cpu("setup", "2")],
        "containers": [cpu("web", "1", "2"), cpu("log")],
    }
    [pod] = pods(owned_pod("web-1-a", SETS[0], spec=spec))
    assert read_pod(pod) == PodUsage(
        name="web-1-a",
        uid="uid-web-1-a",
        node="n7",
        started=TEN,
        containers=(
            ContainerAmounts("mesh", Cores(0.1), Gap("container mesh has no CPU limit")),
            ContainerAmounts("web", Cores(1.0), Cores(2.0)),
            ContainerAmounts(
                "log",
                Gap("container log has no CPU request"),
                Gap("container log has no CPU limit"),
            ),
        ),
    )


@pytest.mark.parametrize(
    ("more", "field", "value"),
    [
        ({"status": {"phase": "Pending", "startTime": None}}, "running", False),
        ({"status": {"conditions": []}}, "ready", False),
        ({"deletionTimestamp": "2026-11-17T11:00:00Z"}, "terminating", True),
        (
            {"annotations": {"slackwater.io/rotate": "false"}},
            "held_back",
            "its annotation slackwater.io/rotate is 'false'",
        ),
        ({"status": {"startTime": "2026-11-17T10:00:30+00:00"}}, "started", TEN + 30),
        ({"status": {"startTime": None}}, "started", TEN),
    ],
)
def test_states_of_a_pod(more: dict[str, Any], field: str, value: object) -> None:
    [pod] = pods(owned_pod("a", SETS[0], **more))
    assert getattr(read_pod(pod), field) == value


@pytest.mark.parametrize(
    ("started", "told"),
    [
        ("today", "Pod shop/a: status.startTime is 'today', but must be a time such as "),
        ("2026-13-17T10:00:00Z", "Pod shop/a: status.startTime is '2026-13-17T10:00:00Z', but "),
    ],
)
def test_a_time_that_is_none_is_one_sentence(started: str, told: str) -> None:
    [pod] = pods(owned_pod("a", status={"startTime": started}))
    with pytest.raises(InvalidError) as caught:
        read_pod(pod)
    assert str(caught.value).startswith(told)


def test_a_pod_without_any_time_is_one_sentence() -> None:
    made = owned_pod("a", status={"startTime": None})
    del made["metadata"]["creationTimestamp"]
    with pytest.raises(InvalidError, match=r"metadata\.creationTimestamp is missing, but"):
        read_pod(pods(made)[0])


@pytest.mark.parametrize(
    ("resources", "whole"),
    [
        ({}, None),
        (
            {"requests": {"cpu": "3"}},
            ContainerAmounts("", Cores(3.0), Gap("the pod itself has no CPU limit")),
        ),
        ({"limits": {"cpu": "4"}}, ContainerAmounts("", Cores(4.0), Cores(4.0))),
    ],
)
def test_what_a_pod_states_for_itself(
    resources: dict[str, Any], whole: ContainerAmounts | None
) -> None:
    [pod] = pods(owned_pod("a", spec={"resources": resources}))
    assert read_pod(pod).pod_level == whole


def test_the_selector_narrows() -> None:
    found = pods(owned_pod("a", labels={"app": "web"}), owned_pod("b", labels={"app": "x"}))
    assert len(select_pods(found, LabelSelector())) == 2
    [only] = select_pods(found, parse_selector("app=web", "s"))
    assert only.name == "a"


@given(st.lists(st.sampled_from([0, 1, 2]), max_size=12))
def test_every_pod_is_one_workloads(owners: list[int]) -> None:
    every = [owned_pod(f"p{turn}", SETS[owner]) for turn, owner in enumerate(owners)]
    web, other = owned("uid-web", *every), owned("uid-other", *every)
    assert sorted(web + other) == sorted(each["metadata"]["name"] for each in every)
    assert not set(web) & set(other)


BAD = (
    "its annotation slackwater.io/rotate is 'no', but must be true or false (1, t, T, TRUE and "
    "True are true, their opposites false)"
)


@pytest.mark.parametrize(
    ("annotations", "told"),
    [
        ({}, ""),
        ({"other": "false"}, ""),
        ({ROTATE: "true"}, ""),
        ({ROTATE: "1"}, ""),
        ({ROTATE: "false"}, "its annotation slackwater.io/rotate is 'false'"),
        ({ROTATE: "F"}, "its annotation slackwater.io/rotate is 'F'"),
        ({ROTATE: "no"}, BAD),
        # The descheduler's are the pods' alone.
        ({PREFER_NO_EVICTION: ""}, ""),
        ({EVICT: "false"}, ""),
    ],
)
def test_workloads(annotations: dict[str, str], told: str) -> None:
    assert workload_opted_out(annotations) == told


@pytest.mark.parametrize(
    ("annotations", "told"),
    [
        ({}, ""),
        ({ROTATE: "true"}, ""),
        ({ROTATE: "false"}, "its annotation slackwater.io/rotate is 'false'"),
        ({ROTATE: "no"}, BAD),
        ({PREFER_NO_EVICTION: ""}, f"it has the annotation {PREFER_NO_EVICTION}"),
        # It is there: its value does not count.
        ({PREFER_NO_EVICTION: "false"}, f"it has the annotation {PREFER_NO_EVICTION}"),
        ({EVICT: "false"}, f"its annotation {EVICT} is 'false'"),
        # Its presence means that the pod may go, whatever it says.
        ({EVICT: "true"}, ""),
        ({EVICT: ""}, ""),
        ({EVICT: "whatever"}, ""),
        ({ROTATE: "true", EVICT: "false"}, f"its annotation {EVICT} is 'false'"),
        ({MIRROR: "x"}, "it is a static pod, which its node alone decides on"),
    ],
)
def test_pods(annotations: dict[str, str], told: str) -> None:
    made = owned_pod("a", replica_set("web-1"), annotations=annotations)
    assert pod_held_back(msgspec.convert(made, OwnedPod)) == told


@given(st.text(max_size=200))
def test_only_true_lets_go(value: str) -> None:
    told = workload_opted_out({ROTATE: value})
    assert (told == "") is (parse_bool(value) is True)
    assert "\n" not in told
