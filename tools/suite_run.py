"""Owns the run of one stage's tests: its process, its log, its report, a second try.

Refuses to decide when it runs and when its words are shown (tools.side_by_side).
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tools.children import Children
from tools.console import say
from tools.priority import BEHIND, set_session
from tools.stages import Suite, TestStage, VmSuite, slug
from tools.suite_commands import KEEP_BYTECODE, REPORT, collection, command_of
from tools.verdicts import VM_CRASHED, Finished, Verdict, judge


class SuiteRun:
    """Guards one stage's process."""

    def __init__(self, stage: TestStage, reports: Path) -> None:
        self.stage = stage
        self.verdict: Verdict | None = None
        #: Why it is not run at all.
        self.obstacle = ""
        self._programs: Mapping[str, str] = {}
        self._reports = reports
        self._log = reports / f"{slug(stage.name)}.log"
        self._shown = 0
        self._tries = 0
        self._began = self._ended = 0.0
        self._child: subprocess.Popen[bytes] | None = None
        self._folder = reports

    @property
    def is_running(self) -> bool:
        return self._child is not None

    @property
    def is_over(self) -> bool:
        return bool(self.obstacle) or self.verdict is not None

    def begin(self, children: Children, programs: Mapping[str, str]) -> None:
        """`programs` are those that the stage asks for, by name: where each is."""
        self._programs = programs
        self._began = self._began or time.monotonic()
        self._tries += 1
        if isinstance(self.stage, VmSuite):
            # The tests are compiled here, in a second; an emulated CPU would take half a minute.
            # Where they cannot be collected outside a machine, they have been compiled all the
            # same.
            children.run_quietly(collection(self.stage), KEEP_BYTECODE)
        self._folder = fresh_folder(self._reports, self.stage.name)
        command, env = command_of(self.stage, self._folder, os.environ, programs)
        with self._log.open("ab") as output:
            self._child = children.start(command, env, output)
        if isinstance(self.stage, Suite):
            set_session(self._child.pid, BEHIND)

    def look(self, children: Children) -> None:
        """Twice if a machine crashes: an emulated kernel dies by itself now and then."""
        if self._child is None or self._child.poll() is None:
            return
        code = children.wait(self._child)
        self._child = None
        is_machine = isinstance(self.stage, VmSuite)
        if is_machine and code == VM_CRASHED and self._tries == 1:
            with self._log.open("a") as output:
                say(f"{self.stage.name}: the virtual machine crashed; trying once more", output)
            self.begin(children, self._programs)
            return
        self._ended = time.monotonic()
        self.verdict = judge(code, read_report(self._folder / REPORT))

    def show(self) -> None:
        """What came since the last time."""
        if not self._log.exists():
            return
        with self._log.open("rb") as log:
            log.seek(self._shown)
            fresh = log.read()
        self._shown += len(fresh)
        sys.stdout.write(fresh.decode(errors="replace"))
        sys.stdout.flush()

    def finished(self, verdict: Verdict) -> Finished:
        return Finished(self.stage.name, verdict, self._ended - self._began)


def fresh_folder(reports: Path, name: str) -> Path:
    """Made anew, so that a report in it can only be this run's."""
    folder = reports / slug(name)
    if folder.exists():
        folder.rename(folder.with_name(f"{folder.name}-crashed"))
    folder.mkdir()
    return folder


def read_report(path: Path) -> str | None:
    return path.read_text(errors="replace") if path.is_file() else None
