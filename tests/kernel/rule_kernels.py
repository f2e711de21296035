"""One face for two kernels, so that one suite holds the fake to the real: see test_rules.

Owns the translation of a rule's few verbs. The real one writes with the code under test
(CgroupWriter) and reads counters by hand; paths are relative to a top folder of the test's own.
"""

import errno
import os
import time
from collections.abc import Mapping
from typing import Protocol

from slackwater.model.cgroup import CgroupController, CgroupRef, CgroupVersion, CpuTimes, Level
from slackwater.model.gap import Gap
from slackwater.model.knob import CPUS, Knob, KnobValue
from slackwater.model.plan import Change, Result
from slackwater.model.units import Micros, MilliCpu, Ratio
from slackwater.simulation.demand import Square, Steady
from slackwater.simulation.fake_cgroup import SimulatedTask
from slackwater.simulation.fake_kernel import FakeKernel
from tests.kernel.bed import Bed
from tests.kernel.hand import PAGE, clock, ref_of, work, writer_of


class KernelUnderTest(Protocol):
    """What a rule needs of a kernel."""

    version: CgroupVersion

    def make(self, path: str) -> CgroupRef:
        """A cgroup and its parents, ready for tasks."""

    def make_bare(self, path: str) -> CgroupRef:
        """One cgroup as mkdir leaves it."""

    def remove(self, ref: CgroupRef) -> Result: ...

    def read(self, ref: CgroupRef, knob: Knob) -> KnobValue | Gap: ...

    def write(self, ref: CgroupRef, knob: Knob, new: KnobValue) -> Result: ...

    def burn(self, ref: CgroupRef, loops: int) -> None:
        """Busy loops, to the end of the test or `stop`."""

    def alternate(self, ref: CgroupRef, busy: Micros, rest: Micros) -> None:
        """A loop that works and sleeps in turns."""

    def go_first(self) -> None:
        """Before other work of the machine: for a rule whose loops are bounded."""

    def stop(self) -> None:
        """Ends all loops."""

    def admits(self, ref: CgroupRef) -> bool:
        """Whether a task may enter."""

    def times(self, ref: CgroupRef) -> CpuTimes: ...

    def now(self) -> Micros: ...

    def wait(self, micros: Micros) -> None: ...


class RealKernel:
    """The kernel that this test runs on."""

    def __init__(self, bed: Bed) -> None:
        self.version = bed.version
        self._bed = bed
        self._writer = writer_of(bed.mounts)

    def make(self, path: str) -> CgroupRef:
        return ref_of(self._bed, self._bed.make(f"{self._bed.top}/{path}"))

    def make_bare(self, path: str) -> CgroupRef:
        full = f"{self._bed.top}/{path}"
        if self.version is CgroupVersion.V2:
            # The bed turns the controllers of a parent on when it makes a child in it.
            self._bed.make(f"{self._bed.top}/sibling")
        for directory in {self._bed.directory(full, c) for c in CgroupController}:
            os.mkdir(directory)
        return ref_of(self._bed, full)

    def remove(self, ref: CgroupRef) -> Result:
        try:
            os.rmdir(self._bed.directory(ref.path))
        except OSError as error:
            known = {errno.EBUSY: Result.REFUSED, errno.ENOENT: Result.VANISHED}
            return known[error.errno or 0]
        self._bed.remove(ref.path)
        return Result.APPLIED

    def read(self, ref: CgroupRef, knob: Knob) -> KnobValue | Gap:
        return self._writer.read(ref, knob)

    def write(self, ref: CgroupRef, knob: Knob, new: KnobValue) -> Result:
        return self._writer.write(Change(ref, knob, new, new)).result

    def burn(self, ref: CgroupRef, loops: int) -> None:
        self._bed.burn(ref.path, loops)

    def alternate(self, ref: CgroupRef, busy: Micros, rest: Micros) -> None:
        work(self._bed, ref.path, busy / 1e6, rest / 1e6)

    def go_first(self) -> None:
        self._bed.go_first()

    def stop(self) -> None:
        self._bed.stop(list(self._bed._pids))

    def admits(self, ref: CgroupRef) -> bool:
        pid = os.fork()
        if not pid:
            try:
                for controller in CgroupController:
                    self._bed.write(ref.path, "cgroup.procs", "0", controller)
                os._exit(0)
            finally:
                os._exit(1)
        return os.waitpid(pid, 0)[1] == 0

    def times(self, ref: CgroupRef) -> CpuTimes:
        words = self._bed.read(ref.path, "cpu.stat").split()
        stat = {name: int(text) for name, text in zip(words[::2], words[1::2], strict=True)}
        return CpuTimes(
            usage=Micros(self._bed.usage(ref.path)),
            periods=stat["nr_periods"],
            throttled_periods=stat["nr_throttled"],
            throttled=_micros(stat, "throttled_usec", "throttled_time"),
            bursts=stat["nr_bursts"],
            burst_time=_micros(stat, "burst_usec", "burst_time"),
        )

    def now(self) -> Micros:
        return clock()

    def wait(self, micros: Micros) -> None:
        time.sleep(micros / 1e6)


