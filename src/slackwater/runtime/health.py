"""Whether a program's loop makes progress and its threads are alive: what /healthz answers.

Only what a restart would mend makes a program unhealthy. An API server that cannot be reached
does not.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
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
        #: Names of threads that an exception ended, some of them before they could be listed.
        self._failed: set[str] = set()
        self._hook_before: Callable[[threading.ExceptHookArgs], object] | None = None

    def beat(self, at: Micros, allowed: Micros | None = None) -> None:
        """The loop made progress; `allowed` is how long it may take until it does again."""
        self._last = at
        if allowed is not None:
            self._allowed = allowed

    @contextlib.contextmanager
    def starting_threads(self) -> Iterator[None]:
        """Threads that are started inside must live until `forget_threads`. Call it once."""
        before = set(threading.enumerate())
        self._hook_before, threading.excepthook = threading.excepthook, self._note_failure
        yield
        self._threads = tuple(each for each in threading.enumerate() if each not in before)

    def forget_threads(self) -> None:
        """Before they are stopped."""
        self._threads = ()
        self._failed.clear()
        if self._hook_before is not None:
            threading.excepthook, self._hook_before = self._hook_before, None

    def _note_failure(self, failure: threading.ExceptHookArgs) -> None:
        self._failed.add(failure.thread.name if failure.thread else "unknown")
        if self._hook_before is not None:
            self._hook_before(failure)

    def _dead(self) -> set[str]:
        return {each.name for each in self._threads if not each.is_alive()} | self._failed

    def count_threads(self) -> tuple[int, int]:
        """Those that must not die: how many live, and how many are dead."""
        return sum(each.is_alive() for each in self._threads), len(self._dead())

    def why_unhealthy(self, at: Micros) -> str:
        """Empty while it is healthy."""
        silent = at - self._last
        if silent > self._allowed:
            return (
                f"the loop has made no progress for {silent // 1_000_000} s; "
                f"{self._allowed // 1_000_000} s are allowed"
            )
        dead = sorted(self._dead())
        return f"threads have died: {', '.join(dead)}" if dead else ""


def health_response(health: Health) -> Response:
    return json_response(HTTPStatus.OK if health.ok else HTTPStatus.SERVICE_UNAVAILABLE, health)
