"""Owns the stages in virtual machines: side by side and beside stages of this machine's own, each
with a log of its own.

Refuses to mix what two of them say: one at a time is shown, as it comes; the others' words wait in
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
from tools.kubernetes.programs import variable_of
from tools.preparations import VM
from tools.stage_runner import (
    KEEP_BYTECODE,
    PYTEST,
    REPORT,
    closing_line,
    fresh_folder,
    read_report,
)
from tools.stages import VmSuite, slug
from tools.verdicts import VM_CRASHED, Finished, Verdict, judge

# Five minutes on a quiet machine; a busy one takes three times as long. In seconds.
LONGEST_VM = "1200"
# Importing these two plugins takes an emulated CPU 8 of 24 s, and these tests need neither.
UNNEEDED_IN_VM = ("-p", "no:xdist", "-p", "no:hypothesispytest")
# A machine keeps one host CPU busy at most, whatever number of CPUs it has itself; and the more of
# them run, the later each timer in them is.
MOST_CPUS = 2
# Loads, in CPUs. Whoever wants a whole one measures time: beside this machine's own stages a guest
# stood still for seconds.
WHOLE, HALF = 1.0, 0.5
_POLL_SECONDS = 0.1


def cpus_for_machines() -> int:
    return min(len(os.sched_getaffinity(0)), MOST_CPUS)


def cpus_beside_others() -> int:
    """While a stage of this machine's own runs, one CPU is for that."""
    return cpus_for_machines() - 1


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
        # The tests are compiled here, in a second; an emulated CPU would take half a minute. Where
        # they cannot be collected outside a machine, they have been compiled all the same.
        children.run_quietly(collection(self.stage), KEEP_BYTECODE)
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


class Machines:
    """Guards the machines of a test run: which at once, and whose words are shown."""

    def __init__(self, runs: Sequence[MachineRun], children: Children) -> None:
        self._runs = runs
        self._children = children

    def go_on(self, cpus: int, heaviest: float = WHOLE) -> list[str]:
        """Looks at each machine, and begins the next ones where there is room: their names."""
        for run in self._runs:
            run.look(self._children)
        begun = []
        for run in self._runs:
            busy = sum(each.stage.load for each in self._runs if each.is_running)
            is_new = run.verdict is None and not run.is_running
            if is_new and run.stage.load <= heaviest and busy + run.stage.load <= cpus:
                run.begin(self._children)
                begun.append(run.stage.name)
        return begun

    def finish(self, cpus: int) -> list[Finished]:
        """Begun and shown in their order; an interrupt leaves the processes to the children."""
        return [self._finish(run, cpus) for run in self._runs]

    def _finish(self, shown: MachineRun, cpus: int) -> Finished:
        self.go_on(cpus)
        beside = ", ".join(r.stage.name for r in self._runs if r.is_running and r is not shown)
        say(f"{shown.stage.name}: {shown.stage.what}{beside and f'; beside it: {beside}'}")
        while shown.verdict is None:
            time.sleep(_POLL_SECONDS)
            self.go_on(cpus)
            shown.show()
        shown.show()
        finished = shown.finished(shown.verdict)
        say(closing_line(finished))
        return finished


def collection(stage: VmSuite) -> list[str]:
    return [*PYTEST, "--collect-only", "-q", stage.tests, *UNNEEDED_IN_VM]


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
