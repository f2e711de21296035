"""The status of a prediction: samples, conditions, and the last ones where there are no new."""

from collections.abc import Mapping
from typing import Any

import msgspec

from slackwater.contract.crane.fields import Truth
from slackwater.contract.crane.prediction import (
    PredictedMetric,
    PredictedSample,
    PredictedSeries,
    PredictionStatus,
)
from slackwater.manager.cluster_view import ClusterView
from slackwater.manager.controllers.controller import DesiredWrite
from slackwater.manager.controllers.prediction_status import (
    NO_PROMETHEUS,
    TEMPLATE_APPLIED,
    reconcile,
)
from slackwater.manager.node_template import default_template
from slackwater.manager.prediction_object import PredictionObject
from slackwater.manager.predictor.outcomes import PredictionOutcome
from tests.unit.manager.predictions import SEED_TEXT, prediction, template, view

SPEC = default_template().spec_of("n1")
#: 1794996000 in seconds since 1970.
NOW, LATER = "2026-11-18T10:00:00Z", "2026-11-18T12:00:00Z"
AT = 1_794_996_000


def metric(name: str, estimator: str = "adaptive", at: str = NOW) -> PredictedMetric:
    samples = tuple(PredictedSample("1.50000", AT + 60 * k) for k in range(121))
    return PredictedMetric(
        ready=True,
        resource_identifier=name,
        prediction=(PredictedSeries((), samples),),
        estimator=estimator,
        predicted_at=at,
    )


BOTH = (metric("cpu"), metric("memory"))


def go(
    found: PredictionObject,
    outcome: PredictionOutcome | None,
    now: str = NOW,
    text: str | None = SEED_TEXT,
) -> list[DesiredWrite]:
    outcomes: Mapping[str, PredictionOutcome] = {} if outcome is None else {found.uid: outcome}
    seen = view("n1", templates=(template(text),), predictions=(found,))
    return list(reconcile(msgspec.structs.replace(seen, outcomes=outcomes), now).writes)


def written(found: PredictionObject, status: PredictionStatus, **more: Any) -> PredictionObject:
    return prediction(found.name, SPEC, status=status, **more)


FRESH = prediction("noderesource-n1", SPEC)


def test_samples_and_the_condition_once() -> None:
    [write] = go(FRESH, PredictionOutcome(1, BOTH))
    status = write.body
    assert isinstance(status, PredictionStatus)
    [ready] = status.conditions
    assert (ready.type, ready.status, ready.reason, ready.message) == (
        "Ready", Truth.TRUE, "PredictSucceed", "",
    )  # fmt: skip
    assert [each.estimator_since for each in status.prediction_metrics] == [NOW, NOW]
    assert (write.is_current, write.because) == (False, "cpu by adaptive, memory by adaptive")
    assert write.event is None
    there = written(FRESH, status)
    [again] = go(there, PredictionOutcome(1, BOTH), LATER)
    assert again.is_current
    assert again.meaning == write.meaning
    assert go(there, None, LATER) == []


def test_since_when_it_is_that_estimator() -> None:
    there = written(FRESH, go(FRESH, PredictionOutcome(1, BOTH))[0].body)
    fresh = (metric("cpu", at=LATER), metric("memory", "percentile", LATER))
    [write] = go(there, PredictionOutcome(1, fresh), LATER)
    assert [each.estimator_since for each in write.body.prediction_metrics] == [NOW, LATER]


def test_what_fails_keeps_its_samples_and_says_why() -> None:
    there = written(FRESH, go(FRESH, PredictionOutcome(1, BOTH))[0].body)
    failed = PredictionOutcome(1, (), {"cpu": "nobody answers", "memory": "nobody answers"})
    [write] = go(there, failed, "2026-11-18T10:30:00Z")
    cpu, _ = write.body.prediction_metrics
    assert (cpu.ready, cpu.message, cpu.predicted_at) == (True, "nobody answers", NOW)
    assert len(cpu.prediction[0].samples) == 121
    [ready] = write.body.conditions
    assert (ready.status, ready.reason) == (Truth.FALSE, "PredictFailed")
    assert ready.message == "cpu: nobody answers; memory: nobody answers"
    assert write.event is not None
    assert write.event.reason == "PredictFailed"
    still = written(FRESH, write.body)
    [again] = go(still, failed, "2026-11-18T10:40:00Z")
    assert (again.is_current, again.event) == (True, None)
    [lapsed] = go(still, failed, LATER)
    assert lapsed.body.prediction_metrics[0].ready is False
    [mended] = go(written(FRESH, lapsed.body), PredictionOutcome(1, BOTH), LATER)
    assert mended.body.conditions[0].last_transition_time == LATER
    assert mended.event is not None
    assert mended.event.message == "it can be predicted again"


def test_one_of_two_is_partial() -> None:
    [write] = go(FRESH, PredictionOutcome(1, BOTH[:1], {"memory": "no series"}))
    [ready] = write.body.conditions
    assert (ready.reason, ready.message) == (
        "PredictPartial", "not all metric predicted: memory: no series",
    )  # fmt: skip
    assert [each.ready for each in write.body.prediction_metrics] == [True, False]


def test_an_outcome_about_another_generation_says_nothing() -> None:
    assert go(prediction("noderesource-n1", SPEC, generation=2), PredictionOutcome(1, BOTH)) == []


def test_without_a_prometheus() -> None:
    seen: ClusterView = view("n1", templates=(template(),), predictions=(FRESH,))
    [write] = reconcile(seen, NOW).writes
    assert NO_PROMETHEUS in write.body.conditions[0].message


def test_a_spec_that_cannot_be_used() -> None:
    found = prediction("noderesource-n1", {"predictionMetrics": []})
    [write] = go(found, None)
    [ready] = write.body.conditions
    assert (ready.status, ready.reason) == (Truth.FALSE, "PredictFailed")
    assert "spec." in ready.message


def test_a_template_that_cannot_be_read_is_a_condition_of_ours_until_it_is_mended() -> None:
    there = written(FRESH, go(FRESH, PredictionOutcome(1, BOTH))[0].body)
    [write] = go(there, None, LATER, text="a: [")
    assert [each.type for each in write.body.conditions] == ["Ready", TEMPLATE_APPLIED]
    assert write.body.conditions[0].last_transition_time == NOW
    assert len(write.body.prediction_metrics) == 2
    broken = written(FRESH, write.body)
    assert go(broken, None, LATER, text="a: [") == []
    [mended] = go(broken, None, LATER)
    assert [each.type for each in mended.body.conditions] == ["Ready"]
    theirs = written(FRESH, go(FRESH, PredictionOutcome(1, BOTH))[0].body, managed=False)
    assert go(theirs, None, LATER, text="a: [") == []
