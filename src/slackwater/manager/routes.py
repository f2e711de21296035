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
from slackwater.runtime.http_exchange import Request, Response, dispatch, json_response


class Health(msgspec.Struct, frozen=True, omit_defaults=True):
    """`because` is one sentence where it is not ok; `leader` says who leads."""

    ok: bool
    because: str = ""
    leads: bool = False
    leader: str = ""
    problems: tuple[str, ...] = ()


def respond(notice: Notice, request: Request, at: Micros) -> Response:
    routes = {path: partial(answer, notice, request, at) for path, answer in _ROUTES.items()}
    return dispatch(request.method, request.target.partition("?")[0], routes)


def _healthz(notice: Notice, _request: Request, at: Micros) -> Response:
    return _health(why_unhealthy(notice, at), notice)


def _readyz(notice: Notice, _request: Request, _at: Micros) -> Response:
    return _health(why_not_ready(notice), notice)


def _health(why: str, notice: Notice) -> Response:
    status = HTTPStatus.SERVICE_UNAVAILABLE if why else HTTPStatus.OK
    found = notice.standing
    if found is None:
        return json_response(status, Health(not why, why))
    return json_response(status, Health(not why, why, found.leads, found.leader, found.problems))


def _metrics(notice: Notice, request: Request, at: Micros) -> Response:
    from slackwater.record.exposition import build_families, render_families

    content_type, body = render_families(
        build_families(METRICS, samples(notice, at)), request.accept
    )
    return Response(HTTPStatus.OK, content_type, body)


_ROUTES: Mapping[str, Callable[[Notice, Request, Micros], Response]] = {
    "/healthz": _healthz,
    "/readyz": _readyz,
    "/metrics": _metrics,
}
