"""metav1.Time and MicroTime. For people and records only: no decision uses them."""

import time
from collections.abc import Callable

#: Seconds since 1970.
WallClock = Callable[[], float]


def format_time(at: float) -> str:
    """metav1.Time."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def format_micro_time(at: float) -> str:
    """metav1.MicroTime: always six digits."""
    whole, micros = divmod(round(at * 1_000_000), 1_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{micros:06d}Z"
