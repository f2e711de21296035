"""`make demo`: the demo's own exit code, and nothing left waiting."""

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools import demo


@pytest.mark.parametrize(("code", "said"), [(0, 0), (1, 1), (2, 2), (130, 130), (-9, 137)])
def test_the_exit_code_is_the_demos(code: int, said: int) -> None:
    assert demo.exit_code(code) == said


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `slackwater` beside the interpreter, as in a virtual environment."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    return tmp_path / "slackwater"


def write(program: Path, text: str) -> None:
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


@pytest.mark.parametrize("code", [0, 1, 2, 130])
def test_it_runs_slackwater_demo(
    program: Path, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(program, f'echo "$@" > said; exit {code}')
    assert demo.main(["--seconds", "5"]) == code
    assert (tmp_path / "said").read_text() == "demo --seconds 5\n"


def test_a_crash_is_not_hidden(program: Path) -> None:
    write(program, "kill -SEGV $$")
    assert demo.main([]) == 128 + signal.SIGSEGV


def test_without_the_program_one_sentence(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert demo.main([]) == 1
    assert capsys.readouterr().err == (
        f"demo: {program} is missing; run `make demo`, which sets it up\n"
    )


def test_a_signal_to_end_is_passed_on_and_waited_for(tmp_path: Path) -> None:
    program = tmp_path / "slackwater"
    write(
        program, 'trap "echo back > put; exit 143" TERM; touch ready; while :; do sleep 0.05; done'
    )
    code = f"import sys; sys.executable = {str(tmp_path / 'python')!r}\n"
    code += "from tools import demo; sys.exit(demo.main([]))"
    environ = {**os.environ, "PYTHONPATH": os.getcwd()}
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=environ) as process:
        deadline = time.monotonic() + 60
        while not (tmp_path / "ready").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.terminate()
        assert process.wait(60) == 143
    assert (tmp_path / "put").read_text() == "back\n"
