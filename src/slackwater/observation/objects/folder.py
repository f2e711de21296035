"""A folder of YAML and JSON files as the cluster's objects: the standalone mode's API server.

Owns the files' last good contents. A half-written or bad file is named, and what it said before
stays until it is good again or gone. Reads only files that changed; where inotify works, an
unchanged folder is not listed at all.
"""

import os
from collections.abc import Callable

from slackwater.contract.kubernetes import objects_in
from slackwater.model.gap import Gap
from slackwater.model.problem import ConfigurationProblem, InvalidError
from slackwater.observation.objects.documents import documents_in, file_text
from slackwater.observation.objects.folder_watch import FolderWatch, watch_folder
from slackwater.observation.objects.object_set import STAYS, Objects, joined, with_object
from slackwater.policies.catalog import SETTINGS
from slackwater.settings.agent_document import SettingsSchema

_ENDINGS = (".yaml", ".yml", ".json")
_AgeMark = tuple[int, int, int]
#: Each file is looked at once in this many reads, whatever the watch says: a file system in user
#: space or on another machine may change without the kernel's knowledge.
_WHOLE_LOOK = 60
_UNKNOWN: _AgeMark = (-1, -1, -1)
OpenWatch = Callable[[str], FolderWatch | Gap]


class Folder:
    """Guards the watch on the folder, and its memory of the files."""

    def __init__(
        self,
        path: str,
        node: str = "",
        host: str = "",
        schema: SettingsSchema = SETTINGS,
        open_watch: OpenWatch = watch_folder,
    ) -> None:
        """`node` and `host` are what this agent's node goes by; static pods of others are not
        believed."""
        self._path = path
        self._schema = schema
        self._node, self._host = node, host
        self._open_watch = open_watch
        self._watch: FolderWatch | None = None
        self._marks: dict[str, _AgeMark] = {}
        self._good: dict[str, Objects] = {}
        self._problems: dict[str, ConfigurationProblem] = {}
        self._known = Objects()
        self._inode: int | None = None
        #: What a link points to may change without an event in this folder.
        self._links: tuple[str, ...] = ()
        self._reads = 0

    def read(self) -> Objects | Gap:
        """The same object again where nothing changed."""
        self._reads += 1
        changed = self._changed_names()
        if changed is not None and not changed and self._reads % _WHOLE_LOOK:
            return self._known
        try:
            names = sorted(n for n in os.listdir(self._path) if _is_ours(n))
        except OSError as error:
            self._watch = None
            return Gap(f"the folder {self._path} cannot be read: {error.strerror}")
        self._links = tuple(name for name in names if os.path.islink(f"{self._path}/{name}"))
        for name in (changed or frozenset()) & self._marks.keys():
            # Its size and time may be the same: times are no finer than the kernel's tick.
            self._marks[name] = _UNKNOWN
        return self._take_all({name: _mark(f"{self._path}/{name}") for name in names})

    def _changed_names(self) -> frozenset[str] | None:
        """None where every file has to be looked at."""
        inode = _mark(self._path)[0]
        if self._watch is None or inode != self._inode:
            opened = self._open_watch(self._path)
            self._watch = None if isinstance(opened, Gap) else opened
            self._inode = inode
            return None
        names = self._watch.changed_names()
        if names is None:
            self._watch = None
            return None
        links = {name for name in self._links if _mark(f"{self._path}/{name}") != self._marks[name]}
        return names | links

    def _take_all(self, marks: dict[str, _AgeMark]) -> Objects:
        names = list(marks)
        changed = [name for name in names if marks[name] != self._marks.get(name)]
        if not changed and marks.keys() == self._marks.keys():
            return self._known
        for name in self._marks.keys() - marks.keys():
            self._good.pop(name, None)
            self._problems.pop(name, None)
        for name in changed:
            self._take(name)
        self._marks = marks
        parts = [self._good[name] for name in names if name in self._good]
        self._known = joined(parts, self._problems, self._node, self._host)
        return self._known

    def _take(self, name: str) -> None:
        self._problems.pop(name, None)
        try:
            self._good[name] = _objects(f"{self._path}/{name}", name, self._schema)
        except InvalidError as error:
            self._problems[name] = ConfigurationProblem(
                problems=error.problems, consequence=STAYS if name in self._good else ""
            )


def _is_ours(name: str) -> bool:
    return name.endswith(_ENDINGS) and not name.startswith(".")


def _mark(path: str) -> _AgeMark:
    """A file that cannot be looked at, a dangling link say, has a mark too: reading it says why."""
    try:
        status = os.stat(path)
    except OSError as error:
        return 0, 0, error.errno or 0
    return status.st_ino, status.st_size, status.st_mtime_ns


def _objects(path: str, source: str, schema: SettingsSchema) -> Objects:
    found = Objects()
    for document in documents_in(file_text(path, source), source):
        for each in objects_in(document, source) if document is not None else ():
            found = with_object(found, each, source, schema)
    return found
