"""A pod a second on real cgroups, with a real API server that comes and goes, in real time.

Owns the pods' groups and objects, and the agent's process between them. Nothing runs in the pods.
"""

import contextlib
import os
import time
from collections.abc import Iterator

from benchmarks._cluster import BenchCluster, new_cluster
from benchmarks._pods import BenchPod
from benchmarks._running import CannotMeasureError, RunningAgent, free_address, make_tiers, new_bed
from benchmarks.cgroup_reads import mounts_here
from slackwater.execution.ledger import FILE
from slackwater.http.errors import RequestError
from slackwater.model.cgroup import CgroupVersion
from slackwater.model.gap import Gap
from tests.kernel.bed import Bed
from tests.unit.soak.footprint import size_of
from tools.cluster.control_plane import API_SERVER

#: Seconds: how long a pod lives, how often the settings change and the API server falls, for how
#: long.
_LIFE, _SETTINGS_EVERY, _FALLS_EVERY, _AWAY = 20, 45, 300, 20
_THRESHOLDS = (80, 60)


class RealNode:
    """Guards the pods and the agent."""

    def __init__(self, bed: Bed, cluster: BenchCluster, folder: str) -> None:
        self.seconds = self.pods = 0
        self._bed, self._cluster, self._folder = bed, cluster, folder
        self._began = time.monotonic()
        #: The groups of each pod that lives, its containers' first; its name.
        self._living: dict[int, tuple[str, list[str]]] = {}
        address = ["--listen", free_address()]
        self.agent = RunningAgent(bed, folder, cluster.arguments(), address)
        self.agent.wait_for_quota(f"{bed.kubepods}/besteffort")

    def run(self, seconds: int) -> None:
        """At the pace of real time; a late second is made up for."""
        for _ in range(seconds):
            self.seconds += 1
            self._step()
            self.agent.check()
            time.sleep(max(self._began + self.seconds - time.monotonic(), 0))

    def ledger(self) -> int:
        return size_of(f"{self._folder}/state/{FILE}")

    def close(self) -> None:
        self.agent.end()
        for number in tuple(self._living):
            self._remove_groups(number)

    def _step(self) -> None:
        phase = self.seconds % _FALLS_EVERY
        if phase == _FALLS_EVERY - _AWAY:
            self._cluster.plane.kill(API_SERVER)
        elif phase == 0:
            self._cluster.plane.start(API_SERVER)
        if phase >= _FALLS_EVERY - _AWAY:
            return
        try:
            self._come_and_go()
            if self.seconds % _SETTINGS_EVERY == 0:
                turn = self.seconds // _SETTINGS_EVERY % len(_THRESHOLDS)
                self._cluster.set_section({"enabled": True, "threshold": _THRESHOLDS[turn]})
        except RequestError as error:
            raise CannotMeasureError(str(error)) from None

    def _come_and_go(self) -> None:
        pod = BenchPod(self.pods)
        self.pods += 1
        containers = self._cluster.add(pod, self._bed.kubepods)
        for path in containers:
            self._bed.make(path)
        groups = [*containers, containers[0].rpartition("/")[0]]
        self._living[pod.number] = (pod.name, groups)
        for number in [each for each in self._living if each <= pod.number - _LIFE]:
            self._cluster.remove(self._living[number][0])
            self._remove_groups(number)

    def _remove_groups(self, number: int) -> None:
        for path in self._living.pop(number)[1]:
            self._bed.remove(path)


@contextlib.contextmanager
def real_node(folder: str) -> Iterator[RealNode]:
    cpu = mounts_here().identity()
    version = CgroupVersion.V1 if isinstance(cpu, Gap) else cpu.version
    cpus = os.cpu_count() or 1
    with new_bed(version, "soak") as bed, new_cluster(cpus) as cluster:
        make_tiers(bed, cpus)
        node = RealNode(bed, cluster, folder)
        try:
            yield node
        finally:
            node.close()
