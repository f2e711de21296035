"""Pods of real processes are ended by signals: those of the pod, and no others."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from slackwater.execution.eviction_by_signal import SignalCommands
from slackwater.execution.node_states import CommandAttempt
from slackwater.model.cgroup import CgroupController, CgroupRef, Level, Tier
from slackwater.model.decision import Because, Command, CommandKind
from slackwater.model.gap import Gap
from slackwater.model.plan import CommandState
from slackwater.model.units import Micros
from slackwater.model.workload import Workload
from tests.kernel.bed import Bed, put
from tests.kernel.pods import UID, make_pod, pod_path

SECOND = 1_000_000
TERM, KILL = "SIGTERM was sent", "SIGKILL was sent"
GONE = CommandAttempt(CommandState.DONE, "its processes have ended", gone=True)


class Crowd:
    """Processes in cgroups that sleep until a signal, and tell how they ended."""

    def __init__(self, bed: Bed) -> None:
        self._bed = bed
        self._pids: list[int] = []

    def start(self, path: str, *, deaf: bool = False, child: bool = False) -> int:
        """One that does not hear SIGTERM is `deaf`; with `child` it has another that does."""
        ready, told = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._live(path, told, deaf=deaf, child=child)
        os.close(told)
        assert os.read(ready, 1)
        os.close(ready)
        self._pids.append(pid)
        return pid

    def _live(self, path: str, told: int, *, deaf: bool, child: bool) -> None:
        try:
            for folder in sorted({self._bed.directory(path, c) for c in CgroupController}):
                put(f"{folder}/cgroup.procs", "0")
            if child and os.fork() == 0:
                child = deaf = False
            signal.signal(signal.SIGTERM, signal.SIG_IGN if deaf else signal.SIG_DFL)
            if not child:
                os.write(told, b"x")
            while True:
                signal.pause()
        finally:
            os._exit(1)

    def end_of(self, pid: int) -> int:
        """The signal that ended it; waits for that."""
        self._pids.remove(pid)
        return os.WTERMSIG(os.waitpid(pid, 0)[1])

    def is_alive(self, pid: int) -> bool:
        if os.waitpid(pid, os.WNOHANG) == (0, 0):
            return True
        self._pids.remove(pid)
        return False

    def close(self) -> None:
        for pid in list(self._pids):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


@pytest.fixture
def crowd(bed: Bed) -> Iterator[Crowd]:
    made = Crowd(bed)
    try:
        yield made
    finally:
        made.close()
        for folder in {bed.directory(bed.top, c) for c in CgroupController}:
            for path in Path(folder).rglob("cgroup.procs"):
                for pid in path.read_text().split():
                    os.kill(int(pid), signal.SIGKILL)  # children of those that were killed


class Signals:
    """An eviction of pod 1 on the bed, step by step, with a clock that the test moves."""

    def __init__(self, bed: Bed, grace: int | None = 30) -> None:
        self.now = Micros(0)
        self.uid = UID.format(1)
        self._commands = SignalCommands(bed.mounts, bed.kubepods, clock=lambda: self.now)
        because = Because("cpu_total_usage", "6500", "6000")
        target = (CommandKind.EVICT, "batch/job", because, "watermark_relief")
        self.command = Command(self.uid, *target, uid=self.uid, grace_seconds=grace)
        path = pod_path(bed, 1)
        ref = CgroupRef(path, bed.id(path), Level.POD, Tier.BURSTABLE, self.uid)
        self.pod = Workload(self.uid, "job", "batch", Tier.BURSTABLE, ref)

    def step(self, seconds: int = 0, pod: Workload | None = None) -> CommandAttempt:
        self.now = Micros(self.now + seconds * SECOND)
        return self._commands.evict(self.command, pod or self.pod)

    def elsewhere(self, ref: CgroupRef | Gap) -> Workload:
        return msgspec.structs.replace(self.pod, ref=ref)


def until(look: Callable[[], CommandAttempt]) -> CommandAttempt:
    """A signal takes a moment."""
    while not (found := look()).gone:
        assert found.state is CommandState.DONE, found
    return found


def test_every_container_gets_sigterm_and_no_other_pod_does(bed: Bed, crowd: Crowd) -> None:
    inside = [crowd.start(path) for path in make_pod(bed, 1)]
    outside = [crowd.start(path) for path in make_pod(bed, 2)]
    signals = Signals(bed)
    first = signals.step()
    assert (first.state, first.detail) == (CommandState.DONE, TERM)
    assert first.again_after is not None
    assert [crowd.end_of(pid) for pid in inside] == [signal.SIGTERM] * 2
    assert until(signals.step) == GONE
    assert all(crowd.is_alive(pid) for pid in outside)


def test_who_ignores_sigterm_is_killed_after_the_grace_period(bed: Bed, crowd: Crowd) -> None:
    [path, _] = make_pod(bed, 1)
    deaf = crowd.start(path, deaf=True)
    signals = Signals(bed, grace=30)
    assert signals.step().detail == TERM
    assert signals.step(29).detail == TERM
    assert crowd.is_alive(deaf)
    assert signals.step(1).detail == KILL
    assert crowd.end_of(deaf) == signal.SIGKILL
    assert until(signals.step) == GONE


def test_sigterm_is_for_the_first_process_and_sigkill_for_all(bed: Bed, crowd: Crowd) -> None:
    """The first decides what becomes of its children, as in a container."""
    [path, _] = make_pod(bed, 1)
    first = crowd.start(path, deaf=True, child=True)
    signals = Signals(bed, grace=5)
    assert signals.step().detail == TERM
    assert len(bed.read(path, "cgroup.procs").split()) == 2
    assert signals.step(5).detail == KILL
    assert crowd.end_of(first) == signal.SIGKILL
    assert until(signals.step) == GONE


def test_without_a_grace_period_it_is_killed_at_once(bed: Bed, crowd: Crowd) -> None:
    [path, _] = make_pod(bed, 1)
    pid = crowd.start(path)
    signals = Signals(bed, grace=0)
    assert signals.step().detail == KILL
    assert crowd.end_of(pid) == signal.SIGKILL


def test_a_process_in_a_group_below_the_container_is_the_containers(bed: Bed, crowd: Crowd) -> None:
    [path, _] = make_pod(bed, 1)
    pid = crowd.start(bed.make(f"{path}/init.scope"))
    signals = Signals(bed)
    assert signals.step().detail == TERM
    assert crowd.end_of(pid) == signal.SIGTERM


def test_a_pod_without_processes_is_gone(bed: Bed) -> None:
    make_pod(bed, 1)
    assert Signals(bed).step() == GONE


def test_another_group_at_the_same_place_is_not_the_pod(bed: Bed, crowd: Crowd) -> None:
    [path, _] = make_pod(bed, 1)
    stranger = crowd.start(path)
    signals = Signals(bed)
    ref = signals.pod.ref
    assert isinstance(ref, CgroupRef)
    assert signals.step(pod=signals.elsewhere(msgspec.structs.replace(ref, id=1))) == GONE
    gone = msgspec.structs.replace(ref, path=pod_path(bed, 9))
    assert signals.step(pod=signals.elsewhere(gone)) == GONE
    assert crowd.is_alive(stranger)


def test_what_is_not_a_pod_below_the_kubelets_root_is_refused(bed: Bed, crowd: Crowd) -> None:
    [path, _] = make_pod(bed, 1)
    outside = bed.make(f"{bed.top}/outside")
    living = [crowd.start(path), crowd.start(outside)]
    signals = Signals(bed)
    tier = f"{bed.kubepods}/burstable"
    rows: list[tuple[CgroupRef | Gap, str]] = [
        (CgroupRef(outside, bed.id(outside), Level.POD), "is not below the kubelet's root"),
        (CgroupRef(bed.kubepods, bed.id(bed.kubepods), Level.NODE), "is not below"),
        (CgroupRef(f"{bed.kubepods}/../outside", bed.id(outside), Level.POD), "is not below"),
        (CgroupRef(tier, bed.id(tier), Level.TIER), "is not a pod's cgroup"),
        (
            CgroupRef(pod_path(bed, 1), 0, Level.POD, owner=UID.format(2)),
            "is of another pod",
        ),
        (Gap("no tree"), "its cgroup is not known: no tree"),
    ]
    for ref, sentence in rows:
        attempt = signals.step(pod=signals.elsewhere(ref))
        assert attempt.state is CommandState.REFUSED
        assert sentence in attempt.detail
    assert all(crowd.is_alive(pid) for pid in living)


def test_the_agents_own_pod_is_refused(
    bed: Bed, crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    [path, _] = make_pod(bed, 1)
    pid = crowd.start(path)
    monkeypatch.setattr(os, "getpid", lambda: pid)
    attempt = Signals(bed, grace=0).step()
    assert (attempt.state, attempt.detail) == (
        CommandState.REFUSED,
        "the agent itself runs in this pod",
    )
    assert crowd.is_alive(pid)
