"""Measured phases and reports for the tests, as small as they can be."""

from slackwater.demo.demo_plan import ALONE, DEFAULT_WEIGHT, KUBELET, SLACKWATER, DemoPhase
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

QUIET = Noise(0.0, 0.01)
MACHINE = MachineSummary(2, "Some CPU", "6.12.0", "v2", None, 2.9)
SIMULATED = MachineSummary(4, None, "6.12.0", None, "only root can make cgroups")
SAID = (
    AgentEntry(-0.5, "best_effort_share", because="held: the node was read only once so far"),
    AgentEntry(
        0.5, "quota of kubepods/besteffort", "unlimited", "1500m", "best_effort_share: used, 1"
    ),
    AgentEntry(5.0, "quota of kubepods/besteffort", "1500m", "1200m", "best_effort_share: used, 2"),
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
    cpu: CpuUse, quota: float | None, lost: float | None, seconds: float = 10.0
) -> tuple[PhaseSample, ...]:
    return tuple(PhaseSample(float(n), n + 1.0, cpu, quota, lost) for n in range(round(seconds)))


def measured(
    phase: DemoPhase,
    milliseconds: float,
    hog: float,
    noise: Noise = QUIET,
    quota: float | None = None,
    lines: tuple[AgentEntry, ...] = (),
) -> PhaseMeasurement:
    cpu = CpuUse(0.4, hog, 0.1, round(1.5 - hog, 4))
    found = answers(milliseconds)
    return PhaseMeasurement(phase, 10.0, cpu, samples(cpu, quota, None), found, noise, lines)


def lost(phase: DemoPhase, cpus: float, hog: float) -> PhaseMeasurement:
    cpu = CpuUse(2.0, hog, 0.0, 2.0 - hog)
    return PhaseMeasurement(phase, 10.0, cpu, samples(cpu, None, cpus))


def real_report(noise: Noise = QUIET) -> DemoReport:
    return make_report(
        MACHINE,
        [
            measured(ALONE, 5.0, 0.0),
            measured(DEFAULT_WEIGHT, 20.0, 1.4, noise),
            measured(KUBELET, 5.2, 1.45),
            measured(SLACKWATER, 5.5, 1.35, quota=1.4, lines=SAID),
        ],
    )


def simulated_report() -> DemoReport:
    return make_report(
        SIMULATED,
        [
            lost(ALONE, 0.0, 0.0),
            lost(DEFAULT_WEIGHT, 0.6, 2.0),
            lost(KUBELET, 0.0, 1.9),
            lost(SLACKWATER, 0.0, 1.9),
        ],
    )


def counters(at: float, **seconds: float) -> CpuCounters:
    names = ("node", "tree", "service", "hog", "own", "steal")
    return CpuCounters(at, **{name: seconds.get(name, 0.0) for name in names})
