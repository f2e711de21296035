"""Rules of QoS ensurance on real cgroups: throttled in steps, demoted, and every file back.

Numbers in the ids are rows of section 10 of the facts about Crane.
"""

import pytest

from tests.kernel.avoidance_rules import ALWAYS, NEVER, put_rule, restore, trigger
from tests.kernel.batch_pods import UID_1, V1, BatchPod, is_idle, limit, weight
from tests.kernel.bed import Bed
from tests.kernel.hand import clock, until
from tests.kernel.in_process import Box, InProcess, pod_object
from tests.kernel.pods import CONTAINER
from tests.kernel.pods import limit as set_limit

pytestmark = pytest.mark.cgroupfs


def put_pod(agent: InProcess) -> None:
    agent.put("pod", pod_object(UID_1, [Box(CONTAINER.format(100)), Box(CONTAINER.format(101))]))


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
    set_limit(bed, pod.inner[0], limited)
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
    set_limit(bed, pod.inner[0], 100_000)
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
