"""The threads that predict: they take what is due, fetch what is missing, publish what came out.

The manager's loop says what there is to predict, and reads the outcomes; it never waits. A server
that cannot be reached is left alone for a while. What cannot be predicted is tried again, later and
later; the first failure of an object that has good samples is not worth a word.
"""

import random
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from slackwater.contract.crane.prediction import PredictedMetric
from slackwater.http.prometheus_api import (
    PrometheusTimeoutError,
    PrometheusUnreachableError,
    SeriesRange,
)
from slackwater.kube.api_time import WallClock
from slackwater.manager.prediction_object import PredictionObject
from slackwater.manager.predictor.fetching import (
    Answer,
    ClocksDifferError,
    FetchCounts,
    HistorySource,
    fetch_histories,
)
from slackwater.manager.predictor.outcomes import PredictionOutcome, tell_metric
from slackwater.manager.predictor.promql import Matchers, MetricHistoryQuery
from slackwater.manager.predictor.samples import MetricSamples, SeriesKey
from slackwater.manager.predictor.tasks import PredictionTask, TaskMetric, tasks_of
from slackwater.model.gap import Gap
from slackwater.prediction.forecasting import Forecast, ForecastRequest, forecast_all
from slackwater.prediction.history import History
from slackwater.prediction.parameters import AlgorithmParameters, PercentileParameters

#: Queries at once.
WORKERS = 2
#: Nodes that are asked for together.
_MOST_TOGETHER = 100
#: Seconds between two looks for what is due.
_LOOK = 5.0
_FIRST_WAIT, _LONGEST_WAIT = 30.0, 600.0
_JOIN = 5.0

MetricKey = tuple[str, str]


class _Retry(msgspec.Struct, frozen=True):
    """Of an object that could not be predicted, or of Prometheus: how often in a row it failed, and
    when it is tried again."""

    failures: int = 0
    until: float = 0.0

    def next(self, now: float) -> "_Retry":
        wait = min(_FIRST_WAIT * 2 ** min(self.failures, 10), _LONGEST_WAIT)
        return _Retry(self.failures + 1, now + wait)


