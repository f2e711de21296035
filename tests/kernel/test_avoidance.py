"""Rules of QoS ensurance on real cgroups: throttled in steps, demoted, and every file back.

The metric is the node's own CPU usage: above 1 m while anything runs, never above a million CPUs.
Numbers in the ids are rows of section 10 of the facts about Crane.
"""

import pytest

from slackwater.model.decision import RuleReport, RuleState
from tests.kernel.batch_pods import UID_1, V1, BatchPod, is_idle, limit, weight
from tests.kernel.bed import Bed
from tests.kernel.hand import clock, until
from tests.kernel.in_process import Box, InProcess, pod_object
from tests.kernel.pods import CONTAINER

pytestmark = pytest.mark.cgroupfs

ALWAYS, NEVER = 1, 1_000_000_000
CRANE = "ensurance.crane.io/v1alpha1"


def put_rule(
    agent: InProcess,
    value: int,
    step: int = 10,
    least: int = 10,
    strategy: str = "None",
    *,
    with_action: bool = True,
) -> None:
    cpu = {"minCPURatio": least, "stepCPURatio": step}
    action = {
        "apiVersion": CRANE,
        "kind": "AvoidanceAction",
        "metadata": {"name": "throttle"},
        "spec": {"coolDownSeconds": 1, "throttle": {"cpuThrottle": cpu}},
    }
    rule = {
        "name": "cpu-usage",
        "avoidanceThreshold": 1,
        "restoreThreshold": 1,
        "actionName": "throttle",
        "strategy": strategy,
        "metricRule": {"name": "cpu_total_usage", "value": value},
    }
    policy = {
        "apiVersion": CRANE,
        "kind": "NodeQOSEnsurancePolicy",
        "metadata": {"name": "waterline2"},
        "spec": {
            "nodeQualityProbe": {"nodeLocalGet": {"localCacheTTLSeconds": 60}},
            "objectiveEnsurances": [rule],
        },
    }
    agent.put("rules", *([action] if with_action else []), policy)


def put_pod(agent: InProcess) -> None:
    agent.put("pod", pod_object(UID_1, [Box(CONTAINER.format(100)), Box(CONTAINER.format(101))]))


def set_quota(bed: Bed, path: str, quota: int) -> None:
    if bed.version is V1:
        bed.write(path, "cpu.cfs_quota_us", str(quota))
    else:
        bed.write(path, "cpu.max", f"{quota} 100000")


def report(agent: InProcess) -> RuleReport:
    [found] = [rule for told in agent.once().story.told for rule in told.rules]
    return found


def trigger(agent: InProcess) -> None:
    """Until the first round whose usage is above the rule's value."""
    until(lambda: report(agent).state is RuleState.TRIGGERED, what=lambda: "the rule's trigger")


def restore(agent: InProcess) -> None:
    until(lambda: report(agent).state is RuleState.QUIET, what=lambda: "the rule's end")


@pytest.mark.parametrize(
    ("limited", "step", "least", "quotas"),
    [
        pytest.param(400_000, 10, 10, [360_000, 324_000, 291_600], id="25"),
        pytest.param(400_000, 89, 10, [44_000, 40_000], id="27: not below a tenth of 4 CPUs"),
        pytest.param(200_000, 50, 30, [100_000, 60_000], id="29"),
    ],
)
def test_quotas_go_down_in_steps_and_every_file_comes_back(
    bed: Bed,
    pod: BatchPod,
    agent: InProcess,
    limited: int,
    step: int,
    least: int,
    quotas: list[int],
) -> None:
    bed.burn(pod.inner[1])
    set_quota(bed, pod.inner[0], limited)
    before = pod.picture()
    put_pod(agent)
    put_rule(agent, ALWAYS, step, least)
    trigger(agent)
    found = [limit(bed, pod.inner[0])]
    lowest = 2 if bed.version is V1 else 1
    assert is_idle(bed, pod.path) or weight(bed, pod.path) == lowest

    def has_stepped() -> bool:
        """A round too soon after another one may have measured nothing."""
        agent.once()
        now = limit(bed, pod.inner[0])
        found.extend([now] if now != found[-1] else [])
        return len(found) >= len(quotas)

    until(has_stepped, what=lambda: f"a step after {found}")
    assert found[: len(quotas)] == quotas
    for _ in range(5):
        agent.once()
        now = limit(bed, pod.inner[0])
        assert now is not None
        assert now * 100 >= limited * least
    assert limit(bed, pod.inner[1]) is not None
    put_rule(agent, NEVER, step, least)
    restore(agent)
    assert pod.picture() == before
    assert agent.settle()[-1].outcomes == ()


@pytest.mark.parametrize("end", ["rule", "action", "preview", "pod", "release"])
def test_undone_at_once_when_nobody_asks_any_more(
    bed: Bed, pod: BatchPod, agent: InProcess, end: str
) -> None:
    bed.burn(pod.inner[1])
    set_quota(bed, pod.inner[0], 100_000)
    before = pod.picture()
    put_pod(agent)
    put_rule(agent, ALWAYS)
    trigger(agent)
    assert pod.picture() != before
    match end:
        case "rule":
            agent.put("rules")
        case "action":
            put_rule(agent, ALWAYS, with_action=False)
        case "preview":
            put_rule(agent, ALWAYS, strategy="Preview")
        case "pod":
            agent.put("pod")
        case _:
            agent.agent.release(clock(), "the test ends")
    if end != "release":
        agent.once()
    assert pod.picture() == before


def test_preview_changes_no_file(bed: Bed, pod: BatchPod, agent: InProcess) -> None:
    bed.burn(pod.inner[0])
    before = pod.picture()
    put_pod(agent)
    put_rule(agent, ALWAYS, strategy="Preview")
    trigger(agent)
    for _ in range(5):
        assert agent.once().outcomes == ()
    assert pod.picture() == before
