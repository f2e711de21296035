"""A kubepods tree of plain directories, for what does not need a kernel's cgroups.

Names, levels and texts are the same on any file system. Ids and vanishing are not (a disk hands
an inode number out again): those are tested on real cgroups, in tests/kernel.
"""

import os
from pathlib import Path

from slackwater.model.cgroup import CgroupController, CgroupMounts, CgroupRef, CgroupVersion, Mount
from slackwater.observation.cgroups.tree import Scan

UID = "8f0c1d2e-0000-4000-8000-00000000000{}"
CONTAINER = "{:064x}"
FILES_V1 = {
    CgroupController.CPU: {
        "cpu.stat": "nr_periods 4\nnr_throttled 3\nthrottled_time 2000\n",
        "cpu.cfs_quota_us": "50000\n",
        "cpu.cfs_period_us": "100000\n",
        "cpu.cfs_burst_us": "20000\n",
        "cpu.shares": "512\n",
        "cpu.idle": "0\n",
    },
    CgroupController.CPUACCT: {"cpuacct.usage": "7000\n"},
    CgroupController.CPUSET: {"cpuset.cpus": "0-1\n"},
}
FILES_V2 = {
    "cpu.stat": "usage_usec 7\nnr_periods 4\nnr_throttled 3\nthrottled_usec 2\n",
    "cpu.max": "50000 100000\n",
    "cpu.max.burst": "20000\n",
    "cpu.weight": "20\n",
    "cpu.idle": "0\n",
    "cpu.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n",
    "cpuset.cpus": "0-1\n",
}


class PlainTree:
    """Directories below a temporary one, laid out as one version's mounts."""

    def __init__(self, top: Path, version: CgroupVersion) -> None:
        self.version = version
        self.top = top
        if version is CgroupVersion.V2:
            self.mounts = CgroupMounts({c: Mount(version, str(top)) for c in CgroupController})
        else:
            self.mounts = CgroupMounts(
                {c: Mount(version, f"{top}/{c.value}") for c in CgroupController}
            )

    def make(self, path: str) -> str:
        """The group and its parents, each with its files."""
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            self._make_one("/".join(parts[:depth]))
        return path

    def _make_one(self, path: str) -> None:
        for controller in CgroupController:
            directory = self.directory(path, controller)
            os.makedirs(directory, exist_ok=True)
            for name, text in self._files(controller).items():
                if not os.path.exists(f"{directory}/{name}"):
                    self.put(path, name, text, controller)

    def _files(self, controller: CgroupController) -> dict[str, str]:
        return FILES_V2 if self.version is CgroupVersion.V2 else FILES_V1.get(controller, {})

    def put(
        self, path: str, name: str, text: str, controller: CgroupController = CgroupController.CPU
    ) -> None:
        with open(f"{self.directory(path, controller)}/{name}", "w") as file:
            file.write(text)

    def remove(self, path: str) -> None:
        for directory in {self.directory(path, c) for c in CgroupController}:
            for folder, _, names in os.walk(directory, topdown=False):
                for name in names:
                    os.unlink(f"{folder}/{name}")
                os.rmdir(folder)

    def directory(self, path: str, controller: CgroupController = CgroupController.CPU) -> str:
        found = self.mounts.directory(controller, path)
        assert isinstance(found, str)
        return found


def pods(plain: PlainTree, top: str = "kubepods") -> list[str]:
    """A pod of two containers in each tier."""
    made = []
    for number, tier in enumerate(("", "/burstable", "/besteffort")):
        pod = f"{top}{tier}/pod{UID.format(number)}"
        made += [plain.make(f"{pod}/{CONTAINER.format(10 * number + n)}") for n in range(2)]
    return made


def by_path(scan: Scan) -> dict[str, CgroupRef]:
    return {ref.path: ref for ref in scan.refs}
