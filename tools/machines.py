"""Owns the stages in virtual machines: several side by side, each with a log of its own.

Refuses to mix what two machines say: one at a time is shown, as it comes; the others' words wait in
their logs until it is their turn.
"""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.children import Children
from tools.console import say
from tools.preparations import VM
from tools.stage_runner import PYTEST, REPORT, closing_line, fresh_folder, read_report
from tools.stages import VmSuite, slug
from tools.verdicts import VM_CRASHED, Finished, Verdict, judge

# Five minutes on a quiet machine; a busy one takes three times as long. In seconds.
LONGEST_VM = "1200"
# Importing these two plugins takes an emulated CPU 8 of 24 s, and these tests need neither.
UNNEEDED_IN_VM = ("-p", "no:xdist", "-p", "no:hypothesispytest")
# A machine keeps one host CPU busy, whatever number of CPUs it has itself; and the more of them
# run, the later each timer in them is.
MOST_AT_ONCE = 2
_POLL_SECONDS = 0.1


def how_many_at_once() -> int:
    return min(len(os.sched_getaffinity(0)), MOST_AT_ONCE)


class MachineRun:
    """Guards one stage's machine: its process, its log, and a second try if it crashes."""

    def __init__(self, stage: VmSuite, programs: Mapping[str, str], reports: Path) -> None:
        self.stage = stage
        self.verdict: Verdict | None = None
        self._programs = programs
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

    def begin(self, children: Children) -> None:
        self._began = self._began or time.monotonic()
        self._tries += 1
        self._folder = fresh_folder(self._reports, self.stage.name)
        command = vm_command(self.stage, self._folder, os.environ, self._programs)
        with self._log.open("ab") as output:
            self._child = children.start(command, {}, output)

    def look(self, children: Children) -> None:
        """Twice if the machine crashes: an emulated kernel dies by itself now and then."""
        if self._child is None or self._child.poll() is None:
            return
        code = children.wait(self._child)
        self._child = None
        if code == VM_CRASHED and self._tries == 1:
            with self._log.open("a") as output:
                say(f"{self.stage.name}: the virtual machine crashed; trying once more", output)
            self.begin(children)
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


def run_machines(runs: Sequence[MachineRun], children: Children, at_once: int) -> list[Finished]:
    """Begun and shown in their order; an interrupt leaves the processes to the children."""
    finished = []
    for shown in runs:
        go_on(runs, children, at_once)
        beside = ", ".join(r.stage.name for r in runs if r.is_running and r is not shown)
        say(f"{shown.stage.name}: {shown.stage.what}{beside and f'; beside it: {beside}'}")
        while shown.verdict is None:
            time.sleep(_POLL_SECONDS)
            go_on(runs, children, at_once)
            shown.show()
        shown.show()
        finished.append(shown.finished(shown.verdict))
        say(closing_line(finished[-1]))
    return finished


def go_on(runs: Sequence[MachineRun], children: Children, at_once: int) -> None:
    """Looks at each machine, and begins the next ones where there is room."""
    for run in runs:
        run.look(children)
    for run in runs:
        is_new = run.verdict is None and not run.is_running
        if is_new and sum(r.is_running for r in runs) < at_once:
            run.begin(children)


def vm_command(
    stage: VmSuite, out: Path, environ: Mapping[str, str], programs: Mapping[str, str]
) -> list[str]:
    """A shell inside the machine expands its own name of the folder `out`."""
    report = f'--junitxml="$SLACKWATER_VM_OUT/{REPORT}"'
    tests = f"exec {shlex.join([*PYTEST, stage.tests, *UNNEEDED_IN_VM])} {report}"
    env = [f"SLACKWATER_TEST_KERNEL={stage.test_kernel}"]
    env += [f"{variable_of(name)}={path}" for name, path in programs.items()]
    env += [f"{name}={environ[name]}" for name in ("CI", "NO_COLOR") if name in environ]
    choice = ["--init", stage.init, "--kernel", stage.kernel, "--memory", stage.memory]
    limits = ["--timeout", LONGEST_VM, "--out", str(out)]
    return [*VM, "run", *choice, *limits, "--env", *env, "--", "sh", "-c", tests]


def variable_of(program: str) -> str:
    """`kube-apiserver` is SLACKWATER_KUBE_APISERVER to the tests."""
    return f"SLACKWATER_{program.upper().replace('-', '_')}"
