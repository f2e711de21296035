"""Stages at the same time: how many, in which order, whose words are shown; a second try."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from tools import side_by_side, suite_commands
from tools.children import Children
from tools.side_by_side import (
    Look,
    Prepared,
    Preparing,
    SideBySide,
    cpus_beside_others,
    cpus_for_machines,
)
from tools.stages import ClusterSuite, KernelSuite, Suite, TestStage, VmSuite
from tools.suite_run import SuiteRun
from tools.verdicts import Finished, NotRun, Verdict

pytestmark = pytest.mark.long

CRASHES = "did not finish: the virtual machine crashed"
#: Stands in for `python -m tools.vm` and for pytest: says who it is, waits as long as told, crashes
#: as often as told, then leaves a report.
STAGE = """
import pathlib, sys, time
here = pathlib.Path(__file__).parent
if "--collect-only" in sys.argv:
    with (here / "calls").open("a") as calls:
        print("collects", file=calls)
    sys.exit(4)
if "--out" in sys.argv:
    out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
else:
    reports = [word for word in sys.argv if word.startswith("--junitxml=")]
    out = pathlib.Path(reports[0].partition("=")[2]).parent
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
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "stage.py").write_text(STAGE)
    program = (sys.executable, str(tmp_path / "stage.py"))
    monkeypatch.setattr(suite_commands, "VM", program)
    monkeypatch.setattr(suite_commands, "PYTEST", program)
    monkeypatch.setattr(side_by_side, "_POLL_SECONDS", 0.01)
    (tmp_path / "reports").mkdir()
    return tmp_path


def vm(name: str, load: float = 0.75, tests: str = "tests/kernel") -> VmSuite:
    return VmSuite(name, "tests", "v2", "cgroupfs", "6.12", tests, load=load)


def kubelet(name: str) -> VmSuite:
    return vm(name, 0.45, "tests/kubelet")


def unit(name: str) -> Suite:
    return Suite(name, "tests", ("tests/unit",))


def cluster(name: str) -> ClusterSuite:
    return ClusterSuite(name, "tests", ("tests/cluster",), ("etcd",))


def node(name: str) -> ClusterSuite:
    return ClusterSuite(name, "tests", ("tests/cluster",), ("etcd", "kubelet"))


def kernel(name: str) -> KernelSuite:
    return KernelSuite(name, "tests", "v1")


def there(_stage: TestStage) -> Prepared:
    return Prepared("")


def made(
    folder: Path,
    seconds: dict[TestStage, float],
    crashes: int = 0,
    prepared: Look = there,
    cpus: int = 2,
) -> SideBySide:
    for stage, each in seconds.items():
        (folder / f"{stage.name}.seconds").write_text(str(each))
        (folder / f"{stage.name}.crashes").write_text(str(crashes))
    runs = [SuiteRun(stage, folder / "reports") for stage in seconds]
    return SideBySide(runs, Children(folder), prepared, cpus)


def calls(folder: Path) -> list[str]:
    said = folder / "calls"
    lines = said.read_text().splitlines() if said.exists() else []
    return [line for line in lines if line != "collects"]


def verdicts(finished: list[Finished]) -> list[Verdict]:
    return [one.verdict for one in finished]


def overlap(folder: Path, one: str, other: str) -> bool:
    """Whether both ran at some time."""
    said = calls(folder)
    ends = min(said.index(f"ends {one}"), said.index(f"ends {other}"))
    return max(said.index(f"begins {one}"), said.index(f"begins {other}")) < ends


