"""Whose cgroup a pod is: its own, unless it is a static pod's copy made by this node's kubelet."""

from typing import Any

import pytest

from slackwater.contract.kubernetes_pod import MIRROR, Pod, read_pod
from slackwater.contract.mirror_pod import assign_cgroups

STATIC = "0123456789abcdef0123456789abcdef"
NODE, NODE_UID = "worker-1", "aaaaaaaa-0000-4000-8000-000000000009"
OWN, VICTIM = "11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002"


def owner(**said: Any) -> dict[str, Any]:
    made = {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": NODE_UID, "controller": True}
    return made | said


def pod(
    claim: str | None = STATIC,
    owners: tuple[dict[str, Any], ...] | None = (owner(),),
    name: str = f"etcd-{NODE}",
    uid: str = OWN,
) -> Pod:
    metadata: dict[str, Any] = {"name": name, "namespace": "shop", "uid": uid}
    if claim is not None:
        metadata["annotations"] = {MIRROR: claim}
    if owners is not None:
        metadata["ownerReferences"] = list(owners)
    return read_pod({"kind": "Pod", "metadata": metadata, "spec": {"containers": []}}, "test")


def uids(*pods: Pod, node: str = NODE, node_uid: str = NODE_UID) -> list[str]:
    return [each.cgroup_uid for each in assign_cgroups(pods, node, node_uid)[0]]


def problems(*pods: Pod, node: str = NODE, node_uid: str = NODE_UID) -> tuple[str, ...]:
    found = assign_cgroups(pods, node, node_uid)[1]
    assert all(each.about and each.about.kind == "Pod" for each in found)
    return tuple(each.sentence() for each in found)


def test_a_static_pod_of_this_node_is_believed() -> None:
    assert uids(pod()) == [STATIC]
    assert problems(pod()) == ()


def test_a_node_without_a_known_uid_is_believed_by_its_name() -> None:
    assert uids(pod(), node_uid="") == [STATIC]


def test_the_kubelet_names_the_copy_after_the_node_in_lower_case() -> None:
    upper = pod(owners=(owner(name="Worker-1"),))
    assert uids(upper, node="Worker-1") == [STATIC]


def test_a_pod_without_the_annotation_is_itself() -> None:
    assert (uids(pod(None)), problems(pod(None))) == ([OWN], ())


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (pod(VICTIM), "32 hexadecimal digits"),
        (pod("../../etc"), "32 hexadecimal digits"),
        (pod(STATIC.upper()), "32 hexadecimal digits"),
        (pod(STATIC + "0"), "32 hexadecimal digits"),
        (pod(""), "32 hexadecimal digits"),
        (pod(owners=()), "its controller is not the Node worker-1"),
        (pod(owners=None), "its controller is not the Node worker-1"),
        (pod(owners=(owner(controller=False),)), "its controller is not the Node worker-1"),
        (pod(owners=(owner(kind="ReplicaSet"),)), "its controller is not the Node worker-1"),
        (pod(owners=(owner(name="worker-2"),)), "its controller is not the Node worker-1"),
        (pod(owners=(owner(uid=VICTIM),)), "its controller is another Node called worker-1"),
        (pod(name="etcd"), "its name does not end in -worker-1"),
        (pod(name="etcd-worker-2"), "its name does not end in -worker-1"),
        (pod(name=f"etcd{NODE}"), "its name does not end in -worker-1"),
    ],
)
def test_what_a_person_wrote_is_not_believed(made: Pod, why: str) -> None:
    """Whoever may create pods may write the annotation and the owner, but not the uid."""
    assert uids(made) == [OWN]
    [problem] = problems(made)
    claim = made.mirror.static_uid if made.mirror else ""
    assert problem.startswith(
        f"Pod shop/{made.name}: metadata.annotations['{MIRROR}'] is {claim!r}, but is not believed"
    )
    assert why in problem


def test_without_a_node_name_nothing_is_believed() -> None:
    assert uids(pod(name="etcd-", owners=(owner(name=""),)), node="", node_uid="") == [OWN]


@pytest.mark.parametrize("order", [1, -1])
def test_never_against_the_pod_whose_own_uid_it_is(order: int) -> None:
    """In a folder, uids are what a person chose."""
    claimant, real = pod(), pod(None, name="web", uid=STATIC)
    both = (claimant, real)[::order]
    assert uids(*both) == [OWN, STATIC][::order]
    [problem] = problems(*both)
    assert "it is the uid of Pod shop/web" in problem


def test_of_two_claimants_neither_is_believed() -> None:
    both = pod(), pod(name=f"copy-{NODE}", uid=VICTIM)
    assert uids(*both) == [OWN, VICTIM]
    assert [each.partition(" is not believed: ")[2] for each in problems(*both)] == [
        f"Pod shop/copy-{NODE} has it too",
        f"Pod shop/etcd-{NODE} has it too",
    ]
