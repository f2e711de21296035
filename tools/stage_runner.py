"""Owns running one stage on this machine: its commands, what the person sees, and its verdict.

Refuses to order stages or to add them up (tools.run_tests, tools.verdicts); stages in virtual
machines are tools.machines'.
"""

import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.children import Children
from tools.console import Colour, ProgressLine, elapsed_text, paint, say
from tools.stages import PYTHON, Check, HostStage, KernelSuite, Suite, slug
from tools.verdicts import Finished, Verdict, judge

PYTEST = (PYTHON, "-m", "pytest")
REPORT = "junit.xml"


class StageRunner:
    """Guards the folder for this run's reports, one folder below it per stage."""

    def __init__(self, children: Children, reports: Path) -> None:
        self._children = children
        self._reports = reports

    def run(self, stage: HostStage) -> Finished:
        began = time.monotonic()
        verdict = self._verdict(stage)
        finished = Finished(stage.name, verdict, time.monotonic() - began)
        say(closing_line(finished))
        return finished

    def _verdict(self, stage: HostStage) -> Verdict:
        match stage:
            case Check():
                return self._check(stage)
            case Suite():
                say(f"{stage.name}: {stage.what}")
                return self._suite(stage.name, stage.arguments, {})
            case KernelSuite():
                say(f"{stage.name}: {stage.what}")
                env = {"SLACKWATER_TEST_KERNEL": stage.test_kernel}
                return self._suite(stage.name, ("tests/kernel",), env)

    def _check(self, stage: Check) -> Verdict:
        heard = []
        with ProgressLine(f"{stage.name}: {stage.what}"):
            for command in stage.commands:
                code, said = self._children.run_quietly(command, {})
                if code != 0:
                    heard.append(f"$ {shown(command)}\n{said.rstrip()}\nexit code {code}")
        for text in heard:
            say(text)
        return Verdict(0, 1) if heard else Verdict(1, 0)

    def _suite(self, name: str, arguments: Sequence[str], env: Mapping[str, str]) -> Verdict:
        report = fresh_folder(self._reports, name) / REPORT
        code = self._children.run([*PYTEST, *arguments, f"--junitxml={report}"], env)
        return judge(code, read_report(report))


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
