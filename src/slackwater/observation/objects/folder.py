"""A folder of YAML and JSON files as the cluster's objects: the standalone mode's API server.

Owns the files' last good contents. A half-written or bad file is named, and what it said before
stays until it is good again or gone. Reads only files that changed.
"""

import os

from slackwater.contract.kubernetes import objects_in
from slackwater.model.gap import Gap
from slackwater.model.problem import ConfigurationProblem, InvalidError
from slackwater.observation.objects.documents import documents_in, file_text
from slackwater.observation.objects.object_set import STAYS, Objects, joined, with_object
from slackwater.policies.catalog import SETTINGS
from slackwater.settings.document import SettingsSchema

_ENDINGS = (".yaml", ".yml", ".json")
_AgeMark = tuple[int, int, int]
#: In a folder with more files than this, those of pods alone are looked at in turns: an edit in
#: place is seen after so many reads at most.
_SMALL_FOLDER = 64
_TURNS = 10


class Folder:
    """Guards nothing but its memory of the files."""

    def __init__(
        self, path: str, node: str = "", host: str = "", schema: SettingsSchema = SETTINGS
    ) -> None:
        """`node` and `host` are what this agent's node goes by; static pods of others are not
        believed."""
        self._path = path
        self._schema = schema
        self._node, self._host = node, host
        self._marks: dict[str, _AgeMark] = {}
        self._good: dict[str, Objects] = {}
        self._problems: dict[str, ConfigurationProblem] = {}
        self._known = Objects()
        self._folder_mark: _AgeMark | None = None
        #: Files that are looked at each time: whatever is not about pods alone.
        self._urgent: tuple[str, ...] = ()
        self._reads = 0

    def read(self) -> Objects | Gap:
        """The same object again where nothing changed."""
        self._reads += 1
        mark = _mark(self._path)
        # A file that comes or goes changes the folder's own mark; but that is no finer than the
        # kernel's clock, so it is not believed for ever.
        large = len(self._marks) > _SMALL_FOLDER
        if large and mark == self._folder_mark and self._reads % _TURNS:
            return self._look_at_some()
        try:
            names = sorted(n for n in os.listdir(self._path) if _is_ours(n))
        except OSError as error:
            return Gap(f"the folder {self._path} cannot be read: {error.strerror}")
        self._folder_mark = mark
        return self._take_all({name: _mark(f"{self._path}/{name}") for name in names})

    def _look_at_some(self) -> Objects:
        """Settings, nodes and bad files each time, pods in turns."""
        turn = list(self._marks)[self._reads % _TURNS :: _TURNS]
        seen = {name: _mark(f"{self._path}/{name}") for name in {*turn, *self._urgent}}
        if all(self._marks[name] == mark for name, mark in seen.items()):
            return self._known
        return self._take_all(self._marks | seen)

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
        self._urgent = tuple(n for n in names if not _is_pods(self._good.get(n, Objects())))
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


def _is_pods(objects: Objects) -> bool:
    """Whether it says nothing but pods."""
    return bool(objects.pods) and objects == Objects(pods=objects.pods)


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
