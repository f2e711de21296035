"""The controller of predictions' status: their samples, and whether and why they can be trusted.

The samples come from the predictor. Where a metric could not be predicted, its last samples stay
as they are, with the time at which they were predicted, and the reason. The time of a condition is
that of its last change, so it is taken from the status that the object already has.
"""

from collections.abc import Iterator

import msgspec

from slackwater.contract.crane.fields import PolicyCondition, Truth
from slackwater.contract.crane.prediction import (
    PREDICT_FAILED,
    PREDICT_PARTIAL,
    PREDICT_SUCCEED,
    READY,
    PredictedMetric,
    PredictionStatus,
)
from slackwater.contract.resources import TIME_SERIES_PREDICTIONS
from slackwater.kube.events import EventType, KubeEvent, ObjectReference
from slackwater.manager.cluster_view import PREDICTION_KIND, TEMPLATE_KIND, ClusterView
from slackwater.manager.controllers.controller import (
    Controller,
    DesiredWrite,
    Reconciled,
    WriteVerb,
)
from slackwater.manager.controllers.node_predictions import choose_template
from slackwater.manager.prediction_object import PredictionObject, shorten_metrics
from slackwater.manager.predictor.outcomes import PredictionOutcome
from slackwater.model.gap import Gap
from slackwater.record.timestamps import parse_timestamp

#: The condition of a prediction whose template cannot be read, and its reason. It is there only
#: while that is so.
TEMPLATE_APPLIED, TEMPLATE_INVALID = "TemplateApplied", "TemplateInvalid"
#: Crane's words.
_PARTIAL = "not all metric predicted"
NO_PROMETHEUS = (
    "no Prometheus is configured: the manager needs --prometheus-endpoint to predict anything"
)
_OURS = (READY, TEMPLATE_APPLIED)
_LONGEST_MESSAGE = 4000


def reconcile(view: ClusterView, now: str) -> Reconciled:
    template = choose_template(view, None).template
    flaw = template.reason if isinstance(template, Gap) else ""
    return Reconciled(
        tuple(
            write
            for found in view.of(PREDICTION_KIND).items.values()
            for write in _desire(found, view, flaw, now)
        )
    )


def is_unready(found: PredictionObject) -> bool:
    return any(e.type == READY and e.status is Truth.FALSE for e in found.status.conditions)


def _desire(
    found: PredictionObject, view: ClusterView, flaw: str, now: str
) -> Iterator[DesiredWrite]:
    outcome = _outcome(found, view)
    if outcome is None:
        # Nothing new is known; but what is said of the template may have changed.
        if _template_message(found) == (flaw if found.managed else ""):
            return
        ready = next((each for each in found.status.conditions if each.type == READY), None)
        if ready is None:
            return
        metrics, verdict = found.status.decode(), (ready.status, ready.reason, ready.message)
    else:
        metrics = _metrics(found, outcome, now)
        verdict = _judge(found, outcome)
    conditions = [_condition(found, READY, *verdict, now)]
    if flaw and found.managed:
        said = (Truth.FALSE, TEMPLATE_INVALID, flaw)
        conditions.append(_condition(found, TEMPLATE_APPLIED, *said, now))
    yield _write(found, PredictionStatus(metrics, tuple(conditions)))


def _outcome(found: PredictionObject, view: ClusterView) -> PredictionOutcome | None:
    """None where the predictor has nothing to say that does not stand there already."""
    if isinstance(found.spec, Gap):
        return PredictionOutcome(found.generation, problems={"": found.spec.reason})
    if view.outcomes is None:
        problems = {
            each.resource_identifier: NO_PROMETHEUS for each in found.spec.prediction_metrics
        }
        return PredictionOutcome(found.generation, problems=problems)
    outcome = view.outcomes.get(found.uid)
    return outcome if outcome is not None and outcome.generation == found.generation else None


def _metrics(
    found: PredictionObject, outcome: PredictionOutcome, now: str
) -> tuple[PredictedMetric, ...]:
    """In the order of the spec."""
    if isinstance(found.spec, Gap):
        return found.status.decode()
    fresh = {each.resource_identifier: each for each in outcome.metrics}
    there = {each.resource_identifier: each for each in found.status.decode()}
    window = found.spec.prediction_window_seconds
    told: list[PredictedMetric] = []
    for name in (each.resource_identifier for each in found.spec.prediction_metrics):
        last = there.get(name)
        if name in outcome.problems:
            told.append(_keep(name, fresh.get(name) or last, outcome.problems[name], window, now))
        elif name in fresh:
            told.append(_with_since(fresh[name], last))
        elif last is not None:
            told.append(last)
    return tuple(told)