class Predictor:
    """Guards the samples, the outcomes and the threads."""

    def __init__(
        self,
        source: HistorySource,
        *,
        clock: WallClock,
        changed: Callable[[], None],
        jitter: random.Random,
        matchers: Matchers = (),
    ) -> None:
        self._source = source
        self._clock = clock
        self._changed = changed
        self._jitter = jitter
        self._matchers = matchers
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._seen: dict[str, tuple[PredictionObject, PredictionTask]] = {}
        self._running: set[str] = set()
        self._samples: dict[MetricKey, MetricSamples] = {}
        #: When a metric was predicted, of which generation of its object.
        self._predicted: dict[MetricKey, tuple[int, float]] = {}
        self._retries: dict[str, _Retry] = {}
        self._server = _Retry()
        self._outcomes: dict[str, PredictionOutcome] = {}
        self.counts = FetchCounts()

    def start(self) -> None:
        for number in range(WORKERS):
            thread = threading.Thread(target=self._run, name=f"predictor {number}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(_JOIN)

    def _run(self) -> None:
        while not self._stopping.is_set():
            if not self.work_once():
                self._stopping.wait(_LOOK * (0.5 + self._jitter.random()))

    def follow(self, predictions: Iterable[PredictionObject]) -> None:
        """All that there is to predict, as it stands there now. What was written is forgotten."""
        with self._lock:
            seen: dict[str, tuple[PredictionObject, PredictionTask]] = {}
            for found in predictions:
                known = self._seen.get(found.uid)
                if known is not None and known[0] is found:
                    seen[found.uid] = known
                else:
                    for task in tasks_of((found,), self._matchers):
                        seen[found.uid] = (found, task)
            self._forget(self._seen.keys() - seen.keys())
            self._seen = seen
            for uid, outcome in list(self._outcomes.items()):
                if not outcome.problems and _is_written(outcome, seen[uid][0]):
                    del self._outcomes[uid]

    def _forget(self, gone: Iterable[str]) -> None:
        dropped = set(gone)
        if not dropped:
            return
        for held in (self._retries, self._outcomes):
            for uid in dropped & held.keys():
                del held[uid]
        for key in [each for each in self._samples if each[0] in dropped]:
            del self._samples[key]
            self._predicted.pop(key, None)

    def outcomes(self) -> Mapping[str, PredictionOutcome]:
        """By the object's uid."""
        with self._lock:
            return dict(self._outcomes)

    def work_once(self) -> bool:
        """Whether there was something to do."""
        now = self._clock()
        with self._lock:
            batch = self._take(now)
        if not batch:
            return False
        try:
            self._predict(batch, now)
        except (PrometheusUnreachableError, PrometheusTimeoutError, ClocksDifferError) as error:
            self._give_up(batch, str(error), now)
        finally:
            with self._lock:
                self._running -= {task.uid for task in batch}
        self._changed()
        return True

    def _take(self, now: float) -> tuple[PredictionTask, ...]:
        """What is due: the first, and others that can be asked for together with it."""
        if now < self._server.until:
            return ()
        taken: list[PredictionTask] = []
        for _, task in self._seen.values():
            if task.uid in self._running or not self._is_due(task, now):
                continue
            if not taken or _can_join(taken[0], task):
                taken.append(task)
            if len(taken) >= _MOST_TOGETHER:
                break
        self._running |= {task.uid for task in taken}
        return tuple(taken)

    def _is_due(self, task: PredictionTask, now: float) -> bool:
        retry = self._retries.get(task.uid)
        if retry is not None and now < retry.until:
            return False
        return task.is_due(now) and any(True for _ in self._due_metrics(task, now))

    def _due_metrics(self, task: PredictionTask, now: float) -> Iterable[TaskMetric]:
        """Those that we have not predicted since the last place: the object may not show it yet."""
        place = task.last_place(now)
        for metric in task.metrics:
            generation, at = self._predicted.get((task.uid, metric.resource_identifier), (-1, 0.0))
            if generation != task.generation or at < place or at > now + 60:
                yield metric

    def _predict(self, batch: Sequence[PredictionTask], now: float) -> None:
        with self._lock:
            due = {task.uid: tuple(self._due_metrics(task, now)) for task in batch}
            known = {task.uid: self._known_samples(task, due[task.uid]) for task in batch}
        wanted = [
            (task, metric, known[task.uid][metric.resource_identifier])
            for task in batch
            for metric in due[task.uid]
            if metric.resource_identifier in known[task.uid]
        ]
        requests = [samples.request(now) for _, _, samples in wanted]
        answers = fetch_histories(self._source, requests, now, self.counts)
        results = _forecast(wanted, answers, now)
        with self._lock:
            self._server = _Retry()
            for task in batch:
                found = {
                    metric.resource_identifier: results.get(
                        (task.uid, metric.resource_identifier), Gap(metric.problem)
                    )
                    for metric in due[task.uid]
                }
                self._publish(task, found, now)

    def _known_samples(
        self, task: PredictionTask, metrics: Iterable[TaskMetric]
    ) -> dict[str, MetricSamples]:
        """Of the metrics that can be predicted. Those of another query or interval are dropped."""
        found: dict[str, MetricSamples] = {}
        for metric in metrics:
            query, parameters = metric.query, metric.parameters
            if isinstance(query, Gap) or isinstance(parameters, Gap):
                continue
            key = (task.uid, metric.resource_identifier)
            held = self._samples.get(key)
            like = (query, parameters.sample_interval, parameters.history_length)
            if held is None or not held.is_for(*like):
                held = self._samples[key] = MetricSamples(*like)
            found[metric.resource_identifier] = held
        return found

    def _publish(
        self, task: PredictionTask, found: Mapping[str, PredictedMetric | Gap], now: float
    ) -> None:
        if task.uid not in self._seen:
            return
        before = self._outcomes.get(task.uid, PredictionOutcome(task.generation))
        same = before.generation == task.generation
        metrics = {each.resource_identifier: each for each in before.metrics if same}
        problems: dict[str, str] = {}
        for identifier, each in found.items():
            if isinstance(each, Gap):
                problems[identifier] = each.reason
            else:
                metrics[identifier] = each
                self._predicted[task.uid, identifier] = (task.generation, now)
        last = self._retries.pop(task.uid, _Retry())
        if problems:
            self._retries[task.uid] = last.next(now)
        self._outcomes[task.uid] = PredictionOutcome(
            task.generation, tuple(metrics.values()), problems
        )

    def _give_up(self, batch: Sequence[PredictionTask], why: str, now: float) -> None:
        """The server is left alone for a while. What stands in an object that was never predicted,
        or that fails again, is told."""
        with self._lock:
            if now >= self._server.until:
                self._server = self._server.next(now)
            for task in batch:
                self._retries[task.uid] = self._retries.get(task.uid, _Retry()).next(now)
                if task.predicted and self._retries[task.uid].failures < 2:
                    continue
                before = self._outcomes.get(task.uid, PredictionOutcome(task.generation))
                metrics = before.metrics if before.generation == task.generation else ()
                problems = {metric.resource_identifier: why for metric in task.metrics}
                self._outcomes[task.uid] = PredictionOutcome(task.generation, metrics, problems)


def _can_join(first: PredictionTask, other: PredictionTask) -> bool:
    """Whether every query of one belongs to the group of the other's."""
    one, two = _groups(first), _groups(other)
    return one is not None and one == two


def _groups(task: PredictionTask) -> tuple[object, ...] | None:
    groups = [
        each.query.group
        for each in task.metrics
        if isinstance(each.query, MetricHistoryQuery) and each.query.group is not None
    ]
    return tuple(groups) if len(groups) == len(task.metrics) else None


def _is_written(outcome: PredictionOutcome, found: PredictionObject) -> bool:
    there = {each.resource_identifier: each.predicted_at for each in found.status.metrics}
    return all(there.get(e.resource_identifier) == e.predicted_at for e in outcome.metrics)


Wanted = tuple[PredictionTask, TaskMetric, MetricSamples]


def _forecast(
    wanted: Sequence[Wanted], answers: Sequence[Answer], now: float
) -> dict[MetricKey, PredictedMetric | Gap]:
    """All forecasts of a batch are computed together."""
    results: dict[MetricKey, PredictedMetric | Gap] = {}
    requests: list[ForecastRequest] = []
    meant: list[tuple[Wanted, SeriesKey]] = []
    for (task, metric, samples), answer in zip(wanted, answers, strict=True):
        key = (task.uid, metric.resource_identifier)
        histories = answer if isinstance(answer, Gap) else _histories(samples, answer, now)
        if isinstance(histories, Gap):
            results[key] = histories
            continue
        if isinstance(metric.parameters, Gap):
            raise AssertionError("what has no parameters was not asked for")
        for series, request in _requests(samples, histories, metric.parameters, task.window):
            requests.append(request)
            meant.append(((task, metric, samples), series))
    found: dict[MetricKey, dict[SeriesKey, Forecast | Gap]] = {}
    for ((task, metric, samples), series), each in zip(meant, forecast_all(requests), strict=True):
        found.setdefault((task.uid, metric.resource_identifier), {})[series] = each
        if not isinstance(each, Gap) and each.memory is not None:
            samples.memories[series] = each.memory
    windows = {task.uid: task.window for task, _, _ in wanted}
    for key, forecasts in found.items():
        results[key] = _tell(key[1], forecasts, now, windows[key[0]])
    return results


def _histories(
    samples: MetricSamples, answer: Sequence[SeriesRange], now: float
) -> Mapping[SeriesKey, History] | Gap:
    samples.add(answer, now)
    return samples.histories(now)


def _requests(
    samples: MetricSamples,
    histories: Mapping[SeriesKey, History],
    parameters: AlgorithmParameters,
    window: int,
) -> Iterable[tuple[SeriesKey, ForecastRequest]]:
    """One for each series, or for all of them together."""
    if isinstance(parameters, PercentileParameters) and parameters.aggregated:
        first, *others = histories.values()
        memory = samples.memories.get(())
        yield (), ForecastRequest(first, parameters, window, memory, tuple(others))
        return
    for key, history in histories.items():
        yield key, ForecastRequest(history, parameters, window, samples.memories.get(key))


def _tell(
    identifier: str, forecasts: Mapping[SeriesKey, Forecast | Gap], now: float, window: int
) -> PredictedMetric | Gap:
    good = {key: each for key, each in forecasts.items() if not isinstance(each, Gap)}
    if len(good) < len(forecasts):
        return next(each for each in forecasts.values() if isinstance(each, Gap))
    return tell_metric(identifier, good, now, window)
