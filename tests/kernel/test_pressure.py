"""PSI triggers on real cgroups v2: waiting work rings, throttled work does not."""

import os
import time
from collections.abc import Iterator

import pytest

from slackwater.model.cgroup import CgroupRef, Level, Tier
from slackwater.model.units import Micros
from slackwater.observation.pressure import FIRST_DEAFNESS, PressureAlarms, Watched
from slackwater.runtime.wakeup import WakePipe, Woken
from tests.kernel.bed import Bed
from tests.kernel.hand import despite_neighbours
from tests.kernel.machine import IS_MACHINE

pytestmark = [pytest.mark.v2, pytest.mark.cgroupfs]

STALL = Micros(50_000)


class Watch:
    """What the agent would say before each sleep."""

    def __init__(self, bed: Bed) -> None:
        path = bed.make(f"{bed.kubepods}/burstable")
        self.groups: tuple[CgroupRef, ...] = (
            CgroupRef(path, bed.id(path), Level.TIER, Tier.BURSTABLE),
        )
        self.led_to_something = True
        self.alarms = PressureAlarms(bed.mounts, self.said, self.clock)
        self.waiter = WakePipe(self.alarms)

    def said(self) -> Watched:
        return Watched(self.groups, STALL, self.led_to_something)

    def clock(self) -> Micros:
        return Micros(time.monotonic_ns() // 1000)


@pytest.fixture
def watch(bed: Bed) -> Iterator[Watch]:
    made = Watch(bed)
    yield made
    made.alarms.close()
    made.waiter.close()


def contend(bed: Bed) -> None:
    """Protected work that has to wait: best-effort work of the same weight is everywhere."""
    best_effort = bed.make(f"{bed.kubepods}/besteffort")
    bed.write(best_effort, "cpu.weight", "10000")
    bed.burn(best_effort, 2 * (os.cpu_count() or 1))
    bed.burn(f"{bed.kubepods}/burstable", os.cpu_count() or 1)


def test_waiting_work_wakes_long_before_the_period(bed: Bed, watch: Watch) -> None:
    contend(bed)
    # 50 ms of waiting within 500 ms, told within a tenth of that.
    assert watch.waiter.wait(3 if IS_MACHINE else 300) is Woken.ALARM


def test_quiet_work_lets_the_period_hold(bed: Bed, watch: Watch) -> None:
    bed.burn(f"{bed.kubepods}/burstable", 1)
    assert watch.waiter.wait(2) is Woken.TIMEOUT
    assert len(watch.alarms.descriptors()) == 1


def test_work_that_waits_for_its_own_quota_is_no_signal(bed: Bed, watch: Watch) -> None:
    bed.write(f"{bed.kubepods}/burstable", "cpu.max", "10000 100000")
    bed.stay_awake()
    bed.burn(f"{bed.kubepods}/burstable", 1)

    def judge() -> None:
        # The kernel rings, as the group's pressure is high; we know why.
        assert watch.waiter.wait(4) is Woken.TIMEOUT

    despite_neighbours(judge)
    waited = bed.read(f"{bed.kubepods}/burstable", "cpu.pressure").split()[4]
    assert int(waited.removeprefix("total=")) > 1_000_000


def test_a_ring_that_led_to_nothing_makes_deaf_for_a_while(bed: Bed, watch: Watch) -> None:
    contend(bed)
    assert watch.waiter.wait(30) is Woken.ALARM
    watch.led_to_something = False
    start = time.monotonic()
    assert watch.waiter.wait(FIRST_DEAFNESS / 2e6) is Woken.TIMEOUT  # it would have rung by now
    watch.led_to_something = True
    time.sleep(max(0, FIRST_DEAFNESS / 1e6 - (time.monotonic() - start)))
    assert watch.waiter.wait(30) is Woken.ALARM


def test_a_group_that_goes_away_rings_nothing(bed: Bed, watch: Watch) -> None:
    assert len(watch.alarms.descriptors()) == 1
    bed.remove(f"{bed.kubepods}/burstable")
    assert watch.waiter.wait(0.5) is Woken.TIMEOUT
    watch.groups = ()
    assert watch.alarms.descriptors() == ()


def test_other_calls_wake_as_well(watch: Watch) -> None:
    watch.waiter.wake()
    assert watch.waiter.wait(30) is Woken.CALL
