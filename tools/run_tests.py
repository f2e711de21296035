"""Runs the groups of tools.stages one after another and says at the end what they proved.

What virtual machines and clusters need is fetched and built beside the first groups. A stage that
runs beside another writes to a log, which is shown when it ends.
"""

import argparse
import os
import shlex
import shutil
import sys
import sysconfig
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import IO

from tools.children import INTERRUPTED, Children
from tools.cluster.processes import ClusterError, find_programs
from tools.console import Colour, ProgressLine, elapsed_text, paint, say, wants_colour
from tools.host_kernel import HostKernel, look_at_host
from tools.kubernetes.programs import variable_of
from tools.provision import cache_folder
from tools.results import (
    VM_CRASHED,
    Finished,
    NotRun,
    Run,
    Verdict,
    closing_line,
    judge,
    strictness,
    summary,
    total,
)
from tools.stages import (
    FAST,
    PYTHON,
    VERSIONS,
    Group,
    Preparation,
    Stage,
    UnknownStageError,
    all_groups,
    obstacle,
    select,
    slug,
)

ROOT = Path(__file__).resolve().parent.parent
USAGE = 2
_SIDE_BY_SIDE = 3
#: How often a run says that it goes on where nobody sees a line being redrawn.
_NEWS_SECONDS = 60.0
_REPORT = "junit.xml"
# Tests are compiled once and kept, also where somebody's environment asks for no bytecode: each of
# the many processes of a run would compile them again.
_KEEP_BYTECODE = {"PYTHONDONTWRITEBYTECODE": ""}
# Five minutes on a quiet machine. Only a machine that hangs without sleeping reaches it.
_VM_LIMIT_SECONDS = "5400"
# Importing these two plugins takes an emulated CPU 8 of 24 s, and these tests need neither.
_UNNEEDED_IN_VM = ("-p", "no:xdist", "-p", "no:hypothesispytest")
_TOOLS = ("vm", "kubernetes", "cluster", "image", "kafka")


class Preparations:
    """What is fetched and built beside the first stages, one thing after another."""

    def __init__(self, children: Children, groups: Sequence[Group], reports: Path) -> None:
        self._children = children
        self._thread = ThreadPoolExecutor(1)
        self._results: dict[Preparation, Future[str]] = {}
        self._logs: dict[Preparation, Path] = {}
        for one in (need for group in groups for stage in group for need in stage.preparations):
            if one not in self._results:
                self._logs[one] = reports / f"preparation-{len(self._logs)}.log"
                self._results[one] = self._thread.submit(self._prepare, one)

    def wait_for(self, stage: Stage) -> str:
        """Why the stage lacks something; empty if it is all there.

        A stage that measures waits for everything that others need as well.
        """
        awaited = [*self._results] if stage.uses_host_cgroups else [*stage.preparations]
        for one in awaited:
            if self._results[one].done():
                continue
            with ProgressLine(f"{stage.name}: preparing {one.what}") as line:
                while not wait([self._results[one]], timeout=1.0).done:
                    if said := self._log(one):
                        line.tell(last_sentence(said))
        return next(filter(None, (self._results[one].result() for one in stage.preparations)), "")

    def stop(self) -> None:
        self._thread.shutdown(cancel_futures=True)

    def _prepare(self, one: Preparation) -> str:
        code, said = self._children.run_quietly(one.check, {})
        if code != 0:
            return last_sentence(said)
        with self._logs[one].open("wb") as log:
            code = self._children.wait(self._children.start(one.command, {}, log))
        if code != 0:
            say(self._log(one).rstrip())
            return f"could not be prepared: {last_sentence(self._log(one))}"
        return ""

    def _log(self, one: Preparation) -> str:
        log = self._logs[one]
        return log.read_text(errors="replace") if log.exists() else ""


