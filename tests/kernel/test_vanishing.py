"""Groups that go, and others that come in their place: never written."""

import os

import pytest

from slackwater.execution.cgroup_writer import CgroupWriter
from slackwater.model.cgroup import CgroupController, CgroupRef
from slackwater.model.cpus import CpuSet
from slackwater.model.knob import (
    BURST,
    CPUS,
    IDLE,
    MEMORY_MAX,
    QUOTA,
    WEIGHT,
    Knob,
    KnobValue,
)
from slackwater.model.plan import Result
from tests.kernel.bed import Bed
from tests.kernel.hand import (
    change_of,
    executor_of,
    knob_files,
    opened,
    quota,
    ref_of,
    writer_of,
)


@pytest.fixture
def writer(bed: Bed) -> CgroupWriter:
    return writer_of(bed.mounts)


@pytest.fixture
def pod(bed: Bed) -> CgroupRef:
    return ref_of(bed, bed.make(f"{bed.kubepods}/besteffort/pod1"))


VALUES = (
    (QUOTA, quota(20_000)),
    (BURST, 1_000),
    (WEIGHT, 50),
    (IDLE, True),
    (CPUS, CpuSet.of([0])),
    (MEMORY_MAX, 2**30),
)


@pytest.mark.parametrize(("knob", "value"), VALUES, ids=lambda v: getattr(v, "name", ""))
def test_a_group_that_is_gone_is_vanished(
    bed: Bed, writer: CgroupWriter, pod: CgroupRef, knob: Knob, value: KnobValue
) -> None:
    change = change_of(writer, pod, knob, value)
    bed.remove(pod.path)
    assert writer.write(change).result is Result.VANISHED


@pytest.mark.parametrize(("knob", "value"), VALUES, ids=lambda v: getattr(v, "name", ""))
def test_a_group_made_again_is_another_and_is_not_touched(
    bed: Bed, writer: CgroupWriter, pod: CgroupRef, knob: Knob, value: KnobValue
) -> None:
    change = change_of(writer, pod, knob, value)
    bed.remove(pod.path)
    bed.make(pod.path)
    fresh = knob_files(bed, pod.path)
    assert writer.write(change).result is Result.VANISHED
    assert not writer.lives(pod)
    assert knob_files(bed, pod.path) == fresh


@pytest.mark.v1
def test_a_group_without_a_cpuset_lives_and_is_released(
    bed: Bed, writer: CgroupWriter, pod: CgroupRef, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ledger = opened(str(tmp_path_factory.mktemp("ledger")))
    executor = executor_of(bed.mounts, ledger)
    before = writer.read(pod, QUOTA)
    cpus = change_of(writer, pod, CPUS, CpuSet.of([0]))
    executor.apply([change_of(writer, pod, QUOTA, quota(20_000))])
    os.rmdir(bed.directory(pod.path, CgroupController.CPUSET))
    (outcome,) = executor.apply([cpus])
    assert outcome.result is Result.REFUSED
    assert "cpuset hierarchy" in outcome.detail
    assert {o.result for o in executor.release()} == {Result.APPLIED}
    assert writer.read(pod, QUOTA) == before
    ledger.close()
