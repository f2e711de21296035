"""One QEMU process: its command line, its life, and what it leaves.

Guards the process: whoever leaves `machine` leaves no QEMU behind, by whatever way. Emulation
(TCG) and not KVM, because machines for continuous integration rarely offer a KVM that works.
"""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tools.vm.exchange import Exchange

_KERNEL_ARGUMENTS = (
    "console=ttyS0",
    "quiet",
    # A panic reboots at once, and -no-reboot makes that the end of QEMU.
    "panic=-1",
    "mitigations=off",
    "random.trust_cpu=on",
    "tsc=reliable",
    # The init brings the second CPU up: before that, Linux 6.1 waits for it in a loop that an
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
        arguments += ["-cpu", "max", "-smp", "2", "-m", self.memory, "-nodefaults"]
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
