"""The order of things on the environment, with real programs and no cgroups."""

import json
import queue
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from slackwater.demo import demo_environment as module
from slackwater.demo.demo_environment import DemoEnvironment, unanswered_requests
from slackwater.demo.demo_plan import (
    ALONE,
    DEFAULT_WEIGHT,
    KUBELET,
    SHARE,
    SLACKWATER,
    UNPROTECTED,
    BatchControl,
    DemoPhase,
)
from slackwater.demo.measurements import (
    AgentEntry,
    CpuCounters,
    MeasurementError,
    PhaseMeasurement,
    PhaseProgress,
    RequestResult,
    ignore_progress,
)
from slackwater.demo.processes import ChildProcess, ChildProcesses
from slackwater.model.cgroup import CgroupMounts
from slackwater.observation.host import Roots
from tests.unit.demo.examples import counters

pytestmark = pytest.mark.long

CPUS = 2


class FakeTree:
    """Groups as names; every request costs 5 ms of them."""

    top, service, hog, client, agent = "top", "service", "hog", "client", "agent"
    burstable, besteffort, kubepods = "burstable", "besteffort", "kubepods"
    batch: tuple[str, ...] = ("batch-1", "batch-2")

    def __init__(self, _mounts: CgroupMounts, cpus: int) -> None:
        self.cpus = cpus
        self.told: list[str] = []
        self.controls: list[BatchControl] = []
        self.entered: list[str] = []
        self.usages = 0

    def make(self) -> None:
        self.told.append("made")

    def apply(self, control: BatchControl) -> None:
        self.controls.append(control)

    def enter(self, path: str, pid: int) -> None:
        assert pid > 1
        self.entered.append(path)

    def usage(self, path: str) -> int:
        assert path == self.service
        self.usages += 100_000
        return self.usages

    def quota(self) -> float | None:
        return 1.5 if self.controls[-1] is BatchControl.BEST_EFFORT_SHARE else None

    def is_demoted(self) -> bool:
        return self.controls[-1] is BatchControl.LATENCY_OBJECTIVE

    def remove(self) -> None:
        self.told.append("removed")


class FakeGauges:
    """A machine whose one CPU is always busy, half of it with the service."""

    def __init__(self, *_: object) -> None:
        self.closed = False

    def read(self) -> CpuCounters:
        now = time.monotonic()
        return counters(now, node=now, tree=now, service=now / 2)

    def close(self) -> None:
        self.closed = True


class FakeAgent:
    """One that sets its quota at once, or does not."""

    ended = 0
    works = True
    arguments: tuple[Any, ...] = ()

    def __init__(self, *arguments: object) -> None:
        FakeAgent.arguments = arguments

    def wait_for_quota(self) -> None:
        if not self.works:
            raise MeasurementError("the agent set no quota")

    def wait_for_start(self) -> None:
        pass

    def lines(self, start: float) -> tuple[AgentEntry, ...]:
        return (AgentEntry(round(time.monotonic() - start), "quota", "1m", "2m", "why"),)

    def end(self) -> None:
        FakeAgent.ended += 1


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[DemoEnvironment]:
    monkeypatch.setattr(module, "DemoTree", FakeTree)
    monkeypatch.setattr(module, "CpuMeter", FakeGauges)
    monkeypatch.setattr(module, "AgentProcess", FakeAgent)
    monkeypatch.setattr(module, "clear_leftovers", lambda _: [])
    monkeypatch.setattr(module, "_SETTLE", 0.0)
    monkeypatch.setattr(module, "_RAISE_SETTLE", 0.0)
    monkeypatch.setattr(FakeAgent, "ended", 0)
    monkeypatch.setattr(FakeAgent, "works", True)
    made = DemoEnvironment(CgroupMounts({}), Roots(), CPUS, tmp_path)
    try:
        yield made
    finally:
        made.close()


def tree(environment: DemoEnvironment) -> FakeTree:
    found = environment.tree
    assert isinstance(found, FakeTree)
    return found


def run(
    environment: DemoEnvironment, phase: DemoPhase, seen: list[PhaseProgress] | None = None
) -> PhaseMeasurement:
    return environment.run(phase, 1.0, ignore_progress if seen is None else seen.append)


def test_opening_makes_the_tree_and_measures_a_request(
    environment: DemoEnvironment,
) -> None:
    environment.open()
    assert tree(environment).told == ["made"]
    assert tree(environment).entered == ["service"]
    assert environment.cost == pytest.approx(0.1 / 20)


def test_the_service_alone(environment: DemoEnvironment) -> None:
    environment.open()
    seen: list[PhaseProgress] = []
    found = run(environment, ALONE, seen)
    assert tree(environment).controls == [BatchControl.ABSENT]
    assert tree(environment).entered == ["service", "client"]
    assert len(found.answers) > 20
    assert all(answer.ok for answer in found.answers)
    assert [a.at for a in found.answers] == sorted(a.at for a in found.answers)
    assert found.cpu.service == pytest.approx(0.5, abs=0.01)
    assert found.cpu.other == pytest.approx(0.5, abs=0.01)
    assert found.noise is not None
    assert found.noise.foreign == 0
    assert {sample.quota for sample in found.samples} == {None}
    assert found.lines == ()
    assert seen[0].at == 0
    assert seen[0].sample is None
    assert seen[-1].at == pytest.approx(1.0)
    assert len(seen) == 2 + len(found.samples)
    assert seen[-1].answers == found.answers  # a watcher's last look is what the report says