class Runner:
    """One run of the chosen groups."""

    def __init__(self, host: HostKernel, children: Children, reports: Path) -> None:
        self._host = host
        self._children = children
        self._reports = reports
        self._finished: list[Finished] = []
        self._left: list[NotRun] = []

    def run(self, groups: Sequence[Group]) -> Run:
        preparations = Preparations(self._children, groups, self._reports)
        try:
            for group in groups:
                ready = [stage for stage in group if self._is_ready(stage, preparations)]
                self._run_group(ready)
        except KeyboardInterrupt:
            self._children.end_all()
            raise
        finally:
            preparations.stop()
        order = [stage.name for group in groups for stage in group]
        finished = sorted(self._finished, key=lambda one: order.index(one.stage))
        return Run(tuple(finished), tuple(self._left))

    def _is_ready(self, stage: Stage, preparations: Preparations) -> bool:
        reason = obstacle(stage, self._host) or preparations.wait_for(stage)
        if reason:
            say(f"{stage.name}: {paint('not run', Colour.YELLOW, sys.stdout)}: {reason}")
            self._left.append(NotRun(stage.name, reason))
        return not reason

    def _run_group(self, stages: Sequence[Stage]) -> None:
        for stage in stages:
            say(f"{stage.name}: {stage.what}")
        if len(stages) == 1 and stages[0].tests:
            self._conclude(self._run_tests(stages[0], None), "")
            return
        with ThreadPoolExecutor(_SIDE_BY_SIDE) as threads:
            running = {threads.submit(self._run_to_log, stage): stage for stage in stages}
            try:
                self._follow(running)
            except KeyboardInterrupt:
                self._children.end_all()
                raise

    def _follow(self, running: dict[Future[Finished], Stage]) -> None:
        """Shows each log when its stage ends, and now and then that the others go on."""
        began = time.monotonic()
        while running:
            ended, _ = wait(running, timeout=_NEWS_SECONDS, return_when=FIRST_COMPLETED)
            for future in ended:
                log = self._log(running.pop(future))
                self._conclude(future.result(), log.read_text(errors="replace"))
            if not ended:
                names = ", ".join(stage.name for stage in running.values())
                say(f"still running after {elapsed_text(time.monotonic() - began)}: {names}")

    def _conclude(self, finished: Finished, said: str) -> None:
        if said.strip():
            say(said.rstrip())
        say(closing_line(finished))
        self._finished.append(finished)

    def _log(self, stage: Stage) -> Path:
        return self._reports / f"{slug(stage.name)}.log"

    def _run_to_log(self, stage: Stage) -> Finished:
        with self._log(stage).open("wb", buffering=0) as log:
            return self._run_tests(stage, log) if stage.tests else self._run_check(stage, log)

    def _run_check(self, stage: Stage, log: IO[bytes]) -> Finished:
        """Only what fails is worth reading."""
        began = time.monotonic()
        failed = False
        for command in stage.commands:
            code, said = self._children.run_quietly(command, {})
            if code != 0:
                failed = True
                typed = shlex.join([Path(command[0]).name, *command[1:]])
                log.write(f"$ {typed}\n{said.rstrip()}\nexit code {code}\n".encode())
        verdict = Verdict(0, 1) if failed else Verdict(1, 0)
        return Finished(stage.name, verdict, time.monotonic() - began)

    def _run_tests(self, stage: Stage, log: IO[bytes] | None) -> Finished:
        """Twice if a virtual machine crashes: an emulated kernel dies by itself now and then."""
        began = time.monotonic()
        try:
            programs = programs_of(stage, self._children)
        except ClusterError as error:
            return Finished(stage.name, Verdict(0, 1, note=str(error)), time.monotonic() - began)
        if stage.machine is not None:
            # Compiled here in a second; an emulated CPU would take half a minute.
            self._children.run_quietly(collect_command(stage), _KEEP_BYTECODE)
        verdict = Verdict(0, 1, note="not started")
        for attempt in ("first", "second"):
            out = self._reports / slug(f"{stage.name} {attempt}")
            out.mkdir()
            command, env = pytest_command(stage, out, os.environ, programs)
            code = self._children.wait(self._children.start(command, env, log))
            report = out / _REPORT
            verdict = judge(code, report.read_text(errors="replace") if report.is_file() else None)
            if code != VM_CRASHED:
                break
        return Finished(stage.name, verdict, time.monotonic() - began)


def programs_of(stage: Stage, children: Children) -> dict[str, Path]:
    """By the name under which its tests ask for them."""
    found = find_programs(stage.programs, os.environ, children)
    if stage.api_server is not None:
        [(name, _)] = stage.api_server.programs
        found["kube-apiserver"] = find_programs([name], os.environ, children)[name]
    return found


