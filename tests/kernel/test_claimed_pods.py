"""A pod that says it is another one changes nothing of that other one's groups."""

from typing import Any

import pytest

from tests.kernel.batch_pods import BE, MI, UID_1, BatchPod, batch, is_idle
from tests.kernel.bed import Bed
from tests.kernel.in_process import NODE, RATIOS, Box, InProcess, pod_object
from tests.kernel.pods import CONTAINER, UID

pytestmark = pytest.mark.cgroupfs

MIRROR = "kubernetes.io/config.mirror"
STATIC = "0123456789abcdef0123456789abcdef"
EVERY_POLICY: dict[str, dict[str, Any]] = {
    "elasticResources": {},
    "qosLevel": {},
    "quotaBurst": {},
    "memoryQos": {},
}


def greedy(claim: str, name: str, node: str = "") -> dict[str, Any]:
    """A pod of another uid that asks for the smallest of everything in the claimed one's name."""
    asked = BE | {RATIOS: '{"memoryQos": {"highRatio": 1}}', MIRROR: claim}
    made = pod_object(UID.format(66), [batch(10, MI), batch(10, MI, 1)], asked, name)
    if node:
        owner = {"kind": "Node", "name": node, "uid": "any", "controller": True}
        made["metadata"]["ownerReferences"] = [owner]
    return made


@pytest.mark.parametrize("node", ["", NODE])
def test_another_pods_groups_stay_as_they_are(pod: BatchPod, agent: InProcess, node: str) -> None:
    before = pod.picture()
    agent.settings(**EVERY_POLICY)
    boxes = [Box(CONTAINER.format(100)), Box(CONTAINER.format(101))]
    agent.put("a-victim", pod_object(UID_1, boxes, name="victim"))
    agent.put("z-thief", greedy(UID_1, f"thief-{NODE}", node))
    records = agent.settle()
    assert [outcome for record in records for outcome in record.outcomes] == []
    assert pod.picture() == before
    titles = {each.name: each.uid for each in records[-1].snapshot.workloads}
    assert titles == {"victim": UID_1, f"thief-{NODE}": UID.format(66)}


@pytest.mark.parametrize(
    ("name", "node", "believed"),
    [
        (f"etcd-{NODE}", NODE, True),
        ("etcd", NODE, False),
        (f"etcd-{NODE}", "", False),
        ("etcd-other", "other", False),
    ],
)
def test_a_static_pods_group_is_that_of_its_copy_alone(
    bed: Bed, agent: InProcess, name: str, node: str, believed: bool
) -> None:
    path = bed.make(f"{bed.kubepods}/besteffort/pod{STATIC}")
    agent.settings(qosLevel={})
    agent.put("static", greedy(STATIC, name, node))
    agent.settle()
    assert is_idle(bed, path) is believed
