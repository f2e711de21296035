"""Several policies at one pod: idle over a weight, burst within a quota, all in any order."""

import itertools
from typing import Any

import msgspec
import pytest

from slackwater.agent.shared_state import view_of
from slackwater.model.gap import Gap
from slackwater.model.knob import QUOTA
from slackwater.policies.catalog import POLICIES
from slackwater.policies.policy import Policy
from slackwater.record.explanation import explain
from tests.kernel.batch_pods import (
    BATCH,
    BE,
    MAY_BURST,
    MI,
    UID_1,
    V1,
    BatchPod,
    batch,
    burst,
    file_of,
    is_idle,
    limit,
    set_limits,
    weight,
)
from tests.kernel.bed import Bed
from tests.kernel.hand import clock
from tests.kernel.in_process import BURST, BURST_TIME, Box, InProcess, pod_object
from tests.kernel.pods import CONTAINER

pytestmark = pytest.mark.cgroupfs


@pytest.mark.parametrize("first", ["qosLevel", "elasticResources"])
def test_a_weight_below_idle_comes_and_goes_with_its_owner(
    bed: Bed, pod: BatchPod, agent: InProcess, first: str
) -> None:
    """Whoever is switched off first, nothing is refused, and no stranger is suspected."""
    before = pod.picture()
    both: dict[str, dict[str, Any]] = {"elasticResources": {}, "qosLevel": {}}
    agent.settings(**both)
    agent.put("pod", pod_object(UID_1, [batch(500, 64 * MI)], BE))
    agent.settle()
    assert is_idle(bed, pod.path)
    agent.settings(**{name: {} for name in both if name != first})
    agent.settle()
    assert is_idle(bed, pod.path) is (first == "elasticResources")
    if first == "qosLevel":
        assert weight(bed, pod.path) == (512 if bed.version is V1 else 50)
    agent.settings()
    agent.settle()
    assert pod.picture() == before
    assert agent.ledger.entries == ()


def test_a_request_that_comes_while_the_pod_is_idle(
    bed: Bed, pod: BatchPod, agent: InProcess
) -> None:
    before = pod.picture()
    agent.settings(elasticResources={}, qosLevel={})
    agent.put("pod", pod_object(UID_1, [Box(CONTAINER.format(100))], BE))
    agent.settle()
    agent.put("pod", pod_object(UID_1, [batch(500, 64 * MI)], BE))
    agent.settle()
    agent.put("pod", pod_object(UID_1, [batch(500, 64 * MI)]))
    agent.settle()
    assert (is_idle(bed, pod.path), weight(bed, pod.path)) == (
        False,
        512 if bed.version is V1 else 50,
    )
    agent.put("pod")
    agent.settle()
    assert pod.picture() == before


@pytest.mark.parametrize("stand_in", ["weight", "none"])
def test_other_stand_ins(bed: Bed, pod: BatchPod, agent: InProcess, stand_in: str) -> None:
    agent.settings(qosLevel={"standIn": stand_in})
    agent.put("pod", pod_object(UID_1, [], BE))
    agent.settle()
    lowest = 2 if bed.version is V1 else 1
    assert weight(bed, pod.path) == (lowest if stand_in == "weight" else 17)
    assert not is_idle(bed, pod.path)


def test_burst_follows_the_quota_up_and_down(bed: Bed, pod: BatchPod, agent: InProcess) -> None:
    """The kernel refuses a burst above the quota, and a quota below the burst."""
    before = pod.picture()
    agent.settings(elasticResources={}, quotaBurst={})
    for first, second in ((500, 1000), (2000, 300), (100, 5), (1500, 1500), (400, 400)):
        set_limits(agent, first, second)
        agent.settle()
        each = [max(first * 100, 1000), max(second * 100, 1000)]
        assert [limit(bed, path) for path in pod.inner] == each
        assert [burst(bed, path) for path in (pod.path, *pod.inner)] == [sum(each), *each]
    set_limits(agent, 400, 200, time="30000")
    agent.settle()
    assert [burst(bed, path) for path in (pod.path, *pod.inner)] == [50_000, 30_000, 20_000]
    agent.settings(**BATCH)
    set_limits(agent, 100, 100)  # burst ends and the quota falls below it at one time
    agent.settle()
    assert [burst(bed, path) for path in (pod.path, *pod.inner)] == [0, 0, 0]
    agent.settings()
    agent.settle()
    assert pod.picture() == before


def test_burst_on_a_quota_that_is_not_ours(bed: Bed, pod: BatchPod, agent: InProcess) -> None:
    """The kubelet's limits: facts row 31."""
    for path, quota in ((pod.path, 300_000), (pod.inner[0], 100_000), (pod.inner[1], 200_000)):
        bed.write(path, file_of(bed, QUOTA), str(quota))
    agent.settings(quotaBurst={})
    boxes = [Box(CONTAINER.format(100)), Box(CONTAINER.format(101))]
    agent.put("pod", pod_object(UID_1, boxes, MAY_BURST | {BURST_TIME: "100000"}))
    agent.settle()
    found = [burst(bed, path) for path in (pod.path, *pod.inner)]
    assert found == [200_000, 100_000, 100_000]
    agent.put("pod", pod_object(UID_1, boxes, {BURST: "false"}))
    agent.settle()
    assert [burst(bed, path) for path in (pod.path, *pod.inner)] == [0, 0, 0]


NAMES = ("best_effort_share", "elastic_resources", "quota_burst")


def overrides() -> list[tuple[Policy, ...]]:
    by_name = {policy.name: policy for policy in POLICIES}
    rest = tuple(policy for policy in POLICIES if policy.name not in NAMES)
    return [(*(by_name[name] for name in names), *rest) for names in itertools.permutations(NAMES)]


def test_three_policies_meet_in_any_order(
    bed: Bed, pod: BatchPod, agent: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A budget that is used up, so that the tier gets the kernel's smallest quota whatever else
    this machine does. On v1 all below it nest in it; v2 takes the smaller one by itself."""
    node = {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "10m"}}}
    before = pod.picture()
    pictures, contributions = [], []
    for order in overrides():
        dependencies = msgspec.structs.replace(agent.dependencies, policies=order)
        monkeypatch.setattr(agent.agent, "_dependencies", dependencies)
        agent.put("node", node)
        agent.settings(bestEffortShare={"threshold": 1}, elasticResources={}, quotaBurst={})
        set_limits(agent, 500, 1000, time="20000")
        agent.once()  # rates need two looks
        agent.settle()
        pictures.append(pod.picture())
        contributions.append(explained(agent))
        agent.settings()
        agent.settle()
        assert pod.picture() == before
    assert all(picture == pictures[0] for picture in pictures)
    assert all(found == contributions[0] for found in contributions)
    found = contributions[0]
    v1 = bed.version is V1
    share, base = ("best_effort_share", "cap"), ("elastic_resources", "base")
    assert found["besteffort", "quota"] == [share]
    assert found["default/job", "quota"] == ([base, share] if v1 else [base])
    assert found["default/job/c0", "quota"] == ([base, share] if v1 else [base])
    assert found["default/job/c0", "burst"] == [("quota_burst", "set")]
    assert found["default/job/c0", "weight"] == [("elastic_resources", "set")]


def explained(agent: InProcess) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """Who took part in each value, by target and knob."""
    rows = explain(view_of(agent.shared, clock()), "")
    assert not isinstance(rows, Gap)
    return {
        (row.target, row.knob): [(part.policy, part.verb) for part in row.contributions]
        for row in rows
        if row.knob
    }
