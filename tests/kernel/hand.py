"""The writing code's tools for the kernel tests: references, writers, and texts read by hand."""

import contextlib
import os
import signal
import time
from collections.abc import Callable

from slackwater.execution.cgroup_writer import CgroupWriter
from slackwater.execution.executor import Executor
from slackwater.execution.ledger import Ledger
from slackwater.execution.unit_writer import UnitWriter
from slackwater.model.cgroup import CgroupController, CgroupMounts, CgroupRef, CgroupVersion, Level
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import Gap
from slackwater.model.knob import BURST, CPUS, KNOBS, MEMORY_MAX, QUOTA, WEIGHT, Knob, KnobValue
from slackwater.model.plan import Change, Result
from slackwater.model.units import Bandwidth, Micros
from tests.kernel.bed import Bed

PAGE = os.sysconf("SC_PAGE_SIZE")
DONE = {Result.APPLIED, Result.UNCHANGED}
BOOT = "4f1c3a1e-0000-4000-8000-slackwater00"


def clock() -> Micros:
    return Micros(time.monotonic_ns() // 1000)


def writer_of(mounts: CgroupMounts) -> CgroupWriter:
    return CgroupWriter(mounts, PAGE, clock)


def opened(directory: str) -> Ledger:
    ledger = Ledger.open(directory, BOOT)
    assert isinstance(ledger, Ledger), ledger
    return ledger


def executor_of(mounts: CgroupMounts, ledger: Ledger, units: UnitWriter | None = None) -> Executor:
    return Executor(ledger, writer_of(mounts), units, clock)


def ref_of(bed: Bed, path: str, level: Level = Level.POD) -> CgroupRef:
    return CgroupRef(path, bed.id(path), level)


def change_of(writer: CgroupWriter, ref: CgroupRef, knob: Knob, new: KnobValue) -> Change:
    """From what stands there."""
    old = writer.read(ref, knob)
    assert not isinstance(old, Gap), old
    return Change(ref, knob, old, new)


def quota(limit: int, period: int = 100_000) -> Bandwidth:
    return Bandwidth(Micros(limit), Micros(period))


def lightest(version: CgroupVersion) -> int:
    return 2 if version is CgroupVersion.V1 else 1


def default_weight(version: CgroupVersion) -> int:
    return 1024 if version is CgroupVersion.V1 else 100


def knob_files(bed: Bed, path: str) -> dict[str, str]:
    """Every knob's files in this cgroup that this kernel has, by hand."""
    texts = {}
    for knob in KNOBS:
        face = knob.file(bed.version)
        for name in () if isinstance(face, Gap) else (face.name, face.period):
            file = f"{bed.directory(path, knob.controller)}/{name}"
            if name is not None and os.path.exists(file):
                texts[file] = bed.read(path, name, knob.controller)
    return texts


def throttled(bed: Bed, path: str) -> int:
    words = bed.read(path, "cpu.stat").split()
    return int(words[words.index("nr_throttled") + 1])


def work(bed: Bed, path: str, busy: float, idle: float) -> None:
    """A process that works and sleeps in turns, in seconds; it ends with the bed."""
    pid = os.fork()
    if pid:
        bed._pids.append(pid)
        return
    try:
        for controller in CgroupController:
            bed.write(path, "cgroup.procs", "0", controller)
        while True:
            done = time.thread_time() + busy
            while time.thread_time() < done:
                pass
            time.sleep(idle)
    finally:
        os._exit(1)


def until(
    met: Callable[[], bool],
    seconds: float = 300.0,
    what: Callable[[], str] = lambda: "it",
    pause: float = 0.02,
) -> None:
    deadline = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < deadline, f"waited in vain for {what()}"
        time.sleep(pause)


def despite_neighbours(judge: Callable[[], None], windows: int = 6) -> None:
    """Measures and judges; what a busy neighbour of this machine has spoiled is measured again, or
    for longer."""
    for _ in range(windows - 1):
        with contextlib.suppress(AssertionError):
            return judge()
    return judge()


def shares_text(bed: Bed, path: str) -> str:
    face = WEIGHT.file(bed.version)
    assert not isinstance(face, Gap)
    return bed.read(path, face.name)


def besteffort_tree(bed: Bed) -> list[CgroupRef]:
    """A tier, two pods and their containers, none of them at the kernel's defaults."""
    tier = f"{bed.kubepods}/besteffort"
    pods = [f"{tier}/pod1", f"{tier}/pod2"]
    paths = [tier, *pods, *(f"{pod}/container" for pod in pods)]
    for path in paths:
        bed.make(path)
    refs = [ref_of(bed, path, Level.POD) for path in paths]
    writer = writer_of(bed.mounts)
    for ref, milli in zip(refs, (90_000, 70_000, 60_000, 50_000, 40_000), strict=True):
        for knob, value in (
            (QUOTA, quota(milli)),
            (BURST, milli // 10),
            (WEIGHT, milli // 1000),
            (CPUS, CpuSet.of([0, 1])),
            (MEMORY_MAX, milli * 4096),
        ):
            assert writer.write(change_of(writer, ref, knob, value)).result in DONE
    return refs


def in_a_child(act: Callable[[], None], kill_before_write: int) -> bool:
    """Runs `act` in a process of its own, killed just before its nth write call of any kind.

    Whether it came to its end before that.
    """
    pid = os.fork()
    if not pid:
        _count_writes(kill_before_write)
        try:
            act()
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return False
    assert os.WEXITSTATUS(status) == 0
    return True


def _count_writes(limit: int) -> None:
    left, write = [limit], os.write

    def counted(descriptor: int, data: bytes) -> int:
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return write(descriptor, data)

    os.write = counted  # type: ignore[assignment]


def everything(bed: Bed, tree: list[CgroupRef]) -> dict[str, str]:
    return {file: text for ref in tree for file, text in knob_files(bed, ref.path).items()}
