"""The demo on real cgroups: a service, a hog, a load and the agent, phase after phase.

Owns the order of things, and that all of it is gone afterwards. Decides nothing about the hog:
its weights are the tree's, its quota is the agent's.
"""

import contextlib
import json
import queue
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from slackwater.demo import load
from slackwater.demo.measurements import (
    Answer,
    CannotMeasure,
    Counters,
    Gauges,
    Glimpse,
    Line,
    Measured,
    Sample,
    Watch,
    noise_between,
    use_between,
)
from slackwater.demo.plan import LOAD, WORK, Hold, Phase, intended_times
from slackwater.demo.processes import AgentProcess, Child, Crew
from slackwater.demo.tree import Tree, clear_leftovers
from slackwater.model.cgroup import CgroupMounts
from slackwater.observation.host import Roots

#: Between two looks at the counters, in seconds.
LOOK = 0.25
#: Until a program of ours has started; Python takes long on an emulated CPU.
_PATIENCE = 60.0
#: Requests that tell what one costs.
_WARM_UP = 20
#: For processes to begin their work.
_SETTLE = 0.5
#: For the agent to forget the CPU time of its own start: raises are slow.
_AGENT_SETTLE = 3.0


class Stage:
    """Guards everything that the demo makes on this machine."""

    def __init__(self, mounts: CgroupMounts, roots: Roots, cpus: int, folder: Path) -> None:
        clear_leftovers(mounts)
        self.tree = Tree(mounts, cpus)
        self._cpus = cpus
        self._folder = folder
        self._crew = Crew(self.tree)
        self._port = 0
        #: CPU time of one whole request, in seconds.
        self.cost = WORK
        self._gauges = Gauges(mounts, roots, self.tree)

    def open(self) -> None:
        """The tree, the service in it, and what one request costs here."""
        self.tree.make()
        said: queue.Queue[str] = queue.Queue()
        self._crew.start("slackwater.demo.service", [str(WORK)], self.tree.service, said.put)
        try:
            self._port = int(said.get(timeout=_PATIENCE))
        except (queue.Empty, ValueError):
            raise CannotMeasure("the demo's service did not start") from None
        before = self.tree.usage(self.tree.service)
        for _ in range(_WARM_UP):
            load.ask(self._port, _PATIENCE)
        self.cost = max((self.tree.usage(self.tree.service) - before) / 1e6 / _WARM_UP, 1e-4)

    def run(self, phase: Phase, seconds: float, watch: Watch, seed: int = 1) -> Measured:
        """One phase; the same seed means the same intended times."""
        times = intended_times(LOAD, seconds, self.cost, seed)
        watch(Glimpse(phase, 0.0, seconds))
        self.tree.hold(phase.hold)
        hogs = [] if phase.hold is Hold.ABSENT else self._start_hogs()
        agent = None
        try:
            if phase.hold is Hold.SLACKWATER:
                agent = AgentProcess(self._crew, self.tree, self._folder)
                agent.wait_for_quota()
                time.sleep(_AGENT_SETTLE)
            time.sleep(_SETTLE)
            return _Performance(phase, seconds, self._gauges, self.tree, self._cpus, agent).run(
                self._crew, self._port, times, watch
            )
        finally:
            if agent is not None:
                agent.end()
            for hog in hogs:
                self._crew.end(hog)

    def close(self) -> None:
        """All of it away: processes first, then groups."""
        self._crew.end_all()
        self._gauges.close()
        self.tree.remove()

    def _start_hogs(self) -> list[Child]:
        return [
            self._crew.start("slackwater.demo.hog", [], self.tree.hog, _unheard)
            for _ in range(self._cpus)
        ]


class _Performance:
    """Guards one phase's measuring: answers come from a thread, counters from looks."""

    def __init__(
        self,
        phase: Phase,
        seconds: float,
        gauges: Gauges,
        tree: Tree,
        cpus: int,
        agent: AgentProcess | None,
    ) -> None:
        self._phase = phase
        self._seconds = seconds
        self._gauges = gauges
        self._tree = tree
        self._cpus = cpus
        self._agent = agent
        self._started: queue.Queue[float] = queue.Queue()
        self._answers: list[Answer] = []
        self._samples: list[Sample] = []

    def run(self, crew: Crew, port: int, times: list[float], watch: Watch) -> Measured:
        client = crew.start("slackwater.demo.load", [], self._tree.client, self._hear)
        if client.process.stdin is None:
            raise CannotMeasure("the demo's load has no standard input")
        with contextlib.suppress(BrokenPipeError), client.process.stdin as asked:
            json.dump({"port": port, "times": times}, asked)
        try:
            start = self._started.get(timeout=_PATIENCE)
        except queue.Empty:
            raise CannotMeasure("the demo's load did not start") from None
        time.sleep(max(start - time.monotonic(), 0))
        first, last = self._look_until(start, client, watch)
        client.wait_silent(self._seconds + 2 * load.PATIENCE)
        crew.end(client)
        self._answers += unanswered(times, self._answers, time.monotonic() - start)
        measured = Measured(
            self._phase,
            self._seconds,
            use_between(first, last, self._cpus),
            tuple(self._samples),
            tuple(sorted(self._answers, key=lambda answer: answer.at)),
            noise_between(first, last),
            self._lines(start),
        )
        watch(
            Glimpse(
                self._phase, self._seconds, self._seconds, measured.answers,
                self._samples[-1], measured.lines,
            )
        )  # fmt: skip
        return measured

    def _look_until(self, start: float, client: Child, watch: Watch) -> tuple[Counters, Counters]:
        """The counters at the phase's start and end, with a sample for each look between."""
        first = before = self._gauges.read()
        due = start
        while before.at < start + self._seconds:
            due += LOOK
            time.sleep(max(min(due, start + self._seconds) - time.monotonic(), 0.01))
            now = self._gauges.read()
            use = use_between(before, now, self._cpus)
            at, until = (round(max(each.at - start, 0.0), 3) for each in (before, now))
            self._samples.append(Sample(at, until, use, self._tree.quota()))
            before = now
            watch(
                Glimpse(
                    self._phase, min(now.at - start, self._seconds), self._seconds,
                    tuple(self._answers), self._samples[-1], self._lines(start),
                )
            )  # fmt: skip
            if client.process.poll() not in (None, 0):
                raise CannotMeasure("the demo's load ended by itself")
        return first, before

    def _hear(self, text: str) -> None:
        try:
            said = json.loads(text)
            if isinstance(said, dict):
                self._started.put(float(said["start"]))
            else:
                self._answers.append(msgspec.convert(said, Answer))
        except (ValueError, KeyError, msgspec.ValidationError):
            return  # its last words, a traceback: its exit code says so

    def _lines(self, start: float) -> tuple[Line, ...]:
        return self._agent.lines(start) if self._agent is not None else ()


def unanswered(times: Iterable[float], answers: Iterable[Answer], waited: float) -> list[Answer]:
    """What a client that had to be stopped never told: requests that took at least so long."""
    told = {answer.at for answer in answers}
    return [Answer(at, (waited - at) * 1000, ok=False) for at in times if at not in told]


def _unheard(_: str) -> None:
    """A hog says nothing."""
