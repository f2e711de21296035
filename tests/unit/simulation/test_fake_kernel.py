"""The fake kernel's tree and its face: identity, outcomes, and the executor on top of it."""

from pathlib import Path

import pytest

from slackwater.execution.executor import Executor
from slackwater.execution.knob_writer import Attempt
from slackwater.execution.ledger import Ledger
from slackwater.model.cgroup import CgroupReading, CgroupRef, CgroupVersion, CpuTimes, Level, Tier
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import VANISHED, Gap
from slackwater.model.knob import (
    BURST,
    CPU_QOS_LEVEL,
    CPUS,
    IDLE,
    LARGEST_MEMORY,
    MEMORY_HIGH,
    MEMORY_MAX,
    QUOTA,
    WEIGHT,
    Knob,
    KnobValue,
)
from slackwater.model.machine import NodeUsageSource
from slackwater.model.plan import Change, Result
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, MilliCpu
from slackwater.simulation.demand import Steady
from slackwater.simulation.fake_cgroup import SimulatedTask
from slackwater.simulation.fake_kernel import NO_PRESSURE, FakeKernel, TreeError
from tests.unit.simulation.nodes import SECOND, V1, V2, burn, made, put, quota, write

VERSIONS = pytest.mark.parametrize("version", [V1, V2])
VALUES: tuple[tuple[Knob, KnobValue], ...] = (
    (QUOTA, quota(20_000)),
    (BURST, 1_000),
    (WEIGHT, 50),
    (IDLE, True),
    (CPUS, CpuSet.of([0])),
    (MEMORY_MAX, 2**30),
)


def idler(name: str = "idler") -> SimulatedTask:
    return SimulatedTask(name, Steady(MilliCpu(0)))


def test_a_ref_carries_what_it_was_made_with() -> None:
    kernel = FakeKernel(V2, 2)
    kernel.make("kubepods", Level.NODE)
    tier = kernel.make("kubepods/besteffort", Level.TIER, Tier.BESTEFFORT)
    pod = kernel.make("kubepods/besteffort/pod1", Level.POD, Tier.BESTEFFORT, "uid-1")
    assert pod == CgroupRef("kubepods/besteffort/pod1", 4, Level.POD, Tier.BESTEFFORT, "uid-1")
    assert kernel.refs()[1:] == (tier, pod)
    assert kernel.root().path == ""


@pytest.mark.parametrize("path", ["a", "b/c", "", "a/"])
def test_what_cannot_be_made_is_said(path: str) -> None:
    kernel = FakeKernel(V2, 2)
    kernel.make("a")
    with pytest.raises(TreeError, match="cannot be made"):
        kernel.make(path)


def test_v2_has_no_groups_below_tasks_and_no_tasks_above_groups() -> None:
    kernel = FakeKernel(V2, 2)
    pod, tier = made(kernel, "pod", "tier")
    made(kernel, "tier/pod")
    assert kernel.attach(pod, idler()).result is Result.APPLIED
    with pytest.raises(TreeError, match="tasks"):
        kernel.make("pod/box")
    assert kernel.attach(tier, idler()).result is Result.REFUSED
    assert kernel.attach(kernel.root(), idler()).result is Result.APPLIED
    kernel.make("other")


def test_v1_has_both() -> None:
    kernel = FakeKernel(V1, 2)
    pod, box = made(kernel, "pod", "pod/box")
    assert kernel.attach(pod, idler()).result is Result.APPLIED
    assert kernel.attach(box, idler()).result is Result.APPLIED
    assert kernel.make("pod/other").path == "pod/other"


def test_a_v1_group_without_cpus_takes_no_tasks() -> None:
    kernel = FakeKernel(V1, 2)
    pod = kernel.make("pod")
    assert kernel.attach(pod, idler()).result is Result.REFUSED
    put(kernel, pod, CPUS, CpuSet.of([1]))
    assert kernel.attach(pod, idler()).result is Result.APPLIED


