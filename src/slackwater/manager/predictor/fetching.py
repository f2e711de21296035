"""Histories from Prometheus: one query for many nodes where that is the same, in bounded pieces."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from slackwater.http.prometheus_api import (
    PrometheusError,
    PrometheusTimeoutError,
    PrometheusUnreachableError,
    RangeResult,
    SeriesRange,
)
from slackwater.manager.predictor.promql import QueryGroup, grouped_text, share_out
from slackwater.manager.predictor.samples import HistoryRequest
from slackwater.model.gap import Gap

#: A server gives at most 11,000 values of a series.
_MOST_STEPS = 10_000
#: Nodes times steps of one query. Behind each value of a node there are those of its CPUs, and a
#: Prometheus refuses a query that has more than 50 million of them at once.
_MOST_VALUES = 100_000
#: Seconds by which two clocks may differ: forecasts are about times of day.
_CLOCKS_DIFFER = 120.0


class HistorySource(Protocol):
    """Prometheus. Raises PrometheusError."""

    def ask_range(self, text: str, start: float, end: float, step: float) -> RangeResult: ...


class ClocksDifferError(PrometheusError):
    """Its clock or ours is wrong."""


class FetchCounts(msgspec.Struct):
    """Queries since the start, by how they ended, and the samples that came."""

    answered: int = 0
    failed: int = 0
    samples: int = 0


Answer = Sequence[SeriesRange] | Gap


def fetch_histories(
    source: HistorySource, requests: Sequence[HistoryRequest], now: float, counts: FetchCounts
) -> list[Answer]:
    """In the order of the requests. Raises PrometheusUnreachableError, PrometheusTimeoutError and
    ClocksDifferError, which any other request would meet as well; an error about one query is that
    request's Gap."""
    fetcher = _Fetcher(source, now, counts)
    answers: dict[int, Answer] = {}
    together: dict[object, list[int]] = {}
    for place, each in enumerate(requests):
        if each.query.group is not None:
            same = (each.query.group, each.start, each.end, each.interval)
            together.setdefault(same, []).append(place)
    for places in together.values():
        if len(places) > 1:
            found = fetcher.ask_together([requests[place] for place in places])
            answers.update({places[k]: answer for k, answer in found.items()})
    for place, each in enumerate(requests):
        if place not in answers:
            answers[place] = fetcher.ask_alone(each)
    return [answers[place] for place in range(len(requests))]


class _Fetcher:
    """Guards the counts."""

    def __init__(self, source: HistorySource, now: float, counts: FetchCounts) -> None:
        self._source = source
        self._now = now
        self._counts = counts

    def ask_alone(self, request: HistoryRequest) -> Answer:
        try:
            return self._ask(request.query.text, request, 1)
        except (PrometheusUnreachableError, PrometheusTimeoutError, ClocksDifferError):
            raise
        except PrometheusError as error:
            return Gap(str(error))

    def ask_together(self, requests: Sequence[HistoryRequest]) -> dict[int, Answer]:
        """The answers by place. Who is not among them has to be asked alone; so has everybody where
        the server refuses the common query."""
        first, nodes = requests[0], [each.query.node for each in requests]
        group = first.query.group
        if group is None:
            raise AssertionError("only requests of a group are asked together")
        try:
            answer = self._ask(grouped_text(group, nodes), first, len(nodes))
        except (PrometheusUnreachableError, PrometheusTimeoutError, ClocksDifferError):
            raise
        except PrometheusError:
            return {}
        return _share(group, nodes, answer)

    def _ask(self, text: str, request: HistoryRequest, nodes: int) -> list[SeriesRange]:
        """Piece by piece; a series' pieces are joined."""
        found: dict[tuple[tuple[str, str], ...], SeriesRange] = {}
        steps = min(_MOST_STEPS, max(_MOST_VALUES // nodes, 60))
        start = request.start
        while start <= request.end:
            end = min(start + (steps - 1) * request.interval, request.end)
            for series in self._ask_once(text, start, end, request.interval):
                key = tuple(sorted(series.labels.items()))
                known = found.setdefault(key, SeriesRange(series.labels, [], []))
                known.times.extend(series.times)
                known.values.extend(series.values)
            start = end + request.interval
        return list(found.values())

    def _ask_once(
        self, text: str, start: float, end: float, step: float
    ) -> tuple[SeriesRange, ...]:
        try:
            result = self._source.ask_range(text, start, end, step)
        except PrometheusError:
            self._counts.failed += 1
            raise
        self._counts.answered += 1
        self._counts.samples += sum(len(each.times) for each in result.series)
        if result.clock is not None and abs(result.clock - self._now) > _CLOCKS_DIFFER:
            ahead = "ahead of" if result.clock > self._now else "behind"
            seconds = abs(result.clock - self._now)
            raise ClocksDifferError(f"Prometheus' clock is {seconds:.0f} s {ahead} ours")
        return result.series


def _share(
    group: QueryGroup, nodes: Sequence[str], answer: Sequence[SeriesRange]
) -> dict[int, Answer]:
    """The label by which the answer was shared out is not in the answer of a node's own query."""
    found, alone = share_out(group, nodes, answer)
    shared: dict[int, Answer] = {}
    for place, node in enumerate(nodes):
        if node in found:
            shared[place] = (msgspec.structs.replace(found[node], labels={}),)
        elif node not in alone:
            shared[place] = ()
    return shared
