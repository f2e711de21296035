"""What the manager answers over HTTP: /healthz, /readyz and /metrics.

Owns the paths. Knows no socket: that is record.listener's.
"""

from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus

import msgspec

from slackwater.manager.metrics import METRICS, samples
from slackwater.manager.standing import Notice, why_not_ready, why_unhealthy
from slackwater.model.units import Micros
from slackwater.record.http_exchange import Answer, Request, routed, told_in_json


class Health(msgspec.Struct, frozen=True, omit_defaults=True):
    """`because` is one sentence where it is not ok; `leader` says who leads."""

    ok: bool
    because: str = ""
    leads: bool = False
    leader: str = ""
    problems: tuple[str, ...] = ()


def respond(notice: Notice, request: Request, at: Micros) -> Answer:
    routes = {path: partial(answer, notice, request, at) for path, answer in _ROUTES.items()}
    return routed(routes, request)


def _healthz(notice: Notice, _request: Request, at: Micros) -> Answer:
    return _health(why_unhealthy(notice, at), notice)


def _readyz(notice: Notice, _request: Request, _at: Micros) -> Answer:
    return _health(why_not_ready(notice), notice)


def _health(why: str, notice: Notice) -> Answer:
    status = HTTPStatus.SERVICE_UNAVAILABLE if why else HTTPStatus.OK
    found = notice.standing
    if found is None:
        return told_in_json(status, Health(not why, why))
    return told_in_json(status, Health(not why, why, found.leads, found.leader, found.problems))


def _metrics(notice: Notice, request: Request, at: Micros) -> Answer:
    from slackwater.record.exposition import families_of, spelled

    content_type, body = spelled(families_of(METRICS, samples(notice, at)), request.accept)
    return Answer(HTTPStatus.OK, content_type, body)


_ROUTES: Mapping[str, Callable[[Notice, Request, Micros], Answer]] = {
    "/healthz": _healthz,
    "/readyz": _readyz,
    "/metrics": _metrics,
}
