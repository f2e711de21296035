"""The folders of clusters: one owner each, by a lock, and nothing left of dead ones.

Owns what is below one folder of clusters, and the cgroups that carry their names. The process that
holds a cluster's lock is the cluster; its number in the lock's file is believed only while the lock
is held, so an old file can never name a stranger.
"""

import errno
import fcntl
import hashlib
import itertools
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tools.cluster.processes import ClusterError
from tools.host_kernel import MOUNT_TABLE, Mount, parse_mounts

#: A cgroup stays busy for a moment after its last process ended.
_PATIENCE_SECONDS = 60.0
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


NODE = "node"
_LOCK = ".lock"
_HASH_DIGITS = 6


class OwnedError(ClusterError):
    """Another process owns the folder."""


def runs_already(folder: Path) -> str:
    """The sentence, and the way to another one."""
    return (
        f"cluster {folder.name} runs already; `python -m tools.cluster down --name {folder.name}` "
        'ends it, and another one needs another name: --name b, with make ARGS="--name b"'
    )


def cgroup_root(cluster: Path, node: str = NODE) -> str:
    """Its name in every hierarchy: one for each folder on this machine, and the same again for
    whoever comes after a killed cluster."""
    place = hashlib.sha256(str(cluster.absolute()).encode()).hexdigest()[:_HASH_DIGITS]
    return f"slackwater-{cluster.name}-{place}-{node}"


@contextmanager
def sole_owner(folder: Path) -> Iterator[None]:
    """The lock lies beside the folder, which is empty at the begin and removed at the end."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _lock_of(folder).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OwnedError(runs_already(folder)) from error
        _sweep(folder)
        folder.mkdir(mode=0o700)
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        try:
            yield
        finally:
            _sweep(folder)
            lock.truncate(0)


@contextmanager
def first_free(parent: Path, name: str) -> Iterator[Path]:
    """The folder name-0, or the next that nobody owns; few names, so few locks stay behind."""
    for number in itertools.count():
        folder = parent / f"{name}-{number}"
        with ExitStack() as held:
            try:
                held.enter_context(sole_owner(folder))
            except OwnedError:
                continue
            yield folder
            return


def owner(folder: Path) -> int | None:
    """The process that holds the lock, if one does."""
    lock = _lock_of(folder)
    if not lock.exists():
        return None
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            said = file.read().strip()
            return int(said) if said else None
    return None


def clusters_in(parent: Path) -> list[Path]:
    """Those that run, and those of which something may be left."""
    return [lock.with_suffix("") for lock in sorted(parent.glob(f"*{_LOCK}"))]


def sweep_dead(parent: Path) -> None:
    """What killed clusters left behind."""
    for folder in clusters_in(parent):
        swept(folder)


def swept(folder: Path) -> bool:
    """Whether a killed cluster had left something behind, which is gone now. One that is just
    beginning holds its lock already, and is left alone."""
    lock_file = _lock_of(folder)
    if not lock_file.exists():
        return False
    with lock_file.open("r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        # A cluster that ended by itself takes its number out of the file.
        was_killed = bool(lock.read().strip()) or folder.exists()
        _sweep(folder)
        lock.truncate(0)
    return was_killed


def _sweep(folder: Path) -> None:
    remove_root(cgroup_root(folder), hierarchies())
    shutil.rmtree(folder, ignore_errors=True)


def _lock_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}{_LOCK}")
