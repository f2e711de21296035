"""Owns a whole test run: which stages, in which order, what is left out, and the end of it.

What virtual machines and clusters need is fetched and built while the fast stages run, and awaited
before the first stage on a real kernel. As soon as it is there, virtual machines that measure no
time run beside each stage of this machine's own, one CPU for either; the others come at the end,
and have two. Refuses more than that.
"""

import argparse
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.children import INTERRUPTED, Children
from tools.console import Colour, paint, say
from tools.host_kernel import HostKernel, look_at_host
from tools.machines import HALF, MachineRun, Machines, cpus_beside_others, cpus_for_machines
from tools.preparations import Preparations
from tools.stage_runner import StageRunner
from tools.stages import (
    FAST,
    PYTHON,
    Check,
    Stage,
    Suite,
    UnknownStageError,
    VmSuite,
    all_stages,
    obstacle,
    select,
    slug,
)
from tools.verdicts import Finished, NotRun, strictness, summary, total

ROOT = Path(__file__).resolve().parent.parent
USAGE = 2


@dataclass(frozen=True, slots=True)
class Run:
    finished: tuple[Finished, ...]
    left: tuple[NotRun, ...]


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.run_tests", description=__doc__)
    parser.add_argument("--stage", action="append", default=[], help="only this one; repeatable")
    parser.add_argument("--fast", action="store_true", help="only the stages without real kernels")
    parser.add_argument("--list", action="store_true", help="show the stages and run none")
    return parser.parse_args(arguments)


def listing(stages: Sequence[Stage]) -> list[str]:
    width = max((len(slug(stage.name)) for stage in stages), default=0)
    return [f"{slug(stage.name).ljust(width)}  {stage.what}" for stage in stages]


def run_stages(stages: Sequence[Stage], host: HostKernel, children: Children, reports: Path) -> Run:
    preparations = Preparations(children, stages, reports)
    preparations.begin()
    runner = StageRunner(children, reports)
    runner.begin(stage for stage in stages if isinstance(stage, Check))
    real = RealStages([s for s in stages if not isinstance(s, Check | Suite)], host, preparations)
    finished: list[Finished] = []
    for stage in stages:
        if isinstance(stage, Check | Suite):
            finished.append(runner.run(stage, {}, lambda: real.begin_early(children, reports)))
            preparations.tell_news()
    machines = real.machines(children, reports)
    for stage in real.able():
        if not isinstance(stage, VmSuite):
            beside(machines)
            programs = preparations.programs(stage)
            finished.append(runner.run(stage, programs, lambda: beside(machines)))
    finished += machines.finish(cpus_for_machines())
    return Run(tuple(finished), tuple(real.left))


class RealStages:
    """Guards the stages on real kernels: what stands in their way, and the machines among them."""

    def __init__(
        self, stages: Sequence[Stage], host: HostKernel, preparations: Preparations
    ) -> None:
        self._stages = stages
        self._host = host
        self._preparations = preparations
        self._machines: Machines | None = None
        self.left: list[NotRun] = []

    def begin_early(self, children: Children, reports: Path) -> None:
        """The machines, beside the fast stages, once nothing has to be awaited for them."""
        if self._machines is not None or self._preparations.are_over():
            beside(self.machines(children, reports))

    def machines(self, children: Children, reports: Path) -> Machines:
        """Waits for what they need, the first time."""
        if self._machines is None:
            if self._stages:
                self._preparations.finish()
            self.left = not_run(self._stages, self._host, self._preparations)
            suites = [stage for stage in self.able() if isinstance(stage, VmSuite)]
            programs = map(self._preparations.programs, suites)
            pairs = zip(suites, programs, strict=True)
            runs = [MachineRun(suite, found, reports) for suite, found in pairs]
            self._machines = Machines(runs, children)
        return self._machines

    def able(self) -> list[Stage]:
        obstructed = {one.stage for one in self.left}
        return [stage for stage in self._stages if stage.name not in obstructed]


def compile_sources(children: Children) -> None:
    """Once for all the processes to come: an emulated CPU takes half a minute for what it imports.
    What cannot be compiled or written will be told by whoever imports it."""
    installed = sysconfig.get_path("purelib")
    command = [PYTHON, "-m", "compileall", "-q", "-j", "0", "src", "tools", installed]
    children.run_quietly(command, {})


def not_run(stages: Sequence[Stage], host: HostKernel, preparations: Preparations) -> list[NotRun]:
    """What has an obstacle here, and is told of at once."""
    reasons = {each.name: obstacle(each, host, preparations.reason(each)) for each in stages}
    for name, reason in reasons.items():
        if reason:
            say(f"{name}: {paint('not run', Colour.YELLOW, sys.stdout)}: {reason}")
    return [NotRun(name, reason) for name, reason in reasons.items() if reason]


def beside(machines: Machines) -> None:
    """While a stage of this machine's own runs."""
    for name in machines.go_on(cpus_beside_others(), HALF):
        say(f"meanwhile: {name}, in a virtual machine")


def conclude(run: Run, reports: Path) -> int:
    """Prints the end; the reports stay only where somebody will want to read them."""
    strict = strictness(os.environ)
    lines = summary(run.finished, run.left, strict)
    outcome = total(run.finished, run.left, strict)
    if any(one.verdict.failed for one in run.finished):
        lines.insert(-1, f"reports: {reports}")
    else:
        shutil.rmtree(reports, ignore_errors=True)
    for line in lines:
        say(line)
    return outcome.exit_code


def main(arguments: Sequence[str]) -> int:
    chosen = parse(arguments)
    host = look_at_host()
    try:
        stages = select(FAST if chosen.fast else all_stages(host), chosen.stage)
    except UnknownStageError as error:
        say(f"run_tests: {error}", sys.stderr)
        return USAGE
    if chosen.list:
        for line in listing(stages):
            say(line)
        return 0
    children = Children(ROOT)
    children.heed_endings()
    reports = Path(tempfile.mkdtemp(prefix="slackwater-tests-"))
    try:
        compile_sources(children)
        return conclude(run_stages(stages, host, children, reports), reports)
    except KeyboardInterrupt:
        children.end_all()
        shutil.rmtree(reports, ignore_errors=True)
        say("\nstopped: nothing above counts as a result", sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
