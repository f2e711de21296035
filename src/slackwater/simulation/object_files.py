"""Manifests of QoS ensurance from files and folders, to be tried on a scenario's node."""

import os

from slackwater.contract.crane.ensurance_set import (
    NO_OBJECTS,
    EnsuranceObjects,
    join_ensurance,
    read_ensurance,
)
from slackwater.contract.kubernetes import kind_of, objects_in
from slackwater.model.problem import InvalidError, Problem
from slackwater.observation.objects.documents import documents_in, file_text

_ENDINGS = (".yaml", ".yml", ".json")
_WANTED = "manifests of QoS ensurance, such as a NodeQOS"


def read_object_files(paths: tuple[str, ...]) -> EnsuranceObjects:
    """Of two objects of one kind and name the last counts; other kinds are left out. Raises
    InvalidError, also about a path without any such object."""
    return join_ensurance(_read_path(path) for path in paths)


def _read_path(path: str) -> EnsuranceObjects:
    found = join_ensurance(_read_file(name) for name in _files(path))
    if found == NO_OBJECTS:
        raise InvalidError(Problem(path, "without any", _WANTED))
    return found


def _files(path: str) -> list[str]:
    if not os.path.isdir(path):
        return [path]
    names = sorted(name for name in os.listdir(path) if name.endswith(_ENDINGS))
    return [os.path.join(path, name) for name in names]


def _read_file(path: str) -> EnsuranceObjects:
    source = os.path.basename(path)
    return join_ensurance(
        read
        for document in documents_in(file_text(path, source), source)
        for each in (objects_in(document, source) if document is not None else ())
        if (read := read_ensurance(kind_of(each, source), each, source)) is not None
    )
