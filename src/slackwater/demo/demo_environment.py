"""The demo on real cgroups: a service, batch work, a load and the agent, phase after phase.

It starts everything in order and removes all of it afterwards. The batch work's weights are set by
the tree, its quota by the agent.
"""

import contextlib
import json
import queue
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from slackwater.demo import load
from slackwater.demo.cgroup_tree import DemoTree, clear_leftovers
from slackwater.demo.demo_objects import describe_objective, describe_waterline, node_folder
from slackwater.demo.demo_plan import (
    COOL_DOWN,
    LOAD,
    WORK,
    BatchControl,
    DemoPhase,
    LoadPart,
    intended_times,
)
from slackwater.demo.measurements import (
    AgentEntry,
    CpuCounters,
    CpuMeter,
    MeasurementError,
    PhaseMeasurement,
    PhaseProgress,
    PhaseSample,
    ProgressObserver,
    RequestResult,
    noise_between,
    use_between,
)
from slackwater.demo.processes import AgentProcess, ChildProcess, ChildProcesses
from slackwater.model.cgroup import CgroupMounts
from slackwater.observation.host import Roots

#: Seconds between two readings of the counters.
LOOK = 0.25
#: Seconds until a child has started; Python takes long on an emulated CPU.
_PATIENCE = 60.0
#: Requests that measure what one costs.
_WARM_UP = 20
#: Seconds for processes to begin their work.
_SETTLE = 0.5
#: Seconds until the CPU time of the agent's own start no longer counts: raises are slow.
_RAISE_SETTLE = 3.0


class DemoEnvironment:
    """Everything that the demo makes on this machine."""

    def __init__(self, mounts: CgroupMounts, roots: Roots, cpus: int, folder: Path) -> None:
        clear_leftovers(mounts)
        self.tree = DemoTree(mounts, cpus)
        self._cpus = cpus
        self._folder = folder
        self._children = ChildProcesses(self.tree)
        self._port = 0
        #: CPU time of one whole request, in seconds.
        self.cost = WORK
        #: The service's latency objective, in seconds.
        self.objective = 1.0
        #: Of the avoidance actions, in seconds.
        self.cool_down = COOL_DOWN
        self._meter = CpuMeter(mounts, roots, self.tree)

    def open(self) -> None:
        """The tree, the service in it, and what one request costs here."""
        self.tree.make()
        said: queue.Queue[str] = queue.Queue()
        self._children.start("slackwater.demo.service", [str(WORK)], self.tree.service, said.put)
        try:
            self._port = int(said.get(timeout=_PATIENCE))
        except (queue.Empty, ValueError):
            raise MeasurementError("the demo's service did not start") from None
        before = self.tree.usage(self.tree.service)
        for _ in range(_WARM_UP):
            load.ask(self._port, _PATIENCE)
        self.cost = max((self.tree.usage(self.tree.service) - before) / 1e6 / _WARM_UP, 1e-4)

    def run(
        self,
        phase: DemoPhase,
        seconds: float,
        watch: ProgressObserver,
        seed: int = 1,
        load: Sequence[LoadPart] = LOAD,
    ) -> PhaseMeasurement:
        """One phase; the same seed means the same intended times."""
        times = intended_times(load, seconds, self.cost, seed)
        watch(PhaseProgress(phase, 0.0, seconds))
        self.tree.apply(phase.control)
        hogs = self._start_hogs(phase.control)
        agent = None
        try:
            if phase.control.needs_agent():
                agent = self._start_agent(phase.control)
                if phase.control.bounds_best_effort():
                    agent.wait_for_quota()
                    time.sleep(_RAISE_SETTLE)
                else:
                    agent.wait_for_start()
            time.sleep(_SETTLE)
            return _PhaseRun(phase, seconds, self._meter, self.tree, self._cpus, agent).run(
                self._children, self._port, times, watch
            )
        finally:
            if agent is not None:
                agent.end()
            for hog in hogs:
                self._children.end(hog)

    def close(self) -> None:
        """Removes all of it: processes first, then cgroups."""
        self._children.end_all()
        self._meter.close()
        self.tree.remove()

    def _start_hogs(self, control: BatchControl) -> list[ChildProcess]:
        """A busy loop for each CPU, in each pod of batch work."""
        if control is BatchControl.ABSENT:
            return []
        pods = self.tree.batch if control.runs_burstable() else (self.tree.hog,)
        if control is BatchControl.ELASTIC:
            pods = self.tree.elastic
        return [
            self._children.start("slackwater.demo.hog", [], pod, _ignore_line)
            for pod in pods
            for _ in range(self._cpus)
        ]

    def _start_agent(self, control: BatchControl) -> AgentProcess:
        rule: dict[str, str] = {}
        if control is BatchControl.WATERLINE:
            rule = describe_waterline(self._cpus, self.cool_down)
        if control is BatchControl.LATENCY_OBJECTIVE:
            rule = describe_objective(self._port, self.objective, self.cool_down)
        objects = node_folder(control, self._cpus, rule)
        return AgentProcess(self._children, self.tree, self._folder, objects)


