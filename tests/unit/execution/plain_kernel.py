"""Plain files that answer a writer as a kernel's do: whole texts, idle that locks the weight."""

import errno
import os
from pathlib import Path

import pytest

from slackwater.execution.cgroup_writer import CgroupWriter
from slackwater.model.cgroup import (
    CgroupController,
    CgroupMounts,
    CgroupRef,
    CgroupVersion,
    Level,
    Mount,
)
from slackwater.model.units import Micros

V2_FILES = {
    "cpu.max": "max 100000",
    "cpu.max.burst": "0",
    "cpu.weight": "100",
    "cpu.idle": "0",
    "cpuset.cpus": "",
    "memory.max": "max",
    "memory.high": "max",
    "memory.low": "0",
    "memory.min": "0",
}
V1_FILES = {
    CgroupController.CPU: {
        "cpu.cfs_quota_us": "-1",
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_burst_us": "0",
        "cpu.shares": "1024",
        "cpu.idle": "0",
    },
    CgroupController.CPUSET: {"cpuset.cpus": "0-1"},
    CgroupController.MEMORY: {"memory.limit_in_bytes": "9223372036854771712"},
    CgroupController.CPUACCT: {},
}


class PlainKernel:
    """One folder per hierarchy. Installs itself below os.write, where the kernel is."""

    def __init__(self, root: Path, version: CgroupVersion, patch: pytest.MonkeyPatch) -> None:
        self.root, self.version = root, version
        v2 = version is CgroupVersion.V2
        self.mounts = CgroupMounts(
            {c: Mount(version, str(root if v2 else root / c.value)) for c in CgroupController}
        )
        if v2:
            (root / "cpuset.cpus.effective").write_text("0-3\n")
        #: Every text that was written, in order.
        self.log: list[tuple[str, str]] = []
        #: Answers for the next writes to a file: error numbers.
        self.errors: dict[str, int] = {}
        self._write = os.write
        patch.setattr(os, "write", self._written)

    def make(self, path: str, level: Level = Level.POD) -> CgroupRef:
        for controller in CgroupController:
            folder = self.folder(path, controller)
            folder.mkdir(parents=True, exist_ok=True)
            v2 = self.version is CgroupVersion.V2
            for name, text in (V2_FILES if v2 else V1_FILES[controller]).items():
                (folder / name).write_text(f"{text}\n")
        return CgroupRef(path, self.folder(path).stat().st_ino, level)

    def folder(self, path: str, controller: CgroupController = CgroupController.CPU) -> Path:
        found = self.mounts.directory(controller, path)
        assert isinstance(found, str)
        return Path(found)

    def text(
        self, path: str, file: str, controller: CgroupController = CgroupController.CPU
    ) -> str:
        return (self.folder(path, controller) / file).read_text().strip()

    def writer(self, page: int = 4096) -> CgroupWriter:
        return CgroupWriter(self.mounts, page, Clock())

    def _written(self, descriptor: int, data: bytes) -> int:
        file = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if self.root not in file.parents or file.suffix == ".jsonl":
            return self._write(descriptor, data)
        self.log.append((file.name, data.decode()))
        if file.name in self.errors:
            number = self.errors[file.name]
            raise OSError(number, os.strerror(number))
        weight = file.parent / ("cpu.weight" if self.version is CgroupVersion.V2 else "cpu.shares")
        if file == weight and (file.parent / "cpu.idle").read_text().strip() == "1":
            raise OSError(errno.EINVAL, "Invalid argument")
        if file.name == "cpu.idle":
            weight.write_text("0\n" if data == b"1\n" else "100\n")
        os.ftruncate(descriptor, 0)
        return self._write(descriptor, data)


class Clock:
    """Five microseconds later with each look."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> Micros:
        self.now += 5
        return Micros(self.now)