def _keep(
    name: str, last: PredictedMetric | None, problem: str, window: int, now: str
) -> PredictedMetric:
    """The last samples, ready as long as they reach to the window's end."""
    if last is None:
        return PredictedMetric(ready=False, resource_identifier=name, message=problem)
    moment = parse_timestamp(now)
    ends = [each.samples[-1].timestamp for each in last.prediction if each.samples]
    whole = moment is not None and bool(ends) and min(ends) >= moment.timestamp() + window
    return msgspec.structs.replace(last, ready=whole, message=problem)


def _with_since(fresh: PredictedMetric, last: PredictedMetric | None) -> PredictedMetric:
    since = fresh.predicted_at
    if last is not None and last.estimator == fresh.estimator and last.estimator_since:
        since = last.estimator_since
    return msgspec.structs.replace(fresh, estimator_since=since)


def _judge(found: PredictionObject, outcome: PredictionOutcome) -> tuple[Truth, str, str]:
    if not outcome.problems:
        return Truth.TRUE, PREDICT_SUCCEED, ""
    told = "; ".join(
        f"{name}: {why}" if name else why for name, why in sorted(outcome.problems.items())
    )
    count = 0 if isinstance(found.spec, Gap) else len(found.spec.prediction_metrics)
    if len(outcome.problems) < count:
        return Truth.FALSE, PREDICT_PARTIAL, f"{_PARTIAL}: {told}"[:_LONGEST_MESSAGE]
    return Truth.FALSE, PREDICT_FAILED, told[:_LONGEST_MESSAGE]


def _template_message(found: PredictionObject) -> str:
    conditions = found.status.conditions
    return next((each.message for each in conditions if each.type == TEMPLATE_APPLIED), "")


def _condition(
    found: PredictionObject, kind: str, status: Truth, reason: str, message: str, now: str
) -> PolicyCondition:
    before = found.status.conditions
    same = next((each for each in before if each.type == kind and each.status == status), None)
    return PolicyCondition(
        type=kind,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=same.last_transition_time if same else now,
        observed_generation=found.generation,
    )


def _write(found: PredictionObject, wanted: PredictionStatus) -> DesiredWrite:
    metrics = shorten_metrics(wanted)
    there = tuple(each for each in found.status.conditions if each.type in _OURS)
    ready = wanted.conditions[0]
    return DesiredWrite(
        WriteVerb.STATUS,
        TIME_SERIES_PREDICTIONS,
        found.name,
        wanted,
        (metrics, tuple(_without_time(each) for each in wanted.conditions)),
        is_current=(metrics, wanted.conditions) == (found.status.metrics, there),
        namespace=found.namespace,
        uid=found.uid,
        outcome=f"Ready={ready.status.value}",
        because=ready.message or _estimators(wanted),
        event=_event(found, ready),
    )


def _without_time(condition: PolicyCondition) -> PolicyCondition:
    return msgspec.structs.replace(condition, last_transition_time="")


def _estimators(status: PredictionStatus) -> str:
    return ", ".join(
        f"{each.resource_identifier} by {each.estimator}" for each in status.prediction_metrics
    )


def _event(found: PredictionObject, ready: PolicyCondition) -> KubeEvent | None:
    """When it cannot be predicted any more, and when it can again; by the status that it has."""
    before = next((each for each in found.status.conditions if each.type == READY), None)
    about = ObjectReference(
        TIME_SERIES_PREDICTIONS.api_version,
        TIME_SERIES_PREDICTIONS.kind,
        found.name,
        found.namespace,
        found.uid,
    )
    if ready.status is Truth.FALSE:
        if before is not None and (before.status, before.message) == (ready.status, ready.message):
            return None
        return KubeEvent(about, ready.reason, ready.message, EventType.WARNING)
    if before is not None and before.status is Truth.FALSE:
        return KubeEvent(about, ready.reason, "it can be predicted again", EventType.NORMAL)
    return None


CONTROLLER = Controller(
    "prediction_status", (PREDICTION_KIND, TEMPLATE_KIND), reconcile, needs=(PREDICTION_KIND,)
)
