"""Stages at the same time: how many, in which order, whose words are shown; a second try."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.unit.tools.played_stages import (
    STAGE,
    Awaits,
    broker,
    calls,
    cluster,
    kernel,
    made,
    node,
    overlap,
    there,
    unit,
    verdicts,
    vm,
    with_own_clock,
)
from tools import side_by_side, suite_commands
from tools.children import Children
from tools.side_by_side import (
    Prepared,
    Preparing,
    SideBySide,
    cpus_for_machines,
)
from tools.stages import TestStage
from tools.suite_run import SuiteRun
from tools.verdicts import NotRun, Verdict

pytestmark = pytest.mark.long

CRASHES = "did not finish: the virtual machine crashed"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "stage.py").write_text(STAGE)
    program = (sys.executable, str(tmp_path / "stage.py"))
    monkeypatch.setattr(suite_commands, "VM", program)
    monkeypatch.setattr(suite_commands, "PYTEST", program)
    monkeypatch.setattr(side_by_side, "_POLL_SECONDS", 0.01)
    (tmp_path / "reports").mkdir()
    return tmp_path


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
    assert verdicts(made(folder, {vm("a"): ""}, crashes).finish()) == [verdict]
    assert calls(folder).count("begins a") == boots
    said = capsys.readouterr().out
    assert said.count("the virtual machine crashed; trying once more") == boots - 1
    assert said.count("a speaks") == boots


def test_only_machines_get_one_more_try(folder: Path) -> None:
    [finished] = made(folder, {unit("a"): ""}, crashes=1).finish()
    assert finished.verdict.failed == 1
    assert calls(folder).count("begins a") == 1


@pytest.mark.parametrize(("cpus", "room"), [(1, 1.0), (2, 2.0), (4, 2.0)])
def test_room_for_machines(cpus: int, room: float) -> None:
    assert cpus_for_machines(cpus) == room


def test_machines_run_together_where_there_is_room(folder: Path) -> None:
    made(folder, {vm("a"): "begins b", vm("b"): "begins a", vm("c"): ""}).finish()
    assert overlap(folder, "a", "b")


def test_no_more_machines_run_than_there_is_room(folder: Path) -> None:
    made(folder, {vm("a"): "", vm("b"): "", vm("c"): ""}, cpus=1).finish()
    assert calls(folder) == [f"{what} {name}" for name in "abc" for what in ("begins", "ends")]


def test_machines_by_this_ones_clock_wait_for_all_that_fill_it(folder: Path) -> None:
    made(folder, {vm("a"): "", with_own_clock("v"): "", unit("u"): ""}).finish()
    assert calls(folder)[-2:] == ["begins a", "ends a"]


def test_stages_that_measure_here_run_one_after_another_beside_fillers(folder: Path) -> None:
    ends = "ends b,ends n"
    awaits: Awaits = {unit("u"): ends, cluster("c"): ends, broker("b"): "", node("n"): ""}
    finished = made(folder, awaits).finish()
    assert [one.stage for one in finished] == ["u", "c", "b", "n"]
    told = [call for call in calls(folder) if call[-1] in "bn"]
    assert told == ["begins b", "ends b", "begins n", "ends n"]
    assert finished[0].seconds > finished[2].seconds


def test_beside_tests_of_the_kernel_there_are_only_machines_that_wait(folder: Path) -> None:
    awaits: Awaits = {unit("u"): "", cluster("c"): "", node("n"): "", kernel("k"): "begins l"}
    awaits |= {with_own_clock("v"): "", vm("l"): "ends k"}
    made(folder, awaits).finish()
    assert sorted(calls(folder)[-4:]) == ["begins k", "begins l", "ends k", "ends l"]
    assert calls(folder)[-1] == "ends l"


def test_several_kernels_of_one_machine_are_tested_in_turn(folder: Path) -> None:
    made(folder, {kernel("k"): "", kernel("l"): ""}).finish()
    assert calls(folder) == ["begins k", "ends k", "begins l", "ends l"]


def test_machines_with_a_clock_of_their_own_fill_what_is_left(folder: Path) -> None:
    """These stages end only when all are there."""
    all_there = "begins u,begins v,begins w"
    stages: tuple[TestStage, ...] = (unit("u"), with_own_clock("v"), with_own_clock("w"))
    made(folder, dict.fromkeys(stages, all_there), cpus=1).finish()
    assert sorted(calls(folder)[:3]) == all_there.split(",")


def test_machines_wait_for_those_who_measure_what_is_left(folder: Path) -> None:
    made(folder, {broker("b"): "", node("n"): "", with_own_clock("v"): "", vm("w"): ""}).finish()
    assert calls(folder)[:4] == ["begins b", "ends b", "begins n", "ends n"]


def test_a_stage_begins_when_its_own_needs_are_there(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def prepared(stage: TestStage) -> Prepared | Preparing:
        if stage.name == "n" and "ends b" not in calls(folder):
            return Preparing("etcd", "50 % compiled")
        return Prepared("")

    made(folder, {node("n"): "", broker("b"): ""}, prepared=prepared).finish()
    assert calls(folder)[-1] == "ends n"
    assert "n: preparing etcd: 50 % compiled\n" in capsys.readouterr().out


def test_a_stage_with_an_obstacle_is_told_of_and_not_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def prepared(stage: TestStage) -> Prepared:
        return Prepared("no QEMU" if stage.name == "a" else "")

    runs = made(folder, {vm("a"): "", vm("b"): ""}, prepared=prepared)
    assert [one.stage for one in runs.finish()] == ["b"]
    assert runs.left == [NotRun("a", "no QEMU")]
    assert capsys.readouterr().out.count("a: not run: no QEMU\n") == 1


def test_each_stage_is_shown_whole_and_in_order(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(folder, {vm("a"): "ends b", vm("b"): ""}).finish(lambda: print("news"))
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
    assert verdicts(made(folder, {vm("a"): ""}).finish()) == [Verdict(1, 0)]
    assert (folder / "calls").read_text().splitlines() == ["collects", "begins a", "ends a"]


def test_stages_go_on_while_something_else_is_shown(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = made(folder, {vm("a", 1.0): "", vm("b", 2.0): ""})
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
        (folder / f"{name}.awaits").write_text("never")
    stages: tuple[TestStage, ...] = (with_own_clock("a"), unit("b"))
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