@VERSIONS
def test_only_an_empty_group_is_removed(version: CgroupVersion) -> None:
    kernel = FakeKernel(version, 2)
    pod, box = made(kernel, "pod", "pod/box")
    assert kernel.remove(pod).result is Result.REFUSED
    kernel.attach(box, idler())
    assert kernel.remove(box).detail == "Device or resource busy"
    assert kernel.detach(box, "idler").result is Result.APPLIED
    assert kernel.detach(box, "idler").result is Result.VANISHED
    assert kernel.remove(box).result is Result.APPLIED
    assert kernel.remove(pod).result is Result.APPLIED
    assert kernel.remove(pod).result is Result.VANISHED
    assert kernel.remove(kernel.root()).result is Result.REFUSED
    assert kernel.refs() == ()


@VERSIONS
@pytest.mark.parametrize(("knob", "value"), VALUES, ids=lambda v: getattr(v, "name", ""))
def test_a_group_made_again_is_another(
    version: CgroupVersion, knob: Knob, value: KnobValue
) -> None:
    kernel = FakeKernel(version, 2)
    (first,) = made(kernel, "pod")
    kernel.remove(first)
    assert write(kernel, first, knob, value).result is Result.VANISHED
    (second,) = made(kernel, "pod")
    assert second.id > first.id
    before = kernel.read(second, knob)
    outcome = write(kernel, first, knob, value)
    assert outcome.result is Result.VANISHED
    assert "another cgroup" in outcome.detail
    assert kernel.read(second, knob) == before
    assert kernel.lives(second)
    assert not kernel.lives(first)


def test_everything_about_a_gone_group_is_vanished() -> None:
    kernel = FakeKernel(V2, 2)
    (pod,) = made(kernel, "pod")
    kernel.remove(pod)
    assert kernel.read(pod, QUOTA) == VANISHED
    assert kernel.times(pod) == VANISHED
    assert kernel.lost(pod) == VANISHED
    assert kernel.reading(pod, Micros(0)) == VANISHED
    assert kernel.attach(pod, idler()).result is Result.VANISHED
    assert kernel.detach(pod, "idler").result is Result.VANISHED
    text = kernel.text(pod, QUOTA)
    assert isinstance(text, Attempt)
    assert text.result is Result.VANISHED


@VERSIONS
@pytest.mark.parametrize(("knob", "value"), VALUES, ids=lambda v: getattr(v, "name", ""))
def test_a_value_is_taken_once(version: CgroupVersion, knob: Knob, value: KnobValue) -> None:
    kernel = FakeKernel(version, 2)
    (pod,) = made(kernel, "pod")
    if knob == BURST:
        put(kernel, pod, QUOTA, quota(5_000))
    assert write(kernel, pod, knob, value).result is Result.APPLIED
    assert kernel.read(pod, knob) == value
    text = kernel.text(pod, knob)
    assert isinstance(text, str)
    assert kernel.value(knob, text) == value
    assert kernel.shows(knob, text, value)
    assert write(kernel, pod, knob, value).result is Result.UNCHANGED


@pytest.mark.parametrize(
    ("version", "knob", "value", "result", "detail"),
    [
        (V1, MEMORY_HIGH, 2**30, Result.UNSUPPORTED, "does not exist on cgroup v1"),
        (V2, CPU_QOS_LEVEL, -1, Result.UNSUPPORTED, "no cpu.qos_level"),
        (V1, WEIGHT, 1, Result.REFUSED, "2..262144"),
        (V2, WEIGHT, 0, Result.REFUSED, "1..10000"),
        (V2, QUOTA, quota(999), Result.REFUSED, "1000.."),
        (V2, QUOTA, 5, Result.REFUSED, "no value for quota"),
        (V2, QUOTA, quota(5_000, 5), Result.REFUSED, "'5000 5' in cpu.max: Invalid argument"),
        (V1, CPUS, CpuSet.of([9]), Result.REFUSED, "'9' in cpuset.cpus: Invalid argument"),
    ],
)
def test_why_not(
    version: CgroupVersion, knob: Knob, value: KnobValue, result: Result, detail: str
) -> None:
    kernel = FakeKernel(version, 2)
    (pod,) = made(kernel, "pod")
    outcome = write(kernel, pod, knob, value)
    assert outcome.result is result
    assert detail in outcome.detail


