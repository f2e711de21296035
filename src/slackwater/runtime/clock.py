"""The clock of all programs: microseconds that only go forward, and the time of day beside it."""

import time

from slackwater.model.units import Micros


def monotonic_now() -> Micros:
    return Micros(time.monotonic_ns() // 1000)
