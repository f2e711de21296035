"""A host in a folder: the files that doctor reads, for machines that we do not have."""

import os
from pathlib import Path

from slackwater.observation.host import Roots

CPU_FILES = {
    "cpu.max": "max 100000\n",
    "cpu.max.burst": "0\n",
    "cpu.weight": "100\n",
    "cpu.idle": "0\n",
    "cpuset.cpus": "\n",
    "memory.max": "max\n",
    "memory.high": "max\n",
    "memory.low": "0\n",
    "memory.min": "0\n",
    "cpu.stat": "usage_usec 0\n",
}
#: cgroup v2 is taken for granted in a folder only where a person says so.
V2 = {"SLACKWATER_CGROUP_VERSION": "v2"}


def put(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def host(folder: Path) -> Roots:
    """A bare host of four CPUs."""
    for number in range(4):
        topology = folder / f"sys/devices/system/cpu/cpu{number}/topology"
        put(topology / "core_id", f"{number // 2}\n")
        put(topology / "physical_package_id", "0\n")
    put(folder / "sys/devices/system/cpu/online", "0-3\n")
    put(folder / "sys/devices/system/node/node0/cpulist", "0-3\n")
    put(folder / "sys/devices/system/cpu/smt/active", "1\n")
    put(folder / "proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Box\n\n")
    line = "avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
    put(folder / "proc/pressure/cpu", f"some {line}full {line}")
    (folder / "cgroup").mkdir()
    (folder / "host").mkdir()
    return Roots(*(f"{folder}/{name}" for name in ("cgroup", "proc", "sys", "host")))


def group(roots: Roots, path: str, **files: str) -> None:
    """A v2 group; keyword arguments replace a file's text, by its name with _ for each dot."""
    for name, text in CPU_FILES.items():
        put(Path(roots.cgroup) / path / name, files.get(name.replace(".", "_"), text))


def kubelet(roots: Roots, *arguments: str) -> None:
    put(Path(roots.proc) / "77/comm", "kubelet\n")
    put(Path(roots.proc) / "77/cmdline", "\0".join(("kubelet", *arguments)) + "\0")
    put(Path(roots.proc) / "77/status", "PPid:\t1\nUid:\t0\t0\t0\t0\n")


def remove(roots: Roots, path: str, *names: str) -> None:
    for name in names:
        os.unlink(f"{roots.cgroup}/{path}/{name}")
