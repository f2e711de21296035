"""One QEMU process: its command line, its life, the command in it, and the exit code it leaves.

Guards the process: whoever leaves `machine` leaves no QEMU behind, by whatever way. Emulation
(TCG) and not KVM, because machines for continuous integration rarely offer a KVM that works.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from subprocess import Popen
from types import FrameType
from typing import BinaryIO

from tools.vm import NO_RESULT, Say, VmError

GUEST_OUT = "/run/slackwater-vm/out"
OUT_VARIABLE = "SLACKWATER_VM_OUT"

_EXIT_CODE = re.compile(r"(\d{1,3})\n")
_LARGEST_EXIT_CODE = 255
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
# A panic with its register dump and call trace is about this long.
_CONSOLE_LINES = 40


@dataclass(frozen=True)
class Exchange:
    """The files of one machine's folder."""

    folder: Path

    @property
    def command(self) -> Path:
        return self.folder / "command"

    @property
    def output(self) -> Path:
        return self.folder / "output"

    @property
    def console(self) -> Path:
        return self.folder / "console"

    @property
    def emulator_messages(self) -> Path:
        return self.folder / "qemu"

    def started(self) -> bool:
        """Whether the guest got as far as starting the command."""
        return (self.folder / "started").exists()

    def exit_code(self) -> int | None:
        """The command's exit code; final only once the machine is off."""
        try:
            text = (self.folder / "exit-code").read_text()
        except OSError:
            return None
        return parse_exit_code(text)

    def last_words(self) -> str:
        """The end of what the emulator and the guest's kernel said."""
        texts = (_text(self.emulator_messages), _text(self.console))
        lines = [line for text in texts for line in text.splitlines() if line.strip()]
        return "\n".join(lines[-_CONSOLE_LINES:])


def parse_exit_code(text: str) -> int | None:
    """A whole line with a number from 0 to 255; None for anything less."""
    found = _EXIT_CODE.fullmatch(text)
    if found is None or int(found.group(1)) > _LARGEST_EXIT_CODE:
        return None
    return int(found.group(1))


def parse_variable(text: str) -> tuple[str, str]:
    """NAME=VALUE as a pair."""
    found = _VARIABLE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not NAME=VALUE")
    return found.group(1), found.group(2)


def command_script(command: Sequence[str], folder: Path, variables: Mapping[str, str]) -> str:
    """A script that runs the command in the folder with these variables and no others."""
    place = shlex.quote(str(folder))
    assignments = [f"{name}={value}" for name, value in variables.items()]
    words = shlex.join(["/usr/bin/env", "-i", *assignments, *command])
    return f"cd {place} || exit {NO_RESULT}\nexec {words}\n"


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


_KERNEL_ARGUMENTS = (
    "console=ttyS0",
    "quiet",
    # A panic reboots at once, and -no-reboot makes that the end of QEMU.
    "panic=-1",
    "mitigations=off",
    "random.trust_cpu=on",
    "tsc=reliable",
    # The init brings the other CPUs up: before that, Linux 6.1 waits for them in a loop that an
    # emulator which counts instructions does not leave.
    "maxcpus=1",
)
_SYSTEMD_ARGUMENTS = (
    "systemd.unified_cgroup_hierarchy=1",
    # Else systemd freezes when it crashes, and the machine would hang until the time limit.
    "systemd.crash_reboot=yes",
    "systemd.show_status=no",
    "systemd.log_color=no",
)
_GRACE_SECONDS = 3.0
#: By the host's clock, a guest that has to wait for a CPU sees time lost.
_NICENESS = "-10"
_AHEAD_OF_OTHERS = ("setpriv", "--pdeathsig", "KILL", "nice", "-n", _NICENESS)


class Init(StrEnum):
    """Who is PID 1 and so owns the cgroup tree."""

    CGROUPFS = "cgroupfs"
    SYSTEMD = "systemd"


class Clock(StrEnum):
    """What the guest's time goes by.

    Counted instructions: each takes 4 ns, however long it took here. A CPU that has to wait for its
    turn loses no time, and what the guest measures is right beside any neighbour; a loop that
    pauses (x86's `pause`, meant to let others run) takes many times as long as it should.
    """

    HOST = "host"
    INSTRUCTIONS = "instructions"