def test_samples_follow_each_other_to_the_end(environment: DemoEnvironment) -> None:
    environment.open()
    samples = run(environment, ALONE).samples
    assert samples[0].at < 0.2
    assert samples[-1].until >= 1.0
    assert [s.at for s in samples[1:]] == [s.until for s in samples[:-1]]


def test_a_hog_for_each_cpu_and_none_of_them_stays(environment: DemoEnvironment) -> None:
    environment.open()
    run(environment, DEFAULT_WEIGHT)
    assert tree(environment).entered == ["service", "hog", "hog", "client"]
    assert len(environment._children._children) == 1  # the service
    run(environment, KUBELET)
    assert tree(environment).controls == [BatchControl.DEFAULT_WEIGHT, BatchControl.KUBELET]
    assert len(environment._children._children) == 1


def test_the_agent_comes_and_goes_with_its_phase(environment: DemoEnvironment) -> None:
    environment.open()
    found = run(environment, SHARE)
    assert {sample.quota for sample in found.samples} == {1.5}
    assert [line.what for line in found.lines] == ["quota"]
    assert FakeAgent.ended == 1


def test_burstable_batch_has_loops_in_every_pod(environment: DemoEnvironment) -> None:
    environment.open()
    found = run(environment, UNPROTECTED)
    batch = ["batch-1", "batch-1", "batch-2", "batch-2"]
    assert tree(environment).entered == ["service", *batch, "client"]
    assert {sample.demoted for sample in found.samples} == {False}
    assert FakeAgent.ended == 0


def test_an_agent_with_an_objective_needs_no_quota_to_be_ready(
    environment: DemoEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment.open()
    monkeypatch.setattr(FakeAgent, "works", False)
    environment.objective = 0.02
    found = run(environment, SLACKWATER)
    assert {sample.demoted for sample in found.samples} == {True}
    (_, _, _, objects) = FakeAgent.arguments
    assert "value: 20000u" in objects["latency.yaml"]
    assert FakeAgent.ended == 1


def test_an_agent_that_does_nothing_ends_the_phase_and_the_hogs(
    environment: DemoEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment.open()
    monkeypatch.setattr(FakeAgent, "works", False)
    with pytest.raises(MeasurementError, match="the agent set no quota"):
        run(environment, SHARE)
    assert FakeAgent.ended == 1
    assert len(environment._children._children) == 1


def test_the_same_seed_sends_at_the_same_times(environment: DemoEnvironment) -> None:
    environment.open()
    first, second = ([a.at for a in run(environment, ALONE).answers] for _ in range(2))
    assert first == second


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Starts something else in place of one of the programs."""
    real = ChildProcesses.start

    def breaking(which: str) -> None:
        def start(
            self: ChildProcesses, name: str, arguments: Sequence[str], group: str,
            hear: Callable[[str], None], environ: Mapping[str, str] | None = None,
        ) -> ChildProcess:  # fmt: skip
            del environ
            if name == which:
                name, arguments = "slackwater", ["no-such-command"]
            return real(self, name, arguments, group, hear)

        monkeypatch.setattr(ChildProcesses, "start", start)

    return breaking


def test_a_service_that_does_not_start_is_told(
    environment: DemoEnvironment, broken: Callable[[str], None]
) -> None:
    broken("slackwater.demo.service")
    with pytest.raises(MeasurementError, match="the demo's service did not start"):
        environment.open()


def test_a_load_that_does_not_start_is_told(
    environment: DemoEnvironment, broken: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    environment.open()
    broken("slackwater.demo.load")
    monkeypatch.setattr(module, "_PATIENCE", 1.0)
    with pytest.raises(MeasurementError, match="the demo's load did not start"):
        run(environment, ALONE)


def test_closing_ends_all_and_removes_the_tree_last(environment: DemoEnvironment) -> None:
    environment.open()
    (service,) = environment._children._children
    environment.close()
    assert service.process.returncode is not None
    assert tree(environment).told == ["made", "removed"]


def test_what_the_load_says_besides_is_ignored() -> None:
    performance = module._PhaseRun.__new__(module._PhaseRun)
    performance._answers, performance._started = [], queue.Queue()
    for text in ("Traceback (most recent call last):", "", "[1]", '{"other": 1}', '[1, "x", true]'):
        performance._on_line(text)
    performance._on_line(json.dumps([0.5, 2.0, True]))
    assert [(a.at, a.milliseconds, a.ok) for a in performance._answers] == [(0.5, 2.0, True)]
    assert performance._started.empty()


def test_what_a_stopped_client_never_told_counts_as_unanswered() -> None:
    found = unanswered_requests([0.0, 0.5, 1.0], [RequestResult(0.5, 3.0)], 12.0)
    assert found == [RequestResult(0.0, 12_000.0, ok=False), RequestResult(1.0, 11_000.0, ok=False)]
    assert unanswered_requests([0.5], [RequestResult(0.5, 3.0)], 12.0) == []
