"""unit_writer over a socket that answers as systemd does: what it sets, and how it ends."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slackwater.execution.systemd_wire import SystemdError, SystemdWire
from slackwater.execution.unit_writer import PAUSE, UnitWriter, _leading_number
from slackwater.execution.verdict import Verdict
from slackwater.model.cgroup import CgroupRef, CgroupVersion, Level
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import VANISHED, Gap
from slackwater.model.knob import (
    BURST,
    CPU_QOS_LEVEL,
    CPUS,
    IDLE,
    MEMORY_LOW,
    MEMORY_MAX,
    QUOTA,
    WEIGHT,
    Knob,
    KnobValue,
)
from slackwater.model.plan import Change, Result
from slackwater.model.unit_property import INFINITY
from slackwater.model.units import UNLIMITED, Bandwidth, Micros
from tests.unit.execution.fake_systemd import FakeSystemd, Refused, asleep, hang_up
from tests.unit.execution.plain_kernel import Clock, PlainKernel

POD = "kubepods.slice/kubepods-pod1.slice"
BOX = f"{POD}/cri-containerd-0123.scope"
DENIED = "org.freedesktop.DBus.Error.AccessDenied"


def quota(limit: int, period: int = 100_000) -> Bandwidth:
    return Bandwidth(Micros(limit), Micros(period))


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlainKernel:
    root = tmp_path / "cgroup"
    root.mkdir()
    return PlainKernel(root, CgroupVersion.V2, monkeypatch)


@pytest.fixture
def systemd(tmp_path: Path, kernel: PlainKernel) -> Iterator[FakeSystemd]:
    made = FakeSystemd(tmp_path / "private", kernel)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def pod(systemd: FakeSystemd, kernel: PlainKernel) -> CgroupRef:
    ref = kernel.make(POD)
    systemd.unit(POD, CPUWeight=("t", 79))
    return ref


def opened(systemd: FakeSystemd, timeout: float = 2.0) -> UnitWriter:
    found = UnitWriter.open(systemd.kernel.writer(), Clock(), systemd.path, timeout)
    assert isinstance(found, UnitWriter), found
    return found


@pytest.fixture
def writer(systemd: FakeSystemd) -> UnitWriter:
    return opened(systemd)


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


def test_no_socket_is_a_gap(tmp_path: Path, kernel: PlainKernel) -> None:
    found = UnitWriter.open(kernel.writer(), Clock(), str(tmp_path / "none"))
    assert isinstance(found, Gap)
    assert "No such file" in found.reason


def test_who_is_not_root_is_not_let_in(systemd: FakeSystemd) -> None:
    systemd.greeting = b"REJECTED\r\n"
    found = UnitWriter.open(systemd.kernel.writer(), Clock(), systemd.path)
    assert isinstance(found, Gap)
    assert "does not let this user in" in found.reason


@pytest.mark.parametrize("greeting", [b"x" * 4000, b"OK \r\nrubbish" * 200])
def test_a_socket_of_somebody_elses(systemd: FakeSystemd, greeting: bytes) -> None:
    systemd.greeting = greeting
    assert isinstance(UnitWriter.open(systemd.kernel.writer(), Clock(), systemd.path, 0.3), Gap)


@pytest.mark.parametrize(
    "junk",
    [b"\0" * 64, b"l" + b"\xff" * 64, b"HTTP/1.1 400 Bad Request\r\n"],
    ids=["zeros", "ones", "http"],
)
def test_an_answer_that_is_no_message(tmp_path: Path, junk: bytes) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "private"))
    listener.listen()

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(b"OK 00\r\n")
            connection.recv(4096)
            connection.sendall(junk)
            time.sleep(0.3)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with (
        SystemdWire.connect(str(tmp_path / "private"), 0.2) as wire,
        pytest.raises((OSError, SystemdError)),
    ):
        wire.manager_property("Version")
    thread.join(5)
    listener.close()


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
    assert not opened(systemd).owns(pod, IDLE)
    assert opened(systemd).owns(pod, WEIGHT)


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
    assert kernel.text(POD, file) == text
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

    def note(current: str, ours: str) -> Verdict | None:
        seen.append((current, ours, len(systemd.sets)))
        return None

    writer.write(Change(pod, WEIGHT, 79, 5), note)
    assert seen == [("CPUWeight=79", "CPUWeight=5", 0)]
    refusal = Verdict(Result.REFUSED, "full")
    assert writer.write(Change(pod, WEIGHT, 5, 6), lambda *_: refusal).detail == "full"
    assert len(systemd.sets) == 1


def test_restoring_brings_back_what_was_not_set(
    writer: UnitWriter, systemd: FakeSystemd, pod: CgroupRef
) -> None:
    systemd.unit(POD)
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


def test_a_file_behind_systemds_back_is_set_again(
    writer: UnitWriter, systemd: FakeSystemd, kernel: PlainKernel, pod: CgroupRef
) -> None:
    (kernel.folder(POD) / "cpu.weight").write_text("50\n")
    assert writer.write(Change(pod, WEIGHT, 50, 79)).result is Result.APPLIED
    assert kernel.text(POD, "cpu.weight") == "79"


def test_a_controller_that_systemd_enables_with_the_property(
    writer: UnitWriter, kernel: PlainKernel, pod: CgroupRef
) -> None:
    """The file is not there before the first value, and not after the last."""
    (kernel.folder(POD) / "cpuset.cpus").unlink()
    assert writer.write(Change(pod, CPUS, CpuSet(), CpuSet())).result is Result.UNCHANGED
    assert writer.write(Change(pod, CPUS, CpuSet(), CpuSet.of([1]))).result is Result.APPLIED


def test_a_file_that_never_comes(
    writer: UnitWriter, systemd: FakeSystemd, kernel: PlainKernel, pod: CgroupRef
) -> None:
    systemd.applies = False
    (kernel.folder(POD) / "cpuset.cpus").unlink()
    outcome = writer.write(Change(pod, CPUS, CpuSet(), CpuSet.of([1])))
    assert outcome.result is Result.UNSUPPORTED


def test_a_cpuset_that_systemd_leaves_behind_is_opened_up(
    writer: UnitWriter, systemd: FakeSystemd, kernel: PlainKernel, pod: CgroupRef
) -> None:
    writer.write(Change(pod, CPUS, CpuSet(), CpuSet.of([1])))
    systemd.applies = False
    assert writer.write(Change(pod, CPUS, CpuSet.of([1]), CpuSet())).result is Result.APPLIED
    assert kernel.log == [("cpuset.cpus", "\n")]


# How it ends.


def test_a_group_that_is_gone(writer: UnitWriter, systemd: FakeSystemd) -> None:
    before = len(systemd.calls)
    ref = CgroupRef("kubepods.slice/none.slice", 9, Level.POD)
    assert writer.write(Change(ref, WEIGHT, 1, 2)).result is Result.VANISHED
    assert writer.read(ref, WEIGHT) == VANISHED
    assert len(systemd.calls) == before, "systemd is not asked"


def test_another_group_under_the_same_name(
    writer: UnitWriter, systemd: FakeSystemd, pod: CgroupRef
) -> None:
    stale = CgroupRef(POD, pod.id + 1, Level.POD)
    assert writer.write(Change(stale, WEIGHT, 1, 2)).result is Result.VANISHED
    assert systemd.sets == []


def test_a_unit_that_is_not_loaded_is_never_set(
    writer: UnitWriter, systemd: FakeSystemd, pod: CgroupRef
) -> None:
    """systemd would make a slice of that name. While the cgroup lives, it is not vanished."""
    systemd.units.clear()
    outcome = writer.write(Change(pod, WEIGHT, 1, 2))
    assert outcome.result is Result.REFUSED
    assert "not loaded" in outcome.detail
    assert systemd.sets == []


def test_a_unit_that_goes_with_its_group_meanwhile(
    writer: UnitWriter, systemd: FakeSystemd, kernel: PlainKernel, pod: CgroupRef
) -> None:
    def remove(member: str) -> None:
        if member == "GetUnit":
            systemd.units.clear()
            kernel.folder(POD).rename(kernel.root / "gone")

    systemd.before = remove
    assert writer.write(Change(pod, WEIGHT, 1, 2)).result is Result.VANISHED


def test_a_unit_of_that_name_elsewhere(
    writer: UnitWriter, systemd: FakeSystemd, pod: CgroupRef
) -> None:
    systemd.homes[pod.name()] = "/other.slice/kubepods-pod1.slice"
    outcome = writer.write(Change(pod, WEIGHT, 1, 2))
    assert outcome.result is Result.REFUSED
    assert "/other.slice" in outcome.detail
    assert systemd.sets == []


@pytest.mark.parametrize(
    ("name", "result"),
    [
        (DENIED, Result.UNSUPPORTED),
        ("org.freedesktop.DBus.Error.InteractiveAuthorizationRequired", Result.UNSUPPORTED),
        ("org.freedesktop.DBus.Error.PropertyReadOnly", Result.UNSUPPORTED),
        ("org.freedesktop.DBus.Error.InvalidArgs", Result.REFUSED),
        ("System.Error.EINVAL", Result.REFUSED),
        ("org.freedesktop.systemd1.UnitMasked", Result.REFUSED),
    ],
)
def test_what_systemd_answers(
    writer: UnitWriter, systemd: FakeSystemd, pod: CgroupRef, name: str, result: Result
) -> None:
    def refuse(member: str) -> None:
        if member == "SetUnitProperties":
            raise Refused(name, "that will not do")

    systemd.before = refuse
    outcome = writer.write(Change(pod, WEIGHT, 1, 2))
    assert (outcome.result, outcome.detail) == (result, "systemd: that will not do")


def test_a_property_that_this_systemd_does_not_have(
    writer: UnitWriter, systemd: FakeSystemd, pod: CgroupRef
) -> None:
    assert writer.write(Change(pod, MEMORY_LOW, 0, 4096)).result is Result.UNSUPPORTED
    assert isinstance(writer.text(pod, MEMORY_LOW), Verdict)


def test_a_value_out_of_range_is_not_sent(
    writer: UnitWriter, systemd: FakeSystemd, pod: CgroupRef
) -> None:
    before = len(systemd.calls)
    outcome = writer.write(Change(pod, WEIGHT, 1, 20_000))
    assert outcome.result is Result.REFUSED
    assert "1..10000" in outcome.detail
    assert len(systemd.calls) == before


def test_a_systemd_that_is_busy_costs_the_timeout_once(
    systemd: FakeSystemd, pod: CgroupRef
) -> None:
    writer = opened(systemd, timeout=0.2)
    systemd.before = asleep(0.6)
    start = time.monotonic()
    outcome = writer.write(Change(pod, WEIGHT, 79, 5))
    assert time.monotonic() - start < 0.5
    assert outcome.result is Result.REFUSED
    assert "systemd: " in outcome.detail


def test_a_systemd_that_did_not_answer_is_left_alone_for_a_while(
    systemd: FakeSystemd, pod: CgroupRef
) -> None:
    """The other forty-nine units of a plan do not wait for it as well."""
    clock = Clock()
    writer = UnitWriter.open(systemd.kernel.writer(), clock, systemd.path, 0.2)
    assert isinstance(writer, UnitWriter)
    systemd.before = asleep(0.6)
    writer.write(Change(pod, WEIGHT, 79, 5))
    connections = systemd.connections
    again = writer.write(Change(pod, WEIGHT, 79, 5))
    assert again.result is Result.REFUSED
    assert "a moment ago" in again.detail
    assert systemd.connections == connections
    systemd.before = asleep(0)
    clock.now += PAUSE
    assert writer.write(Change(pod, WEIGHT, 79, 5)).result is Result.APPLIED


def test_a_systemd_that_only_chatters_is_not_waited_for(
    systemd: FakeSystemd, pod: CgroupRef
) -> None:
    """Signals come without end during a large start; the deadline is the call's, not a read's."""
    writer = opened(systemd, timeout=0.2)
    systemd.chatters = True
    start = time.monotonic()
    assert writer.write(Change(pod, WEIGHT, 79, 5)).result is Result.REFUSED
    assert time.monotonic() - start < 1.0


def test_a_connection_that_breaks_is_made_again_once(
    writer: UnitWriter, systemd: FakeSystemd, pod: CgroupRef
) -> None:
    systemd.before = hang_up(1)
    assert writer.write(Change(pod, WEIGHT, 79, 5)).result is Result.APPLIED
    systemd.before = hang_up(2)
    outcome = writer.write(Change(pod, WEIGHT, 5, 6))
    assert outcome.result is Result.REFUSED
    systemd.before = hang_up(0)
    assert writer.write(Change(pod, WEIGHT, 5, 6)).result is Result.APPLIED


def test_a_systemd_that_is_gone_for_a_moment(
    writer: UnitWriter, systemd: FakeSystemd, pod: CgroupRef
) -> None:
    os.unlink(systemd.path)
    outcome = writer.write(Change(pod, WEIGHT, 79, 5))
    assert outcome.result is Result.REFUSED
    assert "No such file" in outcome.detail
    assert isinstance(writer.read(pod, WEIGHT), Gap)


def test_no_connection_stays_open(writer: UnitWriter, systemd: FakeSystemd, pod: CgroupRef) -> None:
    """systemd would queue every signal for it, in its own memory."""
    systemd.before = hang_up(1)
    for new in (5, 6, 20_000):
        writer.write(Change(pod, WEIGHT, 1, new))
    deadline = time.monotonic() + 5
    while systemd.ended < systemd.connections:
        assert time.monotonic() < deadline, "the writer hangs on"
        time.sleep(0.01)
    assert systemd.connections > 3


def test_unlimited_is_infinity(writer: UnitWriter, systemd: FakeSystemd, pod: CgroupRef) -> None:
    systemd.unit(POD, CPUQuotaPerSecUSec=("t", 500_000), CPUQuotaPeriodUSec=("t", 50_000))
    assert writer.read(pod, QUOTA) == quota(25_000, 50_000)
    assert writer.write(Change(pod, QUOTA, 0, Bandwidth(UNLIMITED))).result is Result.APPLIED
    assert systemd.sets == [{"CPUQuotaPerSecUSec": INFINITY, "CPUQuotaPeriodUSec": INFINITY}]
