"""Stages in virtual machines: side by side, shown one after the other, tried twice."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from tools import machines
from tools.children import Children
from tools.machines import MachineRun, Machines, vm_command
from tools.stages import KERNEL_V2_VM, KUBELET_VM, PYTHON, VmSuite
from tools.verdicts import Finished, Verdict

pytestmark = pytest.mark.long

CRASHES = "did not finish: the virtual machine crashed"
#: Stands in for `python -m tools.vm`: says who it is, waits as long as told, crashes as often as
#: told, then leaves a report.
MACHINE = """
import pathlib, sys, time
here = pathlib.Path(__file__).parent
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
me = here / out.name
with (here / "calls").open("a") as calls:
    print("begins", out.name, file=calls)
print(out.name, "speaks", flush=True)
until = time.monotonic() + float(me.with_suffix(".seconds").read_text())
while time.monotonic() < until:
    time.sleep(0.01)
crashes = int(me.with_suffix(".crashes").read_text())
me.with_suffix(".crashes").write_text(str(crashes - 1))
with (here / "calls").open("a") as calls:
    print("ends", out.name, file=calls)
print(out.name, "is silent", flush=True)
if crashes > 0:
    (out / "junit.xml").write_text("<testsuite><testcase name='half'/>")
    sys.exit(125)
