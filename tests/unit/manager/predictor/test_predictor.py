"""The predictor without threads: what is asked, when, together, and what comes of failures."""

import itertools
import math
import random
from collections.abc import Iterable

import msgspec
import pytest

from slackwater.contract.crane.fields import PolicyCondition, Truth
from slackwater.contract.crane.prediction import READY, PredictionStatus
from slackwater.http.prometheus_api import (
    PrometheusError,
    PrometheusUnreachableError,
    RangeResult,
    SeriesRange,
)
from slackwater.manager.node_template import read_node_template
from slackwater.manager.prediction_object import PredictionObject
from slackwater.manager.predictor.outcomes import PredictionOutcome
from slackwater.manager.predictor.predictor import Predictor
from tests.unit.manager.predictions import SEED_TEXT, prediction

NOW = 1_794_900_000.0
DAY = 86_400.0
TEMPLATE = read_node_template(SEED_TEXT, "x")
#: The same, asked for each node alone.
ALONE = read_node_template(SEED_TEXT.replace("sum(irate", "max(irate"), "x")


class FakePrometheus:
    """Every node that is named has a daily wave; and what was asked."""

    def __init__(self, *nodes: str) -> None:
        self.nodes = nodes
        self.asked: list[tuple[str, float, float]] = []
        self.fails_with: PrometheusError | None = None
        self.refuses = ""
        self.clock: float | None = None

    def ask_range(self, text: str, start: float, end: float, step: float) -> RangeResult:
        self.asked.append((text, start, end))
        if self.fails_with is not None:
            raise self.fails_with
        if self.refuses and self.refuses in text:
            raise PrometheusError("too many samples")
        times = [start + step * k for k in range(int((end - start) / step) + 1)]
        values = [2 + math.sin(2 * math.pi * at / DAY) for at in times]
        grouped = "by (instance)" in text
        named = [each for each in self.nodes if f"({each})" in text or f"{each}|" in text
                 or f"|{each}" in text]  # fmt: skip
        labels = [{"instance": f"{each}:9100"} if grouped else {} for each in named]
        return RangeResult(
            tuple(SeriesRange(each, list(times), list(values)) for each in labels), (), self.clock
        )


class World:
    """A predictor, its clock, and the objects, on which what is published is written."""

    def __init__(self, *nodes: str, template: object = TEMPLATE) -> None:
        self.now = NOW
        self.prometheus = FakePrometheus(*nodes)
        self.calls = 0
        self.predictor = Predictor(
            self.prometheus,
            clock=lambda: self.now,
            changed=self._call,
            jitter=random.Random(1),  # noqa: S311
        )
        assert isinstance(template, type(TEMPLATE))
        self.specs = {name: template.spec_of(name) for name in nodes}
        self.objects = [prediction(f"noderesource-{name}", self.specs[name]) for name in nodes]

    def _call(self) -> None:
        self.calls += 1

    def work(self) -> int:
        """Until nothing is due; how many batches there were."""
        self.predictor.follow(self.objects)
        batches = 0
        while self.predictor.work_once():
            batches += 1
        return batches

    def outcome(self, place: int = 0) -> PredictionOutcome:
        return self.predictor.outcomes()[self.objects[place].uid]

    def write(self) -> None:
        self.objects = list(map(self._written, self.objects))
        self.predictor.follow(self.objects)

    def _written(self, found: PredictionObject) -> PredictionObject:
        outcome = self.predictor.outcomes().get(found.uid)
        if outcome is None:
            return found
        ready = PolicyCondition(READY, Truth.TRUE, "PredictSucceed", "", "", found.generation)
        status = PredictionStatus(outcome.metrics, (ready,))
        assert found.spec is not None
        node = found.name.removeprefix("noderesource-")
        return prediction(found.name, self.specs[node], status=status, generation=found.generation)


def spans(asked: Iterable[tuple[str, float, float]]) -> float:
    return sum(end - start for _, start, end in asked)


def test_samples_for_two_windows_from_now() -> None:
    world = World("n1")
    assert world.work() == 1
    [metric] = world.outcome().metrics
    assert (metric.ready, metric.estimator, metric.resource_identifier) == (True, "fft", "cpu")
    [predicted] = metric.prediction
    times = [each.timestamp for each in predicted.samples]
    assert (times[0], times[-1], len(times)) == (NOW, NOW + 7200, 121)
    for each in predicted.samples:
        real = 2 + math.sin(2 * math.pi * each.timestamp / DAY)
        assert float(each.value) == pytest.approx(1.2 * real, rel=0.02)
        assert len(each.value.partition(".")[2]) == 5
    assert world.calls == 1


