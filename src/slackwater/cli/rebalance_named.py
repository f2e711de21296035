"""What settings name, tried before anything is asked: selectors that parse, files that can be read.

Owns who is blamed: the flag, the variable or the file's key that said it.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

import msgspec

from slackwater.model.gap import Gap
from slackwater.model.problem import Problem, quoted
from slackwater.settings import rotation_shapes as shapes
from slackwater.settings.rebalancer import RunSettings, WorkloadSettings
from slackwater.settings.rotation_document import ENTRIES, Filed, Said, Worded
from slackwater.settings.rotation_entry import Entry, Scope
from slackwater.settings.wording import Wording

_SELECTOR = "selector"


class Spoken(msgspec.Struct, frozen=True):
    """Variables or flags by key: as they were said, and those of them that are good."""

    words: Mapping[str, Worded]
    said: Said


def bad_selectors(file: str, filed: Filed, spoken: Sequence[Spoken]) -> Iterator[Problem]:
    """Their grammar is no shape, so that they are read once more."""
    from slackwater.contract.selector_text import parse_selector
    from slackwater.model.problem import InvalidError

    for where, text in _selectors(file, filed, spoken):
        try:
            parse_selector(text, where)
        except InvalidError as error:
            yield error.problems[0]


def _selectors(file: str, filed: Filed, spoken: Sequence[Spoken]) -> Iterator[tuple[str, str]]:
    listed = enumerate(filed.workloads)
    places = [
        (f"{file}: spec.defaults.{_SELECTOR}", filed.defaults),
        *((f"{file}: spec.workloads[{n}].{_SELECTOR}", each.said) for n, each in listed),
        *((each.words[_SELECTOR].where, each.said) for each in spoken if _SELECTOR in each.words),
    ]
    for where, said in places:
        if isinstance(text := said.get(_SELECTOR), str):
            yield where, text


def unreadable(settings: RunSettings, origins: Mapping[str, str], file: str) -> Iterator[Problem]:
    """Files that are named and will be read, as they are now."""
    from slackwater.bounded_read import read_start

    for entry in ENTRIES:
        if not isinstance(entry.setting, Wording) or entry.setting.shape is not shapes.FILE:
            continue
        for path in dict.fromkeys(_paths(entry, settings)):
            found = read_start(path, 1) if path else None
            if isinstance(found, Gap):
                where = origins.get(entry.key, f"{file}: {entry.key}")
                wanted = f"a file that can be read ({found.reason})"
                yield Problem(where, quoted(path), wanted)


def _paths(entry: Entry, settings: RunSettings) -> Iterator[str]:
    """Those of brokers only where brokers are asked."""
    asked: list[RunSettings | WorkloadSettings] = [settings]
    if entry.scope is not Scope.RUN:
        asked = [
            each
            for each in settings.workloads
            if each.kafka.enabled and each.kafka.bootstrap_servers
        ]
    for each in asked:
        yield str(reduce(getattr, entry.path, each))
