"""Days for the what-if's tests."""

import random
from collections.abc import Mapping, Sequence

from slackwater.rebalancer.observed import Cores, HpaTarget, HpaTargetKind, Seconds
from slackwater.rebalancer.whatif.day import Day, DayShape, Moment, PodLoad, generate_day
from slackwater.rebalancer.whatif.simulate_day import (
    SimulationResult,
    SimulationTerms,
    simulate_day,
)
from slackwater.rebalancer.whatif.simulation_report import SimulationReport, build_report
from slackwater.settings.rebalancer import MoveSettings

STEP = Seconds(300.0)
SEVENTY = HpaTarget(HpaTargetKind.UTILIZATION, 70.0, "")
#: The seed's example: threshold 1.05.
SIX: Mapping[str, float] = {"a": 1.2, "b": 1.1, "c": 0.8, "d": 0.6, "e": 0.4, "f": 0.3}


def day_with(steps: Sequence[Mapping[str, float]], request: float = 1.0, start: float = 0.0) -> Day:
    """One moment for each; an empty one was not recorded."""
    moments = tuple(
        Moment(
            start + n * STEP,
            {pod: PodLoad(Cores(cores), Cores(request)) for pod, cores in loads.items()},
        )
        for n, loads in enumerate(steps)
        if loads
    )
    return Day(STEP, moments, len(steps) - len(moments))


def generated_day(seed: int = 0, **shape: float) -> Day:
    draw = random.Random(seed).random  # noqa: S311 - noise, not a secret
    return generate_day(DayShape(**shape), draw)  # type: ignore[arg-type]


def result(day: Day, stickiness: float = 0.0, **moves: object) -> SimulationResult:
    settings = MoveSettings(**moves)  # type: ignore[arg-type]
    return simulate_day(day, SimulationTerms(SEVENTY, settings, stickiness))


def reported(day: Day, stickiness: float = 0.0, recording: str | None = None) -> SimulationReport:
    terms = SimulationTerms(SEVENTY, MoveSettings(), stickiness)
    seed = 0 if recording is None else None
    return build_report(day, terms, simulate_day(day, terms), recording, seed)
