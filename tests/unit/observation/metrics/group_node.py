"""Pods whose cgroups and /proc are plain files, for metrics with files of their own."""

import os
from pathlib import Path

from slackwater.model.cgroup import CgroupController, CgroupRef, CgroupVersion, Level, Tier
from slackwater.model.gap import Gap
from slackwater.model.metric import Samples
from slackwater.model.units import UNLIMITED, MilliCpu
from slackwater.model.workload import Workload, WorkloadContainer
from slackwater.observation.metrics.collector import MetricCollector
from slackwater.observation.metrics.tick_view import TickView
from tests.unit.observation.metrics.hosts import PlainHost, at, requests
from tests.unit.observation.plain_tree import PlainTree


class GroupNode:
    """Pods of one container each, in plain directories, and what a test says of them."""

    def __init__(self, top: Path, version: CgroupVersion, pods: int = 1) -> None:
        self.host = PlainHost(top)
        self.plain = PlainTree(top / "cgroup", version)
        self._v1 = version is CgroupVersion.V1
        self.refs: list[tuple[CgroupRef, CgroupRef]] = []
        self.workloads = tuple(self._pod(number) for number in range(pods))
        self.collector: MetricCollector = self.host.collector(self.plain.mounts)

    def _pod(self, number: int) -> Workload:
        uid = f"{number:032x}"
        path = self.plain.make(f"kubepods/pod{uid}/{number:064x}")
        pod, container = (self._ref(each, uid) for each in (os.path.dirname(path), path))
        self.refs.append((pod, container))
        for each in (pod, container):
            self.memory(each, 1000, 400)
            self.tasks(each)
        amounts = {"gocrane.io/memory": 1} if number % 2 else {}
        inside = WorkloadContainer(
            "main", container, MilliCpu(0), UNLIMITED, extended_limits=amounts
        )
        return Workload(uid, f"p{number}", "d", Tier.GUARANTEED, pod, containers=(inside,))

    def _ref(self, path: str, uid: str) -> CgroupRef:
        level = Level.POD if path.count("/") == 1 else Level.CONTAINER
        return CgroupRef(path, os.stat(self.plain.directory(path)).st_ino, level, owner=uid)

    def memory(self, ref: CgroupRef, used: int, inactive: int) -> None:
        usage = "memory.usage_in_bytes" if self._v1 else "memory.current"
        stat = f"cache 5\ninactive_file {inactive}\nactive_file 7\n"
        if self._v1:  # of the group itself, and of those below as well
            stat = f"cache 5\ninactive_file 1\ntotal_inactive_file {inactive}\n"
        for name, text in ((usage, f"{used}\n"), ("memory.stat", stat)):
            self.plain.put(ref.path, name, text, CgroupController.MEMORY)

    def tasks(self, ref: CgroupRef, **waited: int) -> None:
        """By number, with nanoseconds: t7=100."""
        name = "tasks" if self._v1 else "cgroup.threads"
        numbers = [task.removeprefix("t") for task in waited]
        self.plain.put(ref.path, name, "".join(f"{each}\n" for each in numbers))
        for number, nanos in zip(numbers, waited.values(), strict=True):
            self.host.put(f"proc/{number}/schedstat", f"1 {nanos} 2\n".encode())

    def view(self) -> TickView:
        return TickView(usage=MilliCpu(0), workloads=self.workloads)

    def look(self, seconds: float, name: str, age: int = 0) -> Samples | Gap:
        return self.collector.collect(at(seconds), requests(name, age=age), self.view())[name]

    def values(self, seconds: float, name: str, age: int = 0) -> dict[tuple[str, str], float]:
        found = self.look(seconds, name, age)
        assert not isinstance(found, Gap), found
        return {
            (each.labels["PodName"], each.labels["ContainerName"]): each.value for each in found
        }
