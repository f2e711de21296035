"""Which tasks a container has, by their numbers in the host's /proc.

The kernel lists the tasks of a cgroup by the numbers that they have in the reader's own PID
namespace, and leaves out those that have none there. An agent in a pod has a namespace of its own,
so there /proc is searched instead: every process says which cgroup it is in.
"""

import os
import re
from collections.abc import Iterator
from typing import Protocol

from slackwater.bounded_read import read_start
from slackwater.model.cgroup import CgroupController, CgroupMounts, CgroupRef, CgroupVersion
from slackwater.model.gap import Gap
from slackwater.observation.cgroups.files import GroupFolders
from slackwater.observation.cgroups.paths import container_id

#: Groups below a container's own are looked into this far, as a systemd inside makes them.
_DEEPEST = 8
_OWN_LINKS = 2
_LONGEST_LINES = 16 * 1024
#: In so many searches every process is asked again: a container's first process may have been seen
#: before it joined its cgroup, and a number may be another process's by now.
_TURNS = 8
_PARTS = re.compile(r"[/\n]")


class TasksOfGroups(Protocol):
    def tasks(self, ref: CgroupRef) -> list[int] | Gap:
        """Threads of the container's processes, also of those in groups below its own."""
        ...


def sees_all_tasks(proc: str) -> bool:
    """Whether this /proc calls us by the number that we know: then it is of our PID namespace."""
    try:
        return os.readlink(f"{proc}/self") == str(os.getpid())
    except OSError:
        return False


class ListedTasks:
    """As the cgroup itself lists them."""

    def __init__(self, mounts: CgroupMounts) -> None:
        self._folders = GroupFolders(mounts)
        home = mounts.identity()
        v1 = not isinstance(home, Gap) and home.version is CgroupVersion.V1
        self._file = "tasks" if v1 else "cgroup.threads"

    def tasks(self, ref: CgroupRef) -> list[int] | Gap:
        try:
            folder = self._folders.open(CgroupController.CPU, ref.path, ref.id)
        except OSError as error:
            return self._folders.refusal(self._file, ref.path, ref.id, error)
        if isinstance(folder, Gap):
            return folder
        try:
            return list(_tasks_below(folder, self._file, _DEEPEST))
        except OSError as error:
            return self._folders.refusal(self._file, ref.path, ref.id, error)
        finally:
            os.close(folder)


def _tasks_below(folder: int, name: str, deepest: int) -> Iterator[int]:
    """Of this group and of those below it. OSError is passed on."""
    fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        text = b"".join(iter(lambda: os.read(fd, 1 << 16), b""))
    finally:
        os.close(fd)
    yield from map(int, text.split())
    if not deepest or os.fstat(folder).st_nlink <= _OWN_LINKS:
        return
    with os.scandir(folder) as entries:
        below = [each.name for each in entries if each.is_dir(follow_symlinks=False)]
    for child in below:
        inner = os.open(child, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        try:
            yield from _tasks_below(inner, name, deepest - 1)
        finally:
            os.close(inner)


class ScannedTasks:
    """As the processes themselves say. Of a cgroup namespace other than the host's only the end of
    a path is the same: containers are told apart by their ids."""

    def __init__(self, proc: str) -> None:
        self._proc = proc
        self._ids: dict[int, frozenset[str]] = {}
        self._processes: dict[str, list[int]] = {}
        self._turn = 0
        self._refused: Gap | None = None

    def refresh(self) -> None:
        """Searches /proc. Only new processes are asked, and others in turn."""
        try:
            numbers = {int(name) for name in os.listdir(self._proc) if name.isdigit()}
        except OSError as error:
            self._refused = Gap(f"{self._proc}: {error.strerror}")
            return
        self._refused = None
        self._turn = (self._turn + 1) % _TURNS
        for gone in self._ids.keys() - numbers:
            del self._ids[gone]
        for number in numbers:
            if number not in self._ids or number % _TURNS == self._turn:
                self._ids[number] = self._containers_of(number)
        self._processes = {}
        for number, ids in self._ids.items():
            for each in ids:
                self._processes.setdefault(each, []).append(number)

    def tasks(self, ref: CgroupRef) -> list[int] | Gap:
        if self._refused is not None:
            return self._refused
        found: list[int] = []
        for process in self._processes.get(container_id(ref.name()) or "", ()):
            try:
                found += map(int, os.listdir(f"{self._proc}/{process}/task"))
            except OSError:
                continue  # it has ended
        return found

    def _containers_of(self, process: int) -> frozenset[str]:
        """The ids in the paths of its cgroups; several where containers run in containers."""
        contents = read_start(f"{self._proc}/{process}/cgroup", _LONGEST_LINES)
        if isinstance(contents, Gap):
            return frozenset()
        parts = _PARTS.split(contents.data.decode("ascii", "replace"))
        return frozenset(each for each in map(container_id, parts) if each)
