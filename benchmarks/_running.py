"""`slackwater agent` as a user starts it, in a cgroup of its own, and what it costs there.

Owns the agent's process and its group. Its CPU time is the kernel's exact account of that group,
so that nothing of the benchmark is in it.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator

from slackwater.model.cgroup import CgroupController, CgroupVersion
from tests.kernel.bed import Bed, get, put

#: The first round takes longer where a thousand YAML files are read.
_PATIENCE = 120.0


#: As it is installed for use: development tools bring typing_extensions, which msgspec imports
#: wherever it is there (ADR 3).
_SHIPPED = """\
import sys
sys.modules["typing_extensions"] = None
from slackwater.cli.main import main
main()
"""


#: The same, profiled from the first SIGUSR2 on.
_PROFILED = """\
import cProfile, signal, sys
sys.modules["typing_extensions"] = None
from slackwater.cli.main import main
profile = cProfile.Profile()
signal.signal(signal.SIGUSR2, lambda *_: profile.enable())
try:
    main()
finally:
    profile.disable()
    profile.dump_stats({path!r})
"""


class CannotMeasureError(Exception):
    """One sentence about what is missing."""


class RunningAgent:
    """Guards one agent's process."""

    def __init__(
        self,
        bed: Bed,
        folder: str,
        objects: list[str],
        arguments: list[str],
        before: tuple[str, ...] = (),
        profile: str = "",
    ) -> None:
        """`before` is a command that ends by running what follows it in its own place. `profile`
        is a file for what start_profile() asks for."""
        self._bed = bed
        self._group = bed.make(f"{bed.top}/agent")
        self._output = f"{folder}/output"
        state = f"{folder}/state"
        program = _PROFILED.format(path=profile) if profile else _SHIPPED
        command = [*before, sys.executable, "-c", program, "agent", *objects]
        # Released at its end: the next agent's first decision can be told from the last one's.
        command += ["--state", state, "--kubepods", bed.kubepods, "--on-exit", "release"]
        command += arguments
        with open(self._output, "w") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output)
        self.pid = self._process.pid
        # On v1 the account alone: it changes nothing about how the agent is scheduled.
        put(f"{bed.directory(self._group, CgroupController.CPUACCT)}/cgroup.procs", str(self.pid))

    def start_profile(self) -> None:
        self._process.send_signal(signal.SIGUSR2)

    def cpu(self) -> int:
        """CPU time since the start, in microseconds."""
        return self._bed.usage(self._group)

    def memory(self) -> tuple[float, float]:
        """Resident memory, and the anonymous part of it, in MiB."""
        lines = dict(line.split(":", 1) for line in get(f"/proc/{self.pid}/status").split("\n"))
        resident, anonymous = (int(lines[key].split()[0]) for key in ("VmRSS", "RssAnon"))
        return resident / 1024, anonymous / 1024

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def lines(self) -> int:
        """How many effects and states it has told."""
        with open(self._output) as output:
            return sum(1 for _ in output)

    def check(self) -> None:
        """Says why it ended, if it did."""
        if self._process.poll() is not None:
            with open(self._output) as output:
                words = output.read().strip()[-300:]
            raise CannotMeasureError(f"the agent ended by itself ({self._process.poll()}): {words}")

    def wait_for_quota(self, path: str) -> None:
        """Until it has decided for the first time."""
        deadline = time.monotonic() + _PATIENCE
        while quota(self._bed, path) is None:
            self.check()
            if time.monotonic() > deadline:
                raise CannotMeasureError(f"no quota in {path} after {_PATIENCE:g} s")
            time.sleep(0.05)

    def scrape(self, address: str) -> float:
        """As Prometheus would; the CPU time that it cost the agent, in milliseconds."""
        before = self.cpu()
        request = urllib.request.Request(
            f"http://{address}/metrics", headers={"Accept-Encoding": "gzip"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - our own agent
            answer.read()
        return (self.cpu() - before) / 1000

    def system_calls(self, seconds: float) -> Counter[str] | None:
        """By name, over so many seconds; None where strace is missing."""
        if shutil.which("strace") is None:
            return None
        summary = f"{self._output}.calls"
        command = ["strace", "-c", "-f", "-o", summary, "-p", str(self.pid)]
        tracer = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            time.sleep(seconds)
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.wait(30)
        return calls_in(get(summary))

    def end(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def calls_in(summary: str) -> Counter[str]:
    """strace's table: % time, seconds, usecs/call, calls, errors where there are, name."""
    found: Counter[str] = Counter()
    for line in summary.splitlines():
        words = line.split()
        if len(words) >= 5 and words[3].isdigit() and words[-1] != "total":
            found[words[-1]] += int(words[3])
    return found


def quota(bed: Bed, path: str) -> int | None:
    """In milliCPU; None is unlimited."""
    return quota_in(get(quota_file(bed, path)))


def quota_file(bed: Bed, path: str) -> str:
    name = "cpu.max" if bed.version is CgroupVersion.V2 else "cpu.cfs_quota_us"
    return f"{bed.directory(path)}/{name}"


def quota_in(text: str) -> int | None:
    """Of a file with the usual period of 100 ms."""
    word = text.split(maxsplit=1)[0]
    return None if word in ("-1", "max") else int(word) // 100


def make_tiers(bed: Bed, cpus: int) -> None:
    """As the kubelet leaves them: the pods' part of the machine, and the least for best effort."""
    for path, shares in (
        (bed.kubepods, 1024 * cpus),
        (f"{bed.kubepods}/burstable", 1024 * cpus // 2),
        (f"{bed.kubepods}/besteffort", 2),
    ):
        bed.make(path)
        if bed.version is CgroupVersion.V1:
            bed.write(path, "cpu.shares", str(shares))
        else:
            bed.write(path, "cpu.weight", str(1 + (shares - 2) * 9999 // 262142))


@contextlib.contextmanager
def new_bed(version: CgroupVersion, name: str) -> Iterator[Bed]:
    """A signal to end removes the groups as well."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        bed = Bed(version, name)
    except OSError as error:
        raise CannotMeasureError(f"no cgroups can be made here: {error.strerror}") from None
    try:
        yield bed
    finally:
        bed.close()


def free_address() -> str:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{asked.getsockname()[1]}"
