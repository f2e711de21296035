"""Whole plans against a real kernel: order, what a write disturbs, what does not work here."""

import itertools
import random
from collections.abc import Iterator

import pytest

from slackwater.execution.cgroup_writer import CgroupWriter
from slackwater.execution.executor import Executor
from slackwater.execution.ledger import Ledger
from slackwater.model.cgroup import CgroupRef, CgroupVersion, Level
from slackwater.model.cpus import CpuSet
from slackwater.model.knob import BURST, CPU_QOS_LEVEL, CPUS, IDLE, QUOTA, WEIGHT, Knob, KnobValue
from slackwater.model.plan import Change, Result
from slackwater.model.units import UNLIMITED, Bandwidth
from tests.kernel.bed import Bed
from tests.kernel.hand import (
    change_of,
    default_weight,
    executor_of,
    knob_files,
    opened,
    quota,
    ref_of,
    shares_text,
    writer_of,
)


@pytest.fixture
def writer(bed: Bed) -> CgroupWriter:
    return writer_of(bed.mounts)


@pytest.fixture
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    made = opened(str(tmp_path_factory.mktemp("ledger")))
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def executor(bed: Bed, ledger: Ledger) -> Executor:
    return executor_of(bed.mounts, ledger)


@pytest.fixture
def family(bed: Bed) -> tuple[CgroupRef, CgroupRef, CgroupRef]:
    """A tier, a pod in it, a container in that."""
    tier = f"{bed.kubepods}/burstable"
    paths = (tier, f"{tier}/pod1", f"{tier}/pod1/container1")
    for path in paths:
        bed.make(path)
    levels = (Level.TIER, Level.POD, Level.CONTAINER)
    tier_ref, pod, container = (
        ref_of(bed, path, level) for path, level in zip(paths, levels, strict=True)
    )
    return tier_ref, pod, container


Family = tuple[CgroupRef, CgroupRef, CgroupRef]


def test_a_childs_quota_above_its_parents(
    writer: CgroupWriter, family: Family, version: CgroupVersion
) -> None:
    tier, pod, _ = family
    writer.write(change_of(writer, tier, QUOTA, quota(30_000)))
    outcome = writer.write(change_of(writer, pod, QUOTA, quota(40_000)))
    v1 = version is CgroupVersion.V1
    assert outcome.result is (Result.REFUSED if v1 else Result.APPLIED)


def test_a_parents_quota_below_its_childs(
    writer: CgroupWriter, family: Family, version: CgroupVersion
) -> None:
    tier, pod, _ = family
    writer.write(change_of(writer, pod, QUOTA, quota(40_000)))
    outcome = writer.write(change_of(writer, tier, QUOTA, quota(30_000)))
    v1 = version is CgroupVersion.V1
    assert outcome.result is (Result.REFUSED if v1 else Result.APPLIED)


@pytest.mark.v1
def test_a_cpuset_outside_its_parents_is_refused_not_unsupported(
    writer: CgroupWriter, family: Family
) -> None:
    """The kernel says EACCES, which elsewhere means that the knob does not work here at all."""
    tier, pod, container = family
    for ref in (container, pod, tier):
        assert writer.write(change_of(writer, ref, CPUS, CpuSet.of([0]))).result is Result.APPLIED
    outcome = writer.write(change_of(writer, pod, CPUS, CpuSet.of([0, 1])))
    assert outcome.result is Result.REFUSED
    assert "Permission denied" in outcome.detail


@pytest.mark.v1
def test_a_cpuset_smaller_than_its_childs_is_refused(writer: CgroupWriter, family: Family) -> None:
    outcome = writer.write(change_of(writer, family[0], CPUS, CpuSet.of([0])))
    assert outcome.result is Result.REFUSED
    assert "busy" in outcome.detail


