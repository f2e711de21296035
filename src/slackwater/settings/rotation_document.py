"""The rebalancer's settings out of a file, of variables and of flags, as one RunSettings.

Owns the file's outline and who overrules whom: flag, variable, the file's entry of the workload,
the file's defaults, our default. All bad values are told at once.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from slackwater.model.problem import InvalidError, Problem, quoted
from slackwater.settings.rebalancer import RunSettings, WorkloadSettings
from slackwater.settings.rotation_entry import Entry, Scope, Value, checked, checked_text
from slackwater.settings.rotation_run import RUN_ENTRIES
from slackwater.settings.rotation_shapes import OBJECT
from slackwater.settings.rotation_workload import WORKLOAD_ENTRIES
from slackwater.settings.wording import Wording, check_wording

API_VERSION = "slackwater.io/v1"
KIND = "RebalancerSettings"
ENTRIES: tuple[Entry, ...] = (*WORKLOAD_ENTRIES, *RUN_ENTRIES)
BY_KEY: Mapping[str, Entry] = {entry.key: entry for entry in ENTRIES}
NAME = Wording("name", "", OBJECT, "Of the Deployment, StatefulSet or ReplicaSet.")
_OUTLINE = ("apiVersion", "kind", "metadata", "spec")
_WORKLOAD_KEYS = tuple(entry.key for entry in WORKLOAD_ENTRIES)
_RUN_KEYS = tuple(entry.key for entry in RUN_ENTRIES)
_Struct = TypeVar("_Struct", bound=msgspec.Struct)
_Result = TypeVar("_Result")

#: Checked values by key.
Said = Mapping[str, Value]


class RotationError(InvalidError):
    """Several settings that cannot be used; str() has a line for each."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(problems[0])
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "\n".join(problem.sentence() for problem in self.problems)


class Worded(msgspec.Struct, frozen=True):
    """What a flag or a variable says. `where` is its name."""

    where: str
    text: str


class Listed(msgspec.Struct, frozen=True):
    """A workload and what was said of it alone."""

    name: str
    said: Said


class Filed(msgspec.Struct, frozen=True):
    """What a file says."""

    run: Said = {}
    defaults: Said = {}
    workloads: tuple[Listed, ...] = ()


class Problems:
    """Guards the list of what is wrong while the rest is still being read."""

    def __init__(self) -> None:
        self._found: list[Problem] = []

    def hear(self, attempt: Callable[[], _Result], otherwise: _Result) -> _Result:
        try:
            return attempt()
        except InvalidError as error:
            self._found += error.problems
            return otherwise

    def add(self, problem: Problem) -> None:
        self._found.append(problem)

    def settle(self) -> None:
        if self._found:
            raise RotationError(self._found)


def read_texts(texts: Mapping[str, Worded], problems: Problems) -> Said:
    """Flags or variables, by the setting's key."""
    said: dict[str, Value] = {}
    for key, worded in texts.items():
        none: dict[str, Value] = {}
        said |= problems.hear(partial(_worded, key, worded), none)
    return said


def _worded(key: str, worded: Worded) -> dict[str, Value]:
    return {key: checked_text(BY_KEY[key], worded.text, worded.where)}


def read_file(document: object, source: str, problems: Problems) -> Filed:
    """A whole file; `source` is its name, for the sentences."""
    outline = _mapping(document, _OUTLINE, source, problems)
    for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if outline.get(key) != expected:
            problems.add(Problem(f"{source}: {key}", quoted(outline.get(key)), expected))
    where = f"{source}: spec"
    known = (*_heads(_RUN_KEYS), "defaults", "workloads")
    spec = _mapping(outline.get("spec", {}), known, where, problems)
    run = {key: each for key, each in spec.items() if key not in ("defaults", "workloads")}
    return Filed(
        _section(run, _RUN_KEYS, where, problems),
        _section(spec.get("defaults", {}), _WORKLOAD_KEYS, f"{where}.defaults", problems),
        _workloads(spec.get("workloads", []), f"{where}.workloads", problems),
    )


def _workloads(value: object, where: str, problems: Problems) -> tuple[Listed, ...]:
    if not isinstance(value, list):
        problems.add(Problem(where, quoted(value), "a list of workloads"))
        return ()
    return tuple(_workload(each, f"{where}[{place}]", problems) for place, each in enumerate(value))


def _workload(value: object, where: str, problems: Problems) -> Listed:
    said = _section(value, _WORKLOAD_KEYS, where, problems, also=("name",))
    name = value.get("name") if isinstance(value, dict) else None
    checked_name = problems.hear(lambda: check_wording(NAME, name, f"{where}.name"), "")
    return Listed(checked_name, said)


def _section(
    value: object,
    keys: Sequence[str],
    where: str,
    problems: Problems,
    also: tuple[str, ...] = (),
) -> Said:
    """The settings in a mapping; those with a dot in their key are in a mapping below it."""
    said: dict[str, Value] = {}
    for head, each in _mapping(value, (*also, *_heads(keys)), where, problems).items():
        if head in also:
            continue
        if head in keys:
            said |= _one(head, each, f"{where}.{head}", problems)
            continue
        below = [key.partition(".")[2] for key in keys if key.startswith(f"{head}.")]
        for key, deep in _mapping(each, below, f"{where}.{head}", problems).items():
            said |= _one(f"{head}.{key}", deep, f"{where}.{head}.{key}", problems)
    return said


def _one(key: str, value: object, where: str, problems: Problems) -> dict[str, Value]:
    return problems.hear(lambda: {key: checked(BY_KEY[key], value, where)}, {})


def _heads(keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key.partition(".")[0] for key in keys))


def _mapping(
    value: object, known: Sequence[str], where: str, problems: Problems
) -> dict[str, object]:
    """Those of its keys that are known and not null; every other key is a problem."""
    if not isinstance(value, dict):
        problems.add(Problem(where, quoted(value), "a mapping"))
        return {}
    for key in value:
        if key not in known:
            wanted = f"one of {', '.join(known)}"
            problems.add(Problem(f"a key of {where}", quoted(key), wanted))
    return {key: each for key, each in value.items() if key in known and each is not None}


def run_settings(*said: Said) -> RunSettings:
    """Without workloads; what is said later overrules."""
    return _with(RunSettings(), RUN_ENTRIES, *said)


def workload_settings(listed: Listed, defaults: Said, texts: Said) -> WorkloadSettings:
    """`texts`: of variables and flags; they overrule the file but for who is meant."""
    identity = {k: v for k, v in texts.items() if BY_KEY[k].scope is Scope.IDENTITY}
    base = WorkloadSettings("default", listed.name)
    others = {k: v for k, v in texts.items() if BY_KEY[k].scope is Scope.WORKLOAD}
    return _with(base, WORKLOAD_ENTRIES, defaults, identity, listed.said, others)


def _with(base: _Struct, entries: Sequence[Entry], *said: Said) -> _Struct:
    known = {entry.key: entry for entry in entries}
    for each in said:
        for key, value in each.items():
            if key in known:
                base = _replaced(base, known[key].path, value)
    return base


def _replaced(struct: _Struct, path: Sequence[str], value: object) -> _Struct:
    head, *rest = path
    inner: Any = value if not rest else _replaced(getattr(struct, head), rest, value)
    return msgspec.structs.replace(struct, **{head: inner})
