"""Manifests of QoS ensurance from files and folders, to be tried on a scenario's node."""

import os
from collections.abc import Iterable

from slackwater.contract.crane.ensurance_set import (
    NO_OBJECTS,
    join_ensurance,
    read_ensurance,
)
from slackwater.contract.crane.unknown_fields import find_unknown_fields
from slackwater.contract.kubernetes import kind_of, objects_in
from slackwater.model.problem import InvalidError, Problem
from slackwater.observation.objects.documents import documents_in, file_text
from slackwater.observation.objects.object_set import Objects

_ENDINGS = (".yaml", ".yml", ".json")
_WANTED = "manifests of QoS ensurance, such as a NodeQOS"


def read_object_files(paths: tuple[str, ...]) -> Objects:
    """Of two objects of one kind and name the last counts; other kinds are left out. Raises
    InvalidError, also about a path without any such object."""
    return _join(_read_path(path) for path in paths)


def _join(parts: Iterable[Objects]) -> Objects:
    found = list(parts)
    return Objects(
        ensurance=join_ensurance(each.ensurance for each in found),
        warnings=tuple(warning for each in found for warning in each.warnings),
    )


def _read_path(path: str) -> Objects:
    found = _join(_read_file(name) for name in _files(path))
    if found.ensurance == NO_OBJECTS:
        raise InvalidError(Problem(path, "without any", _WANTED))
    return found


def _files(path: str) -> list[str]:
    if not os.path.isdir(path):
        return [path]
    names = sorted(name for name in os.listdir(path) if name.endswith(_ENDINGS))
    return [os.path.join(path, name) for name in names]


def _read_file(path: str) -> Objects:
    source = os.path.basename(path)
    return _join(
        _read_object(each, source)
        for document in documents_in(file_text(path, source), source)
        for each in (objects_in(document, source) if document is not None else ())
    )


def _read_object(document: object, source: str) -> Objects:
    kind = kind_of(document, source)
    read = read_ensurance(kind, document, source)
    if read is None:
        return Objects()
    return Objects(ensurance=read, warnings=find_unknown_fields(kind, document, source))
