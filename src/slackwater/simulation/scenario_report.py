"""The result of a simulation as one value: what tables show and scripts read.

Owns the report's keys (docs/reference/simulate.md). CPU time is in CPU seconds, times are seconds
of the simulation.
"""

from collections import Counter

import msgspec

from slackwater.model.cgroup import Tier
from slackwater.model.units import Micros
from slackwater.settings.file import API_VERSION
from slackwater.simulation.simulation_run import Life
from slackwater.simulation.timeline import Row

KIND = "SimulationReport"
_MICROS = 1_000_000


class About(msgspec.Struct, frozen=True, rename="camel"):
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


class Online(msgspec.Struct, frozen=True, rename="camel"):
    """What guaranteed and burstable pods together wanted and did not get, in milliCPU: over the
    whole time, and in the worst hundredth of it."""

    mean_lost_milli: float
    p99_lost_milli: int


class BestEffort(msgspec.Struct, frozen=True, rename="camel"):
    """CPU seconds: wanted and got by best effort, left idle by all others, of that what the
    threshold allows (null where no quota was ever wanted), and what it got beyond that. `part` is
    how much it got of what it wanted and could have had at each moment."""

    wanted: float
    got: float
    idle: float
    budget: float | None
    beyond: float
    part: float | None


class Rounds(msgspec.Struct, frozen=True, rename="camel"):
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


class Line(msgspec.Struct, frozen=True, rename="camel"):
    """One line of the timeline."""

    at: float
    until: float
    by: str
    what: str
    before: str
    after: str
    lowest: str
    highest: str
    changes: int
    because: str
    result: str
    times: int


class Report(msgspec.Struct, frozen=True, rename="camel"):
    """`left` is how many values a release at the end could not put back."""

    scenario: About
    tiers: tuple[TierReport, ...]
    online: Online
    best_effort: BestEffort
    agent: Rounds
    left: int
    timeline: tuple[Line, ...]
    api_version: str = API_VERSION
    kind: str = KIND


def report_of(life: Life, rows: list[Row], left: int) -> Report:
    meter, scenario = life.meter, life.scenario
    about = About(
        scenario.name,
        scenario.version.value,
        scenario.cpus,
        _seconds(scenario.duration),
        _seconds(life.agent.settings.period),
        scenario.seed,
    )
    tiers = tuple(
        TierReport(t.value, _seconds(c.used + c.lost), _seconds(c.used), _seconds(c.lost))
        for t, c in meter.tiers.items()
    )
    return Report(
        about, tiers, _online(meter.lost), _best_effort(life), _rounds(life), left,
        tuple(_line(row) for row in rows),
    )  # fmt: skip


def _seconds(micros: int) -> float:
    return round(micros / _MICROS, 3)


def _online(lost: Counter[int]) -> Online:
    """`lost` is time by milliCPU lost."""
    total, seen, worst = sum(lost.values()), 0, 0
    for milli in sorted(lost):
        seen, worst = seen + lost[milli], milli
        if seen * 100 >= total * 99:
            break
    mean = sum(milli * length for milli, length in lost.items()) / max(total, 1)
    return Online(round(mean, 1), worst)


def _best_effort(life: Life) -> BestEffort:
    meter, spent = life.meter, life.meter.tiers[Tier.BESTEFFORT]
    return BestEffort(
        _seconds(spent.used + spent.lost),
        _seconds(spent.used),
        _seconds(meter.idle),
        _seconds(meter.budget) if meter.was_on else None,
        _seconds(meter.beyond),
        round(meter.had / meter.could, 4) if meter.could else None,
    )


def _rounds(life: Life) -> Rounds:
    meter = life.meter
    return Rounds(
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


def _line(row: Row) -> Line:
    return Line(
        _seconds(row.at), _seconds(row.until), row.by, row.what, row.before, row.after,
        row.lowest, row.highest, row.changes, row.because, row.result, row.times,
    )  # fmt: skip


def clock(micros: Micros | int) -> str:
    """A time of the simulation as people write it: 0:00:07, 26:10:00."""
    seconds = round(micros / _MICROS)
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
