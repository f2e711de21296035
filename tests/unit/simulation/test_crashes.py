"""kill -9 at every point at which something was written, or was about to be.

Nothing is lost: a release afterwards puts every knob back. Nothing is stuck: the quota follows
the formula again.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.model.cgroup import CgroupVersion, Level, Tier
from slackwater.model.decision import PolicyAction
from slackwater.model.knob import QUOTA
from slackwater.model.units import UNLIMITED, Bandwidth, MilliCpu, Ratio, Unlimited
from slackwater.simulation.demand import SECOND, Square, Steps
from tests.unit.simulation.mortal import MEMORY, OFF, ON, Bed, doomed_ledger

pytestmark = pytest.mark.long

V1, V2 = CgroupVersion.V1, CgroupVersion.V2
CPUS = 8
ALLOWED = CPUS * 1000 * 80 // 100
#: Every kind of death that there is; a ledger that grows is written anew, which renames a file.
DEATHS = {
    "before the note",
    "before the ledger's write",
    "after the ledger's write",
    "between note and write",
    "after the write",
}


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as made:
        yield Path(made)


def restless(folder: Path, version: CgroupVersion) -> Bed:
    """Load that moves at every tick, so that there is always something to write."""
    bed = Bed(folder, version, CPUS)
    levels = tuple(MilliCpu(1000 + 700 * (n * 5 % 7)) for n in range(7))
    bed.pod("web", Tier.BURSTABLE, Steps(levels, SECOND), request=1000)
    bed.pod("database", Tier.GUARANTEED, 500, request=1000)
    bed.pod("batch", Tier.BESTEFFORT, 8000)
    return bed


def check_quota(bed: Bed, told_budget: int) -> None:
    """Never above the budget but by the jitter; and never without a quota once there was one."""
    quota = bed.quota()
    assert quota is not UNLIMITED
    assert quota <= max(told_budget * 101 // 100 + 1, 10)


@pytest.mark.parametrize(("version", "ticks"), [(V2, 10_000), (V1, 2_000)])
def test_ten_thousand_ticks_with_a_kill_at_every_write_point(
    folder: Path, monkeypatch: pytest.MonkeyPatch, version: CgroupVersion, ticks: int
) -> None:
    bed = restless(folder, version)
    baseline = bed.knobs()
    doomed_ledger(bed, monkeypatch)
    points, decided = 0, 0
    for _ in range(ticks):
        if bed.fate.left is None:
            # Each life dies one point later than the one before, then from the first again.
            points = points % 13 + 1
            bed.fate.left = points
        records = []
        bed.survive(lambda: records.append(bed.once()))  # noqa: B023 - called at once
        for record in records:
            (told,) = record.story.told
            if told.course is PolicyAction.ACTED:
                decided += 1
                check_quota(bed, told.numbers["budget"])
    assert set(bed.fate.deaths) >= DEATHS
    assert min(bed.fate.deaths[point] for point in DEATHS) > ticks // 200
    assert decided > ticks // 4

    bed.fate.left = 1
    for points in range(2, 40):
        if bed.survive(bed.release):
            break
        bed.fate.left = points
    bed.fate.left = None
    assert bed.knobs() == baseline
    assert bed.alive().ledger.entries == ()
    check_follows_again(bed)


def check_follows_again(bed: Bed) -> None:
    """A new agent on the same node: the formula holds at once, and the release is exact again."""
    baseline = bed.knobs()
    bed.start()
    bed.once()
    for _ in range(3):
        record = bed.once()
        (told,) = record.story.told
        check_quota(bed, told.numbers["budget"])
    assert bed.release() == 0
    assert bed.knobs() == baseline


def live(bed: Bed) -> None:
    """A short life with every kind of effect: a first throttle, cuts, raises, the policy switched
    off and on, a rival, a release."""
    bed.once()
    for _ in range(4):
        bed.once()
    bed.set(OFF)
    bed.once()
    bed.set(ON)
    bed.once()
    bed.once()
    bed.once()
    bed.release()


def adopted_quota(bed: Bed) -> int | None:
    """What the ledger says that the tier was given, if it was."""
    for held in bed.alive().actuator.held():
        if held.knob == QUOTA.name and held.ref.level is Level.TIER:
            assert isinstance(held.ours, Bandwidth)
            limit = held.ours.milli()
            assert not isinstance(limit, Unlimited)
            return limit
    return None


def follows(budget: int, adopted: int | None) -> range:
    """Where the quota is to be: the budget, or on the way there from what was adopted."""
    if adopted is None:
        return range(budget, budget + 1)
    raised = max(adopted + max(adopted // 10, 1), budget // 4)
    return range(min(budget, adopted), min(budget + budget // 100, raised) + 1)


@pytest.mark.parametrize("version", [V1, V2])
def test_each_single_point(monkeypatch: pytest.MonkeyPatch, version: CgroupVersion) -> None:
    """Killed at exactly the nth effect of a short life, then an undisturbed one."""
    number, deaths = 0, 0
    while True:
        number += 1
        with tempfile.TemporaryDirectory(dir=MEMORY) as made, monkeypatch.context() as patch:
            bed = restless(Path(made), version)
            baseline = bed.knobs()
            doomed_ledger(bed, patch)
            bed.fate.left = number
            survived = bed.survive(lambda: live(bed))  # noqa: B023 - called at once
            bed.fate.left = None
            bed.set(ON)
            bed.start()
            bed.once()
            adopted = adopted_quota(bed)
            (told,) = bed.once().story.told
            budget = max(told.numbers["budget"], 10)
            assert bed.quota() in follows(budget, adopted), (number, bed.fate.deaths)
            assert bed.release() == 0
            assert bed.knobs() == baseline, (number, bed.fate.deaths)
            bed.alive().end()
        deaths += not survived
        if survived:
            break
    assert deaths == number - 1
    assert deaths > 40


@pytest.mark.parametrize("version", [V1, V2])
def test_a_kill_between_any_two_ticks_changes_nothing(folder: Path, version: CgroupVersion) -> None:
    bed = restless(folder, version)
    baseline = bed.knobs()
    for _ in range(20):
        bed.once()
        bed.once()
        before = bed.knobs()
        bed.start()
        assert bed.knobs() == before
        bed.once()
        assert bed.knobs() == before  # the first round of a life only looks
    assert bed.release() == 0
    assert bed.knobs() == baseline


def test_a_pod_that_ends_while_the_agent_is_dead(folder: Path) -> None:
    bed = restless(folder, V2)
    bed.once()
    bed.once()
    bed.alive().end()
    bed.node.remove("batch")
    bed.source.set_pods(bed.node.pods)
    bed.start()
    bed.once()
    bed.once()
    bed.pod("batch", Tier.BESTEFFORT, Square(SECOND, Ratio(1, 2), MilliCpu(8000)))
    bed.once()
    assert bed.release() == 0
    assert bed.text(QUOTA) == "max 100000"
