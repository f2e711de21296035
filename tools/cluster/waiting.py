"""Owns waiting for what a cluster will do in its own time."""

import time
from collections.abc import Callable
from typing import TypeVar

from tools.cluster.failure import ClusterError

T = TypeVar("T")
PATIENCE_SECONDS = 60.0
POLL_SECONDS = 0.1


def wait_for(what: str, look: Callable[[], T], patience: float = PATIENCE_SECONDS) -> T:
    """The first answer that is true; ClusterError with the last one if none comes."""
    deadline = time.monotonic() + patience
    while not (seen := look()):
        if time.monotonic() > deadline:
            raise ClusterError(f"{patience:.0f} s were not enough for {what}; last seen: {seen!r}")
        time.sleep(POLL_SECONDS)
    return seen
