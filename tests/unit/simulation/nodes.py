"""Small nodes for the tests: a kernel with some groups, ready for work."""

from slackwater.model.cgroup import CgroupRef, CgroupVersion, CpuTimes
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import Gap
from slackwater.model.knob import CPUS, Knob, KnobValue
from slackwater.model.plan import Change, Outcome, Result
from slackwater.model.units import Bandwidth, Micros, MilliCpu
from slackwater.simulation.demand import Demand, Steady
from slackwater.simulation.fake_cgroup import SimulatedTask
from slackwater.simulation.fake_kernel import FakeKernel

V1, V2 = CgroupVersion.V1, CgroupVersion.V2
SECOND = Micros(1_000_000)


def quota(limit: int, period: int = 100_000) -> Bandwidth:
    return Bandwidth(Micros(limit), Micros(period))


def made(kernel: FakeKernel, *paths: str) -> list[CgroupRef]:
    """Groups as a runtime leaves them: v1 cpusets filled from above."""
    refs = []
    for path in paths:
        refs.append(kernel.make(path))
        standing = {ref.path: ref for ref in kernel.refs()} | {"": kernel.root()}
        above = kernel.reading(standing[path.rpartition("/")[0]], kernel.now)
        assert not isinstance(above, Gap)
        if kernel.version(CPUS) is V1 and isinstance(above.cpus, CpuSet):
            put(kernel, refs[-1], CPUS, above.cpus)
    return refs


def write(kernel: FakeKernel, ref: CgroupRef, knob: Knob, new: KnobValue) -> Outcome:
    """From what stands there."""
    old = kernel.read(ref, knob)
    return kernel.write(Change(ref, knob, new if isinstance(old, Gap) else old, new))


def put(kernel: FakeKernel, ref: CgroupRef, knob: Knob, new: KnobValue) -> None:
    outcome = write(kernel, ref, knob, new)
    assert outcome.result in (Result.APPLIED, Result.UNCHANGED), outcome


def burn(kernel: FakeKernel, ref: CgroupRef, loops: int = 1) -> None:
    run(kernel, ref, Steady(MilliCpu(1000 * loops)), loops)


def run(kernel: FakeKernel, ref: CgroupRef, demand: Demand, threads: int = 64) -> None:
    assert kernel.attach(ref, SimulatedTask("work", demand, threads)).result is Result.APPLIED


def times(kernel: FakeKernel, ref: CgroupRef) -> CpuTimes:
    found = kernel.times(ref)
    assert isinstance(found, CpuTimes)
    return found


def milli(kernel: FakeKernel, ref: CgroupRef, span: Micros = SECOND) -> float:
    """milliCPU used over the next second, or so long."""
    before = times(kernel, ref).usage
    kernel.advance(span)
    return 1000 * (times(kernel, ref).usage - before) / span


def lost(kernel: FakeKernel, ref: CgroupRef) -> Micros:
    found = kernel.lost(ref)
    assert not isinstance(found, Gap)
    return found
