"""The main loop of every program: rounds, the pauses between them, and the clocks they go by."""

import time
from collections.abc import Callable

from slackwater.model.units import Micros
from slackwater.runtime.wakeup import Woken

#: Runs one round, knowing what ended the pause before it. Returns the seconds until the next round
#: is due; None ends the loop.
Round = Callable[[Woken], float | None]
#: Waits up to that many seconds.
Wait = Callable[[float], Woken]


def run_loop(
    run_round: Round,
    wait: Wait,
    *,
    settle: float = 0.0,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Until a stop is requested. A round begins at least `settle` seconds after the one before, so
    that a burst of changes is one round."""
    woken = wait(0.0)
    while woken is not Woken.STOP:
        began = clock()
        pause = run_round(woken)
        if pause is None:
            return
        woken = wait(pause)
        # What calls meanwhile is part of the next round, which has not looked yet.
        while woken is not Woken.STOP and (left := began + settle - clock()) > 0:
            woken = wait(left)


def monotonic_now() -> Micros:
    return Micros(time.monotonic_ns() // 1000)
