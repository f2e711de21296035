"""Pods as a rotation sees them."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.decoding import decode_struct
from slackwater.contract.kubernetes_pod import MIRROR
from slackwater.contract.owned_pod import Amount, OwnedPod, began, cores_of, pod_cores_of
from slackwater.model.gap import Gap
from slackwater.model.problem import InvalidError
from tests.unit.contract.served import BEGAN, cpu, owned_pod, replica_set


def read(document: dict[str, Any]) -> OwnedPod:
    return decode_struct(msgspec.json.encode(document), OwnedPod, "pod")


def amounts(container: dict[str, Any]) -> tuple[float | Gap, float | Gap]:
    pod = read(owned_pod("a", spec={"containers": [container]}))
    [only] = pod.staying()
    return cores_of(pod, only, Amount.REQUEST), cores_of(pod, only, Amount.LIMIT)


def test_a_whole_pod() -> None:
    pod = read(owned_pod("web-1-a", replica_set("web-1"), labels={"app": "web"}))
    assert (pod.source, pod.spec.node_name) == ("Pod shop/web-1-a", "n1")
    assert pod.metadata.controller is not None
    assert (pod.metadata.controller.kind, pod.metadata.controller.uid) == (
        "ReplicaSet",
        "uid-web-1",
    )
    assert (pod.is_running(), pod.is_ready(), pod.is_finished(), pod.is_static()) == (
        True,
        True,
        False,
        False,
    )


def test_an_owner_that_is_no_controller_replaces_nothing() -> None:
    made = owned_pod("a", replica_set("web-1"))
    made["metadata"]["ownerReferences"][0]["controller"] = False
    assert read(made).metadata.controller is None


@pytest.mark.parametrize(
    ("status", "running", "ready", "finished"),
    [
        ({"phase": "Pending", "conditions": []}, False, False, False),
        ({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}, True, False,
         False),
        ({"phase": "Running", "conditions": [{"type": "Initialized", "status": "True"}]}, True,
         False, False),
        ({"phase": "Succeeded", "conditions": []}, False, False, True),
        ({"phase": "Failed", "conditions": []}, False, False, True),
        ({"phase": "", "conditions": None}, False, False, False),
    ],
)  # fmt: skip
def test_states(status: dict[str, Any], running: bool, ready: bool, finished: bool) -> None:
    pod = read(owned_pod("a", status=status))
    assert (pod.is_running(), pod.is_ready(), pod.is_finished()) == (running, ready, finished)


def test_a_mirror_of_a_static_pod() -> None:
    assert read(owned_pod("a", annotations={MIRROR: "x"})).is_static()


def test_which_containers_stay() -> None:
    spec = {
        "initContainers": [
            cpu("setup", "4"),
            cpu("mesh", "100m", restartPolicy="Always"),
            cpu("odd", "1", restartPolicy="OnFailure"),
        ],
        "containers": [cpu("web", "1"), cpu("log", "50m")],
        "ephemeralContainers": [cpu("debug", "1")],
    }
    pod = read(owned_pod("a", spec=spec))
    assert [each.name for each in pod.staying()] == ["mesh", "web", "log"]


@pytest.mark.parametrize(
    ("request_", "limit", "cores", "most"),
    [
        ("250m", "2", 0.25, 2.0),
        ("1", "", 1.0, None),
        ("", "1500m", 1.5, 1.5),
        ("", "", None, None),
        # The HPA counts a zero that is stated; without limits nothing stands in for it.
        ("0", "1", 0.0, 1.0),
        ("", "0", 0.0, None),
        ("1", "0", 1.0, None),
        ("100u", "", 0.0001, None),
        ("1e3", "", 1000.0, None),
    ],
)
def test_what_a_container_asks_for(
    request_: str, limit: str, cores: float | None, most: float | None
) -> None:
    asked, allowed = amounts(cpu("web", request_, limit))
    assert (None if isinstance(asked, Gap) else asked) == cores
    assert (None if isinstance(allowed, Gap) else allowed) == most
    if isinstance(asked, Gap):
        assert asked.reason == "container web has no CPU request"
    if isinstance(allowed, Gap):
        assert allowed.reason == "container web has no CPU limit"


@pytest.mark.parametrize(
    ("resources", "cores", "most"),
    [
        (None, None, None),
        ({}, None, None),
        ({"requests": {"cpu": "3"}}, 3.0, None),
        ({"requests": {"cpu": "3"}, "limits": {"cpu": "4"}}, 3.0, 4.0),
        ({"limits": {"cpu": "4"}}, 4.0, 4.0),
        ({"requests": {"memory": "1Gi"}}, None, None),
    ],
)
def test_what_a_pod_states_for_itself(
    resources: dict[str, Any] | None, cores: float | None, most: float | None
) -> None:
    pod = read(owned_pod("a", spec={"resources": resources}))
    asked, allowed = pod_cores_of(pod, Amount.REQUEST), pod_cores_of(pod, Amount.LIMIT)
    assert (None if isinstance(asked, Gap) else asked) == cores
    assert (None if isinstance(allowed, Gap) else allowed) == most


def test_what_a_pod_states_wrongly_is_one_sentence() -> None:
    pod = read(owned_pod("a", spec={"resources": {"requests": {"cpu": "?"}}}))
    with pytest.raises(InvalidError, match=r"^Pod shop/a: spec\.resources\.requests\.cpu is '\?'"):
        pod_cores_of(pod, Amount.REQUEST)


@pytest.mark.parametrize("bad", ["-1", "lots", "1e99", "1" * 70, "1 m", "0x10", "NaN"])
def test_amounts_that_are_none_are_one_sentence(bad: str) -> None:
    with pytest.raises(InvalidError) as caught:
        amounts(cpu("web", bad))
    told = str(caught.value)
    assert told.startswith("Pod shop/a: container web: resources.requests.cpu is '")
    assert told.endswith(", but must be a quantity such as 250m or 2, zero or more")
    assert "\n" not in told


@given(st.integers(1, 10**6))
def test_milli_cpus_become_cores(milli: int) -> None:
    assert amounts(cpu("web", f"{milli}m"))[0] == pytest.approx(milli / 1000)


@pytest.mark.parametrize(
    ("status", "created", "path", "value"),
    [
        ({}, "2026-11-17T09:00:00Z", "status.startTime", BEGAN),
        ({"startTime": None}, "2026-11-17T09:00:00Z", "metadata.creationTimestamp",
         "2026-11-17T09:00:00Z"),
        ({"startTime": ""}, "", "metadata.creationTimestamp", None),
    ],
)  # fmt: skip
def test_since_when(status: dict[str, Any], created: str, path: str, value: str | None) -> None:
    made = owned_pod("a", status=status)
    made["metadata"]["creationTimestamp"] = created
    stated = began(read(made))
    assert (stated.path, stated.value) == (path, value)
