"""A root of its own for a node's cgroups, in every hierarchy of this machine.

Owns folders with one name and all that is below them. Kills nothing: whoever removes the root has
ended its processes before.
"""

import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path

from tools.cluster.failure import ClusterError
from tools.host_kernel import MOUNT_TABLE, Mount, parse_mounts

#: A cgroup stays busy for a moment after its last process ended.
_PATIENCE_SECONDS = 10.0
_POLL_SECONDS = 0.05
#: What a v1 cpuset lacks when it is new: without them no process can enter.
_CPUSET_FILES = ("cpuset.cpus", "cpuset.mems")


def hierarchies(table: Path = MOUNT_TABLE) -> list[Mount]:
    return [m for m in parse_mounts(table.read_text()) if m.kind in ("cgroup", "cgroup2")]


def make_root(name: str, mounts: list[Mount]) -> None:
    """On v2 the controllers must be given to it by its parent."""
    for mount in mounts:
        top, folder = Path(mount.point), Path(mount.point, name)
        if mount.kind == "cgroup2":
            _delegate(top)
        folder.mkdir(exist_ok=True)
        for file in _CPUSET_FILES if "cpuset" in mount.options else ():
            (folder / file).write_text((top / file).read_text())


def _delegate(top: Path) -> None:
    """One by one: what this kernel cannot give, the kubelet will miss by name."""
    there = (top / "cgroup.controllers").read_text().split()
    given = (top / "cgroup.subtree_control").read_text().split()
    for controller in (name for name in there if name not in given):
        (top / "cgroup.subtree_control").write_text(f"+{controller}")


def remove_root(name: str, mounts: list[Mount]) -> None:
    """The deepest first; waits for what is still ending."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    for mount in mounts:
        for folder in _deepest_first(Path(mount.point, name)):
            while not _removed(folder):
                if time.monotonic() > deadline:
                    raise ClusterError(f"{folder} cannot be removed: processes are left in it")
                time.sleep(_POLL_SECONDS)


def _deepest_first(top: Path) -> Iterator[Path]:
    for folder, _, _ in os.walk(top, topdown=False):
        yield Path(folder)


def _removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno == errno.EBUSY:
            return False
        raise
    return True
