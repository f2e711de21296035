"""Owns running one stage: its commands, what the person sees meanwhile, and its verdict.

Refuses to order stages or to add them up (tools.run_tests, tools.verdicts).
"""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.children import Children
from tools.console import Colour, ProgressLine, elapsed_text, paint, say
from tools.stages import PYTHON, Check, KernelSuite, Stage, Suite, VmSuite, slug
from tools.verdicts import VM_CRASHED, Finished, Verdict, judge

PYTEST = (PYTHON, "-m", "pytest")
REPORT = "junit.xml"
VM = (PYTHON, "-m", "tools.vm")
# Five minutes on a quiet machine; a busy one takes three times as long. In seconds.
LONGEST_VM = "1200"
# Importing these two plugins takes an emulated CPU 8 of 24 s, and tests on a kernel need neither.
UNNEEDED_IN_VM = ("-p", "no:xdist", "-p", "no:hypothesispytest")


class StageRunner:
    """Guards the folder for this run's reports, one folder below it per stage."""

    def __init__(self, children: Children, reports: Path) -> None:
        self._children = children
        self._reports = reports

    def run(self, stage: Stage) -> Finished:
        began = time.monotonic()
        verdict = self._verdict(stage)
        finished = Finished(stage.name, verdict, time.monotonic() - began)
        say(closing_line(finished))
        return finished

    def _verdict(self, stage: Stage) -> Verdict:
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
            case VmSuite():
                say(f"{stage.name}: {stage.what}")
                return self._in_vm(stage)

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
        report = self._fresh_folder(name) / REPORT
        code = self._children.run([*PYTEST, *arguments, f"--junitxml={report}"], env)
        return judge(code, read_report(report))

    def _in_vm(self, stage: VmSuite) -> Verdict:
        """Twice if the machine crashes: an emulated kernel dies by itself now and then."""
        code, folder = self._boot(stage)
        if code == VM_CRASHED:
            say(f"{stage.name}: the virtual machine crashed; trying once more")
            code, folder = self._boot(stage)
        return judge(code, read_report(folder / REPORT))

    def _boot(self, stage: VmSuite) -> tuple[int, Path]:
        folder = self._fresh_folder(stage.name)
        return self._children.run(vm_command(stage, folder, os.environ), {}), folder

    def _fresh_folder(self, name: str) -> Path:
        """Made anew, so that a report in it can only be this run's."""
        folder = self._reports / slug(name)
        if folder.exists():
            folder.rename(folder.with_name(f"{folder.name}-crashed"))
        folder.mkdir()
        return folder


class VmPreparation:
    """Guards the fetch of one stage's kernel while other stages run."""

    def __init__(self, children: Children, stage: VmSuite, reports: Path) -> None:
        self._children = children
        self._stage = stage
        self._words = reports / f"{slug(stage.name)}-prepare.log"
        self._child: subprocess.Popen[bytes] | None = None

    def begin(self) -> str:
        """Starts fetching; returns the reason if a machine cannot run here at all."""
        code, said = self._children.run_quietly([*VM, "check", *self._choice()], {})
        if code != 0:
            return last_sentence(said)
        with self._words.open("wb") as words:
            self._child = self._children.start([*VM, "prepare", *self._choice()], {}, words)
        return ""

    def finish(self) -> str:
        """Waits for it; returns the reason if it failed."""
        if self._child is None:
            return ""
        code = self._await(self._child)
        self._child = None
        said = self._words.read_text(errors="replace").strip()
        if said:
            say(said)
        return f"could not be prepared: {last_sentence(said)}" if code != 0 else ""

    def _await(self, child: subprocess.Popen[bytes]) -> int:
        if child.poll() is not None:
            return self._children.wait(child)
        with ProgressLine(f"{self._stage.name}: fetching its kernel, Linux {self._stage.kernel}"):
            return self._children.wait(child)

    def _choice(self) -> tuple[str, ...]:
        return ("--init", self._stage.init, "--kernel", self._stage.kernel)


def vm_command(stage: VmSuite, out: Path, environ: Mapping[str, str]) -> list[str]:
    """A shell inside the machine expands its own name of the folder `out`."""
    report = f'--junitxml="$SLACKWATER_VM_OUT/{REPORT}"'
    tests = f"exec {shlex.join([*PYTEST, 'tests/kernel', *UNNEEDED_IN_VM])} {report}"
    env = [f"SLACKWATER_TEST_KERNEL={stage.test_kernel}"]
    env += [f"{name}={environ[name]}" for name in ("CI", "NO_COLOR") if name in environ]
    choice = ["--init", stage.init, "--kernel", stage.kernel, "--timeout", LONGEST_VM]
    return [*VM, "run", *choice, "--out", str(out), "--env", *env, "--", "sh", "-c", tests]


def read_report(path: Path) -> str | None:
    return path.read_text(errors="replace") if path.is_file() else None


def last_sentence(said: str) -> str:
    """tools.vm says last what is wrong, with its own name before it."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1].removeprefix("vm: ") if lines else "tools.vm gave no reason"


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
