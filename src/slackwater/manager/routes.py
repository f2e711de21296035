"""What the manager answers over HTTP: /healthz, /readyz and /metrics."""

from slackwater.manager.metrics import METRICS, samples
from slackwater.manager.standing import Notice, why_not_ready
from slackwater.model.units import Micros
from slackwater.runtime.health import ReplicaHealth
from slackwater.runtime.http_exchange import Request, Response
from slackwater.runtime.status_endpoint import respond as respond_with


def respond(notice: Notice, request: Request, at: Micros) -> Response:
    return respond_with(
        request,
        lambda: _health(notice.health.why_unhealthy(at), notice),
        lambda: _health(why_not_ready(notice), notice),
        lambda accept: _render_metrics(notice, at, accept),
    )


def _health(why: str, notice: Notice) -> ReplicaHealth:
    found = notice.standing
    if found is None:
        return ReplicaHealth(not why, why)
    return ReplicaHealth(
        not why, why, leads=found.leads, leader=found.leader, problems=found.problems
    )


def _render_metrics(notice: Notice, at: Micros, accept: str) -> tuple[str, bytes]:
    from slackwater.record.exposition import build_families, render_families

    return render_families(build_families(METRICS, samples(notice, at)), accept)