(out / "junit.xml").write_text("<testsuite><testcase name='whole'/></testsuite>")
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "machine.py").write_text(MACHINE)
    monkeypatch.setattr(machines, "VM", (sys.executable, str(tmp_path / "machine.py")))
    monkeypatch.setattr(machines, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(machines, "PYTEST", (sys.executable, str(tmp_path / "collects.py")))
    (tmp_path / "reports").mkdir()
    return tmp_path


def stage(name: str) -> VmSuite:
    return VmSuite(name, "tests", "v2", "cgroupfs", "6.12")


def run_in(
    machine: Path, at_once: int, seconds: dict[str, float], crashes: int = 0
) -> list[Finished]:
    runs = []
    for name, each in seconds.items():
        (machine / f"{name}.seconds").write_text(str(each))
        (machine / f"{name}.crashes").write_text(str(crashes))
        runs.append(MachineRun(stage(name), {}, machine / "reports"))
    return Machines(runs, Children(machine)).finish(at_once)


@pytest.mark.parametrize(
    ("crashes", "verdict", "boots"),
    [(0, Verdict(1, 0), 1), (1, Verdict(1, 0), 2), (2, Verdict(0, 1, note=CRASHES), 2)],
)
def test_a_crashed_machine_gets_one_more_try(
    crashes: int,
    verdict: Verdict,
    boots: int,
    machine: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert [one.verdict for one in run_in(machine, 2, {"a": 0.0}, crashes)] == [verdict]
    assert (machine / "calls").read_text().count("begins") == boots
    said = capsys.readouterr().out
    assert said.count("the virtual machine crashed; trying once more") == boots - 1
    assert said.count("a speaks") == boots


@pytest.mark.parametrize(
    ("at_once", "most"),
    [(1, 1), (2, 2)],
)
def test_no_more_machines_run_than_asked_for(at_once: int, most: int, machine: Path) -> None:
    run_in(machine, at_once, {"a": 0.3, "b": 0.3, "c": 0.3})
    running = seen = 0
    for call in (machine / "calls").read_text().splitlines():
        running += 1 if call.startswith("begins") else -1
        seen = max(seen, running)
    assert seen == most


def test_machines_that_wait_share_a_cpu(machine: Path) -> None:
    runs = []
    for name, load in (("a", 0.5), ("b", 0.5), ("c", 1.0)):
        (machine / f"{name}.seconds").write_text("0.3")
        (machine / f"{name}.crashes").write_text("0")
        suite = VmSuite(name, "tests", "v2", "cgroupfs", "6.12", load=load)
        runs.append(MachineRun(suite, {}, machine / "reports"))
    beside = Machines(runs, Children(machine))
    assert beside.go_on(1) == ["a", "b"]
    assert beside.go_on(2) == ["c"]
    assert len(beside.finish(2)) == 3


def test_a_short_machine_makes_room_while_a_long_one_is_shown(machine: Path) -> None:
    finished = run_in(machine, 2, {"a": 2.0, "b": 0.0, "c": 0.0})
    calls = (machine / "calls").read_text().splitlines()
    assert calls.index("ends c") < calls.index("ends a")
    assert [one.stage for one in finished] == ["a", "b", "c"]
    assert finished[1].seconds < finished[0].seconds


def test_each_machine_is_shown_whole_and_in_order(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_in(machine, 2, {"a": 0.5, "b": 0.0})
    said = [line.split(" in ")[0] for line in capsys.readouterr().out.splitlines()]
    assert said == [
        "a: tests; beside it: b",
        "a speaks",
        "a is silent",
        "a: passed",
        "b: tests",
        "b speaks",
        "b is silent",
        "b: passed",
    ]


def test_the_tests_are_compiled_before_a_machine_begins(machine: Path) -> None:
    (machine / "collects.py").write_text(
        "import pathlib, sys\n"
        "(pathlib.Path(__file__).parent / 'calls').write_text(f'{sys.argv[1:]}\\n')\n"
        "sys.exit(4)\n"
    )
    assert run_in(machine, 1, {"a": 0.0})[0].verdict == Verdict(1, 0)
    first, second, _ = (machine / "calls").read_text().splitlines()
    assert first.startswith("['--collect-only', '-q', 'tests/kernel', ")
    assert second == "begins a"


def test_machines_go_on_while_something_else_is_shown(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = []
    for name in ("a", "b"):
        (machine / f"{name}.seconds").write_text("0")
        (machine / f"{name}.crashes").write_text("0")
        runs.append(MachineRun(stage(name), {}, machine / "reports"))
    beside = Machines(runs, Children(machine))
    assert beside.go_on(0) == []
    assert not (machine / "calls").exists()
    begun = beside.go_on(1)
    deadline = time.monotonic() + 30
    while begun != ["a", "b"]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
        begun += beside.go_on(1)
    assert capsys.readouterr().out == ""
    calls = (machine / "calls").read_text().splitlines()
    assert calls[:3] == ["begins a", "ends a", "begins b"] or calls == ["begins a", "ends a"]
    assert [one.verdict for one in beside.finish(2)] == [Verdict(1, 0)] * 2
    assert "a speaks\na is silent\na: passed" in capsys.readouterr().out


def test_an_interrupt_ends_all_machines(machine: Path) -> None:
    children = Children(machine)
    children.heed_endings()
    for name in ("a", "b"):
        (machine / f"{name}.seconds").write_text("600")
    runs = [MachineRun(stage(name), {}, machine / "reports") for name in ("a", "b")]

    def interrupt() -> None:
        calls, deadline = machine / "calls", time.monotonic() + 30
        while time.monotonic() < deadline:
            if calls.exists() and calls.read_text().count("begins") == 2:
                break
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    try:
        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            Machines(runs, children).finish(2)
        children.end_all()
        assert children._running == []
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, default)


def test_the_command_for_a_machine() -> None:
    environ = {"CI": "true", "HOME": "/root"}
    command = vm_command(KERNEL_V2_VM[0], Path("/tmp/out"), environ, {})
    assert command[:3] == [PYTHON, "-m", "tools.vm"]
    assert command[3:-3] == [
        *("run", "--init", "cgroupfs", "--kernel", "6.12", "--memory", "2G"),
        *("--timeout", "1200", "--out", "/tmp/out"),
        *("--env", "SLACKWATER_TEST_KERNEL=v2", "CI=true", "--"),
    ]
    assert command[-3:-1] == ["sh", "-c"]
    assert command[-1].startswith("exec ")
    assert " -m pytest tests/kernel " in command[-1]
    assert command[-1].endswith(' --junitxml="$SLACKWATER_VM_OUT/junit.xml"')


def test_tests_with_a_kubelet_are_told_where_it_is() -> None:
    command = vm_command(KUBELET_VM[1], Path("/tmp/out"), {}, {"kubelet": "/kept/kubelet"})
    assert command[command.index("--env") + 1 : -4] == [
        "SLACKWATER_TEST_KERNEL=v2-systemd",
        "SLACKWATER_KUBELET=/kept/kubelet",
    ]
    assert command[command.index("--memory") + 1] == "3G"
    assert " -m pytest tests/kubelet " in command[-1]
