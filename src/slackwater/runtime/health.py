"""Whether a program's loop makes progress and its threads are alive: what /healthz answers.

Only what a restart would mend makes a program unhealthy. An API server that cannot be reached
does not.
"""

import contextlib
import threading
from collections.abc import Iterator
from http import HTTPStatus

import msgspec

from slackwater.model.units import Micros
from slackwater.runtime.http_exchange import Response, json_response


class Health(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of /healthz and /readyz. `because` is one sentence where it is not ok."""

    ok: bool
    because: str = ""


class ReplicaHealth(Health, frozen=True, omit_defaults=True):
    """Of a program of which one replica leads: whether it is this one, and who leads."""

    leads: bool = False
    leader: str = ""
    problem: str = ""
    problems: tuple[str, ...] = ()


class HealthState:
    """Guards the time of the loop's last sign of life, and the threads that must not die. The loop
    writes it; other threads read it."""

    def __init__(self, started: Micros, allowed: Micros) -> None:
        self._last = started
        self._allowed = allowed
        self._threads: tuple[threading.Thread, ...] = ()

    def beat(self, at: Micros, allowed: Micros | None = None) -> None:
        """The loop made progress; `allowed` is how long it may take until it does again."""
        self._last = at
        if allowed is not None:
            self._allowed = allowed

    @contextlib.contextmanager
    def starting_threads(self) -> Iterator[None]:
        """Threads that are started inside must live until `forget_threads`."""
        before = set(threading.enumerate())
        yield
        self._threads += tuple(each for each in threading.enumerate() if each not in before)

    def forget_threads(self) -> None:
        """Before they are stopped."""
        self._threads = ()

    def why_unhealthy(self, at: Micros) -> str:
        """Empty while it is healthy."""
        silent = at - self._last
        if silent > self._allowed:
            return (
                f"the loop has made no progress for {silent // 1_000_000} s; "
                f"{self._allowed // 1_000_000} s are allowed"
            )
        dead = sorted(each.name for each in self._threads if not each.is_alive())
        return f"threads have died: {', '.join(dead)}" if dead else ""


def health_response(health: Health) -> Response:
    return json_response(HTTPStatus.OK if health.ok else HTTPStatus.SERVICE_UNAVAILABLE, health)