States = tuple[tuple[tuple[Bandwidth, int, CpuSet], ...], ...]
#: For tier, pod and container each: quota, burst, cpuset. Every state is valid, and the way
#: from any to any other is not, in most orders.
STATES: States = (
    ((quota(80_000), 0, CpuSet.of([0, 1])),) * 3,
    (
        (quota(40_000), 30_000, CpuSet.of([0])),
        (quota(30_000), 30_000, CpuSet.of([0])),
        (quota(20_000), 20_000, CpuSet.of([0])),
    ),
    (
        (quota(150_000), 5_000, CpuSet.of([1])),
        (quota(90_000), 90_000, CpuSet.of([1])),
        (quota(45_000), 0, CpuSet.of([1])),
    ),
    (
        (Bandwidth(UNLIMITED), 0, CpuSet.of([0, 1])),
        (quota(50_000), 50_000, CpuSet.of([0, 1])),
        (Bandwidth(UNLIMITED), 0, CpuSet.of([0])),
    ),
)


@pytest.mark.parametrize(("start", "goal"), list(itertools.permutations(range(len(STATES)), 2)))
def test_the_kernels_order_never_breaks_a_rule(
    executor: Executor, writer: CgroupWriter, family: Family, start: int, goal: int
) -> None:
    _reach(executor, writer, family, start)
    _reach(executor, writer, family, goal)


def _reach(executor: Executor, writer: CgroupWriter, family: Family, state: int) -> None:
    wanted: list[tuple[CgroupRef, Knob, KnobValue]] = []
    for ref, (bandwidth, burst, cpus) in zip(family, STATES[state], strict=True):
        wanted += [(ref, QUOTA, bandwidth), (ref, BURST, burst), (ref, CPUS, cpus)]
    changes = [change_of(writer, ref, knob, value) for ref, knob, value in wanted]
    random.Random(state).shuffle(changes)  # noqa: S311 - any order will do
    outcomes = executor.apply(changes)
    assert not [o for o in outcomes if o.result not in (Result.APPLIED, Result.UNCHANGED)]
    assert [writer.read(ref, knob) for ref, knob, _ in wanted] == [v for _, _, v in wanted]


@pytest.mark.v2
def test_periods_change_in_one_write_on_v2(
    executor: Executor, writer: CgroupWriter, family: Family
) -> None:
    wanted = (quota(90_000, 200_000), quota(2_000, 5_000), quota(1_000_000, 1_000_000))
    changes = [change_of(writer, ref, QUOTA, new) for ref, new in zip(family, wanted, strict=True)]
    assert {o.result for o in executor.apply(changes)} == {Result.APPLIED}
    assert tuple(writer.read(ref, QUOTA) for ref in family) == wanted


@pytest.mark.v1
def test_periods_change_at_the_same_ratio_on_v1(
    executor: Executor, writer: CgroupWriter, family: Family
) -> None:
    """Two files each: a parent goes by the higher mixture where the lower is below its child.
    With a parent as tight as its child there is no way, and it stays as it was."""
    tier, *pair = family
    for ref in family:
        assert writer.write(change_of(writer, ref, QUOTA, quota(100_000))).result is Result.APPLIED
    (stuck,) = executor.apply([change_of(writer, family[1], QUOTA, quota(50_000, 50_000))])
    assert stuck.result is Result.REFUSED
    assert writer.read(family[1], QUOTA) == quota(100_000)
    writer.write(change_of(writer, tier, QUOTA, Bandwidth(UNLIMITED)))
    for new in (quota(50_000, 50_000), quota(200_000, 200_000)):
        outcomes = executor.apply([change_of(writer, ref, QUOTA, new) for ref in pair])
        assert {o.result for o in outcomes} == {Result.APPLIED}
    assert {o.result for o in executor.release()} == {Result.APPLIED}
    assert {writer.read(ref, QUOTA) for ref in pair} == {quota(100_000)}


@pytest.mark.parametrize("weight", [2, 79, 100, 1024])
def test_idle_and_back_restores_the_weight_exactly(
    bed: Bed, executor: Executor, writer: CgroupWriter, family: Family, weight: int
) -> None:
    pod = family[1]
    bed.write(pod.path, _weight_file(bed), str(weight))
    before = knob_files(bed, pod.path)
    (on,) = executor.apply([change_of(writer, pod, IDLE, True)])
    assert on.result is Result.APPLIED
    off = executor.apply([change_of(writer, pod, IDLE, False)])
    assert [o.change.knob for o in off] == [IDLE, WEIGHT]
    assert knob_files(bed, pod.path) == before


