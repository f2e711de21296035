"""How a value may move from one tick to the next: a ramp and a dead band. Pure.

A policy ramps from its own last claim, never from a reading, which mixes in everyone else.
"""

from slackwater.model.units import MilliCpu, percent


def ramp_towards(
    last: MilliCpu, goal: MilliCpu, recover: int, recover_from: int, floor: MilliCpu
) -> MilliCpu:
    """The next claim on the way to `goal`, in milliCPU.

    From below `recover_from` percent of the goal, or below `floor`, the least that the kernel
    grants, the first raise goes there: a part of next to nothing is next to nothing. From there
    on up by at most `recover` percent of the last claim, and at least by 1 m.
    """
    if goal <= last:
        return goal
    start = MilliCpu(max(floor, percent(recover_from).left_of(goal)))
    if last < start:
        return min(goal, start)
    return min(goal, MilliCpu(last + max(percent(recover).left_of(last), 1)))


def is_beyond_deadband(last: MilliCpu, now: MilliCpu, jitter: int) -> bool:
    """Whether the difference is at least `jitter` percent of the last value, and at least 1 m."""
    return abs(now - last) >= max(percent(jitter).left_of(last), 1)
