"""Usage series for forecasts: from CSV files, or from Prometheus.

An error names file, line, column, value and bound. An empty cell and NaN mean that there is no
sample. A time without a zone is UTC. Lines need not be in the order of time.
"""

import csv
import itertools
import math
import operator
import os
import time
from collections.abc import Iterator, Sequence

import msgspec

from slackwater.bounded_read import read_start
from slackwater.cli.output import Failed
from slackwater.http.prometheus_api import PrometheusError, SeriesRange
from slackwater.http.prometheus_client import PrometheusClient
from slackwater.model.gap import Gap
from slackwater.model.problem import InvalidError, Problem, quoted
from slackwater.prediction.history import DAY, HOUR, History, build_history, median_interval
from slackwater.record.timestamps import parse_timestamp
from slackwater.settings.prometheus import PrometheusSettings

#: A year by the minute is 20 MB.
_LARGEST_FILE = 256 << 20
_TIME_COLUMNS, _VALUE_COLUMN = ("ts", "timestamp"), "value"
_HEADER_WANTED = "ts,value or timestamp,value"
#: The year 9999, where RFC 3339 ends.
_LATEST = 253_402_300_799.0
_TIME_WANTED = "seconds since 1970 or a time such as 2026-11-17T12:00:00Z"
_MILLISECONDS_WANTED = "in seconds since 1970, and these look like milliseconds"
#: Above what bytes of memory or any CPU could be, and far below where squares overflow.
_MOST_VALUE = 1e15
_VALUE_WANTED = f"a number, 0 or more, up to {_MOST_VALUE:g}"
#: More samples than this share at a time that another one has are not one series.
_MOST_REPEATED = 0.01
#: Points of one range query; Prometheus refuses more than 11,000.
_MOST_POINTS = 10_000
_SHORTEST_INTERVAL = 1.0


class NamedSeries(msgspec.Struct, frozen=True):
    """`note` is what a person should know about it; mostly nothing."""

    name: str
    history: History
    note: str = ""


class _CsvSample(msgspec.Struct, frozen=True, gc=False):
    line: int
    at: float
    value: float


def read_series(path: str) -> NamedSeries:
    """Raises InvalidError for what is wrong in it, and Failed where it cannot be read."""
    match read_start(path, _LARGEST_FILE):
        case Gap(reason):
            raise Failed(f"{path} cannot be read: {reason}")
        case found:
            content = found.data
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidError(Problem(path, f"no UTF-8 at byte {error.start}", "UTF-8")) from None
    rows = list(_rows(text, path))
    if not any(math.isfinite(row.value) for row in rows):
        raise InvalidError(Problem(path, "without a sample", "a series with two or more"))
    rows, notes = _in_order(rows, path)
    name = os.path.basename(path).removesuffix(".csv")
    made = _name_series(name, path, [row.at for row in rows], [row.value for row in rows])
    return msgspec.structs.replace(made, note="; ".join(filter(None, (*notes, made.note))))


def _rows(text: str, path: str) -> Iterator[_CsvSample]:
    lines = csv.reader(text.splitlines(), strict=True)
    try:
        time_place, value_place = _columns(next(lines, []), path)
        for cells in lines:
            if any(cell.strip() for cell in cells):
                yield _row(cells, time_place, value_place, f"{path} line {lines.line_num}",
                           lines.line_num)  # fmt: skip
    except csv.Error as error:
        raise InvalidError(Problem(f"{path} line {lines.line_num}", str(error), "CSV")) from None


def _columns(cells: Sequence[str], path: str) -> tuple[int, int]:
    names = [cell.strip().casefold() for cell in cells]
    times = [place for place, name in enumerate(names) if name in _TIME_COLUMNS]
    values = [place for place, name in enumerate(names) if name == _VALUE_COLUMN]
    if len(times) != 1 or len(values) != 1:
        said = quoted(",".join(cells)) if cells else "missing"
        raise InvalidError(Problem(f"{path} line 1", said, f"a header such as {_HEADER_WANTED}"))
    return times[0], values[0]


