"""A dead band: a value that hardly moved did not move."""

from slackwater.model.units import MilliCpu, percent


def moved(last: MilliCpu, now: MilliCpu, jitter: int) -> bool:
    """Whether the difference is at least `jitter` percent of the last value, and at least 1 m."""
    return abs(now - last) >= max(percent(jitter).left_of(last), 1)
