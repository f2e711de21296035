"""Children end with the tool that started them, politely first; what they said is kept."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tools import children as children_module
from tools.children import Children

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -9 $$", 137)]
)
def test_exit_codes_are_a_shells(script: str, code: int, tmp_path: Path) -> None:
    assert Children(tmp_path).run(["sh", "-c", script], {}) == code


def test_quiet_children_are_heard_on_both_channels_with_their_environment(tmp_path: Path) -> None:
    command = ["sh", "-c", 'pwd; echo "$COLOUR" >&2; exit 3']
    code, said = Children(tmp_path).run_quietly(command, {"COLOUR": "teal"})
    assert (code, said) == (3, f"{tmp_path}\nteal\n")


def test_bytes_that_are_not_text_do_not_stop_a_run(tmp_path: Path) -> None:
    assert Children(tmp_path).run_quietly(["printf", r"a\377b"], {}) == (0, "a\ufffdb")


def test_a_program_that_is_missing_is_an_exit_code(tmp_path: Path) -> None:
    missing = str(tmp_path / "nothing")
    code, said = Children(tmp_path).run_quietly([missing], {})
    assert (code, said) == (127, f"{missing}: No such file or directory\n")


class InterruptedPopen(subprocess.Popen[bytes]):
    """The signal comes when the child runs and nobody knows its pid yet."""

    started: ClassVar[list[subprocess.Popen[bytes]]] = []

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.started.append(self)
        signal.raise_signal(signal.SIGTERM)


def test_a_child_that_starts_as_the_signal_comes_is_ended_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {number: signal.getsignal(number) for number in ENDINGS}
    monkeypatch.setattr(subprocess, "Popen", InterruptedPopen)
    children = Children(tmp_path)
    children.heed_endings()
    try:
        with pytest.raises(KeyboardInterrupt):
            children.start(["sleep", "3600"], {})
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    children.end_all()
    assert [child.returncode for child in InterruptedPopen.started] == [-signal.SIGINT]


def start_with_a_pipe(children: Children, script: str) -> tuple[subprocess.Popen[bytes], int]:
    """The end of the pipe's input says that every process which inherited it has ended."""
    reading, writing = os.pipe()
    child = children.start(["sh", "-c", script], {}, writing)
    os.close(writing)
    return child, reading


def read_to_the_end(reading: int) -> bytes:
    with open(reading, "rb") as source:
        return source.read()


def test_ending_reaches_the_childrens_children(tmp_path: Path) -> None:
    children = Children(tmp_path)
    child, output = start_with_a_pipe(children, "sleep 3600 & echo ready; wait")
    assert os.read(output, 6) == b"ready\n"
    children.end_all()
    assert child.returncode == -signal.SIGINT
    assert read_to_the_end(output) == b""


def test_an_orphan_of_a_finished_child_ends_with_it(tmp_path: Path) -> None:
    children = Children(tmp_path)
    child, output = start_with_a_pipe(children, "sleep 3600 & exit 0")
    assert children.wait(child) == 0
    assert read_to_the_end(output) == b""


def test_a_child_may_clean_up_before_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children_module, "FAREWELLS", ((signal.SIGINT, 3600.0),))
    script = "trap 'echo clean; exit 0' INT; echo ready; while :; do sleep 0.05; done"
    children = Children(tmp_path)
    _, output = start_with_a_pipe(children, script)
    assert os.read(output, 6) == b"ready\n"
    children.end_all()
    assert read_to_the_end(output) == b"clean\n"


def test_a_stubborn_child_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    polite = tuple((number, 0.1) for number, _ in children_module.FAREWELLS[:-1])
    monkeypatch.setattr(children_module, "FAREWELLS", (*polite, (signal.SIGKILL, 3600.0)))
    children = Children(tmp_path)
    child, output = start_with_a_pipe(
        children, "trap '' INT TERM; echo ready; while :; do sleep 0.05; done"
    )
    assert os.read(output, 6) == b"ready\n"
    children.end_all()
    assert child.returncode == -signal.SIGKILL
    os.close(output)