def _micros(stat: Mapping[str, int], v2: str, v1: str) -> Micros:
    """v1 counts in nanoseconds."""
    return Micros(stat[v2] if v2 in stat else stat[v1] // 1000)


class SimulatedKernel:
    """The fake, of the same version and size as the machine."""

    def __init__(self, version: CgroupVersion) -> None:
        self.version = version
        self._fake = FakeKernel(version, os.cpu_count() or 1, PAGE)
        self._refs: dict[str, CgroupRef] = {"": self._fake.root()}
        self._started: list[tuple[CgroupRef, str]] = []

    def make(self, path: str) -> CgroupRef:
        """As a runtime does: a v1 cpuset is filled from its parent's."""
        above = path.rpartition("/")[0]
        if above and not self._fake.lives(self._refs.get(above, CgroupRef(above, 0, Level.POD))):
            self.make(above)
        ref = self.make_bare(path)
        cpus = self.read(self._refs[above], CPUS)
        if self.version is CgroupVersion.V1 and not isinstance(cpus, Gap):
            assert self.write(ref, CPUS, cpus) is Result.APPLIED
        return ref

    def make_bare(self, path: str) -> CgroupRef:
        self._refs[path] = self._fake.make(path)
        return self._refs[path]

    def remove(self, ref: CgroupRef) -> Result:
        return self._fake.remove(ref).result

    def read(self, ref: CgroupRef, knob: Knob) -> KnobValue | Gap:
        return self._fake.read(ref, knob)

    def write(self, ref: CgroupRef, knob: Knob, new: KnobValue) -> Result:
        return self._fake.write(Change(ref, knob, new, new)).result

    def burn(self, ref: CgroupRef, loops: int) -> None:
        self._start(ref, SimulatedTask("burn", Steady(MilliCpu(1000 * loops)), loops))

    def alternate(self, ref: CgroupRef, busy: Micros, rest: Micros) -> None:
        period = Micros(busy + rest)
        self._start(
            ref, SimulatedTask("alternate", Square(period, Ratio(busy, period), MilliCpu(1000)))
        )

    def _start(self, ref: CgroupRef, task: SimulatedTask) -> None:
        assert self._fake.attach(ref, task).result is Result.APPLIED
        self._started.append((ref, task.name))

    def go_first(self) -> None:
        """There is no other work."""

    def stop(self) -> None:
        for ref, name in self._started:
            self._fake.detach(ref, name)

    def admits(self, ref: CgroupRef) -> bool:
        admitted = self._fake.attach(ref, SimulatedTask("guest", Steady(MilliCpu(0)))).result
        self._fake.detach(ref, "guest")
        return admitted is Result.APPLIED

    def times(self, ref: CgroupRef) -> CpuTimes:
        times = self._fake.times(ref)
        assert isinstance(times, CpuTimes), times
        return times

    def now(self) -> Micros:
        return self._fake.now

    def wait(self, micros: Micros) -> None:
        self._fake.advance(micros)
