"""Volcano's acceptance rows on throttling, as what stands in the kernel's files afterwards.

The rows are those of facts/volcano.md, section 6: the quota's formula (1 to 13) and the writes
(15, 17, 19). Where docs/differences.md decides otherwise, the row says so.
"""

from pathlib import Path

import msgspec
import pytest

from slackwater.contract.kubernetes import Node
from slackwater.contract.volcano.colocation_config import ColocationConfig, read_config
from slackwater.model.cgroup import CgroupVersion, Tier
from slackwater.model.gap import Gap
from slackwater.model.knob import KNOBS, QUOTA, Knob
from slackwater.model.units import Micros, MilliCpu
from slackwater.policies.catalog import SETTINGS
from slackwater.record.journal import TickRecord
from slackwater.simulation.demand import Steps
from tests.unit.simulation.mortal import SECOND, Bed

VERSIONS = [CgroupVersion.V1, CgroupVersion.V2]
LABEL = "volcano.sh/oversubscription"
UNKNOWN = Gap("not stated")


def config(threshold: int, enable: bool = True) -> ColocationConfig:
    section = {
        "enable": enable,
        "cpuThrottlingThreshold": threshold,
        "cpuJitterLimitPercent": 1,
        "cpuRecoverLimitPercent": 10,
    }
    return read_config({"globalConfig": {"cpuThrottlingConfig": section}}, "test")


def volcano(
    folder: Path,
    version: CgroupVersion,
    allocatable: int,
    colocation: ColocationConfig,
    label: str = "true",
) -> Bed:
    """A labelled node of Volcano's, with one hungry best-effort pod."""
    bed = Bed(folder, version, -(-allocatable // 1000), SETTINGS.defaults)
    milli = MilliCpu(allocatable)
    node = Node("worker", labels={LABEL: label}, allocatable_cpu=milli)
    bed.source.objects = msgspec.structs.replace(
        bed.source.objects, nodes=(node,), colocation=colocation
    )
    bed.pod("hog", Tier.BESTEFFORT, 64_000)
    return bed


def online(bed: Bed, *levels: int) -> None:
    """Online load: one level each second, the last one for good. The first second is only looked
    at, so it has the first level as well."""
    there = (levels[0], *levels, *[levels[-1]] * 500)
    bed.pod("web", Tier.BURSTABLE, Steps(tuple(MilliCpu(n) for n in there), SECOND), request=1000)


def rounds(bed: Bed, count: int) -> TickRecord:
    """So many decisions; returns the last one's."""
    bed.once()
    return [bed.once() for _ in range(count)][-1]


def files(version: CgroupVersion, micros: int | None) -> str:
    """cpu.max, or cpu.cfs_quota_us and cpu.cfs_period_us, as one text."""
    nothing = "-1" if version is CgroupVersion.V1 else "max"
    return f"{nothing if micros is None else micros} 100000"


def events(record: TickRecord) -> list[tuple[str, str, int]]:
    found = [event for told in record.story.told for event in told.events]
    return [(event.name, event.resource, event.milli) for event in found]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("row", "allocatable", "threshold", "used", "emitted", "micros"),
    [
        (1, 1000, 80, 200, 600, 60_000),
        (3, 1000, 80, 900, 0, 1_000),  # and 17: nothing left is the kernel's smallest quota
        (13, 7910, 65, 1333, 3808, 380_800),
        (15, 1000, 80, 300, 500, 50_000),
        (17, 1000, 80, 800, 0, 1_000),
    ],
)
def test_the_first_claim(
    tmp_path: Path,
    version: CgroupVersion,
    row: int,
    allocatable: int,
    threshold: int,
    used: int,
    emitted: int,
    micros: int,
) -> None:
    bed = volcano(tmp_path, version, allocatable, config(threshold))
    online(bed, used)
    assert bed.text(QUOTA) == files(version, None)
    record = rounds(bed, 1)
    assert bed.text(QUOTA) == files(version, micros), row
    assert events(record) == [("NodeCPUThrottleEvent", "cpu", emitted)]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("row", "levels", "last", "after"),
    [
        # From 0 Volcano jumps to 800; here the first raise goes to a quarter of it.
        (7, (900, 0), 0, 200),
        # From 9 Volcano is stuck for ever; here a quarter of the budget counts for it too.
        (9, (791, 0), 9, 200),
        # Used 700, last 100: the budget is what it was.
        (11, (700, 700), 100, 100),
        # A cut is made at once, a raise by a tenth.
        (0, (200, 600), 600, 200),
        (0, (600, 200), 200, 220),
        # Less than one percent is no change.
        (0, (200, 205), 600, 600),
        (0, (200, 206), 600, 594),
    ],
)
def test_the_next_claim(
    tmp_path: Path,
    version: CgroupVersion,
    row: int,
    levels: tuple[int, ...],
    last: int,
    after: int,
) -> None:
    bed = volcano(tmp_path, version, 1000, config(80))
    online(bed, *levels)
    first = rounds(bed, 1)
    assert events(first) == [("NodeCPUThrottleEvent", "cpu", last)]
    second = bed.once()
    assert bed.text(QUOTA) == files(version, max(after, 10) * 100), row
    assert events(second) == ([("NodeCPUThrottleEvent", "cpu", after)] if after != last else [])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("enable", "label", "why"),
    [(False, "true", "disabled"), (True, "false", "no label"), (True, "maybe", "no bool")],
)
def test_row_5_disabled_nothing_is_written(
    tmp_path: Path, version: CgroupVersion, enable: bool, label: str, why: str
) -> None:
    bed = volcano(tmp_path, version, 1000, config(80, enable), label)
    online(bed, 200)
    before = bed.knobs()
    record = rounds(bed, 3)
    assert (record.outcomes, events(record)) == ((), []), why
    assert bed.knobs() == before


