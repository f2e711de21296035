"""A group's CPU bandwidth: quota, period, burst, and what is left of them in this period.

Owns the counters of cpu.stat below usage. Mirrors struct cfs_bandwidth and its period timer
(kernel/sched/fair.c); refuses to know what time it is: the scheduler says when a period ends.
Amounts are nanoseconds of CPU time.
"""

from slackwater.model.units import DEFAULT_PERIOD, UNLIMITED, Bandwidth, Micros, Unlimited

NANOS = 1000


class Runtime:
    """Guards one group's budget."""

    __slots__ = (
        "_idle",
        "_snap",
        "_throttled",
        "_ticking",
        "burst",
        "burst_time",
        "bursts",
        "left",
        "period",
        "periods",
        "quota",
        "throttled_periods",
        "throttled_time",
    )

    def __init__(self) -> None:
        self.quota: int | Unlimited = UNLIMITED
        self.period = DEFAULT_PERIOD
        self.burst = 0
        self.left = 0
        self.periods = self.throttled_periods = self.throttled_time = 0
        self.bursts = self.burst_time = 0
        self._snap = 0
        #: Whether the period timer runs, and whether nothing was used since it last rang.
        self._ticking = False
        self._idle = False
        self._throttled = False

    def set(self, bandwidth: Bandwidth, burst: Micros) -> None:
        """tg_set_cfs_bandwidth: a new budget at once, and no throttling until it is gone."""
        self.quota = UNLIMITED
        self.period, self.burst = bandwidth.period, burst * NANOS
        if not isinstance(bandwidth.limit, Unlimited):
            self.quota = bandwidth.limit * NANOS
            self._refill(self.quota)
            self._ticking = True
        self._throttled = False

    def spend(self, used: int, asked: int, duration: int) -> None:
        """What a stretch of `duration` took, of the time that the group below could have used.

        Throttled time is counted for each CPU that it would have been on (throttled_clock of
        each cfs_rq): they run side by side until the budget is gone, and then stand.
        """
        self.left -= used
        if used:
            self._ticking, self._idle = True, False
        if asked > used and not self.left:
            self._throttled = True
            cpus = -(-asked // duration)
            self.throttled_time += cpus * duration * (asked - used) // asked

    def end_period(self) -> None:
        """do_sched_cfs_period_timer: counts, refills, and stops after a period without use."""
        if isinstance(self.quota, Unlimited):
            return
        self.periods += self._ticking
        self.throttled_periods += self._throttled
        if not self._throttled:
            self._ticking = self._ticking and not self._idle
            self._idle = True
        self._throttled = False
        self._refill(self.quota)

    def _refill(self, quota: int) -> None:
        """__refill_cfs_bandwidth_runtime: what is left stays, up to the burst.

        It takes a budget that was lowered for a burst as well (nr_bursts rises without any
        burst being set): so does this.
        """
        self.left += quota
        if self._snap > self.left:
            self.bursts += 1
            self.burst_time += self._snap - self.left
        self.left = self._snap = min(self.left, quota + self.burst)

    def state(self) -> tuple[int, int, bool, bool, bool]:
        """All that decides what the next periods bring, besides the demand."""
        return self.left, self._snap, self._ticking, self._idle, self._throttled

    def counters(self) -> tuple[int, ...]:
        return (
            self.periods,
            self.throttled_periods,
            self.throttled_time,
            self.bursts,
            self.burst_time,
        )

    def repeat(self, before: tuple[int, ...], times: int) -> None:
        """Counts what has been counted since `before` so many times more."""
        now = self.counters()
        (
            self.periods,
            self.throttled_periods,
            self.throttled_time,
            self.bursts,
            self.burst_time,
        ) = (new + times * (new - old) for old, new in zip(before, now, strict=True))
