"""Prometheus' text format (version 0.0.4) into series. Pure: asks nobody, raises nothing.

An answer that is not in this format is refused as a whole, as Prometheus does; a series that is in
it but cannot be used (not a finite number, there twice, bad labels) is left out with the
reason, and the others count. Lines about series that nobody wants are looked at for their names
alone: an exporter has thousands. Of OpenMetrics the `# EOF` and exemplars are tolerated. Timestamps
are checked and ignored: a series is as old as the answer.
"""

import math
import re
from collections.abc import Iterable, Mapping

import msgspec

from slackwater.model.gap import Gap
from slackwater.model.metric import Sample
from slackwater.model.problem import quoted

#: Of one answer, in bytes. Exporters of whole nodes have 100 to 300 KiB.
LARGEST_ANSWER = 1 << 20
#: Series of one answer that are kept, those of names that nobody wants not counted.
MOST_SERIES = 10_000
MOST_LABELS = 64
LONGEST_LABEL = 1024
#: Prometheus' own labels, such as a metric's name, begin so; its client refuses others.
_RESERVED = "__"
#: Of a line that is no text format: enough to tell a login page, too little to carry a secret.
_LONGEST_QUOTE = 24
#: Reasons that are kept; the others are only counted.
_MOST_REASONS = 8

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*+"
_LABEL_NAME = r"[a-zA-Z_][a-zA-Z0-9_]*+"
_QUOTED = r'"(?:[^"\\\n]|\\[\\"n])*+"'
_LABEL = rf"{_LABEL_NAME}[ \t]*+=[ \t]*+{_QUOTED}[ \t]*+"
_LABELS = rf"\{{[ \t]*+(?:{_LABEL}(?:,[ \t]*+{_LABEL})*+(?:,[ \t]*+)?)?\}}"
#: As Go's ParseFloat takes it, without hexadecimal digits and underscores.
_NUMBER = r"[+-]?(?:(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?|(?i:inf|infinity|nan))"
# Possessive throughout: a line that does not fit fails in one pass.
_LINE = re.compile(
    rf"[ \t]*+(?P<name>{_NAME})[ \t]*+(?P<labels>{_LABELS})?[ \t]*+"
    rf"(?<=[ \t}}])(?P<value>{_NUMBER})"
    r"(?:[ \t]++-?[0-9]++(?:\.[0-9]++)?)?[ \t]*+"
    rf"(?:#[ \t]*+{_LABELS}[ \t]++[^\n]*+)?",
    re.ASCII,
)
_NAMED = re.compile(rf"[ \t]*+({_NAME})(?=[ \t{{])", re.ASCII)
_EACH_LABEL = re.compile(rf"({_LABEL_NAME})[ \t]*+=[ \t]*+({_QUOTED})", re.ASCII)
_ESCAPED = re.compile(r"\\(.)")


class Exposition(msgspec.Struct, frozen=True):
    """The series of one answer by name, as far as they were wanted and can be used. `left_out`
    tells of those that cannot, one clause each, the first few of them by name."""

    series: Mapping[str, tuple[Sample, ...]]
    left_out: Mapping[str, tuple[str, ...]] = {}

    def why_missing(self, name: str) -> str:
        """Why there is no series of this name, as one clause."""
        told = self.left_out.get(name)
        if told:
            more = f" and {len(told) - 1} more" if len(told) > 1 else ""
            return f"{told[0]}{more}"
        return f"the answer has no series {quoted(name)}"


def parse_exposition(body: bytes, names: Iterable[str] | None = None) -> Exposition | Gap:
    """`names`: the series that are wanted; None keeps all."""
    if len(body) > LARGEST_ANSWER:
        return Gap(f"the answer has more than {LARGEST_ANSWER >> 20} MiB")
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return Gap("the answer is not in Prometheus' text format: it is not UTF-8")
    wanted = None if names is None else frozenset(names)
    found = _Series()
    first = True
    for number, line in enumerate(text.split("\n"), start=1):
        if not line or line[0] == "#" or line.isspace() or line.lstrip(" \t")[0] == "#":
            continue
        named = _NAMED.match(line)
        if named and not first and wanted is not None and named[1] not in wanted:
            continue
        match = _LINE.fullmatch(line) if named else None
        if match is None:
            begin = quoted(line[:_LONGEST_QUOTE])
            where = f"line {number} begins {begin}"
            return Gap(f"the answer is not in Prometheus' text format: {where}")
        first = False
        if wanted is not None and match["name"] not in wanted:
            continue
        if found.count >= MOST_SERIES:
            return Gap(f"the answer has more than {MOST_SERIES} series of the names asked for")
        found.add(match["name"], match["labels"] or "", match["value"])
    return found.exposition()


class _Series:
    """Collects the series of one answer."""

    def __init__(self) -> None:
        self.count = 0
        self._found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        self._twice: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
        self._left_out: dict[str, list[str]] = {}

    def add(self, name: str, labels: str, number: str) -> None:
        self.count += 1
        pairs = [(key, _unescape(value)) for key, value in _EACH_LABEL.findall(labels)]
        bad = _find_bad_label(pairs)
        if bad:
            self._leave_out(name, f"a series of {name} has {bad}")
            return
        key = (name, tuple(sorted(pairs)))
        if key in self._found:
            self._twice.add(key)
            return
        self._found[key] = float(number)

    def exposition(self) -> Exposition:
        series: dict[str, list[Sample]] = {}
        for key, value in self._found.items():
            name, labels = key
            if key in self._twice:
                self._leave_out(name, f"{format_series(name, dict(labels))} is there twice")
            elif not math.isfinite(value):
                shown = format_series(name, dict(labels))
                self._leave_out(name, f"{shown} is {value:g}, not a finite number")
            else:
                series.setdefault(name, []).append(Sample(value, dict(labels)))
        return Exposition(
            {name: tuple(found) for name, found in series.items()},
            {name: tuple(told) for name, told in self._left_out.items()},
        )

    def _leave_out(self, name: str, reason: str) -> None:
        told = self._left_out.setdefault(name, [])
        if len(told) < _MOST_REASONS:
            told.append(reason)


def format_series(name: str, labels: Mapping[str, str]) -> str:
    """For people, clipped: name{key="value"}."""
    if not labels:
        return name
    shown = ",".join(f"{key}={quoted(value)}" for key, value in list(labels.items())[:4])
    return f"{name}{{{shown}{',...' if len(labels) > 4 else ''}}}"


def _find_bad_label(pairs: list[tuple[str, str]]) -> str:
    """What is wrong with a series' labels; empty where nothing is."""
    if len(pairs) > MOST_LABELS:
        return f"{len(pairs)} labels, more than {MOST_LABELS}"
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        return "a label twice"
    for name, value in pairs:
        if name.startswith(_RESERVED):
            return f"a label that begins with {_RESERVED}, which Prometheus reserves for itself"
        if len(name) > LONGEST_LABEL or len(value) > LONGEST_LABEL:
            return f"a label of more than {LONGEST_LABEL} characters"
    return ""


def _unescape(literal: str) -> str:
    inner = literal[1:-1]
    if "\\" not in inner:
        return inner
    return _ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1], inner)
