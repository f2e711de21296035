"""Parses a recorded day: CSV with time, pod, cores and request, or Prometheus' JSON.

An error names line, column, value and bound. An empty cell and NaN mean that there is no sample; a
row that ends before its cores, and a negative or infinite number, are errors.
"""

import csv
import itertools
import math
import sys
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from slackwater.contract.document import Field, elements, member, parse_json
from slackwater.model.problem import InvalidError, Problem, quoted
from slackwater.rebalancer.observed import MOST_CORES, Cores
from slackwater.rebalancer.whatif.day import UsageSample
from slackwater.record.timestamps import parse_timestamp

#: A month of 100 pods by five minutes; it takes ten seconds and 400 MiB.
MOST_SAMPLES = 1_000_000
#: The year 9999, where RFC 3339 ends.
_LATEST = 253_402_300_799.0
_TIME_WANTED = "RFC 3339 such as 2026-11-17T12:00:00Z, or seconds from 0 to 253402300799"
_CORES_WANTED = f"a number of cores, 0 to {MOST_CORES:g}"
_REQUEST_WANTED = f"a number of cores, above 0 and up to {MOST_CORES:g}"
_COLUMNS = ("time", "pod", "cores")
_REQUEST = "request"
_HEADER_WANTED = "a header with time, pod, cores and, where it is known, request"


class _Position(msgspec.Struct, frozen=True, gc=False):
    """Where a sample is in the text. There may be a million of them, so it is formatted only for an
    error."""

    source: str
    place: int | str

    def refused(self, column: str, value: object, wanted: str) -> InvalidError:
        line = f"{self.source} line {self.place}"
        where = line if isinstance(self.place, int) else f"{self.source}: {self.place}"
        return InvalidError(Problem(f"{where}, {column},", quoted(value), wanted))


class _RecordedSample(msgspec.Struct, frozen=True, gc=False):
    """`request` is None if the recording does not say."""

    position: _Position
    at: float
    pod: str
    cores: Cores
    request: Cores | None


def read_recording(text: str, source: str, request: Cores | None) -> tuple[UsageSample, ...]:
    """`request`: of pods whose request is not recorded. Raises InvalidError."""
    is_json = text.lstrip().startswith("{")
    found = _answer(text, source) if is_json else _table(text, source)
    rows = list(itertools.islice(found, MOST_SAMPLES + 1))
    if len(rows) > MOST_SAMPLES:
        wanted = f"at most {MOST_SAMPLES}: record them further apart"
        raise InvalidError(Problem(source, f"over {MOST_SAMPLES} samples", wanted))
    if not rows:
        raise InvalidError(Problem(source, "without a sample", "a recording with one or more"))
    _refuse_duplicates(rows)
    return tuple(
        UsageSample(row.at, row.pod, row.cores, _request(row, request))
        for row in sorted(rows, key=lambda each: (each.at, each.pod))
    )


def _refuse_duplicates(rows: Iterable[_RecordedSample]) -> None:
    seen: set[tuple[float, str]] = set()
    for row in rows:
        if (row.at, row.pod) in seen:
            raise row.position.refused("pod", row.pod, "there once at each time")
        seen.add((row.at, row.pod))


def _request(row: _RecordedSample, otherwise: Cores | None) -> Cores:
    found = otherwise if row.request is None else row.request
    if found is None:
        raise row.position.refused(
            _REQUEST, None, f"{_REQUEST_WANTED}, or said by --request for all"
        )
    return found


def _table(text: str, source: str) -> Iterator[_RecordedSample]:
    lines = csv.reader(text.removeprefix("\ufeff").splitlines(), strict=True)
    try:
        header = _header(next(lines, []), source)
        for cells in lines:
            position = _Position(source, lines.line_num)
            if any(cell.strip() for cell in cells):
                row = _row(cells, header, position)
                if row is not None:
                    yield row
    except csv.Error as error:
        where = f"{source} line {lines.line_num}"
        raise InvalidError(Problem(where, str(error), "CSV")) from None


