"""Owns running one stage on this machine: its commands, what the person sees, and its verdict.

Refuses to order stages or to add them up (tools.run_tests, tools.verdicts); stages in virtual
machines are tools.machines'.
"""

import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tools.children import Children
from tools.console import Colour, ProgressLine, elapsed_text, paint, say
from tools.kubernetes.programs import variable_of
from tools.stages import (
    PYTHON,
    BrokerSuite,
    Check,
    ClusterSuite,
    HostStage,
    KernelSuite,
    Suite,
    slug,
)
from tools.verdicts import Finished, Verdict, judge

PYTEST = (PYTHON, "-m", "pytest")
REPORT = "junit.xml"
# Tests are compiled once and kept, also where somebody's environment asks for no bytecode: each of
# the many processes of a run would compile them again.
KEEP_BYTECODE = {"PYTHONDONTWRITEBYTECODE": ""}
_POLL_SECONDS = 0.1


class StageRunner:
    """Guards the folder for this run's reports, one folder below it per stage."""

    def __init__(self, children: Children, reports: Path) -> None:
        self._children = children
        self._reports = reports
        self._meanwhile: Callable[[], None] = lambda: None
        self._begun: dict[tuple[str, ...], tuple[subprocess.Popen[bytes], Path]] = {}

    def begin(self, checks: Iterable[Check]) -> None:
        """All at once: each keeps one CPU busy, and none minds the others. Told in their order."""
        commands = [command for check in checks for command in check.commands]
        for number, command in enumerate(commands):
            words = self._reports / f"check-{number}.log"
            # What cannot start says so when it is its turn.
            with suppress(OSError), words.open("wb") as output:
                self._begun[command] = (self._children.start(command, {}, output), words)

    def run(
        self,
        stage: HostStage,
        programs: Mapping[str, str],
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Finished:
        """`meanwhile` is called again and again while tests run."""
        self._meanwhile = meanwhile
        began = time.monotonic()
        verdict = self._verdict(stage, programs)
        finished = Finished(stage.name, verdict, time.monotonic() - began)
        say(closing_line(finished))
        return finished

    def _verdict(self, stage: HostStage, programs: Mapping[str, str]) -> Verdict:
        match stage:
            case Check():
                return self._check(stage)
            case Suite() | BrokerSuite():
                say(f"{stage.name}: {stage.what}")
                return self._suite(stage.name, stage.arguments, {})
            case KernelSuite():
                say(f"{stage.name}: {stage.what}")
                env = {"SLACKWATER_TEST_KERNEL": stage.test_kernel}
                return self._suite(stage.name, ("tests/kernel",), env)
            case ClusterSuite():
                say(f"{stage.name}: {stage.what}")
                env = {variable_of(name): path for name, path in programs.items()}
                return self._suite(stage.name, stage.arguments, env)

    def _check(self, stage: Check) -> Verdict:
        heard = []
        with ProgressLine(f"{stage.name}: {stage.what}"):
            for command in stage.commands:
                code, said = self._outcome(command)
                if code != 0:
                    heard.append(f"$ {shown(command)}\n{said.rstrip()}\nexit code {code}")
        for text in heard:
            say(text)
        return Verdict(0, 1) if heard else Verdict(1, 0)

    def _outcome(self, command: tuple[str, ...]) -> tuple[int, str]:
        if command not in self._begun:
            return self._children.run_quietly(command, {})
        child, words = self._begun.pop(command)
        code = self._children.wait(child)
        return code, words.read_text(errors="replace")

    def _suite(self, name: str, arguments: Sequence[str], env: Mapping[str, str]) -> Verdict:
        report = fresh_folder(self._reports, name) / REPORT
        command = [*PYTEST, *arguments, f"--junitxml={report}"]
        child = self._children.start(command, {**KEEP_BYTECODE, **env})
        while child.poll() is None:
            self._meanwhile()
            time.sleep(_POLL_SECONDS)
        return judge(self._children.wait(child), read_report(report))


def fresh_folder(reports: Path, name: str) -> Path:
    """Made anew, so that a report in it can only be this run's."""
    folder = reports / slug(name)
    if folder.exists():
        folder.rename(folder.with_name(f"{folder.name}-crashed"))
    folder.mkdir()
    return folder


def read_report(path: Path) -> str | None:
    return path.read_text(errors="replace") if path.is_file() else None


def shown(command: Sequence[str]) -> str:
    """A command as a person would type it in the virtual environment."""
    return shlex.join([Path(command[0]).name, *command[1:]])


def closing_line(finished: Finished) -> str:
    verdict = finished.verdict
    word, colour = ("FAILED", Colour.RED) if verdict.failed else ("passed", Colour.GREEN)
    note = f": {verdict.note}" if verdict.note else ""
    return (
        f"{finished.stage}: {paint(word, colour, sys.stdout)} "
        f"in {elapsed_text(finished.seconds)}{note}"
    )