@VERSIONS
@pytest.mark.parametrize(
    ("value", "stands"),
    [
        (0, 0),
        (4095, 0),
        (3 * 4096 + 1, 3 * 4096),
        (LARGEST_MEMORY, UNLIMITED),
        (LARGEST_MEMORY - 4096, LARGEST_MEMORY + 1 - 2 * 4096),
    ],
)
def test_memory_is_kept_in_pages(
    version: CgroupVersion, value: KnobValue, stands: KnobValue
) -> None:
    kernel = FakeKernel(version, 2)
    (pod,) = made(kernel, "pod")
    put(kernel, pod, MEMORY_MAX, value)
    assert kernel.read(pod, MEMORY_MAX) == stands
    assert write(kernel, pod, MEMORY_MAX, value).result is Result.UNCHANGED


def test_the_root_of_v2_has_no_such_files_and_that_of_v1_takes_nothing() -> None:
    new, old = FakeKernel(V2, 2), FakeKernel(V1, 2)
    assert isinstance(new.read(new.root(), QUOTA), Gap)
    assert write(new, new.root(), WEIGHT, 50).result is Result.UNSUPPORTED
    assert old.read(old.root(), CPUS) == CpuSet.of([0, 1])
    assert write(old, old.root(), WEIGHT, 50).result is Result.REFUSED


def test_a_refused_second_file_puts_the_first_one_back() -> None:
    kernel = FakeKernel(V1, 2)
    (pod,) = made(kernel, "pod")
    put(kernel, pod, QUOTA, quota(50_000))
    assert write(kernel, pod, QUOTA, quota(20_000, 2_000_000)).result is Result.REFUSED
    assert kernel.read(pod, QUOTA) == quota(50_000)


def test_a_populated_v2_cpuset_is_emptied_to_every_cpu() -> None:
    kernel = FakeKernel(V2, 3)
    (pod,) = made(kernel, "pod")
    put(kernel, pod, CPUS, CpuSet.of([0]))
    burn(kernel, pod)
    assert write(kernel, pod, CPUS, CpuSet()).result is Result.APPLIED
    assert kernel.read(pod, CPUS) == CpuSet.of([0, 1, 2])
    assert write(kernel, pod, CPUS, CpuSet()).result is Result.UNCHANGED


@VERSIONS
def test_idle_hides_the_weight_and_resets_it(version: CgroupVersion) -> None:
    kernel = FakeKernel(version, 2)
    (pod,) = made(kernel, "pod")
    put(kernel, pod, WEIGHT, 50)
    put(kernel, pod, IDLE, True)
    assert kernel.read(pod, WEIGHT) == (3 if version is V1 else 1)
    assert write(kernel, pod, WEIGHT, 60).result is Result.REFUSED
    put(kernel, pod, IDLE, False)
    assert kernel.read(pod, WEIGHT) == (1024 if version is V1 else 100)


def test_a_note_comes_before_the_write_and_may_forbid_it() -> None:
    kernel = FakeKernel(V2, 2)
    (pod,) = made(kernel, "pod")
    heard: list[tuple[str, str]] = []

    def forbid(now: str, ours: str) -> Attempt | None:
        heard.append((now, ours))
        return Attempt(Result.REFUSED, "no room in the ledger")

    outcome = kernel.write(Change(pod, QUOTA, Bandwidth(UNLIMITED), quota(7_000)), forbid)
    assert (outcome.result, outcome.detail) == (Result.REFUSED, "no room in the ledger")
    assert heard == [("max 100000", "7000 100000")]
    assert kernel.read(pod, QUOTA) == Bandwidth(UNLIMITED)


def test_a_reading_holds_it_all() -> None:
    kernel = FakeKernel(V1, 2)
    (pod,) = made(kernel, "pod")
    put(kernel, pod, QUOTA, quota(50_000))
    put(kernel, pod, BURST, 9_000)
    burn(kernel, pod)
    kernel.advance(SECOND)
    assert kernel.reading(pod, Micros(77)) == CgroupReading(
        ref=pod,
        at=Micros(77),
        times=CpuTimes(Micros(509_000), 10, 10, Micros(491_000), 1, Micros(9_000)),
        quota=quota(50_000),
        burst=Micros(9_000),
        weight=1024,
        idle=False,
        cpus=CpuSet.of([0, 1]),
        pressure=NO_PRESSURE,
    )


