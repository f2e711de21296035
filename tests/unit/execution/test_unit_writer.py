"""unit_writer over a socket that answers as systemd does: what it sets, and how it ends."""

from typing import Any

import pytest

from slackwater.execution.knob_writer import Attempt
from slackwater.execution.unit_writer import UnitWriter, _leading_number
from slackwater.model.cgroup import CgroupRef, Level
from slackwater.model.cpus import CpuSet
from slackwater.model.knob import (
    BURST,
    CPU_QOS_LEVEL,
    CPUS,
    IDLE,
    MEMORY_MAX,
    QUOTA,
    WEIGHT,
    Knob,
    KnobValue,
)
from slackwater.model.plan import Change, Result
from slackwater.model.unit_property import INFINITY
from slackwater.model.units import UNLIMITED, Bandwidth
from tests.unit.execution.desk import SLICE, quota, units
from tests.unit.execution.fake_systemd import FakeSystemd
from tests.unit.execution.plain_kernel import PlainKernel

BOX = f"{SLICE}/cri-containerd-0123.scope"
DENIED = "org.freedesktop.DBus.Error.AccessDenied"


@pytest.fixture
def pod(slice_: CgroupRef) -> CgroupRef:
    return slice_


@pytest.fixture
def writer(systemd: FakeSystemd) -> UnitWriter:
    return units(systemd)


def test_it_asks_for_the_version_and_hangs_up(writer: UnitWriter, systemd: FakeSystemd) -> None:
    assert writer.systemd == 252
    assert systemd.calls == ["Get"]
    assert systemd.connections == 1


@pytest.mark.parametrize(
    ("text", "number"),
    [("252.38-1~deb12u1", 252), ("252", 252), ("v257-rc1", 257), ("", 0), ("unknown", 0)],
)
def test_versions(text: str, number: int) -> None:
    assert _leading_number(text) == number


@pytest.mark.parametrize(
    ("name", "knob", "owned"),
    [
        ("kubepods-pod1.slice", QUOTA, True),
        ("cri-containerd-0123.scope", WEIGHT, True),
        ("kubepods-pod1.slice", IDLE, True),
        ("kubepods-pod1.slice", BURST, False),
        ("kubepods-pod1.slice", CPU_QOS_LEVEL, False),
        ("pod1", QUOTA, False),
        ("containerd.service", QUOTA, False),
        ("slice", QUOTA, False),
    ],
)
def test_what_is_systemds(writer: UnitWriter, name: str, knob: Knob, owned: bool) -> None:
    assert writer.owns(CgroupRef(f"kubepods.slice/{name}", 1, Level.POD), knob) is owned


def test_idle_is_the_files_with_an_older_systemd(systemd: FakeSystemd, pod: CgroupRef) -> None:
    systemd.version = "249.11-0ubuntu3"
    assert not units(systemd).owns(pod, IDLE)
    assert units(systemd).owns(pod, WEIGHT)


@pytest.mark.parametrize(
    ("knob", "value", "properties", "file", "text"),
    [
        (
            QUOTA,
            quota(41_500),
            {"CPUQuotaPerSecUSec": 420_000, "CPUQuotaPeriodUSec": INFINITY},
            "cpu.max",
            "42000 100000",
        ),
        (WEIGHT, 5, {"CPUWeight": 5}, "cpu.weight", "5"),
        (IDLE, True, {"CPUWeight": 0}, "cpu.idle", "1"),
        (CPUS, CpuSet.of([0, 9]), {"AllowedCPUs": b"\x01\x02"}, "cpuset.cpus", "0,9"),
        (MEMORY_MAX, 4097, {"MemoryMax": 4097}, "memory.max", "4096"),
    ],
)
def test_a_change(
    writer: UnitWriter,
    systemd: FakeSystemd,
    kernel: PlainKernel,
    pod: CgroupRef,
    knob: Knob,
    value: KnobValue,
    properties: dict[str, Any],
    file: str,
    text: str,
) -> None:
    outcome = writer.write(Change(pod, knob, 0, value))
    assert (outcome.result, outcome.detail) == (Result.APPLIED, "")
    assert outcome.took > 0
    assert systemd.sets == [properties]
    assert kernel.text(SLICE, file) == text
    assert systemd.calls[-1] == "Get", "a round trip more, so that systemd has applied it"
    assert writer.write(Change(pod, knob, 0, value)).result is Result.UNCHANGED
    assert len(systemd.sets) == 1
    assert kernel.log == [], "it wrote no file itself"


def test_a_scope_is_a_unit_too(
    writer: UnitWriter, systemd: FakeSystemd, kernel: PlainKernel
) -> None:
    box = kernel.make(BOX, Level.CONTAINER)
    systemd.unit(BOX)
    assert writer.write(Change(box, MEMORY_MAX, 0, 2**20)).result is Result.APPLIED
    assert writer.read(box, MEMORY_MAX) == 2**20


def test_not_idle_is_no_reason_to_reset_a_weight(
    writer: UnitWriter, systemd: FakeSystemd, pod: CgroupRef
) -> None:
    assert writer.write(Change(pod, IDLE, True, False)).result is Result.UNCHANGED
    assert systemd.sets == []


