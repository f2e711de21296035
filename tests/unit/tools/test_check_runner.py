"""Checks: begun at once, told in turn, and quiet unless they fail."""

import sys
from pathlib import Path

import pytest

from tools.check_runner import CheckRunner, shown
from tools.children import Children
from tools.stages import Check
from tools.verdicts import Verdict


def python(script: str) -> tuple[str, ...]:
    return (sys.executable, "-c", script)


#: Ends only when the other has begun.
MEETS = """
import pathlib, sys, time
me, other = (pathlib.Path(name) for name in {names})
me.touch()
while not other.exists():
    time.sleep(0.01)
sys.exit({code})
"""


@pytest.mark.long
def test_checks_that_have_begun_run_at_once_and_are_told_in_turn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here, there = str(tmp_path / "here"), str(tmp_path / "there")
    first = Check("first", "meets", (python(MEETS.format(names=(here, there), code=0)),))
    second = Check("second", "meets", (python(MEETS.format(names=(there, here), code="'why'")),))
    third = Check("third", "is nowhere", (("/no/such/program",),))
    runner = CheckRunner(Children(tmp_path), tmp_path)
    runner.begin((first, second, third))
    assert [runner.run(each).verdict for each in (first, second, third)] == [
        Verdict(1, 0),
        Verdict(0, 1),
        Verdict(0, 1),
    ]
    said = capsys.readouterr().out
    assert said.index("first: passed") < said.index("why\nexit code 1\nsecond: FAILED")
    assert "/no/such/program: No such file or directory\nexit code 127\nthird: FAILED" in said


def test_something_else_goes_on_while_a_check_runs(tmp_path: Path) -> None:
    check = Check("waits", "for a file", (python(MEETS.format(names=("me", "other"), code=0)),))
    runner = CheckRunner(Children(tmp_path), tmp_path)
    runner.begin((check,))
    assert runner.run(check, (tmp_path / "other").touch).verdict == Verdict(1, 0)


def test_a_command_is_shown_as_it_can_be_typed() -> None:
    assert shown(["/a/b/.venv/bin/python", "-m", "ruff", "a file"]) == "python -m ruff 'a file'"
