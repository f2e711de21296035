"""One run from beginning to end: boot, pass the output on while it comes, bring the code home.

Owns the time limits and the difference between "the command said 1" and "no machine came back".
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import BinaryIO

from tools.vm import Say
from tools.vm.exchange import GUEST_OUT, OUT_VARIABLE, Exchange, command_script
from tools.vm.failure import VmError
from tools.vm.machine import Machine, Scratch, running

_POLL_SECONDS = 0.05
# A boot takes 3 to 10 s, and many times that on a busy machine; longer is a hang.
BOOT_LIMIT_SECONDS = 600.0
# By counted instructions a guest that sleeps may miss its alarm, and QEMU then sleeps for ever: no
# test sleeps so long, and a guest that works takes some of our CPU.
ASLEEP_LIMIT_SECONDS = 90.0
# Places that are the guest's own, where the host's files do not show.
_GUESTS_OWN = ("/dev", "/proc", "/run", "/sys")


@dataclass(frozen=True)
class Job:
    """What to run in the machine."""

    command: Sequence[str]
    folder: Path
    variables: Mapping[str, str]
    limit_seconds: float


def guest_variables(
    host_path: str, given: Mapping[str, str], out: Path | None
) -> Mapping[str, str]:
    """The command's whole environment: PATH, a home, the folder for results, and what is given."""
    # Its stdout is a file, which Python would fill in blocks, with nothing to see meanwhile.
    fixed = {"PATH": host_path, "HOME": "/root", "PYTHONUNBUFFERED": "1"}
    results = {} if out is None else {OUT_VARIABLE: GUEST_OUT}
    return {**fixed, **results, **given}


def scratch_for(folder: Path, command: Sequence[str]) -> Scratch:
    """Keep the host's /tmp in sight if the command is to run in it or names something there."""
    for hidden in _GUESTS_OWN:
        if folder.is_relative_to(hidden):
            raise VmError(f"{folder} is not visible in the machine: run from outside {hidden}.")
    in_tmp = any(Path(word).is_relative_to("/tmp") for word in (str(folder), *command))
    return Scratch.OVERLAY if in_tmp else Scratch.EMPTY


def run_job(machine: Machine, job: Job, say: Say, output: BinaryIO) -> int:
    """The command's exit code; VmError where there is none."""
    with tempfile.TemporaryDirectory(prefix="slackwater-vm-") as folder:
        exchange = Exchange(Path(folder))
        exchange.command.write_text(command_script(job.command, job.folder, job.variables))
        exchange.output.touch()
        with running(machine, exchange) as process, exchange.output.open("rb") as source:
            ending = _follow(process, exchange, job, lambda: _pass_on(source, output), say)
        code = exchange.exit_code()
        if code is None or ending is not None:
            say(f"vm: the end of the machine's console:\n{exchange.last_words()}")
            raise VmError(ending or _unexplained(exchange))
        return code


def _follow(
    process: Popen[bytes],
    exchange: Exchange,
    job: Job,
    pass_on: Callable[[], None],
    say: Say,
) -> str | None:
    """Wait for the machine's end; the reason if it had to be ended."""
    begin = time.monotonic()
    booted: float | None = None
    worked, awake = 0, 0.0
    while process.poll() is None:
        time.sleep(_POLL_SECONDS)
        pass_on()
        elapsed = time.monotonic() - begin
        if (ticks := _ticks(process.pid)) != worked:
            worked, awake = ticks, elapsed
        if elapsed - awake > ASLEEP_LIMIT_SECONDS:
            return f"The machine did nothing for {ASLEEP_LIMIT_SECONDS:g} s."
        if booted is None and exchange.started():
            booted = elapsed
            say(f"vm: booted in {booted:.1f} s")
        if elapsed > job.limit_seconds:
            return f"The machine was ended at its time limit of {job.limit_seconds:g} s."
        if booted is None and elapsed > BOOT_LIMIT_SECONDS:
            return f"The machine did not boot in {BOOT_LIMIT_SECONDS:g} s."
    pass_on()
    if booted is not None:
        total = time.monotonic() - begin
        say(f"vm: the command took {total - booted:.1f} s, the whole machine {total:.1f} s")
    return None


def _ticks(pid: int) -> int:
    """CPU time that it has used, in the kernel's ticks."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


def _unexplained(exchange: Exchange) -> str:
    if exchange.started():
        return "The machine stopped before the command had an exit code."
    return "The machine stopped before it could start the command."


def _pass_on(source: BinaryIO, output: BinaryIO) -> None:
    # A file that grows: read() gives what came since the last call.
    fresh = source.read()
    if fresh:
        output.write(fresh)
        output.flush()


def standard_output() -> BinaryIO:
    """The caller's stdout as bytes: the command's output need not be text."""
    sys.stdout.flush()
    return os.fdopen(os.dup(sys.stdout.fileno()), "wb")