def _row(
    cells: Sequence[str], time_place: int, value_place: int, where: str, line: int
) -> _CsvSample:
    told = [
        cells[place].strip() if place < len(cells) else "" for place in (time_place, value_place)
    ]
    at = _seconds(told[0])
    if at is None:
        wanted = _MILLISECONDS_WANTED if _is_milliseconds(told[0]) else _TIME_WANTED
        raise InvalidError(Problem(f"{where}, time,", quoted(told[0]), wanted))
    value = _value(told[1])
    if value is None:
        raise InvalidError(Problem(f"{where}, value,", quoted(told[1]), _VALUE_WANTED))
    return _CsvSample(line, at, value)


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        then = parse_timestamp(text)
        seconds = math.nan if then is None else then.timestamp()
    return seconds if 0 <= seconds <= _LATEST else None


def _is_milliseconds(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) == len("1700000000000")


def _value(text: str) -> float | None:
    """NaN if there is no sample, None if it is wrong."""
    if text.casefold() in ("", "nan"):
        return math.nan
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= _MOST_VALUE else None


def _in_order(rows: Sequence[_CsvSample], path: str) -> tuple[list[_CsvSample], list[str]]:
    """By time, and what a person should know about that. Of two samples at one time the larger
    counts, as of all at one point of the grid; many of them are two series in one file."""
    notes: list[str] = []
    if any(row.at < before.at for before, row in itertools.pairwise(rows)):
        notes.append("its lines are not in the order of time; they were sorted")
    ordered = sorted(rows, key=operator.attrgetter("at"))
    again = [row for before, row in itertools.pairwise(ordered) if row.at == before.at]
    if len(again) > _MOST_REPEATED * len(rows):
        told = f"the time of another line, and so are those of {len(again)} of {len(rows)} lines"
        where = f"{path} line {again[0].line}, time,"
        raise InvalidError(Problem(where, told, "in the file once: a file has one series"))
    if again:
        notes.append(f"{len(again)} samples have the time of another; the larger counts")
    return ordered, notes


def read_all_series(paths: Sequence[str]) -> list[NamedSeries]:
    """In that order. Files of one name in several folders are named with their folder."""
    names = [os.path.basename(path) for path in paths]
    found = []
    for place, (path, name) in enumerate(zip(paths, names, strict=True)):
        if path in paths[:place]:
            raise InvalidError(Problem(path, "named twice", "named once"))
        series = read_series(path)
        alone = names.count(name) == 1
        found.append(series if alone else msgspec.structs.replace(series, name=path))
    return found


def query_series(url: str, query: str, length: float, step: float) -> list[NamedSeries]:
    """The series of a query, in the order of their names. Raises Failed."""
    client = PrometheusClient(PrometheusSettings(endpoint=url))
    end = time.time() // step * step
    found: dict[str, tuple[list[float], list[float]]] = {}
    start = end - length
    try:
        while start < end:
            until = min(start + _MOST_POINTS * step, end)
            for each in client.ask_range(query, start, until, step).series:
                times, values = found.setdefault(_label(each, query), ([], []))
                times += each.times
                values += each.values
            start = until + step
    except PrometheusError as error:
        raise Failed(str(error)) from None
    if not found:
        raise Failed(f"the query {quoted(query)} gives no series in that time")
    return [_name_series(name, name, *found[name], step) for name in sorted(found)]


def _label(series: SeriesRange, query: str) -> str:
    labels = ", ".join(f"{key}={quoted(value)}" for key, value in sorted(series.labels.items()))
    return f"{{{labels}}}" if labels else query


def _name_series(
    name: str, source: str, times: list[float], values: list[float], interval: float = math.nan
) -> NamedSeries:
    usual = median_interval(times) if math.isnan(interval) else interval
    if not _SHORTEST_INTERVAL <= usual <= HOUR:
        told = "of one sample" if math.isnan(usual) else f"of samples {usual:g} s apart"
        raise InvalidError(Problem(source, told, "samples 1 s to 1 h apart"))
    match build_history(times, values, usual):
        case Gap(reason):
            raise InvalidError(Problem(source, f"of no use: {reason}", "a series of one interval"))
        case history:
            return NamedSeries(name, history, _describe_gaps(history))


def _describe_gaps(history: History) -> str:
    """Only what cannot be bridged is worth a word."""
    missing = sum(math.isnan(value) for value in history.values) * history.interval
    if not missing:
        return ""
    told = f"{missing / HOUR:.1f} h" if missing < 2 * DAY else f"{missing / DAY:.1f} d"
    return f"{told} without samples; windows in such gaps are left out"
