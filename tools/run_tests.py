"""Owns a whole test run: which stages, in which order, what is left out, and the end of it.

Checks and unit tests begin at once. What virtual machines and clusters need is fetched and built
beside them, and each stage begins when its own needs are there and tools.side_by_side has room.
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

from tools.check_runner import CheckRunner
from tools.children import INTERRUPTED, Children
from tools.console import say
from tools.host_kernel import HostKernel, look_at_host
from tools.preparations import Preparations
from tools.provision import cache_folder
from tools.side_by_side import Prepared, Preparing, SideBySide
from tools.stages import (
    FAST,
    PYTHON,
    Check,
    Stage,
    TestStage,
    UnknownStageError,
    all_stages,
    obstacle,
    select,
    slug,
)
from tools.suite_run import SuiteRun
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
    checks = [stage for stage in stages if isinstance(stage, Check)]
    suites = [stage for stage in stages if not isinstance(stage, Check)]
    preparations = Preparations(children, stages, reports)
    preparations.begin()
    runner = CheckRunner(children, reports)
    runner.begin(checks)
    runs = [SuiteRun(suite, reports) for suite in suites]
    side_by_side = SideBySide(runs, children, lambda suite: look_at(suite, host, preparations))
    finished = [runner.run(check, side_by_side.go_on) for check in checks]
    finished += side_by_side.finish(preparations.tell_news)
    return Run(tuple(finished), tuple(side_by_side.left))


def look_at(stage: TestStage, host: HostKernel, preparations: Preparations) -> Prepared | Preparing:
    if work := preparations.pending(stage):
        return Preparing(work.what, preparations.progress(work))
    if hindered := obstacle(stage, host, preparations.reason(stage)):
        return Prepared(hindered)
    return Prepared("", preparations.programs(stage))


def compile_sources(children: Children) -> None:
    """Once for all the processes to come: an emulated CPU takes half a minute for what it imports.
    What cannot be compiled or written will be told by whoever imports it."""
    installed = sysconfig.get_path("purelib")
    command = [PYTHON, "-m", "compileall", "-q", "-j", "0", "src", "tools", installed]
    children.run_quietly(command, {})


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
    # What mypy found is told by each file's hash, so a fresh checkout may begin with it.
    os.environ.setdefault("MYPY_CACHE_DIR", str(cache_folder(os.environ) / "mypy"))
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
