"""A scratch cgroup of our own: made in every hierarchy, removed afterwards.

Owns the directories that it made and nothing else. It never switches a controller on for the
root: a controller that children do not get is exactly what doctor has to tell.
"""

import contextlib
import os
from types import TracebackType

from slackwater.model.cgroup import CgroupMounts, CgroupRef, Controller, Level
from slackwater.model.gap import Gap


class Scratch:
    """`with Scratch(mounts, name) as ref:` is a CgroupRef, or a Gap that says why there is none."""

    def __init__(self, mounts: CgroupMounts, name: str) -> None:
        self._mounts = mounts
        self._name = name
        self._made: list[str] = []

    def __enter__(self) -> CgroupRef | Gap:
        directories = {
            mount.directory: f"{mount.directory}/{self._name}"
            for mount in self._mounts.by_controller.values()
        }
        identity = self._mounts.directory(Controller.CPU, self._name)
        if isinstance(identity, Gap):
            return identity
        try:
            for directory in directories.values():
                os.mkdir(directory, 0o700)
                self._made.append(directory)
            return CgroupRef(self._name, os.stat(identity).st_ino, Level.NODE)
        except OSError as error:
            self._remove()
            return Gap(f"no cgroup can be made at {error.filename}: {error.strerror}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        while self._made:
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(self._made.pop())