@pytest.mark.parametrize(("version", "root_counts"), [(V1, True), (V2, False)])
def test_the_nodes_usage(version: CgroupVersion, root_counts: bool) -> None:
    """A v2 node is the sum of its top groups; what is gone stays in it."""
    kernel = FakeKernel(version, 4)
    pod, other = made(kernel, "pod", "other")
    for ref in (pod, other, kernel.root()):
        burn(kernel, ref)
    kernel.advance(SECOND)
    usage = kernel.node_usage()
    assert usage.usage == (3 if root_counts else 2) * SECOND
    assert usage.source is (
        NodeUsageSource.ROOT_GROUP if root_counts else NodeUsageSource.TOP_GROUPS
    )
    kernel.detach(pod, "work")
    kernel.remove(pod)
    assert kernel.node_usage() == usage


@VERSIONS
def test_the_executor_works_on_it(version: CgroupVersion, tmp_path: Path) -> None:
    """Apply, then release from the ledger alone: all is as it was, in the kernel's order."""
    kernel = FakeKernel(version, 4)
    tier, pod = made(kernel, "tier", "tier/pod")
    put(kernel, tier, WEIGHT, 20)
    ledger = Ledger.open(str(tmp_path), "boot")
    assert isinstance(ledger, Ledger)
    # It has the writer's surface; the executor's annotation names the class.
    executor = Executor(ledger, kernel, None, lambda: kernel.now)
    refs, knobs = (tier, pod), [knob for knob, _ in VALUES]
    before = [kernel.read(ref, knob) for ref in refs for knob in knobs]
    changes = [Change(ref, knob, value, value) for ref in refs for knob, value in VALUES]
    changes = [
        Change(c.ref, c.knob, old, c.new)
        for c in changes
        if not isinstance(old := kernel.read(c.ref, c.knob), Gap)
    ]
    assert {o.result for o in executor.apply(changes)} == {Result.APPLIED}
    assert all(kernel.read(ref, QUOTA) == quota(20_000) for ref in refs)
    assert {o.result for o in executor.release()} <= {Result.APPLIED, Result.UNCHANGED}
    assert [kernel.read(ref, knob) for ref in refs for knob in knobs] == before
    assert not ledger.entries


@pytest.mark.parametrize(
    ("version", "reads", "afterwards"),
    [(V1, "0,2-3", "0,2-3"), (V2, "0-3", "0-3")],
)
def test_a_cpu_that_goes_offline(version: CgroupVersion, reads: str, afterwards: str) -> None:
    """cpuset_hotplug_update_tasks: v1 takes it for good, v2 only as long as it is offline."""
    kernel = FakeKernel(version, 4)
    tier = kernel.make("tier")
    every = CpuSet.of(range(4))
    kernel.write(Change(tier, CPUS, CpuSet(), every))
    kernel.take_offline(CpuSet.of([1]))
    assert kernel.read(tier, CPUS) == CpuSet.parse(reads)
    assert kernel.effective_cpus(tier) == CpuSet.of([0, 2, 3])
    kernel.take_offline(CpuSet())
    assert kernel.read(tier, CPUS) == kernel.effective_cpus(tier) == CpuSet.parse(afterwards)


@pytest.mark.parametrize(("version", "taken"), [(V1, Result.REFUSED), (V2, Result.APPLIED)])
def test_an_offline_cpu_in_a_set(version: CgroupVersion, taken: Result) -> None:
    kernel = FakeKernel(version, 4)
    tier = kernel.make("tier")
    kernel.take_offline(CpuSet.of([1]))
    assert kernel.write(Change(tier, CPUS, CpuSet(), CpuSet.of([0, 1]))).result is taken


def test_tasks_without_a_cpu_move_up_on_v1() -> None:
    """remove_tasks_in_empty_cpuset."""
    kernel = FakeKernel(V1, 4)
    pod, box = kernel.make("pod"), kernel.make("pod/box")
    kernel.write(Change(pod, CPUS, CpuSet(), CpuSet.of(range(4))))
    kernel.write(Change(box, CPUS, CpuSet(), CpuSet.of([3])))
    kernel.attach(box, SimulatedTask("main", Steady(MilliCpu(1000))))
    kernel.take_offline(CpuSet.of([3]))
    assert kernel.read(box, CPUS) == CpuSet()
    assert kernel.remove(box).result is Result.APPLIED  # nothing is in it any more
    kernel.advance(Micros(1_000_000))
    times = kernel.times(pod)
    assert isinstance(times, CpuTimes)
    assert times.usage == 1_000_000
