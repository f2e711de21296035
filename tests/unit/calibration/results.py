"""Calibrations of machines that do not exist."""

from slackwater.calibration.kernels import KERNELS
from slackwater.calibration.result import CalibrationResult, MeasuredMachine, Slice, summarize

MACHINE = MeasuredMachine("Old CPU", "Vendor", 4, hyper_thread=False, turbo=None)


def slices(speed: float, count: int = 4, share: float = 1.0) -> tuple[Slice, ...]:
    """Of one second of CPU time each; `share` of the CPU was theirs."""
    return tuple(
        Slice(kernel.name, cpu, int(speed), 1 / share, 1.0)
        for cpu in range(count)
        for kernel in KERNELS
    )


def result(speed: float, machine: MeasuredMachine = MACHINE) -> CalibrationResult:
    return summarize("1.0", machine, slices(speed), slices(speed))
