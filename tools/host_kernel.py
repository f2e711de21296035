"""What the test runner must know of this machine's kernel: which cgroup CPU tree it can use.

Refuses to try anything: it reads the mount table and asks for write access. What the product knows
about cgroups lives in the product; a runner that used it would test it with itself.
"""

import os
from dataclasses import dataclass
from pathlib import Path

MOUNT_TABLE = Path("/proc/self/mountinfo")


@dataclass(frozen=True, slots=True)
class Mount:
    point: str
    kind: str
    options: frozenset[str]


@dataclass(frozen=True, slots=True)
class HostKernel:
    is_root: bool
    v1_cpu: str | None
    v2_cpu: str | None
    writable: bool

    @property
    def is_pure_v2(self) -> bool:
        return self.v1_cpu is None and self.v2_cpu is not None


def parse_mounts(text: str) -> tuple[Mount, ...]:
    """Reads mountinfo (proc(5)): a lone "-" ends the optional fields, super options come last."""
    mounts = []
    for line in text.splitlines():
        before, found, after = line.partition(" - ")
        fields, tail = before.split(), after.split()
        if found and len(fields) >= 5 and len(tail) >= 3:
            mounts.append(Mount(fields[4], tail[0], frozenset(tail[2].split(","))))
    return tuple(mounts)


def v1_cpu_tree(mounts: tuple[Mount, ...]) -> str | None:
    trees = (mount.point for mount in mounts if mount.kind == "cgroup" and "cpu" in mount.options)
    return next(trees, None)


def v2_cpu_tree(mounts: tuple[Mount, ...]) -> str | None:
    """A cgroup2 mount beside v1 has no cpu controller: then it is no CPU tree."""
    trees = (mount.point for mount in mounts if mount.kind == "cgroup2")
    return next((tree for tree in trees if "cpu" in controllers(tree)), None)


def controllers(tree: str) -> list[str]:
    listed = Path(tree, "cgroup.controllers")
    return listed.read_text().split() if listed.is_file() else []


def look_at_host(table: Path = MOUNT_TABLE) -> HostKernel:
    mounts = parse_mounts(table.read_text()) if table.is_file() else ()
    v1, v2 = v1_cpu_tree(mounts), v2_cpu_tree(mounts)
    tree = v1 or v2
    # for root access(2) still says no where the mount is read-only, as in most containers
    writable = tree is not None and os.access(tree, os.W_OK)
    return HostKernel(os.geteuid() == 0, v1, v2, writable)
