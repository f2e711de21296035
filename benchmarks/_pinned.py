"""Pods for the benchmark of CPU sets: real groups with resting processes, and the folder of objects
that an agent reads; and who runs on whose CPUs.

Owns the groups' names and the text of the objects. A file is renamed into place, so that its time
is the time of the change.
"""

import json
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from slackwater.contract.crane.cpu_policy import CPU_MANAGER
from slackwater.model.cpus import CpuPolicy, CpuSet
from tests.kernel.bed import Bed
from tests.kernel.in_process import Box, pod_object
from tests.kernel.pods import CONTAINER, UID, pod_path, remove_pod

_SETTINGS = {
    "apiVersion": "slackwater.io/v1",
    "kind": "AgentSettings",
    "spec": {"corePinning": {"enabled": True}},
}


class PinnedPod(msgspec.Struct, frozen=True):
    """One pod: its number, tier, CPUs that it asks for, and its container's process."""

    number: int
    tier: str
    count: int
    process: int


class PinnedFolder:
    """Guards the pods and their objects."""

    def __init__(self, bed: Bed, folder: str) -> None:
        self._bed = bed
        self.objects = Path(folder, "node")
        self.objects.mkdir()
        #: Named to the agent: other kubelets of this machine are not this node's.
        self.kubelet_config = Path(folder, "kubelet.yaml")
        self.kubelet_config.write_text("kind: KubeletConfiguration\n")
        self._put("settings", _SETTINGS)
        self.pods: dict[int, PinnedPod] = {}

    def start(self, number: int, tier: str, count: int = 0) -> PinnedPod:
        """The group and its process first, as a kubelet does it."""
        path = self._container(number, tier)
        made = PinnedPod(number, tier, count, self._bed.rest(self._bed.make(path)))
        self.pods[number] = made
        self.ask(number, CpuPolicy.NONE)
        return made

    def fill(self, numbers: Iterable[int], tier: str) -> None:
        """Pods without a process, which ask for nothing."""
        for number in numbers:
            self._bed.make(self._container(number, tier))
            box = Box(CONTAINER.format(number))
            self._put(f"pod{number}", pod_object(UID.format(number), [box], {}, f"pod-{number}"))

    def stop(self, number: int) -> None:
        gone = self.pods.pop(number)
        self._bed.stop([gone.process])
        remove_pod(self._bed, pod_path(self._bed, number, gone.tier))
        (self.objects / f"pod{number}.json").unlink()

    def ask(self, number: int, policy: CpuPolicy) -> float:
        """When it was written."""
        pod = self.pods[number]
        size = {"cpu": str(pod.count)} if pod.count else {}
        box = Box(CONTAINER.format(number), size, size)
        self._put(
            f"pod{number}",
            pod_object(UID.format(number), [box], {CPU_MANAGER: policy.value}, f"pod-{number}"),
        )
        return time.monotonic()

    def _container(self, number: int, tier: str) -> str:
        return f"{pod_path(self._bed, number, tier)}/{CONTAINER.format(number)}"

    def _put(self, name: str, document: Mapping[str, Any]) -> None:
        unfinished = self.objects.parent / f"{name}.unfinished"
        unfinished.write_text(json.dumps(document))
        unfinished.rename(self.objects / f"{name}.json")


def allowed(process: int) -> CpuSet | None:
    """Of its first thread; None if it is gone."""
    try:
        with open(f"/proc/{process}/status") as status:
            line = next(line for line in status if line.startswith("Cpus_allowed_list:"))
    except (FileNotFoundError, ProcessLookupError, StopIteration):
        return None
    return CpuSet.parse(line.split()[1])


class SharedTimes:
    """How long each pair of a container that holds CPUs alone and another one shared a CPU without
    a break, look by look."""

    def __init__(self) -> None:
        self._since: dict[tuple[int, int], float] = {}
        self.ended: list[float] = []
        self.looks: list[float] = []

    def look(self, at: float, alone: Mapping[int, CpuSet], others: Mapping[int, CpuSet]) -> None:
        """By process; `alone` are those that have what they asked for."""
        self.looks.append(at)
        now = {
            (holder, other)
            for holder, cpus in alone.items()
            for other, theirs in others.items()
            if holder != other and cpus.mask & theirs.mask
        }
        for pair in self._since.keys() - now:
            self.ended.append(at - self._since.pop(pair))
        for pair in now:
            self._since.setdefault(pair, at)

    def durations(self) -> list[float]:
        """Those that go on end with the last look."""
        last = self.looks[-1] if self.looks else 0.0
        return [*self.ended, *(last - since for since in self._since.values())]


def alone_among(
    pods: Iterable[PinnedPod], seen: Mapping[int, CpuSet], asking: frozenset[int]
) -> dict[int, CpuSet]:
    """Those that ask for CPUs alone and have as many as they ask for, and not the first one, which
    nobody gets."""
    return {
        pod.process: cpus
        for pod in pods
        if pod.number in asking
        and (cpus := seen.get(pod.process)) is not None
        and len(cpus) == pod.count
        and 0 not in cpus
    }


def every_cpu() -> CpuSet:
    return CpuSet.of(os.sched_getaffinity(0))