def test_nodes_are_asked_for_together_and_once_in_a_window() -> None:
    nodes = [f"n{k}" for k in range(30)]
    world = World(*nodes)
    assert world.work() == 1
    assert len(world.predictor.outcomes()) == 30
    # 30 nodes and 100,000 values at once: 4,320 steps in two pieces.
    assert len(world.prometheus.asked) == 2
    world.write()
    assert world.predictor.outcomes() == {}
    world.prometheus.asked.clear()
    places = {}
    for minute in range(1, 181):
        world.now = NOW + 60 * minute
        if world.work():
            places[minute] = len(world.predictor.outcomes())
            world.write()
    # One for each node and window, of which the first is shorter.
    assert 60 <= sum(places.values()) <= 90 + 30
    assert sum(count for minute, count in places.items() if 60 < minute <= 120) == 30
    assert len(places) > 30
    hours = spans(world.prometheus.asked) / 3600
    assert hours < 3 * 60 * 1.2  # not days


def test_any_other_expression_is_asked_for_each_alone() -> None:
    world = World("n1", "n2", "n3", template=ALONE)
    assert world.work() == 3
    assert len(world.prometheus.asked) == 3


def test_a_common_query_that_is_refused_is_asked_apart() -> None:
    world = World("n1", "n2")
    world.prometheus.refuses = "by (instance)"
    world.work()
    assert all(each.metrics for each in world.predictor.outcomes().values())


def test_what_is_wrong_with_one_query_is_that_objects_alone() -> None:
    world = World("n1", "n2", template=ALONE)
    world.prometheus.refuses = "(n1)"
    world.work()
    assert world.outcome(0).problems == {"cpu": "too many samples"}
    assert world.outcome(1).problems == {}


def test_a_node_without_series_is_told_and_tried_again_later_and_later() -> None:
    world = World("n1")
    world.prometheus.nodes = ()
    world.work()
    assert world.outcome().problems == {"cpu": "the query gives no series"}
    tries = []
    for second in range(0, 3600, 10):
        world.now = NOW + second
        if world.work():
            tries.append(second)
    assert tries[:4] == [30, 90, 210, 450]
    assert max(b - a for a, b in itertools.pairwise(tries)) <= 610
    world.prometheus.nodes = ("n1",)
    world.now += 700
    world.work()
    assert world.outcome().problems == {}


def test_a_server_that_is_gone_is_left_alone() -> None:
    world = World("n1", "n2", template=ALONE)
    world.prometheus.fails_with = PrometheusUnreachableError("nobody answers")
    world.work()
    assert len(world.prometheus.asked) == 1
    assert world.outcome().problems == {"cpu": "nobody answers"}
    world.now += 3600
    world.prometheus.fails_with = None
    world.work()
    assert all(not each.problems for each in world.predictor.outcomes().values())


def test_one_failure_of_what_is_well_is_not_told() -> None:
    world = World("n1")
    world.work()
    world.write()
    world.now += 3600
    world.prometheus.fails_with = PrometheusUnreachableError("nobody answers")
    assert world.work() == 1
    assert world.predictor.outcomes() == {}
    world.now += 31
    assert world.work() == 1
    assert world.outcome().problems == {"cpu": "nobody answers"}


@pytest.mark.parametrize(("clock", "said"), [(NOW + 600, "600 s ahead of"), (NOW - 600, "behind")])
def test_clocks_that_differ_are_told(clock: float, said: str) -> None:
    world = World("n1")
    world.prometheus.clock = clock
    world.work()
    assert said in world.outcome().problems["cpu"]


def test_another_generation_is_predicted_at_once_from_what_is_known() -> None:
    world = World("n1")
    world.work()
    world.write()
    world.prometheus.asked.clear()
    spec = msgspec.structs.replace(world.specs["n1"], prediction_window_seconds=1800)
    world.objects = [prediction("noderesource-n1", spec, generation=2)]
    world.now += 60
    assert world.work() == 1
    assert spans(world.prometheus.asked) < 600
    assert len(world.outcome().metrics[0].prediction[0].samples) == 61


def test_a_bad_parameter_is_a_problem_of_its_metric() -> None:
    world = World("n1", template=read_node_template(SEED_TEXT.replace("3d", "1h"), "x"))
    world.work()
    assert "historyLength" in world.outcome().problems["cpu"]
    assert world.prometheus.asked == []


def test_a_follower_predicts_nothing_and_holds_nothing() -> None:
    world = World("n1")
    world.work()
    world.predictor.follow(())
    assert world.predictor.outcomes() == {}
    assert not world.predictor.work_once()


def test_threads_come_and_go() -> None:
    world = World()
    world.predictor.start()
    world.predictor.stop()
