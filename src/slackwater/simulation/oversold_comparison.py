"""One scenario with and without overselling: what its node and its batch jobs made of the time.

Its keys are described in docs/reference/simulate.md. CPU time is in CPU seconds.
"""

import msgspec

from slackwater.model.cgroup import Tier
from slackwater.settings.setting import API_VERSION
from slackwater.simulation.scenario_report import (
    JobReport,
    OnlineLoss,
    ScenarioReport,
    ScenarioSummary,
    summarise_jobs,
)
from slackwater.simulation.simulation_run import Simulation

KIND = "OversoldComparison"
_MILLI_MICROS = 1_000_000_000
_ONLINE = (Tier.GUARANTEED.value, Tier.BURSTABLE.value)


class ComparedRun(msgspec.Struct, frozen=True, rename="camel"):
    """`busy` is the share of the node's CPU time that was used, 0 to 1. In CPU seconds: elastic CPU
    that was `offered` and `bought`, what best-effort pods, jobs among them, used, and what
    guaranteed and burstable pods wanted in vain. `left` is how many values a release at the end
    could not put back."""

    busy: float
    offered: float
    bought: float
    best_effort_used: float
    online_lost: float
    online: OnlineLoss
    jobs: JobReport
    left: int


class OversoldComparison(msgspec.Struct, frozen=True, rename="camel"):
    scenario: ScenarioSummary
    without: ComparedRun
    oversold: ComparedRun = msgspec.field(name="with")
    api_version: str = API_VERSION
    kind: str = KIND

    def sentences(self) -> list[str]:
        """What it comes to, for people."""
        before, after = self.without, self.oversold
        jobs = (
            f"Without overselling {before.jobs.finished} of {before.jobs.total} batch jobs "
            f"finished, with it {after.jobs.finished}; the node's CPUs were in use for "
            f"{100 * before.busy:.0f} % and {100 * after.busy:.0f} % of the time."
        )
        loss = (
            f"Best effort used {before.best_effort_used / 3600:.1f} and "
            f"{after.best_effort_used / 3600:.1f} CPU hours. Guaranteed and burstable pods lost "
            f"{before.online_lost:.0f} and {after.online_lost:.0f} CPU seconds of what they wanted."
        )
        return [jobs, loss]


def compare_run(simulation: Simulation, report: ScenarioReport) -> ComparedRun:
    """What counts of a simulation that has ended, and its report."""
    about, meter = report.scenario, simulation.meter
    used = sum(tier.got for tier in report.tiers) + meter.system / 1_000_000
    return ComparedRun(
        busy=round(used / (about.cpus * about.seconds), 4),
        offered=_cpu_seconds(sum(each.offered for each in meter.intervals)),
        bought=_cpu_seconds(sum(each.bought for each in meter.intervals)),
        best_effort_used=report.best_effort.got,
        online_lost=round(sum(t.lost for t in report.tiers if t.tier in _ONLINE), 3),
        online=report.online,
        jobs=summarise_jobs(simulation),
        left=report.left,
    )


def _cpu_seconds(milli_micros: int) -> float:
    return round(milli_micros / _MILLI_MICROS, 3)
