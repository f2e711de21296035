"""Where the resident rebalancer stands: what its loop leaves for who asks over HTTP.

Owns what "healthy" and "ready" mean. A follower is ready: it can take over.
"""

import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus

import msgspec

from slackwater.rebalancer.metrics import RoundMetrics, expose
from slackwater.runtime.http_exchange import Request, Response, dispatch, json_response

#: The loop shows signs of life between any two questions. One question may take minutes: a
#: Prometheus that hangs is asked three times for 30 s, and there are several in a row.
STALLED_AFTER = 900.0


class Health(msgspec.Struct, frozen=True, omit_defaults=True):
    """`because` is one sentence where it is not ok; `leader` says who leads."""

    ok: bool
    because: str = ""
    leads: bool = False
    leader: str = ""
    problem: str = ""


class Standing:
    """Guards what crosses threads: the loop writes it, who asks reads it. Times in seconds of a
    clock that only goes forward."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._lively_at = clock()
        self._health: Health | None = None

    def beat(self) -> None:
        """A sign of life."""
        self._lively_at = self._clock()

    def seat(self, leads: bool, leader: str, problem: str) -> None:
        """Who leads as far as is known, and why the lease cannot be read; from the loop."""
        self.beat()
        with self._lock:
            self._health = Health(True, leads=leads, leader=leader, problem=problem)

    def alive(self) -> Health:
        """Whatever can be reached: a restart would not bring an API server back."""
        age = self._clock() - self._lively_at
        if age <= STALLED_AFTER:
            return self._known()
        why = f"the loop has not moved for {age:.0f} s; {STALLED_AFTER:.0f} s are allowed"
        return msgspec.structs.replace(self._known(), ok=False, because=why)

    def ready(self) -> Health:
        known = self._known()
        if known.leads or known.leader:
            return known
        why = known.problem or "nobody is known to lead yet"
        return msgspec.structs.replace(known, ok=False, because=why)

    def _known(self) -> Health:
        with self._lock:
            return self._health or Health(True)


def respond(standing: Standing, tally: RoundMetrics, request: Request) -> Response:
    """/healthz, /readyz and /metrics."""
    routes: Mapping[str, Callable[[], Response]] = {
        "/healthz": lambda: _told(standing.alive()),
        "/readyz": lambda: _told(standing.ready()),
        "/metrics": lambda: Response(HTTPStatus.OK, *expose(tally, request.accept)),
    }
    return dispatch(request.method, request.target.partition("?")[0], routes)


def _told(health: Health) -> Response:
    return json_response(HTTPStatus.OK if health.ok else HTTPStatus.SERVICE_UNAVAILABLE, health)
