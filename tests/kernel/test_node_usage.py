"""The whole node's usage from real cgroups."""

import os
import time

from slackwater.model.cgroup import CgroupVersion
from slackwater.model.machine import NodeUsage, NodeUsageSource
from slackwater.observation.host import NodeUsageMeter, Roots
from tests.kernel.bed import Bed
from tests.kernel.pods import limit, make_pod


def usage_of(meter: NodeUsageMeter) -> NodeUsage:
    found = meter.read()
    assert isinstance(found, NodeUsage), found
    return found


def test_the_nodes_usage_has_what_was_burnt(bed: Bed) -> None:
    path = make_pod(bed, 1)[0]
    limit(bed, path, 50_000)
    bed.burn(path)
    meter = NodeUsageMeter(bed.mounts, Roots())
    first, burnt, start = usage_of(meter), bed.usage(path), time.monotonic()
    readings = [first]
    while time.monotonic() < start + 2:
        time.sleep(0.05)
        readings.append(usage_of(meter))
    burnt, elapsed = bed.usage(path) - burnt, time.monotonic() - start
    meter.close()
    usages = [reading.usage for reading in readings]
    assert usages == sorted(usages)
    used = usages[-1] - usages[0]
    assert used >= burnt * 0.95
    assert used <= elapsed * 1e6 * (os.cpu_count() or 1) * 1.05
    if bed.version is CgroupVersion.V1:
        assert first.source is NodeUsageSource.ROOT_GROUP
        return
    assert first.source is NodeUsageSource.TOP_GROUPS
    with open("/proc/self/cgroup") as file:
        beside_the_sum = file.read() == "0::/\n"
    if beside_the_sum:  # this process is in the root group: it and kernel threads do not count
        assert used <= burnt * 1.15


def test_the_nodes_usage_survives_a_group_that_is_removed(bed: Bed) -> None:
    meter = NodeUsageMeter(bed.mounts, Roots())
    usage_of(meter)
    other = Bed(bed.version, "passing")
    try:
        other.make(f"{other.top}/inner")
        pids = other.burn(f"{other.top}/inner")
        time.sleep(0.5)
        during = usage_of(meter).usage
        other.stop(pids)
    finally:
        other.close()
    assert usage_of(meter).usage >= during
    assert usage_of(meter).usage >= during
    meter.close()
