"""Owns which test stages run at the same time, and whose words are shown.

First come the stages that have to be in time for others here, one after another, beside unit tests
and control planes; then the virtual machines with a time of their own, which take whatever CPU is
there; last the tests of this machine's own kernel, which need some that nobody takes, beside
machines that mostly wait. Refuses to mix what two stages say: one at a time is shown, as it comes;
the others' words wait in their logs until it is their turn.
"""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from tools.children import Children
from tools.console import Colour, ProgressLine, paint, say
from tools.stages import BrokerSuite, ClusterSuite, KernelSuite, TestStage, VmSuite
from tools.suite_run import SuiteRun
from tools.verdicts import Finished, NotRun, closing_line
from tools.vm.machine import Clock

# Of machines by this one's clock: the more run, the later each timer in them is.
MOST_CPUS = 2.0
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Prepared:
    """What became of a stage's preparation: what stands in its way, or where its programs are."""

    obstacle: str
    programs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Preparing:
    """What it still waits for, and how far that is."""

    what: str
    detail: str


Look = Callable[[TestStage], Prepared | Preparing]


def cpus_for_machines(cpus: int) -> float:
    return min(float(cpus), MOST_CPUS)


class SideBySide:
    """Guards the runs of all test stages; an interrupt leaves the processes to the children."""

    def __init__(
        self,
        runs: Sequence[SuiteRun],
        children: Children,
        prepared: Look,
        cpus: int | None = None,
    ) -> None:
        self._runs = runs
        self._children = children
        self._prepared = prepared
        self._cpus = cpus or len(os.sched_getaffinity(0))
        self._shown: SuiteRun | None = None
        self.left: list[NotRun] = []

    def go_on(self) -> None:
        """Looks at each run, and begins the next ones where there is room."""
        for run in self._runs:
            run.look(self._children)
        for run in self._runs:
            if not run.is_over and not run.is_running and self._has_room(run.stage):
                self._begin(run)

    def finish(self, between: Callable[[], None] = lambda: None) -> list[Finished]:
        """Shown in their order; `between` is called after each."""
        finished = []
        for run in self._runs:
            self._follow(run)
            if run.verdict is not None:
                finished.append(run.finished(run.verdict))
                say(closing_line(finished[-1]))
            between()
        return finished

    def _has_room(self, stage: TestStage) -> bool:
        match stage:
            case VmSuite(clock=Clock.INSTRUCTIONS):
                return not self._others_measure_here()
            case VmSuite():
                room = cpus_for_machines(self._cpus)
                return self._leaves_something() and self._busy() + stage.load <= room
            case KernelSuite():
                return self._leaves_something() and not self._is_measured_here()
        return not _measures_here(stage) or not self._is_measured_here()

    def _is_measured_here(self) -> bool:
        return any(run.is_running and _measures_here(run.stage) for run in self._runs)

    def _others_measure_here(self) -> bool:
        """Now or soon. What they measure depends on what all others leave, and beside machines that
        is nothing."""
        others = [run for run in self._runs if not isinstance(run.stage, KernelSuite)]
        return any(_measures_here(run.stage) and not run.is_over for run in others)

    def _leaves_something(self) -> bool:
        """The agent gives best-effort work what all others leave, and machines by this one's clock
        have to be in time; all others fill the machine."""
        fillers = [run for run in self._runs if not isinstance(run.stage, KernelSuite)]
        return all(run.is_over for run in fillers if not _waits(run.stage))

    def _busy(self) -> float:
        machines = [run.stage for run in self._runs if run.is_running]
        return sum(stage.load for stage in machines if _waits(stage))

    def _begin(self, run: SuiteRun) -> None:
        match self._prepared(run.stage):
            case Prepared(obstacle="", programs=programs):
                run.begin(self._children, programs)
                if run is not self._shown:
                    say(f"meanwhile: {run.stage.name}")
            case Prepared(obstacle=obstacle):
                run.obstacle = obstacle
                how = paint("not run", Colour.YELLOW, sys.stdout)
                say(f"{run.stage.name}: {how}: {obstacle}")
                self.left.append(NotRun(run.stage.name, obstacle))
            case Preparing():
                pass

    def _follow(self, shown: SuiteRun) -> None:
        """Until it is over."""
        self._shown = shown
        self.go_on()
        if not shown.is_running and not shown.is_over:
            self._await_beginning(shown)
        if shown.obstacle:
            return
        beside = ", ".join(r.stage.name for r in self._runs if r.is_running and r is not shown)
        say(f"{shown.stage.name}: {shown.stage.what}{beside and f'; beside it: {beside}'}")
        while not shown.is_over:
            shown.show()
            time.sleep(_POLL_SECONDS)
            self.go_on()
        shown.show()

    def _await_beginning(self, shown: SuiteRun) -> None:
        first = self._prepared(shown.stage)
        what = f"preparing {first.what}" if isinstance(first, Preparing) else "waiting for room"
        with ProgressLine(f"{shown.stage.name}: {what}") as line:
            while not shown.is_running and not shown.is_over:
                now = self._prepared(shown.stage)
                if isinstance(now, Preparing) and now.detail:
                    line.tell(now.detail)
                time.sleep(_POLL_SECONDS)
                self.go_on()


def _waits(stage: TestStage) -> TypeGuard[VmSuite]:
    """A machine that goes by this machine's clock, and mostly waits for what others do in it."""
    return isinstance(stage, VmSuite) and stage.clock is Clock.HOST


def _measures_here(stage: TestStage) -> bool:
    """Whether it says who got how much of this machine's CPUs, or has to be in time for others."""
    match stage:
        case KernelSuite() | BrokerSuite():
            return True
        case ClusterSuite():
            return "kubelet" in stage.programs
    return False
