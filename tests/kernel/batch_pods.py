"""A best-effort pod of real cgroups that asks for batch resources, and words for its files."""

from typing import Any

from slackwater.model.cgroup import CgroupController, CgroupVersion
from slackwater.model.gap import Gap
from slackwater.model.knob import MEMORY_MAX, QUOTA, WEIGHT, Knob
from tests.kernel.bed import Bed
from tests.kernel.hand import knob_files
from tests.kernel.in_process import (
    BATCH_CPU,
    BATCH_MEMORY,
    BURST,
    BURST_TIME,
    LEVEL,
    Box,
    InProcess,
    pod_object,
)
from tests.kernel.pods import CONTAINER, UID, pod_path

UID_1 = UID.format(1)
MI = 2**20
BE = {LEVEL: "BE"}
MAY_BURST = {BURST: "true"}
BATCH: dict[str, dict[str, Any]] = {"elasticResources": {}}
V1, V2 = CgroupVersion.V1, CgroupVersion.V2


def batch(cpu: int, memory: int, number: int = 0, **more: Any) -> Box:
    """A container that may use so many milliCPU and bytes; its requests are its limits."""
    limits = {BATCH_CPU: str(cpu), BATCH_MEMORY: str(memory)}
    return Box(CONTAINER.format(100 + number), {}, limits, **more)


class BatchPod:
    """A best-effort pod on the bed, with the weights that the kubelet gives one."""

    def __init__(self, bed: Bed, containers: int = 2) -> None:
        self.bed = bed
        self.path = pod_path(bed, 1, "/besteffort")
        self.inner = [self.add(number) for number in range(containers)]
        bed.write(self.path, weight_file(bed), "17")

    def add(self, number: int) -> str:
        path = self.bed.make(f"{self.path}/{CONTAINER.format(100 + number)}")
        self.bed.write(path, weight_file(self.bed), "2")
        return path

    def picture(self) -> dict[str, str]:
        """Every knob of the tier, the pod and its containers."""
        found = knob_files(self.bed, self.path.rpartition("/")[0])
        for path in (self.path, *self.inner):
            found |= knob_files(self.bed, path)
        return found


def weight_file(bed: Bed) -> str:
    return file_of(bed, WEIGHT)


def file_of(bed: Bed, knob: Knob) -> str:
    file = knob.file(bed.version)
    assert not isinstance(file, Gap)
    return file.name


def weight(bed: Bed, path: str) -> int:
    return int(bed.read(path, weight_file(bed)))


def limit(bed: Bed, path: str) -> int | None:
    """The quota in microseconds."""
    word = bed.read(path, file_of(bed, QUOTA)).split()[0]
    return None if word in ("-1", "max") else int(word)


def burst(bed: Bed, path: str) -> int:
    return int(bed.read(path, "cpu.cfs_burst_us" if bed.version is V1 else "cpu.max.burst"))


def memory(bed: Bed, path: str) -> int | None:
    word = bed.read(path, file_of(bed, MEMORY_MAX), CgroupController.MEMORY)
    return None if word == "max" or int(word) > 2**62 else int(word)


def is_idle(bed: Bed, path: str) -> bool:
    return bed.read(path, "cpu.idle") == "1"


def set_limits(agent: InProcess, *cpu: int, time: str = "") -> None:
    said = MAY_BURST | ({BURST_TIME: time} if time else {})
    boxes = [batch(each, 64 * MI, number) for number, each in enumerate(cpu)]
    agent.put("pod", pod_object(UID_1, boxes, said))
