"""The clock of all programs: microseconds since some moment, which only go forward."""

import time

from slackwater.model.units import Micros


def monotonic_now() -> Micros:
    return Micros(time.monotonic_ns() // 1000)