@pytest.mark.parametrize(
    ("crashes", "verdict", "boots"),
    [(0, Verdict(1, 0), 1), (1, Verdict(1, 0), 2), (2, Verdict(0, 1, note=CRASHES), 2)],
)
def test_a_crashed_machine_gets_one_more_try(
    crashes: int,
    verdict: Verdict,
    boots: int,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert verdicts(made(folder, {vm("a"): 0.0}, crashes).finish()) == [verdict]
    assert calls(folder).count("begins a") == boots
    said = capsys.readouterr().out
    assert said.count("the virtual machine crashed; trying once more") == boots - 1
    assert said.count("a speaks") == boots


def test_only_machines_get_one_more_try(folder: Path) -> None:
    [finished] = made(folder, {unit("a"): 0.0}, crashes=1).finish()
    assert finished.verdict.failed == 1
    assert calls(folder).count("begins a") == 1


@pytest.mark.parametrize(
    ("cpus", "alone", "beside"),
    [(1, 1.0, 0.25), (2, 2.0, 1.25), (4, 2.0, 2.0)],
)
def test_room_for_machines(cpus: int, alone: float, beside: float) -> None:
    assert cpus_for_machines(cpus) == alone
    assert cpus_beside_others(cpus) == beside


@pytest.mark.parametrize(("cpus", "together"), [(1, False), (2, True)])
def test_no_more_machines_run_than_there_is_room(cpus: int, together: bool, folder: Path) -> None:
    made(folder, {vm("a"): 0.5, vm("b"): 0.5, vm("c"): 0.0}, cpus=cpus).finish()
    assert overlap(folder, "a", "b") is together


def test_beside_others_machines_have_less_room(folder: Path) -> None:
    seconds: dict[TestStage, float] = {
        unit("u"): 1.0,
        vm("a"): 0.5,
        vm("b"): 0.0,
        vm("c", 0.45): 0.0,
    }
    made(folder, seconds).finish()
    assert overlap(folder, "u", "a")
    assert overlap(folder, "a", "c")
    assert not overlap(folder, "a", "b")


def test_on_one_cpu_machines_wait_for_all_others(folder: Path) -> None:
    made(folder, {vm("a"): 0.0, kernel("k"): 0.2, unit("u"): 0.2}, cpus=1).finish()
    said = calls(folder)
    assert max(said.index("ends k"), said.index("ends u")) < said.index("begins a")


def test_stages_that_measure_here_run_one_after_another_beside_all_others(folder: Path) -> None:
    seconds: dict[TestStage, float] = {
        unit("u"): 2.0,
        cluster("c"): 2.0,
        node("n"): 0.2,
        kernel("k"): 0.2,
    }
    finished = made(folder, seconds).finish()
    assert [one.stage for one in finished] == ["u", "c", "n", "k"]
    assert not overlap(folder, "n", "k")
    for one in ("c", "n", "k"):
        assert overlap(folder, "u", one)
    assert finished[0].seconds > finished[2].seconds


def test_machines_that_measure_come_before_stages_that_measure_here(folder: Path) -> None:
    seconds: dict[TestStage, float] = {
        cluster("c"): 0.0,
        node("n"): 1.0,
        vm("v"): 0.5,
        kubelet("l"): 3.0,
    }
    made(folder, seconds).finish()
    said = calls(folder)
    assert said.index("ends v") < said.index("begins n")
    assert overlap(folder, "n", "l")
    assert overlap(folder, "v", "l")


def test_a_machine_that_measures_waits_for_a_stage_that_has_begun(folder: Path) -> None:
    runs = made(folder, {kernel("k"): 0.5, vm("v"): 0.0}, cpus=1)
    runs.go_on()
    runs._cpus = 4  # as if there had been no room before
    runs.finish()
    assert calls(folder) == ["begins k", "ends k", "begins v", "ends v"]


def test_a_stage_begins_when_its_own_needs_are_there(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def prepared(stage: TestStage) -> Prepared | Preparing:
        if stage.name == "n" and "ends k" not in calls(folder):
            return Preparing("etcd", "50 % compiled")
        return Prepared("")

    made(folder, {node("n"): 0.0, kernel("k"): 0.5}, prepared=prepared).finish()
    assert calls(folder)[-1] == "ends n"
    assert "n: preparing etcd: 50 % compiled\n" in capsys.readouterr().out


def test_a_stage_with_an_obstacle_is_told_of_and_not_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def prepared(stage: TestStage) -> Prepared:
        return Prepared("no QEMU" if stage.name == "a" else "")

    runs = made(folder, {vm("a"): 0.0, vm("b"): 0.0}, prepared=prepared)
    assert [one.stage for one in runs.finish()] == ["b"]
    assert runs.left == [NotRun("a", "no QEMU")]
    assert capsys.readouterr().out.count("a: not run: no QEMU\n") == 1


def test_each_stage_is_shown_whole_and_in_order(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(folder, {vm("a"): 0.5, vm("b"): 0.0}).finish(lambda: print("news"))
    said = [line.split(" in ")[0] for line in capsys.readouterr().out.splitlines()]
    assert said == [
        "meanwhile: b",
        "a: tests; beside it: b",
        "a speaks",
        "a is silent",
        "a: passed",
        "news",
        "b: tests",
        "b speaks",
        "b is silent",
        "b: passed",
        "news",
    ]


def test_a_machines_tests_are_compiled_before_it_begins(folder: Path) -> None:
    assert verdicts(made(folder, {vm("a"): 0.0}).finish()) == [Verdict(1, 0)]
    assert (folder / "calls").read_text().splitlines() == ["collects", "begins a", "ends a"]


def test_stages_go_on_while_something_else_is_shown(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = made(folder, {vm("a", 1.0): 0.0, vm("b", 2.0): 0.0})
    deadline = time.monotonic() + 30
    runs.go_on()
    while "ends b" not in calls(folder):
        assert time.monotonic() < deadline
        time.sleep(0.01)
        runs.go_on()
    assert calls(folder) == ["begins a", "ends a", "begins b", "ends b"]
    assert capsys.readouterr().out == "meanwhile: a\nmeanwhile: b\n"
    assert verdicts(runs.finish()) == [Verdict(1, 0)] * 2
    assert "a speaks\na is silent\na: passed" in capsys.readouterr().out


def test_an_interrupt_ends_all_stages(folder: Path) -> None:
    children = Children(folder)
    children.heed_endings()
    for name in ("a", "b"):
        (folder / f"{name}.seconds").write_text("600")
    stages: tuple[TestStage, ...] = (vm("a"), unit("b"))
    runs = [SuiteRun(stage, folder / "reports") for stage in stages]

    def interrupt() -> None:
        calls, deadline = folder / "calls", time.monotonic() + 30
        while time.monotonic() < deadline:
            if calls.exists() and calls.read_text().count("begins") == 2:
                break
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    try:
        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            SideBySide(runs, children, there, 2).finish()
        children.end_all()
        assert children._running == []
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, default)
