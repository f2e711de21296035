"""Children end with the tool that started them, politely first; what they said is kept."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tools import children as children_module
from tools.children import Children
from tools.run_tests import ROOT

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INTERRUPTED_RUN = """
import sys
from tools import run_tests
from tools.stages import Check
command = ("sh", "-c", "echo $$ > " + sys.argv[1] + "; sleep 60 & wait")
run_tests.FAST = (Check("slow", "sleeps", (command,)),)
sys.exit(run_tests.main(["--fast"]))
"""


def eventually(condition: Callable[[], bool]) -> bool:
    """Within a minute; a busy machine may take a while to start a process."""
    deadline = time.monotonic() + 60
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def lives(group: int) -> bool:
    """Whether a process of the group still runs; a zombie that waits for init does not."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _parent, its_group = stat.read_text().rpartition(")")[2].split()[:3]
            if int(its_group) == group and state != "Z":
                return True
    return False


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -9 $$", 137)]
)
def test_exit_codes_are_a_shells(script: str, code: int, tmp_path: Path) -> None:
    assert Children(tmp_path).run(["sh", "-c", script], {}) == code


def test_quiet_children_are_heard_on_both_channels_with_their_environment(tmp_path: Path) -> None:
    command = ["sh", "-c", 'pwd; echo "$COLOUR" >&2; exit 3']
    code, said = Children(tmp_path).run_quietly(command, {"COLOUR": "teal"})
    assert (code, said) == (3, f"{tmp_path}\nteal\n")


def test_bytes_that_are_no_text_do_not_stop_a_run(tmp_path: Path) -> None:
    assert Children(tmp_path).run_quietly(["printf", r"a\377b"], {}) == (0, "a\ufffdb")


def test_a_program_that_is_missing_is_an_exit_code(tmp_path: Path) -> None:
    missing = str(tmp_path / "nothing")
    code, said = Children(tmp_path).run_quietly([missing], {})
    assert (code, said) == (127, f"{missing}: No such file or directory\n")


class InterruptedPopen(subprocess.Popen[bytes]):
    """The signal comes when the child runs and nobody has its name yet."""

    started: ClassVar[list[int]] = []

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.started.append(self.pid)
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
            children.start(["sleep", "60"], {})
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    children.end_all()
    assert len(InterruptedPopen.started) == 1
    assert not lives(InterruptedPopen.started[0])


def test_ending_reaches_the_childrens_children(tmp_path: Path) -> None:
    children = Children(tmp_path)
    child = children.start(["sh", "-c", "sleep 60 & wait"], {})
    children.end_all()
    assert child.returncode == -signal.SIGINT
    assert eventually(lambda: not lives(child.pid))


def test_an_orphan_of_a_finished_child_is_no_load_for_the_next(tmp_path: Path) -> None:
    children = Children(tmp_path)
    child = children.start(["sh", "-c", "sleep 60 & exit 0"], {})
    assert children.wait(child) == 0
    assert eventually(lambda: not lives(child.pid))


def test_a_child_may_clean_up_before_it_ends(tmp_path: Path) -> None:
    ready, clean = tmp_path / "ready", tmp_path / "clean"
    script = f"trap 'touch {clean}; exit 0' INT; touch {ready}; while :; do sleep 0.05; done"
    children = Children(tmp_path)
    children.start(["sh", "-c", script], {})
    assert eventually(ready.exists)
    children.end_all()
    assert clean.exists()


def test_a_stubborn_child_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hurried = tuple((number, 0.1) for number, _ in children_module.FAREWELLS[:-1])
    monkeypatch.setattr(children_module, "FAREWELLS", (*hurried, children_module.FAREWELLS[-1]))
    ready = tmp_path / "ready"
    script = f"trap '' INT TERM; touch {ready}; while :; do sleep 0.05; done"
    children = Children(tmp_path)
    child = children.start(["sh", "-c", script], {})
    assert eventually(ready.exists)
    children.end_all()
    assert child.returncode == -signal.SIGKILL


@pytest.mark.parametrize("number", ENDINGS)
def test_an_interrupted_run_is_130_without_a_traceback_or_an_orphan(
    number: signal.Signals, tmp_path: Path
) -> None:
    noted = tmp_path / "group"
    run = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED_RUN, str(noted)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert eventually(lambda: noted.exists() and noted.read_text().endswith("\n"))
    run.send_signal(number)
    said, _ = run.communicate(timeout=30)
    assert run.returncode == 130
    assert "Traceback" not in said
    assert said.endswith("stopped: nothing above counts as a result\n")
    assert eventually(lambda: not lives(int(noted.read_text())))
