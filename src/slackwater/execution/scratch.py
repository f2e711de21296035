"""A scratch cgroup of our own: made in every hierarchy, removed afterwards.

Owns the directories that it made, and those of runs that were killed. It never switches a
controller on for the root: a controller that children do not get is what doctor has to tell.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from slackwater.execution.folder_lock import lock_directory
from slackwater.model.cgroup import CgroupController, CgroupMounts, CgroupRef, Level
from slackwater.model.gap import Gap

_PREFIX = "slackwater-scratch-"


@contextmanager
def scratch_group(mounts: CgroupMounts) -> Iterator[CgroupRef | Gap]:
    """A CgroupRef, or a Gap that says why there is none."""
    name = f"{_PREFIX}{os.getpid()}"
    tops = {mount.directory for mount in mounts.by_controller.values()}
    _remove_leftovers(tops)
    locks: list[int] = []
    try:
        made = _make(mounts, sorted(tops), name)
        for top in tops if isinstance(made, CgroupRef) else ():
            lock = lock_directory(f"{top}/{name}")
            locks += [lock] if isinstance(lock, int) else []
        yield made
    finally:
        for lock in locks:
            os.close(lock)
        # By name, not by a list of what was made: a signal may come between the two.
        for top in tops:
            with suppress(OSError):
                os.rmdir(f"{top}/{name}")


def _make(mounts: CgroupMounts, tops: list[str], name: str) -> CgroupRef | Gap:
    identity = mounts.directory(CgroupController.CPU, name)
    if isinstance(identity, Gap):
        return identity
    try:
        for top in tops:
            os.mkdir(f"{top}/{name}", 0o700)
        return CgroupRef(name, os.stat(identity).st_ino, Level.NODE)
    except OSError as error:
        return Gap(f"no cgroup can be made at {error.filename}: {error.strerror}")


def _remove_leftovers(tops: set[str]) -> None:
    """Those of processes that are gone: neither here, nor in another container, whose processes
    have other numbers, but which holds a lock. rmdir takes only empty groups."""
    for top in tops:
        with suppress(OSError):
            for name in os.listdir(top):
                pid = name.removeprefix(_PREFIX)
                if name.startswith(_PREFIX) and not os.path.exists(f"/proc/{pid}"):
                    _remove_unless_held(f"{top}/{name}")


def _remove_unless_held(path: str) -> None:
    lock = lock_directory(path)
    if isinstance(lock, int):
        with suppress(OSError):
            os.rmdir(path)
        os.close(lock)