# Twice as fast a guest (shift=1) costs a third more of our CPU: loops in it run for their time.
_QEMU_CLOCK = {
    Clock.HOST: (),
    Clock.INSTRUCTIONS: ("-icount", "shift=2", "-rtc", "clock=vm"),
}


#: As QEMU's -smp spells them: a number, and how they sit in sockets, cores and threads.
TWO_CPUS = "2"


class Scratch(StrEnum):
    """What the guest sees in /tmp: an empty folder of its own, or the host's under the overlay."""

    EMPTY = "empty"
    OVERLAY = "overlay"


@dataclass(frozen=True)
class Machine:
    """What to boot."""

    image: Path
    initramfs: Path
    init: Init
    clock: Clock
    memory: str
    scratch: Scratch
    out: Path | None
    cpus: str = TWO_CPUS

    def kernel_arguments(self) -> str:
        own = [f"vm_init={self.init}", f"vm_tmp={self.scratch}"]
        if self.out is not None:
            own.append("vm_out=shared")
        systemd = _SYSTEMD_ARGUMENTS if self.init is Init.SYSTEMD else ()
        return " ".join((*_KERNEL_ARGUMENTS, *systemd, *own))

    def qemu_arguments(self, exchange: Exchange) -> list[str]:
        # thread=single: with one thread per virtual CPU a boot in fifty died while the kernel
        # patched its own code, and times spread fourfold on a busy host.
        arguments = ["qemu-system-x86_64", "-machine", "q35", "-accel", "tcg,thread=single"]
        arguments += _QEMU_CLOCK[self.clock]
        arguments += ["-cpu", "max", "-smp", self.cpus, "-m", self.memory, "-nodefaults"]
        arguments += ["-no-user-config", "-display", "none", "-no-reboot", "-net", "none"]
        arguments += ["-serial", f"file:{_escaped(exchange.console)}"]
        arguments += ["-kernel", str(self.image), "-initrd", str(self.initramfs)]
        arguments += ["-append", self.kernel_arguments()]
        # multidevs: the host's root may span several file systems with equal inode numbers.
        arguments += _shared("hostroot", Path("/"), "readonly=on,multidevs=remap")
        arguments += _shared("io", exchange.folder, "multidevs=remap")
        if self.out is not None:
            arguments += _shared("out", self.out, "multidevs=remap")
        return arguments


@contextmanager
def running(machine: Machine, exchange: Exchange) -> Iterator[subprocess.Popen[bytes]]:
    """The machine's QEMU process, ended on the way out if it has not ended itself."""
    with exchange.emulator_messages.open("wb") as messages:
        process = subprocess.Popen(
            # setpriv and nice become QEMU; the kernel then ends it even if this process is killed.
            [*_AHEAD_OF_OTHERS, *machine.qemu_arguments(exchange)],
            stdin=subprocess.DEVNULL,
            stdout=messages,
            stderr=messages,
            # An interrupt from the terminal is for this process to handle, not for QEMU.
            start_new_session=True,
        )
    # Where the scheduler groups tasks by session, niceness counts only within one, and the session
    # has a niceness of its own (sched(7), "The autogroup feature").
    with suppress(OSError):
        Path(f"/proc/{process.pid}/autogroup").write_text(_NICENESS)
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _shared(tag: str, folder: Path, options: str) -> Sequence[str]:
    file_system = f"local,id={tag},path={_escaped(folder)},security_model=none,{options}"
    device = f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"
    return ("-fsdev", file_system, "-device", device)


def _escaped(path: Path) -> str:
    """A path inside a QEMU option, where a comma ends the value unless doubled."""
    return str(path).replace(",", ",,")


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


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StoppedBySignalError(Exception):
    """A signal asked this process to stop."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by {signal.Signals(number).name}")
        # As a shell reports a process that the signal ended.
        self.exit_code = 128 + number


@contextmanager
def signals_raised() -> Iterator[None]:
    """Raise StoppedBySignalError where a signal would end the process."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        # A second signal must not cut the cleaning short, which ends by itself within seconds.
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise StoppedBySignalError(number)

    before = {each: signal.signal(each, interrupt) for each in _SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
