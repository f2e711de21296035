"""Metrics of CPU normalization: the ratio, and the quotas that it scaled."""

import msgspec
import pytest

from slackwater.contract.koordinator.normalization import Hundredths
from slackwater.model.decision import PolicyAction, PolicyReport, Remark
from slackwater.model.node_resource import NodeResources
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import UNLIMITED, MilliCpu, Unlimited
from slackwater.policies import normalization
from slackwater.policies.normalization import BoundNormalization, LastRatio
from slackwater.record.journal import TickRecord
from slackwater.record.normalization_metrics import MOST_PODS, normalization_samples
from slackwater.resolution.resolver import resolve
from tests.unit.policies.pods import box, inner_ref, pod, pod_ref, quota, reading, snapshot
from tests.unit.record.tick_records import record

RATIO = "slackwater_cpu_normalization_ratio"
PROBLEM = "slackwater_cpu_normalization_problem"
PODS = "slackwater_normalized_pods"
QUOTA = "slackwater_pod_normalized_cpu_quota_cores"


def of(made: TickRecord) -> dict[str, object]:
    """Values by name; of those with labels a mapping."""
    found: dict[str, object] = {}
    for each in normalization_samples(made):
        if each.labels:
            found.setdefault(each.metric.name, {})[each.labels] = each.value  # type: ignore[index]
        else:
            found[each.metric.name] = each.value
    return found


def decided(seen: NodeSnapshot, *remarks: Remark) -> TickRecord:
    """A tick in which the ratio was 1.20."""
    settings = BoundNormalization(True, Hundredths(120))
    decision = normalization.POLICY.decide(seen, LastRatio(), settings)
    line = PolicyReport(
        normalization.NAME, PolicyAction.ACTED, "", dict(decision.numbers), remarks=remarks
    )
    made = record(seen, lines=(line,))
    grants = resolve(seen, decision.intents)  # type: ignore[union-attr]
    story = msgspec.structs.replace(made.story, grants=tuple(grants))
    return msgspec.structs.replace(made, story=story)


def node(pods: int = 1, whole: int | Unlimited = 100_000) -> NodeSnapshot:
    made = [pod(box("c1"), number=each) for each in range(1, pods + 1)]
    readings = {}
    for each in range(1, pods + 1):
        inner, outer = inner_ref(each, "c1"), pod_ref(each)
        readings[inner.id] = reading(inner, quota=quota(100_000))
        readings[outer.id] = reading(outer, quota=quota(whole))
    return snapshot(*made, readings=readings)


def test_without_normalization_the_ratio_is_one() -> None:
    assert of(record(node())) == {RATIO: 1.0}


@pytest.mark.parametrize("whole", [100_000, UNLIMITED])
def test_a_scaled_quota(whole: int | Unlimited) -> None:
    """The pod's own, or where only a container has one that."""
    found = of(decided(node(whole=whole)))
    quotas = found.pop(QUOTA)
    assert found == {RATIO: 1.2, PROBLEM: False, PODS: 1}
    assert isinstance(quotas, dict)
    [cores] = quotas.values()
    assert cores == pytest.approx(1 / 1.2)


def test_what_binds_is_the_smaller_of_the_pods_and_its_containers() -> None:
    """On cgroup v1 a pod's own keeps room for containers that start with their whole limit."""
    made = decided(node())
    kept = [
        msgspec.structs.replace(grant, value=MilliCpu(2000), exact=None)
        if grant.target == pod_ref(1)
        else grant
        for grant in made.story.grants
    ]
    story = msgspec.structs.replace(made.story, grants=tuple(kept))
    quotas = of(msgspec.structs.replace(made, story=story))[QUOTA]
    assert isinstance(quotas, dict)
    assert list(quotas.values()) == [pytest.approx(1 / 1.2)]


def test_a_pod_without_any_limit_has_no_scaled_one() -> None:
    bare = snapshot(pod(box("c1")))
    found = of(decided(bare))
    assert (found[PODS], QUOTA in found) == (0, False)


def test_pods_are_counted_and_their_series_bounded() -> None:
    found = of(decided(node(pods=MOST_PODS + 10)))
    quotas = found[QUOTA]
    assert isinstance(quotas, dict)
    assert (found[PODS], len(quotas)) == (MOST_PODS + 10, MOST_PODS)


def test_a_ratio_that_cannot_be_read_is_a_problem() -> None:
    assert of(decided(node(), Remark("node", "odd; 1.20 stays")))[PROBLEM] is True


def test_amplified_allocatable() -> None:
    amplified = NodeResources(amplified_cpu=MilliCpu(9_600))
    seen = msgspec.structs.replace(node(), node_resources=amplified)
    found = of(record(seen))
    assert found["slackwater_node_cpu_amplified_allocatable_cores"] == 9.6
