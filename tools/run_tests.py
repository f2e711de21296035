"""Owns a whole test run: which stages, in which order, what is left out, and the end of it.

Refuses to run anything beside a stage that measures time on this machine's kernel: what virtual
machines need is fetched and built while the fast stages run, and awaited before the first stage on
a real kernel. The virtual machines come last, two at a time.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.children import INTERRUPTED, Children
from tools.console import Colour, paint, say
from tools.host_kernel import HostKernel, look_at_host
from tools.machines import MachineRun, how_many_at_once, run_machines
from tools.preparations import Preparations
from tools.stage_runner import StageRunner
from tools.stages import (
    FAST,
    KernelSuite,
    Stage,
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
    finished: list[Finished] = []
    left: list[NotRun] = []
    machines: list[MachineRun] = []
    for stage in stages:
        if isinstance(stage, KernelSuite | VmSuite):
            preparations.finish()
        if reason := obstacle(stage, host, preparations.reason(stage)):
            left.append(NotRun(stage.name, reason))
            say(f"{stage.name}: {paint('not run', Colour.YELLOW, sys.stdout)}: {reason}")
        elif isinstance(stage, VmSuite):
            machines.append(MachineRun(stage, preparations.programs(stage), reports))
        else:
            finished.append(runner.run(stage))
            preparations.tell_news()
    finished += run_machines(machines, children, how_many_at_once())
    return Run(tuple(finished), tuple(left))


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
        return conclude(run_stages(stages, host, children, reports), reports)
    except KeyboardInterrupt:
        children.end_all()
        shutil.rmtree(reports, ignore_errors=True)
        say("\nstopped: nothing above counts as a result", sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