def test_a_weight_does_not_end_idle(
    writer: UnitWriter, systemd: FakeSystemd, pod: CgroupRef
) -> None:
    writer.write(Change(pod, IDLE, False, True))
    outcome = writer.write(Change(pod, WEIGHT, 0, 50))
    assert outcome.result is Result.REFUSED
    assert "idle" in outcome.detail
    assert len(systemd.sets) == 1


def test_the_note_sees_properties_and_comes_first(
    writer: UnitWriter, systemd: FakeSystemd, pod: CgroupRef
) -> None:
    seen: list[tuple[str, str, int]] = []

    def note(current: str, ours: str) -> Attempt | None:
        seen.append((current, ours, len(systemd.sets)))
        return None

    writer.write(Change(pod, WEIGHT, 79, 5), note)
    assert seen == [("CPUWeight=79", "CPUWeight=5", 0)]
    refusal = Attempt(Result.REFUSED, "full")
    assert writer.write(Change(pod, WEIGHT, 5, 6), lambda *_: refusal).detail == "full"
    assert len(systemd.sets) == 1


def test_restoring_brings_back_what_was_not_set(
    writer: UnitWriter, systemd: FakeSystemd, pod: CgroupRef
) -> None:
    systemd.unit(SLICE)
    writer.write(Change(pod, WEIGHT, 100, 5))
    text = f"CPUWeight={INFINITY}"
    assert writer.restore(Change(pod, WEIGHT, 5, 100), text).result is Result.APPLIED
    assert writer.text(pod, WEIGHT) == text
    assert writer.restore(Change(pod, WEIGHT, 5, 100), text).result is Result.UNCHANGED


def test_restoring_garbage_is_refused(
    writer: UnitWriter, systemd: FakeSystemd, pod: CgroupRef
) -> None:
    assert writer.restore(Change(pod, WEIGHT, 5, 100), "what?").result is Result.REFUSED
    assert systemd.sets == []


# The kernel has the last word.


def test_a_value_that_did_not_reach_the_kernel(
    writer: UnitWriter, systemd: FakeSystemd, pod: CgroupRef
) -> None:
    systemd.applies = False
    outcome = writer.write(Change(pod, WEIGHT, 79, 5))
    assert outcome.result is Result.REFUSED
    assert outcome.detail == "systemd took CPUWeight=5, but the kernel shows '79'"
    assert systemd.sets == [{"CPUWeight": 5}, {"CPUWeight": 79}], "or it would come later"


def test_a_file_behind_systemds_back_is_set_again(
    writer: UnitWriter, systemd: FakeSystemd, kernel: PlainKernel, pod: CgroupRef
) -> None:
    (kernel.folder(SLICE) / "cpu.weight").write_text("50\n")
    assert writer.write(Change(pod, WEIGHT, 50, 79)).result is Result.APPLIED
    assert kernel.text(SLICE, "cpu.weight") == "79"


def test_a_controller_that_systemd_enables_with_the_property(
    writer: UnitWriter, kernel: PlainKernel, pod: CgroupRef
) -> None:
    """The file is not there before the first value, and not after the last."""
    (kernel.folder(SLICE) / "cpuset.cpus").unlink()
    assert writer.write(Change(pod, CPUS, CpuSet(), CpuSet())).result is Result.UNCHANGED
    assert writer.write(Change(pod, CPUS, CpuSet(), CpuSet.of([1]))).result is Result.APPLIED


def test_a_file_that_never_comes(
    writer: UnitWriter, systemd: FakeSystemd, kernel: PlainKernel, pod: CgroupRef
) -> None:
    systemd.applies = False
    (kernel.folder(SLICE) / "cpuset.cpus").unlink()
    outcome = writer.write(Change(pod, CPUS, CpuSet(), CpuSet.of([1])))
    assert outcome.result is Result.REFUSED, "of this cgroup now, not of systemd"
    assert systemd.units[pod.name()]["AllowedCPUs"] == ("ay", b"")


def test_a_cpuset_that_systemd_leaves_behind_is_opened_up(
    writer: UnitWriter, systemd: FakeSystemd, kernel: PlainKernel, pod: CgroupRef
) -> None:
    writer.write(Change(pod, CPUS, CpuSet(), CpuSet.of([1])))
    systemd.applies = False
    assert writer.write(Change(pod, CPUS, CpuSet.of([1]), CpuSet())).result is Result.APPLIED
    assert kernel.log == [("cpuset.cpus", "\n")]


def test_unlimited_is_infinity(writer: UnitWriter, systemd: FakeSystemd, pod: CgroupRef) -> None:
    systemd.unit(SLICE, CPUQuotaPerSecUSec=("t", 500_000), CPUQuotaPeriodUSec=("t", 50_000))
    assert writer.read(pod, QUOTA) == quota(25_000, 50_000)
    assert writer.write(Change(pod, QUOTA, 0, Bandwidth(UNLIMITED))).result is Result.APPLIED
    assert systemd.sets == [{"CPUQuotaPerSecUSec": INFINITY, "CPUQuotaPeriodUSec": INFINITY}]