class _PhaseRun:
    """Measures one phase: results of requests come from a thread, counters are read in between."""

    def __init__(
        self,
        phase: DemoPhase,
        seconds: float,
        meter: CpuMeter,
        tree: DemoTree,
        cpus: int,
        agent: AgentProcess | None,
    ) -> None:
        self._phase = phase
        self._seconds = seconds
        self._meter = meter
        self._tree = tree
        self._cpus = cpus
        self._agent = agent
        self._started: queue.Queue[float] = queue.Queue()
        self._answers: list[RequestResult] = []
        self._samples: list[PhaseSample] = []

    def run(
        self, children: ChildProcesses, port: int, times: list[float], watch: ProgressObserver
    ) -> PhaseMeasurement:
        client = children.start("slackwater.demo.load", [], self._tree.client, self._on_line)
        if client.process.stdin is None:
            raise MeasurementError("the demo's load has no standard input")
        with contextlib.suppress(BrokenPipeError), client.process.stdin as asked:
            json.dump({"port": port, "times": times}, asked)
        try:
            start = self._started.get(timeout=_PATIENCE)
        except queue.Empty:
            raise MeasurementError("the demo's load did not start") from None
        time.sleep(max(start - time.monotonic(), 0))
        first, last = self._sample_until_end(start, client, watch)
        client.wait_for_output(self._seconds + 2 * load.PATIENCE)
        children.end(client)
        self._answers += unanswered_requests(times, self._answers, time.monotonic() - start)
        measured = PhaseMeasurement(
            self._phase,
            self._seconds,
            use_between(first, last, self._cpus),
            tuple(self._samples),
            tuple(sorted(self._answers, key=lambda answer: answer.at)),
            noise_between(first, last),
            self._lines(start),
        )
        watch(
            PhaseProgress(
                self._phase, self._seconds, self._seconds, measured.answers,
                self._samples[-1], measured.lines,
            )
        )  # fmt: skip
        return measured

    def _sample_until_end(
        self, start: float, client: ChildProcess, watch: ProgressObserver
    ) -> tuple[CpuCounters, CpuCounters]:
        """The counters at the phase's start and end; takes the samples in between."""
        first = before = self._meter.read()
        due = start
        while before.at < start + self._seconds:
            due += LOOK
            time.sleep(max(min(due, start + self._seconds) - time.monotonic(), 0.01))
            now = self._meter.read()
            use = use_between(before, now, self._cpus)
            at, until = (round(max(each.at - start, 0.0), 3) for each in (before, now))
            self._samples.append(
                PhaseSample(
                    at, until, use, self._tree.quota(), demoted=self._tree.is_demoted(),
                    noise=noise_between(before, now),
                )
            )  # fmt: skip
            before = now
            watch(
                PhaseProgress(
                    self._phase, min(now.at - start, self._seconds), self._seconds,
                    tuple(self._answers), self._samples[-1], self._lines(start),
                )
            )  # fmt: skip
            if client.process.poll() not in (None, 0):
                raise MeasurementError("the demo's load ended by itself")
        return first, before

    def _on_line(self, text: str) -> None:
        try:
            said = json.loads(text)
            if isinstance(said, dict):
                self._started.put(float(said["start"]))
            else:
                self._answers.append(msgspec.convert(said, RequestResult))
        except (ValueError, KeyError, msgspec.ValidationError):
            return  # a traceback: its exit code says so

    def _lines(self, start: float) -> tuple[AgentEntry, ...]:
        return self._agent.lines(start) if self._agent is not None else ()


def unanswered_requests(
    times: Iterable[float], answers: Iterable[RequestResult], waited: float
) -> list[RequestResult]:
    """The requests that a stopped client did not report: they took at least this long."""
    told = {answer.at for answer in answers}
    return [RequestResult(at, (waited - at) * 1000, ok=False) for at in times if at not in told]


def _ignore_line(_: str) -> None:
    """Batch work prints nothing."""
