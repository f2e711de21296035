"""Groups that go, and others that come in their place: never written."""

import pytest

from slackwater.execution.cgroup_writer import CgroupWriter
from slackwater.model.cgroup import CgroupRef
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
    knob_files,
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