@pytest.mark.parametrize("version", VERSIONS)
def test_switched_off_it_is_unlimited_again(tmp_path: Path, version: CgroupVersion) -> None:
    bed = volcano(tmp_path, version, 1000, config(80))
    online(bed, 200)
    rounds(bed, 2)
    assert bed.text(QUOTA) == files(version, 60_000)
    off = msgspec.structs.replace(bed.source.objects, colocation=config(80, enable=False))
    bed.source.objects = off
    record = bed.once()
    assert bed.text(QUOTA) == files(version, None)
    assert len(record.outcomes) == 1
    assert bed.once().outcomes == ()  # once


@pytest.mark.parametrize("version", VERSIONS)
def test_row_19_memory_is_never_written(tmp_path: Path, version: CgroupVersion) -> None:
    """Volcano's handler gets events about memory as well, and must not act on them: here no
    throttling ever touches a knob but the tier's quota."""
    bed = volcano(tmp_path, version, 4000, config(80))
    online(bed, 200, 3000, 100, 2500, 900)
    before = bed.knobs()
    touched = {o.change.knob for _ in range(40) for o in bed.once().outcomes}
    assert touched == {QUOTA}
    path = bed.node.tiers[Tier.BESTEFFORT].path
    after = bed.knobs()
    assert [key for key in after if after[key] != before[key]] == [(path, QUOTA.name)]


@pytest.mark.parametrize("knob", [knob for knob in KNOBS if "memory" in knob.name])
def test_the_fake_kernel_would_show_it(tmp_path: Path, knob: Knob) -> None:
    """The row above is no empty one: memory knobs can be written here, where they exist."""
    bed = Bed(tmp_path, CgroupVersion.V2)
    tier = bed.node.tiers[Tier.BESTEFFORT]
    before = bed.knobs()
    bed.node.put(tier, knob, 1 << 30)
    changed = [key for key, value in bed.knobs().items() if value != before[key]]
    assert changed == ([] if knob.vendor else [(tier.path, knob.name)])


@pytest.mark.parametrize("version", VERSIONS)
def test_the_tier_gets_what_the_quota_says(tmp_path: Path, version: CgroupVersion) -> None:
    bed = volcano(tmp_path, version, 4000, config(80))
    online(bed, 1000)
    rounds(bed, 3)
    tier = bed.node.tiers[Tier.BESTEFFORT]
    before = bed.kernel.times(tier)
    bed.kernel.advance(Micros(10 * SECOND))
    after = bed.kernel.times(tier)
    assert not isinstance(before, Gap)
    assert not isinstance(after, Gap)
    assert after.usage - before.usage == 10 * 2_200_000
    assert after.throttled > before.throttled
