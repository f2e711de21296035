"""The result of a simulation as one value: what tables show and scripts read.

Its keys are described in docs/reference/simulate.md. CPU time is in CPU seconds, times are seconds
of the simulation.
"""

from collections import Counter

import msgspec

from slackwater.model.cgroup import Tier
from slackwater.settings.setting import API_VERSION
from slackwater.simulation.simulation_run import Simulation
from slackwater.simulation.timeline import TimelineRow

KIND = "SimulationReport"
_MICROS = 1_000_000


class ScenarioSummary(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    cgroup: str
    cpus: int
    seconds: float
    period_seconds: float
    seed: int


class TierReport(msgspec.Struct, frozen=True, rename="camel"):
    """CPU seconds that one tier's pods wanted, got, and wanted in vain."""

    tier: str
    wanted: float
    got: float
    lost: float


class OnlineLoss(msgspec.Struct, frozen=True, rename="camel"):
    """What guaranteed and burstable pods together wanted and did not get, in milliCPU: over the
    whole time, and in the worst hundredth of it."""

    mean_lost_milli: float
    p99_lost_milli: int


class BestEffortUse(msgspec.Struct, frozen=True, rename="camel"):
    """CPU seconds: wanted and got by best effort, left idle by all others, of that what the
    threshold allows (null where no quota was ever wanted), and what it got beyond that. `part` is
    how much it got of what it wanted and could have had at each moment."""

    wanted: float
    got: float
    idle: float
    budget: float | None
    beyond: float
    part: float | None


class AgentActivity(msgspec.Struct, frozen=True, rename="camel"):
    """What the agent did. `holds` counts ticks in which a policy could not see."""

    ticks: int
    early: int
    blind: int
    writes: int
    refused: int
    repairs: int
    yields: int
    holds: int
    releases: int


class PlacementRow(msgspec.Struct, frozen=True, rename="camel"):
    """Where a container was at the end: its policy in force, and its CPUs in list format."""

    pod: str
    container: str
    policy: str
    cpus: str


class JobReport(msgspec.Struct, frozen=True, rename="camel"):
    """Batch jobs that buy elastic CPU: how many there were, were placed, finished, and ran at one
    time; and the seconds that a job waited on average, those that still wait too."""

    total: int
    placed: int
    finished: int
    most_running: int
    mean_wait_seconds: float


class ScenarioReport(msgspec.Struct, frozen=True, rename="camel"):
    """`left` is how many values a release at the end could not put back."""

    scenario: ScenarioSummary
    tiers: tuple[TierReport, ...]
    online: OnlineLoss
    best_effort: BestEffortUse
    agent: AgentActivity
    left: int
    timeline: tuple[TimelineRow, ...]
    placements: tuple[PlacementRow, ...] = ()
    jobs: JobReport | None = None
    api_version: str = API_VERSION
    kind: str = KIND


def make_report(simulation: Simulation, rows: list[TimelineRow], left: int) -> ScenarioReport:
    meter, scenario = simulation.meter, simulation.scenario
    about = ScenarioSummary(
        scenario.name,
        scenario.version.value,
        scenario.cpus,
        _seconds(scenario.duration),
        _seconds(simulation.agent.settings.period),
        scenario.seed,
    )
    tiers = tuple(
        TierReport(t.value, _seconds(c.used + c.lost), _seconds(c.used), _seconds(c.lost))
        for t, c in meter.tiers.items()
    )
    return ScenarioReport(
        scenario=about,
        tiers=tiers,
        online=_summarise_loss(meter.lost),
        best_effort=_summarise_best_effort(simulation),
        agent=_summarise_rounds(simulation),
        left=left,
        timeline=tuple(rows),
        placements=tuple(
            PlacementRow(each.pod, each.container, each.policy, each.cpus)
            for each in simulation.placements
        ),
        jobs=summarise_jobs(simulation) if scenario.jobs else None,
    )


def summarise_jobs(simulation: Simulation) -> JobReport:
    counts = simulation.jobs.counts
    mean = round(_seconds(counts.waited) / max(counts.total, 1), 1)
    return JobReport(counts.total, counts.placed, counts.finished, counts.most_running, mean)


def _seconds(micros: int) -> float:
    return round(micros / _MICROS, 3)


def _summarise_loss(lost: Counter[int]) -> OnlineLoss:
    """`lost` is time by milliCPU lost."""
    total, seen, worst = sum(lost.values()), 0, 0
    for milli in sorted(lost):
        seen, worst = seen + lost[milli], milli
        if seen * 100 >= total * 99:
            break
    mean = sum(milli * length for milli, length in lost.items()) / max(total, 1)
    return OnlineLoss(round(mean, 1), worst)


def _summarise_best_effort(simulation: Simulation) -> BestEffortUse:
    meter, spent = simulation.meter, simulation.meter.tiers[Tier.BESTEFFORT]
    return BestEffortUse(
        _seconds(spent.used + spent.lost),
        _seconds(spent.used),
        _seconds(meter.idle),
        _seconds(meter.budget) if meter.was_on else None,
        _seconds(meter.beyond),
        round(meter.had / meter.could, 4) if meter.could else None,
    )


def _summarise_rounds(simulation: Simulation) -> AgentActivity:
    meter = simulation.meter
    return AgentActivity(
        ticks=meter.rounds.total() - meter.rounds["blind"],
        early=meter.rounds["early"],
        blind=meter.rounds["blind"],
        writes=meter.writes["applied"],
        refused=meter.writes["refused"] + meter.writes["unsupported"],
        repairs=meter.notes["repair"],
        yields=meter.notes["yield"],
        holds=meter.courses["held"],
        releases=meter.courses["released"],
    )


def format_clock(seconds: float) -> str:
    """A time of the simulation: 0:00:07, 26:10:00."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
