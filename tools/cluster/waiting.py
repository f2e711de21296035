"""Owns waiting for what a cluster will do in its own time."""

import time
from collections.abc import Callable
from typing import TypeVar

from tools.cluster.failure import ClusterError

T = TypeVar("T")
PATIENCE_SECONDS = 60.0
POLL_SECONDS = 0.1
#: A look may start a program, which costs as much CPU as it takes time: it is not always looking.
_REST = 2.0
_LONGEST_REST_SECONDS = 2.0


def wait_for(what: str, look: Callable[[], T], patience: float = PATIENCE_SECONDS) -> T:
    """The first answer that is true; ClusterError with the last one if none comes."""
    deadline = time.monotonic() + patience
    while True:
        began = time.monotonic()
        if seen := look():
            return seen
        now = time.monotonic()
        if now > deadline:
            raise ClusterError(f"{patience:.0f} s were not enough for {what}; last seen: {seen!r}")
        time.sleep(rest_after(now - began))


def rest_after(seconds: float) -> float:
    """Before the next look, where one took so long."""
    return min(max(_REST * seconds, POLL_SECONDS), _LONGEST_REST_SECONDS)