def test_each_idle_ends_in_the_weight_before_it(
    bed: Bed, executor: Executor, writer: CgroupWriter, family: Family, ledger: Ledger
) -> None:
    """In between, the weight is the kubelet's to change."""
    pod = family[1]
    for weight in ("200", "500", "1024", "100"):
        bed.write(pod.path, _weight_file(bed), weight)
        executor.apply([change_of(writer, pod, IDLE, True)])
        executor.apply([change_of(writer, pod, IDLE, False)])
        assert shares_text(bed, pod.path) == weight
        assert ledger.entries == ()
        executor.apply([Change(pod, IDLE, False, False)])
        assert shares_text(bed, pod.path) == weight


def test_a_weight_that_was_set_before_idle_comes_back_after_it(
    bed: Bed, executor: Executor, writer: CgroupWriter, family: Family
) -> None:
    pod = family[1]
    executor.apply([change_of(writer, pod, WEIGHT, 33)])
    executor.apply([change_of(writer, pod, IDLE, True)])
    executor.apply([change_of(writer, pod, IDLE, False)])
    assert shares_text(bed, pod.path) == "33"


def test_a_weight_for_an_idle_group_is_refused_and_not_noted(
    executor: Executor, writer: CgroupWriter, ledger: Ledger, bed: Bed, family: Family
) -> None:
    pod = family[1]
    bed.write(pod.path, "cpu.idle", "1")
    (outcome,) = executor.apply([Change(pod, WEIGHT, 0, 50)])
    assert outcome.result is Result.REFUSED
    assert "idle" in outcome.detail
    assert ledger.entries == ()


def test_the_weight_from_before_idle_stands_while_idle_lasts(
    executor: Executor, writer: CgroupWriter, family: Family
) -> None:
    """A plan that repeats itself is no error each time."""
    pod = family[1]
    goal = [Change(pod, WEIGHT, 0, 60), Change(pod, IDLE, False, True)]
    executor.apply(goal)
    assert {o.result for o in executor.apply(goal)} == {Result.UNCHANGED}
    (other,) = executor.apply([Change(pod, WEIGHT, 0, 61)])
    assert other.result is Result.REFUSED


def test_weight_and_idle_in_one_plan(
    bed: Bed, executor: Executor, writer: CgroupWriter, family: Family, version: CgroupVersion
) -> None:
    """Into idle the weight goes first, out of idle it comes second: neither is refused."""
    pod = family[1]
    both = [change_of(writer, pod, IDLE, True), change_of(writer, pod, WEIGHT, 60)]
    assert {o.result for o in executor.apply(both)} == {Result.APPLIED}
    both = [change_of(writer, pod, WEIGHT, 61), change_of(writer, pod, IDLE, False)]
    assert {o.result for o in executor.apply(both)} == {Result.APPLIED}
    assert shares_text(bed, pod.path) == "61"
    executor.release()
    assert shares_text(bed, pod.path) == str(default_weight(version))


def test_a_knob_that_does_not_work_here_is_said_once(executor: Executor, family: Family) -> None:
    _, pod, container = family
    first, again = (executor.apply([Change(pod, CPU_QOS_LEVEL, 0, value)])[0] for value in (-1, 1))
    assert (first.result, again.result) == (Result.UNSUPPORTED, Result.UNSUPPORTED)
    assert first.detail
    assert not again.detail
    (other,) = executor.apply([Change(container, CPU_QOS_LEVEL, 0, -1)])
    assert other.detail, "another level is another question"


@pytest.mark.v2
def test_a_controller_that_comes_later(
    bed: Bed, executor: Executor, writer: CgroupWriter, family: Family
) -> None:
    """A pod's own missing file says nothing of the other pods, nor of tomorrow."""
    _, pod, container = family
    bed.write(pod.path, "cgroup.subtree_control", "-cpu")
    (absent,) = executor.apply([Change(container, QUOTA, quota(1_000), quota(20_000))])
    assert absent.result is Result.UNSUPPORTED
    bed.write(pod.path, "cgroup.subtree_control", "+cpu")
    (there,) = executor.apply([Change(container, QUOTA, quota(1_000), quota(20_000))])
    assert there.result is Result.APPLIED


def _weight_file(bed: Bed) -> str:
    return "cpu.shares" if bed.version is CgroupVersion.V1 else "cpu.weight"