def pytest_command(
    stage: Stage, out: Path, environ: Mapping[str, str], programs: Mapping[str, Path]
) -> tuple[list[str], dict[str, str]]:
    """The command and what it finds in its environment; its report goes into the folder `out`."""
    env = {variable_of(name): str(path) for name, path in programs.items()}
    if stage.kernel:
        env["SLACKWATER_TEST_KERNEL"] = stage.kernel
    if stage.api_server is not None:
        env["SLACKWATER_TEST_KUBERNETES"] = stage.api_server.version
    pytest = [PYTHON, "-m", "pytest", *stage.tests]
    if stage.machine is None:
        colour = "yes" if wants_colour(sys.stdout, environ) else "no"
        return [*pytest, f"--color={colour}", f"--junitxml={out / _REPORT}"], _KEEP_BYTECODE | env
    # A shell in the machine expands its own name of the folder `out`.
    report = f'--junitxml="$SLACKWATER_VM_OUT/{_REPORT}"'
    shell = ["sh", "-c", f"exec {shlex.join([*pytest, *_UNNEEDED_IN_VM])} {report}"]
    env |= {name: environ[name] for name in ("CI", "NO_COLOR") if name in environ}
    options = [*stage.machine.options, "--timeout", _VM_LIMIT_SECONDS, "--out", str(out)]
    variables = [f"{name}={value}" for name, value in env.items()]
    return [PYTHON, "-m", "tools.vm", "run", *options, "--env", *variables, "--", *shell], {}


def collect_command(stage: Stage) -> list[str]:
    return [PYTHON, "-m", "pytest", "--collect-only", "-q", *stage.tests, *_UNNEEDED_IN_VM]


def last_sentence(said: str) -> str:
    """The last line, in which our tools say what is wrong, without the tool's name."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if not lines:
        return "it gave no reason"
    name, _, sentence = lines[-1].partition(": ")
    return sentence if name in _TOOLS else lines[-1]


def compile_sources(children: Children) -> None:
    """Once for all the processes to come: an emulated CPU takes half a minute for what it imports.
    Whoever imports what cannot be compiled or written will say so."""
    installed = sysconfig.get_path("purelib")
    command = [PYTHON, "-m", "compileall", "-q", "-j", "0", "src", "tools", installed]
    children.run_quietly(command, {})


def conclude(run: Run, reports: Path) -> int:
    """Prints the end; the reports stay only where somebody will want to read them."""
    strict = strictness(os.environ)
    lines = summary(run, strict)
    if any(one.verdict.failed for one in run.finished):
        lines.insert(-1, f"reports: {reports}")
    else:
        shutil.rmtree(reports, ignore_errors=True)
    for line in lines:
        say(line)
    return total(run, strict).exit_code


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.run_tests", description=__doc__)
    parser.add_argument("--stage", action="append", default=[], help="only this one; repeatable")
    parser.add_argument("--fast", action="store_true", help="only the stages without real kernels")
    parser.add_argument("--list", action="store_true", help="show the stages and run none")
    return parser.parse_args(arguments)


def show_list(groups: Sequence[Group]) -> None:
    stages = [stage for group in groups for stage in group]
    width = max(len(slug(stage.name)) for stage in stages)
    for stage in stages:
        say(f"{slug(stage.name).ljust(width)}  {stage.what}")


def main(arguments: Sequence[str]) -> int:
    chosen = parse(arguments)
    host = look_at_host()
    known = FAST if chosen.fast else all_groups(host)
    if (chosen.stage or chosen.list) and not chosen.fast:
        known += VERSIONS  # only by name
    try:
        groups = select(known, chosen.stage)
    except UnknownStageError as error:
        say(f"run_tests: {error}", sys.stderr)
        return USAGE
    if chosen.list:
        show_list(groups)
        return 0
    # mypy identifies files by their hash, so a fresh checkout may begin with an old cache.
    os.environ.setdefault("MYPY_CACHE_DIR", str(cache_folder(os.environ) / "mypy"))
    children = Children(ROOT)
    children.heed_endings()
    reports = Path(tempfile.mkdtemp(prefix="slackwater-tests-"))
    try:
        compile_sources(children)
        return conclude(Runner(host, children, reports).run(groups), reports)
    except KeyboardInterrupt:
        children.end_all()
        shutil.rmtree(reports, ignore_errors=True)
        say("\nstopped: nothing above counts as a result", sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
