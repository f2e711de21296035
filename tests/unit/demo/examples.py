"""Measured phases and reports for the tests, as small as they can be."""

from slackwater.demo.demo_plan import ALONE, SLACKWATER, UNPROTECTED, DemoPhase
from slackwater.demo.demo_report import DemoReport, MachineSummary, make_report
from slackwater.demo.measurements import (
    AgentEntry,
    CpuCounters,
    CpuUse,
    Noise,
    PhaseMeasurement,
    PhaseSample,
    RequestResult,
)

#: Milliseconds.
OBJECTIVE = 10.0
QUIET = Noise(0.0, 0.01)
MACHINE = MachineSummary(2, "Some CPU", "6.12.0", "v2", None, 2.9)
SIMULATED = MachineSummary(4, None, "6.12.0", None, "only root can make cgroups")
SAID = (
    AgentEntry(-0.5, "watermark_relief", because="held: the probe has not answered yet"),
    AgentEntry(0.5, "idle of kubepods/burstable/pod1", "0", "1", "watermark_relief: slow, 1"),
    AgentEntry(0.5, "idle of kubepods/burstable/pod2", "0", "1", "watermark_relief: slow, 1"),
    AgentEntry(
        1.5, "quota of kubepods/burstable/pod1/c", "unlimited", "700m", "watermark_relief: slow, 2"
    ),
    AgentEntry(8.0, "idle of kubepods/burstable/pod1", "1", "0", "no policy wants it any more"),
)


def answers(
    milliseconds: float, seconds: float = 10.0, each: float = 0.1
) -> tuple[RequestResult, ...]:
    """Evenly spread; every tenth takes twice as long."""
    count = round(seconds / each)
    return tuple(
        RequestResult(n * each, milliseconds * (2 if n % 10 == 9 else 1)) for n in range(count)
    )


def samples(
    cpu: CpuUse,
    quota: float | None,
    lost: float | None,
    seconds: float = 10.0,
    demoted: int = 0,
) -> tuple[PhaseSample, ...]:
    """One a second; in the first of them batch is demoted, and has the quota if there is one."""
    return tuple(
        PhaseSample(
            float(n), n + 1.0, cpu, quota if n < demoted else None, lost, demoted=n < demoted
        )
        for n in range(round(seconds))
    )


def measured(
    phase: DemoPhase,
    milliseconds: float,
    hog: float,
    noise: Noise = QUIET,
    quota: float | None = None,
    lines: tuple[AgentEntry, ...] = (),
    demoted: int = 0,
) -> PhaseMeasurement:
    cpu = CpuUse(0.4, hog, 0.1, round(1.5 - hog, 4))
    found = answers(milliseconds)
    held = samples(cpu, quota, None, demoted=demoted)
    return PhaseMeasurement(phase, 10.0, cpu, held, found, noise, lines, (5.0, 5.0))


def lost(phase: DemoPhase, cpus: float, hog: float) -> PhaseMeasurement:
    cpu = CpuUse(2.0, hog, 0.0, 2.0 - hog)
    return PhaseMeasurement(phase, 10.0, cpu, samples(cpu, None, cpus))


def real_report(noise: Noise = QUIET) -> DemoReport:
    return make_report(
        MACHINE,
        [
            measured(ALONE, 5.0, 0.0),
            measured(UNPROTECTED, 20.0, 1.4, noise),
            measured(SLACKWATER, 5.5, 1.35, quota=1.4, lines=SAID, demoted=3),
        ],
        OBJECTIVE,
    )


def simulated_report() -> DemoReport:
    return make_report(
        SIMULATED,
        [
            lost(ALONE, 0.0, 0.0),
            lost(UNPROTECTED, 0.6, 2.0),
            lost(SLACKWATER, 0.0, 1.9),
        ],
    )


def counters(at: float, **seconds: float) -> CpuCounters:
    names = ("node", "tree", "service", "hog", "own", "steal")
    return CpuCounters(at, **{name: seconds.get(name, 0.0) for name in names})
