"""The last good objects on disk, for a start while the API server is away.

One file in the folder that outlives reboots: settings, the Node's allocatable and labels, policy
objects and pods, as they were read. It is written at most once a minute when settings or policies
changed, and every five minutes otherwise; while the API server is heard its time is kept up to
date, so that the file's age is how long ago the objects were known to be so.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from slackwater.bounded_read import read_start
from slackwater.execution.folder_lock import untrusted_folder
from slackwater.model.gap import Gap
from slackwater.model.units import Micros, format_age
from slackwater.observation.objects.object_set import Objects, SavedObjects
from slackwater.settings.agent_document import Settings, SettingsSchema

FILE = "objects.msgpack"
_FORMAT = 1
_SECOND = 1_000_000
#: Between two writes, where settings, the Node or policies changed; and where only pods did.
INTERVAL, PODS_INTERVAL = Micros(60 * _SECOND), Micros(300 * _SECOND)
#: Older objects are not used: a node that was off for long has other pods and other settings.
OLDEST = Micros(7 * 86_400 * _SECOND)
#: 250 pods with what is kept of each take about half a MiB.
_LARGEST = 32 << 20


class _Checkpoint(msgspec.Struct, frozen=True):
    checkpoint: int
    node: str
    objects: Objects


class ObjectsCheckpoint:
    """Guards the file."""

    def __init__(
        self,
        folder: str,
        node: str,
        schema: SettingsSchema,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._path = os.path.join(folder, FILE)
        self._node = node
        self._schema = schema
        self._wall_clock = wall_clock
        self._saved = Objects()
        self._saved_at: Micros | None = None
        self._problem = ""

    def load(self) -> SavedObjects | Gap | None:
        """None where nothing was saved; a Gap says why what was cannot be used."""
        if not os.path.lexists(self._path):
            return None
        try:
            untrusted = untrusted_folder(self._folder)
            age = max(self._wall_clock() - os.lstat(self._path).st_mtime, 0.0)
        except OSError as error:
            return Gap(f"{self._path} cannot be used: {error.strerror}")
        if untrusted is not None:
            return untrusted
        aged = Micros(int(age * _SECOND))
        if aged > OLDEST:
            return Gap(f"{self._path} is not used: it is {format_age(aged)} old")
        contents = read_start(self._path, _LARGEST)
        if isinstance(contents, Gap):
            return Gap(f"{self._path} is {contents.reason}")
        try:
            found = msgspec.msgpack.decode(contents.data, type=_Checkpoint)
            objects = self._with_settings(found.objects)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return Gap(f"{self._path} cannot be used: {error}")
        if (found.checkpoint, found.node) != (_FORMAT, self._node):
            return Gap(f"{self._path} is another version's, or another node's ({found.node[:64]})")
        return SavedObjects(objects, aged)

    def offer(self, objects: Objects, at: Micros, *, heard: bool) -> str:
        """After each round; what went wrong at the last time. `heard`: the API server is there."""
        if not heard or objects.saved_age is not None:
            return self._problem
        if self._is_due(objects, at):
            self._saved_at, self._saved = at, objects
            self._problem = self._save(objects)
        elif self._saved_at is not None and at - self._saved_at >= PODS_INTERVAL:
            self._saved_at = at
            with suppress(OSError):
                now = self._wall_clock()
                os.utime(self._path, (now, now), follow_symlinks=False)
        return self._problem

    def _is_due(self, objects: Objects, at: Micros) -> bool:
        if objects is self._saved:
            return False
        if self._saved_at is None:
            return True
        only_pods = msgspec.structs.replace(objects, pods=self._saved.pods) == self._saved
        return at - self._saved_at >= (PODS_INTERVAL if only_pods else INTERVAL)

    def _save(self, objects: Objects) -> str:
        """As a whole or not at all."""
        kept = msgspec.structs.replace(objects, problems=(), warnings=(), recalled=None)
        new = f"{self._path}.new"
        try:
            with suppress(FileNotFoundError):
                os.unlink(new)
            text = msgspec.msgpack.encode(_Checkpoint(_FORMAT, self._node, kept))
            file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(file, "wb") as stream:
                stream.write(text)
            os.replace(new, self._path)
        except OSError as error:
            with suppress(OSError):
                os.unlink(new)
            return f"{self._path} cannot be written: {error.strerror}"
        return ""

    def _with_settings(self, objects: Objects) -> Objects:
        """The policies' types are the schema's; a policy that is not known here is left out."""
        if objects.settings is None:
            return objects
        types = self._schema.sections
        policies: dict[str, Any] = {
            name: msgspec.convert(section, types[name])
            for name, section in objects.settings.policies.items()
            if name in types
        }
        known = {**self._schema.defaults.policies, **policies}
        settings = Settings(objects.settings.agent, known, objects.settings.stated)
        return msgspec.structs.replace(objects, settings=settings)
