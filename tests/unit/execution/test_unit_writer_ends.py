"""How a change by unit_writer ends: units that are gone, refusals, and a systemd that is silent."""

import os
import socket
import threading
import time
from pathlib import Path

import pytest

from slackwater.execution.knob_writer import Attempt
from slackwater.execution.systemd_wire import SystemdError, SystemdWire
from slackwater.execution.unit_writer import PAUSE, UnitWriter
from slackwater.model.cgroup import CgroupRef, Level
from slackwater.model.gap import VANISHED, Gap
from slackwater.model.knob import (
    MEMORY_LOW,
    WEIGHT,
)
from slackwater.model.plan import Change, Result
from tests.unit.execution.desk import SLICE, units
from tests.unit.execution.fake_systemd import FakeSystemd, Refused, asleep, hang_up, noise
from tests.unit.execution.plain_kernel import Clock, PlainKernel

BOX = f"{SLICE}/cri-containerd-0123.scope"
DENIED = "org.freedesktop.DBus.Error.AccessDenied"


@pytest.fixture
def pod(slice_: CgroupRef) -> CgroupRef:
    return slice_


@pytest.fixture
def writer(systemd: FakeSystemd) -> UnitWriter:
    return units(systemd)


def test_no_socket_is_a_gap(tmp_path: Path, kernel: PlainKernel) -> None:
    found = UnitWriter.open(kernel.writer(), Clock(), str(tmp_path / "none"))
    assert isinstance(found, Gap)
    assert "No such file" in found.reason


def test_who_is_not_root_is_not_let_in(systemd: FakeSystemd) -> None:
    systemd.greeting = b"REJECTED\r\n"
    found = UnitWriter.open(systemd.kernel.writer(), Clock(), systemd.path)
    assert isinstance(found, Gap)
    assert "does not let this user in" in found.reason


def test_a_signal_that_comes_with_the_ok(systemd: FakeSystemd) -> None:
    """systemd sends signals from BEGIN on, which has come together with AUTH (seen in a VM)."""
    systemd.greeting += noise().serialise(serial=9)
    assert isinstance(
        UnitWriter.open(systemd.kernel.writer(), Clock(), systemd.path, 5.0), UnitWriter
    )


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

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with (
        SystemdWire.connect(str(tmp_path / "private"), 300.0) as wire,
        pytest.raises((OSError, SystemdError)),
    ):
        wire.manager_property("Version")
    thread.join()
    listener.close()


def test_a_group_that_is_gone(writer: UnitWriter, systemd: FakeSystemd) -> None:
    before = len(systemd.calls)
    ref = CgroupRef("kubepods.slice/none.slice", 9, Level.POD)
    assert writer.write(Change(ref, WEIGHT, 1, 2)).result is Result.VANISHED
    assert writer.read(ref, WEIGHT) == VANISHED
    assert len(systemd.calls) == before, "systemd is not asked"


def test_another_group_under_the_same_name(
    writer: UnitWriter, systemd: FakeSystemd, pod: CgroupRef
) -> None:
    stale = CgroupRef(SLICE, pod.id + 1, Level.POD)
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
            kernel.folder(SLICE).rename(kernel.root / "gone")

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
    assert isinstance(writer.text(pod, MEMORY_LOW), Attempt)


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
    writer = units(systemd, timeout=0.2)
    before = systemd.connections
    systemd.before = asleep(0.6)
    outcome = writer.write(Change(pod, WEIGHT, 79, 5))
    assert systemd.connections <= before + 1, "it is not asked again"
    assert outcome.result is Result.REFUSED
    assert "systemd: " in outcome.detail


def test_a_systemd_that_did_not_answer_is_left_alone_for_a_while(
    systemd: FakeSystemd, pod: CgroupRef
) -> None:
    """The other forty-nine units of a plan do not wait for it as well."""
    clock = Clock()
    writer = UnitWriter.open(systemd.kernel.writer(), clock, systemd.path, 0.2, 300.0)
    assert isinstance(writer, UnitWriter)
    systemd.before = asleep(0.6)
    writer.write(Change(pod, WEIGHT, 79, 5))
    writer._timeout = 300.0
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
    writer = units(systemd, timeout=0.2)
    systemd.chatters = True
    assert writer.write(Change(pod, WEIGHT, 79, 5)).result is Result.REFUSED


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
    while systemd.ended < systemd.connections:
        time.sleep(0.01)
    assert systemd.connections > 3
