"""Pods of real cgroups on a bed, and short words for looking at them."""

import os

from slackwater.model.cgroup import CgroupRef, CgroupVersion, CpuTimes
from slackwater.model.needs import ReadingField
from slackwater.model.units import Micros
from slackwater.observation.cgroups.tree import CgroupTree, Scan
from tests.kernel.bed import Bed

UID = "11111111-2222-4333-8444-{:012d}"
CONTAINER = "{:064x}"
TIMES = frozenset({ReadingField.TIMES})
EVERYTHING = frozenset(ReadingField)
AT = Micros(0)


def pod_path(bed: Bed, number: int, tier: str = "/burstable") -> str:
    return f"{bed.kubepods}{tier}/pod{UID.format(number)}"


def make_pod(bed: Bed, number: int, tier: str = "/burstable", containers: int = 2) -> list[str]:
    pod = pod_path(bed, number, tier)
    return [bed.make(f"{pod}/{CONTAINER.format(100 * number + n)}") for n in range(containers)]


def remove_pod(bed: Bed, path: str) -> None:
    for name in os.listdir(bed.directory(path)):
        if os.path.isdir(f"{bed.directory(path)}/{name}"):
            bed.remove(f"{path}/{name}")
    bed.remove(path)


def ref_of(scan: Scan, path: str) -> CgroupRef:
    return next(ref for ref in scan.refs if ref.path == path)


def times_of(tree: CgroupTree, ref: CgroupRef) -> CpuTimes:
    times = tree.read(ref, TIMES, AT).times
    assert isinstance(times, CpuTimes), times
    return times


def limit(bed: Bed, path: str, quota: int) -> None:
    if bed.version is CgroupVersion.V1:
        bed.write(path, "cpu.cfs_quota_us", str(quota))
    else:
        bed.write(path, "cpu.max", f"{quota} 100000")


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
