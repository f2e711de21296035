"""PSI triggers of protected groups: the kernel wakes us when their work waits for a CPU.

Owns the trigger descriptors, and the judgement whether a ring means something. A group that is
throttled by its own quota waits as well, so the throttled time of the same interval is taken off.
What its pods' quotas cost them does not show there; so a ring that led to no change makes us deaf
to that group for a while, twice as long each time. A ring only wakes: what is done is a policy's
decision.
"""

import contextlib
import os
from collections.abc import Callable

import msgspec

from slackwater.model.cgroup import CgroupController, CgroupMounts, CgroupRef, CgroupVersion
from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.observation import kernel_text
from slackwater.observation.cgroups.files import GroupFolders

#: The kernel's shortest window: WINDOW_MIN_US in kernel/sched/psi.c.
WINDOW = Micros(500_000)
FIRST_DEAFNESS = Micros(1_000_000)
LONGEST_DEAFNESS = Micros(64_000_000)


class Watched(msgspec.Struct, frozen=True):
    """What the alarms are told before each sleep: the groups, how long a stall is worth waking
    for, and whether the last look led to anything."""

    groups: tuple[CgroupRef, ...]
    stall: Micros
    led_to_something: bool


class _Counters(msgspec.Struct, frozen=True):
    waited: Micros
    throttled: Micros


class _Trigger:
    """Guards one group's trigger, and remembers its counters at the last look."""

    def __init__(self, pressure: int, stat: int, stall: Micros, wait: Micros) -> None:
        self.fd, self._stat = pressure, stat
        #: As asked for, and as set: throttling is counted when it ends (throttled_clock in
        #: kernel/sched/fair.c), so a group with a quota may wait a period more.
        self.stall, self.wait = stall, wait
        self._before = self._read()
        self.deaf_until = Micros(0)
        self.deafness = Micros(0)

    def look(self) -> None:
        self._before = self._read()

    def has_waited(self) -> bool:
        """Whether its work waited that long since the last look, and not for its own quota."""
        before, after = self._before, self._read()
        if isinstance(before, Gap) or isinstance(after, Gap):
            return False
        waited = after.waited - before.waited
        return waited - (after.throttled - before.throttled) >= self.wait

    def close(self) -> None:
        os.close(self.fd)
        os.close(self._stat)

    def _read(self) -> _Counters | Gap:
        try:
            pressure = kernel_text.pressure(os.pread(self.fd, kernel_text.LONGEST_COUNTERS, 0))
            times = kernel_text.times_v2(os.pread(self._stat, kernel_text.LONGEST_COUNTERS, 0))
        except OSError as error:
            return Gap(error.strerror or "not read")
        if isinstance(pressure, Gap) or isinstance(times, Gap):
            return Gap("not read")
        return _Counters(pressure.some.total, times.throttled)


class PressureAlarms:
    """Guards one trigger for each protected group. On cgroup v1 there are none."""

    def __init__(
        self, mounts: CgroupMounts, watched: Callable[[], Watched], clock: Callable[[], Micros]
    ) -> None:
        cpu = mounts.mount(CgroupController.CPU)
        self._v2 = not isinstance(cpu, Gap) and cpu.version is CgroupVersion.V2
        self._folders = GroupFolders(mounts)
        self._watched = watched
        self._clock = clock
        self._triggers: dict[int, _Trigger] = {}
        #: Groups that take no trigger: not asked again while they live.
        self._refused: set[int] = set()
        self._rung: list[_Trigger] = []

    def descriptors(self) -> tuple[int, ...]:
        """Those to wait on, for the groups that live now. Called before each sleep."""
        if not self._v2:
            return ()
        watched = self._watched()
        self._judge_rings(watched.led_to_something)
        living = {ref.id for ref in watched.groups}
        for identity, trigger in list(self._triggers.items()):
            if identity not in living or trigger.stall != watched.stall:
                trigger.close()
                del self._triggers[identity]
        self._refused &= living
        for ref in watched.groups:
            if ref.id not in self._triggers and ref.id not in self._refused:
                self._arm(ref, watched.stall)
        now = self._clock()
        for trigger in self._triggers.values():
            trigger.look()
        return tuple(each.fd for each in self._triggers.values() if each.deaf_until <= now)

    def means_something(self, fd: int) -> bool:
        for trigger in self._triggers.values():
            if trigger.fd == fd and trigger.has_waited():
                self._rung.append(trigger)
                return True
        return False

    def close(self) -> None:
        for trigger in self._triggers.values():
            trigger.close()
        self._triggers.clear()

    def _judge_rings(self, led_to_something: bool) -> None:
        for trigger in self._rung:
            longer = min(max(2 * trigger.deafness, FIRST_DEAFNESS), LONGEST_DEAFNESS)
            trigger.deafness = Micros(0) if led_to_something else Micros(longer)
            trigger.deaf_until = Micros(self._clock() + trigger.deafness)
        self._rung.clear()

    def _arm(self, ref: CgroupRef, stall: Micros) -> None:
        """A group that takes no trigger has none: the period holds there. The kernel may have PSI
        switched off, or keep short windows to CAP_SYS_RESOURCE."""
        try:
            folder = self._folders.open(CgroupController.CPU, ref.path, ref.id)
        except OSError:
            return  # it is gone
        if isinstance(folder, Gap):
            return
        opened: list[int] = []
        try:
            flags = os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC
            opened.append(os.open("cpu.pressure", flags, dir_fd=folder))
            opened.append(os.open("cpu.stat", os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder))
            wait = min(stall + _lag(folder), WINDOW)
            os.write(opened[0], f"some {wait} {WINDOW}\0".encode())
        except OSError:
            self._refused.add(ref.id)
            for fd in opened:
                with contextlib.suppress(OSError):
                    os.close(fd)
        else:
            self._triggers[ref.id] = _Trigger(opened[0], opened[1], stall, Micros(wait))
        finally:
            os.close(folder)


def _lag(folder: int) -> int:
    """How far a group's throttled time may be behind: its quota's period, where it has one."""
    fd = os.open("cpu.max", os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        limit, _, period = os.pread(fd, kernel_text.LONGEST_COUNTERS, 0).decode().partition(" ")
    finally:
        os.close(fd)
    return 0 if limit == "max" else int(period)
