"""How a value may move from one tick to the next: a ramp and a dead band. Pure.

A policy ramps from its own last claim, never from a reading, which mixes in everyone else.
"""

from slackwater.model.units import MilliCpu, percent

#: From nothing a part of nothing would be nothing: the ramp starts at this part of the goal.
_START = percent(1)


def ramp_towards(last: MilliCpu, goal: MilliCpu, recover: int, floor: MilliCpu) -> MilliCpu:
    """The next claim on the way to `goal`, in milliCPU.

    Up by at most `recover` percent of the last claim, and at least by 1 m. Below `floor`, the
    least that the kernel grants, the step is taken from the floor or 1 % of the goal, whichever
    is larger, so that an exhausted budget recovers without a jump and without a dead zone.
    """
    if goal <= last:
        return goal
    start = last if last >= floor else max(floor, MilliCpu(_START.left_of(goal)))
    step = max(percent(recover).left_of(start), 1)
    return min(goal, MilliCpu(start + step))


def is_beyond_deadband(last: MilliCpu, now: MilliCpu, jitter: int) -> bool:
    """Whether the difference is at least `jitter` percent of the last value, and at least 1 m."""
    return abs(now - last) >= max(percent(jitter).left_of(last), 1)
