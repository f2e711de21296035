"""A host of plain files: /proc as it was recorded, and no cgroups, for what is the node's own."""

import os
from collections.abc import Iterable
from pathlib import Path

from slackwater.model.cgroup import CgroupMounts
from slackwater.model.gap import Gap
from slackwater.model.metric import MetricKey, MetricRequest, Samples
from slackwater.model.units import Micros
from slackwater.observation.host import Roots
from slackwater.observation.metrics.collector import MetricCollector, RemoteSource, node_families
from slackwater.observation.metrics.tick_view import TickView
from tests.unit.observation.metrics.test_proc_text import DISKSTATS, MEMINFO, NET_DEV

SECOND = 1_000_000
NO_GROUPS = CgroupMounts({})
NOTHING = TickView(usage=Gap("unknown"))


class PlainHost:
    """Files that a test may change or remove."""

    def __init__(self, top: Path) -> None:
        self.roots = Roots(proc=str(top / "proc"), sys=str(top / "sys"))
        self._top = top
        self.name_self(os.getpid())
        self.put("proc/loadavg", b"1.50 2.25 3.00 1/2 3\n")
        self.put("proc/meminfo", MEMINFO)
        self.put("proc/diskstats", DISKSTATS)
        self.put("proc/1/net/dev", NET_DEV)
        self.put("sys/devices/system/cpu/online", b"0-3\n")

    def name_self(self, number: int) -> None:
        """How this /proc calls the process that reads it."""
        link = self._top / "proc/self"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(str(number))

    def put(self, file: str, text: bytes) -> None:
        path = self._top / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)

    def remove(self, file: str) -> None:
        (self._top / file).unlink()

    def collector(
        self, mounts: CgroupMounts = NO_GROUPS, remote: RemoteSource | None = None
    ) -> MetricCollector:
        return MetricCollector(node_families(self.roots, mounts), remote)


def requests(*names: str, age: int = 0) -> frozenset[MetricRequest]:
    return frozenset(MetricRequest(MetricKey(name), age) for name in names)


def at(seconds: float) -> Micros:
    return Micros(int(seconds * SECOND))


def values(found: Samples | Gap) -> list[float]:
    assert not isinstance(found, Gap), found
    return [each.value for each in found]


def look(
    collector: MetricCollector, seconds: float, names: Iterable[str], view: TickView = NOTHING
) -> dict[str, Samples | Gap]:
    return collector.collect(at(seconds), requests(*names), view)
