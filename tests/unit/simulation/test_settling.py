"""Constant load: the quota settles at what the formula says, and best effort gets it.

An agent that counts best effort among the users of the node throttles it against itself: the
quota swings, and the tier gets a fraction (Volcano's gave 0.25 of 1.6 cores).
"""

import itertools
from pathlib import Path

import pytest

from slackwater.model.cgroup import CgroupVersion, CpuTimes, Tier
from slackwater.model.units import Micros, MilliCpu, Percent, Unlimited
from slackwater.policies.best_effort_share import BestEffortShareSettings
from slackwater.settings.agent_document import Settings
from slackwater.simulation.demand import Spike
from tests.unit.simulation.mortal import SECOND, Bed

pytestmark = pytest.mark.long

V1, V2 = CgroupVersion.V1, CgroupVersion.V2
TICKS = 120


def settings(threshold: int) -> Settings:
    share = BestEffortShareSettings(enabled=True, threshold=Percent(threshold))
    return Settings(policies={"best_effort_share": share})


def besteffort_used(bed: Bed) -> int:
    times = bed.kernel.times(bed.node.tiers[Tier.BESTEFFORT])
    assert isinstance(times, CpuTimes)
    return times.usage


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize(
    ("cpus", "threshold", "online", "hogs"),
    [
        (2, 80, 0, 1),
        (2, 80, 0, 4),
        (16, 80, 0, 16),
        (16, 80, 2000, 8),
        (4, 100, 700, 4),
        (4, 50, 1300, 3),
        (64, 65, 20_000, 12),
    ],
)
def test_it_settles_and_best_effort_gets_its_budget(
    tmp_path: Path, version: CgroupVersion, cpus: int, threshold: int, online: int, hogs: int
) -> None:
    bed = Bed(tmp_path, version, cpus, settings(threshold))
    bed.pod("web", Tier.BURSTABLE, online, request=online or 100)
    for number in range(hogs):
        bed.pod(f"hog-{number}", Tier.BESTEFFORT, 4000)
    for _ in range(5):
        bed.once()
    budget = cpus * 1000 * threshold // 100 - online
    before, quotas = besteffort_used(bed), set()
    for _ in range(TICKS):
        record = bed.once()
        quotas.add(bed.quota())
        assert record.outcomes == ()
    assert quotas == {budget}
    used = (besteffort_used(bed) - before) / (TICKS * SECOND) * 1000
    assert used >= 0.95 * min(budget, 4000 * hogs)


@pytest.mark.parametrize("version", [V1, V2])
def test_it_comes_back_after_a_spike(tmp_path: Path, version: CgroupVersion) -> None:
    """Down at once, up by a tenth each second, and then it stays."""
    bed = Bed(tmp_path, version, 8)
    spike = Spike(Micros(20 * SECOND), MilliCpu(7000), Micros(30 * SECOND), MilliCpu(1000))
    bed.pod("web", Tier.BURSTABLE, spike, request=1000)
    bed.pod("hog", Tier.BESTEFFORT, 8000)
    seen = []
    for _ in range(200):
        bed.once()
        quota = bed.quota()
        seen.append(0 if isinstance(quota, Unlimited) else quota)
    assert seen[10] == 5400
    assert min(seen[22:50]) == 10
    rising = seen[52:150]
    assert rising == sorted(rising)
    for before, after in itertools.pairwise(rising):
        assert after <= max(before * 11 // 10 + 1, 60)
    (settled,) = set(seen[150:])
    assert 5400 * 99 // 100 <= settled <= 5400  # within the jitter of 1 %


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize("cpus", [2, 8, 64])
def test_batch_has_its_cpu_back_within_twenty_seconds(
    tmp_path: Path, version: CgroupVersion, cpus: int
) -> None:
    """After a load that left it nothing; without a swing on the way."""
    bed = Bed(tmp_path, version, cpus, settings(80))
    load = Spike(SECOND, MilliCpu(cpus * 1000), Micros(60 * SECOND))
    bed.pod("web", Tier.BURSTABLE, load, request=cpus * 1000)
    bed.pod("batch", Tier.BESTEFFORT, cpus * 1000)
    for _ in range(61):
        bed.once()
    assert bed.quota() == 10
    path = []
    for _ in range(20):
        bed.once()
        quota = bed.quota()
        assert not isinstance(quota, Unlimited)
        path.append(quota)
    assert path == sorted(path)
    assert path[-1] >= 0.9 * 800 * cpus