def _header(cells: Sequence[str], source: str) -> dict[str, int]:
    """The index of each column that is used."""
    names = [cell.strip().casefold() for cell in cells]
    known = [name for name in names if name in (*_COLUMNS, _REQUEST)]
    if any(name not in names for name in _COLUMNS) or len(set(known)) < len(known):
        said = quoted(",".join(cells)) if cells else "missing"
        raise InvalidError(Problem(f"{source} line 1", said, _HEADER_WANTED))
    return {name: names.index(name) for name in known}


def _row(
    cells: Sequence[str], header: dict[str, int], position: _Position
) -> _RecordedSample | None:
    def cell(column: str) -> str:
        place = header.get(column, len(cells))
        return cells[place].strip() if place < len(cells) else ""

    pod = sys.intern(cell("pod"))
    if not pod:
        raise position.refused("pod", "", "a pod's name")
    at = _time(cell("time"), position)
    if header["cores"] >= len(cells):
        wanted = f"{_CORES_WANTED}, or an empty cell where there is no sample"
        raise position.refused("cores", None, wanted)
    cores = _amount(cell("cores"), position, "cores")
    asked = _amount(cell(_REQUEST), position, _REQUEST)
    return None if cores is None else _RecordedSample(position, at, pod, cores, asked)


def _time(text: str, position: _Position) -> float:
    seconds = _number(text)
    if seconds is None:
        # A date alone, or a time without a zone, is ambiguous.
        then = parse_timestamp(text) if text[10:11] in ("T", "t", " ") and _has_zone(text) else None
        seconds = None if then is None else then.timestamp()
    if seconds is None or not 0 <= seconds <= _LATEST:
        raise position.refused("time", text, _TIME_WANTED)
    return seconds


def _has_zone(text: str) -> bool:
    return text[-1] in "Zz" or text[-6:-5] in ("+", "-")


def _amount(text: str, position: _Position, column: str) -> Cores | None:
    """None if it is empty or NaN: no sample, or no request."""
    found = _number(text)
    if not text or (found is not None and math.isnan(found)):
        return None
    wanted = _REQUEST_WANTED if column == _REQUEST else _CORES_WANTED
    if found is None or not 0 <= found <= MOST_CORES or (column == _REQUEST and found == 0):
        raise position.refused(column, text, wanted)
    return Cores(found)


def _number(text: str) -> float | None:
    # float() also accepts 1_000 and digits of other scripts.
    if "_" in text or not text.isascii():
        return None
    try:
        return float(text)
    except ValueError:
        return None


def _answer(text: str, source: str) -> Iterator[_RecordedSample]:
    """The answer of /api/v1/query_range: one series for each pod, of [seconds, "cores"]."""
    data = _needed(Field(source, "", parse_json(text, source)), "data")
    kind = _needed(data, "resultType")
    if kind.value != "matrix":
        raise kind.refused("matrix, the answer of /api/v1/query_range")
    pods: set[str] = set()
    for series in elements(_needed(data, "result")):
        pod = _needed(_needed(series, "metric"), "pod")
        if not isinstance(pod.value, str) or not pod.value:
            raise pod.refused("a pod's name")
        if pod.value in pods:
            raise pod.refused("that of one series: sum by (pod) in the query")
        pods.add(pod.value)
        yield from _series(_needed(series, "values"), pod.value)


def _series(values: Field, pod: str) -> Iterator[_RecordedSample]:
    for pair in elements(values):
        position = _Position(str(pair.source), pair.path)
        match pair.value:
            case [int() | float() as at, str() as cores] if not isinstance(at, bool):
                found = _amount(cores, position, "cores")
                if found is not None:
                    yield _RecordedSample(position, _time(str(at), position), pod, found, None)
            case _:
                raise pair.refused('[seconds, "cores"]')


def _needed(field: Field, name: str) -> Field:
    found = member(field, name)
    if found is None:
        raise field.at(name, None).refused("there, as in an answer of /api/v1/query_range")
    return found
