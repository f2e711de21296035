"""One run from beginning to end: boot, pass the output on while it comes, bring the code home.

Owns the time limits and the difference between "the command said 1" and "no machine came back".
"""

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from types import FrameType
from typing import BinaryIO

from tools.vm.debian import Say
from tools.vm.exchange import GUEST_OUT, OUT_VARIABLE, Exchange, command_script
from tools.vm.failure import VmFailure
from tools.vm.machine import Machine, Scratch, running

_POLL_SECONDS = 0.05
# A boot takes 3 to 10 s, and three times that beside a busy neighbour; longer is a hang.
BOOT_LIMIT_SECONDS = 180.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Places that are the guest's own, where the host's files do not show.
_GUESTS_OWN = ("/dev", "/proc", "/run", "/sys")


class Interrupted(Exception):
    """A signal asked this process to stop."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by {signal.Signals(number).name}")
        self.exit_code = 128 + number


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
    results = {} if out is None else {OUT_VARIABLE: GUEST_OUT}
    return {"PATH": host_path, "HOME": "/root", **results, **given}


def scratch_for(folder: Path) -> Scratch:
    """Keep the host's /tmp in sight if the command is to run in it."""
    for hidden in _GUESTS_OWN:
        if folder.is_relative_to(hidden):
            raise VmFailure(f"{folder} is not visible in the machine: run from outside {hidden}.")
    return Scratch.OVERLAY if folder.is_relative_to("/tmp") else Scratch.EMPTY


def run_job(machine: Machine, job: Job, say: Say, output: BinaryIO) -> int:
    """The command's exit code; VmFailure where there is none."""
    with (
        _signals_raised(),
        tempfile.TemporaryDirectory(prefix="slackwater-vm-") as folder,
    ):
        exchange = Exchange(Path(folder))
        exchange.command.write_text(command_script(job.command, job.folder, job.variables))
        exchange.output.touch()
        with running(machine, exchange) as process, exchange.output.open("rb") as source:
            ending = _follow(process, exchange, job, lambda: _pass_on(source, output), say)
        code = exchange.exit_code()
        if code is None or ending is not None:
            reason = ending or _unexplained(exchange)
            raise VmFailure(f"{reason} The end of its console:\n{exchange.last_words()}")
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
    while process.poll() is None:
        time.sleep(_POLL_SECONDS)
        pass_on()
        elapsed = time.monotonic() - begin
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


@contextmanager
def _signals_raised() -> Iterator[None]:
    """Turn the signals that end a process into exceptions, so that cleaning up happens."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        # A second signal must not cut the cleaning short; it ends by itself within seconds.
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise Interrupted(number)

    before = {each: signal.signal(each, interrupt) for each in _SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def standard_output() -> BinaryIO:
    """The caller's stdout as bytes: the command's output need not be text."""
    sys.stdout.flush()
    return os.fdopen(os.dup(sys.stdout.fileno()), "wb")
