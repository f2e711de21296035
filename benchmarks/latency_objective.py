"""A service's latency beside Burstable batch pods: unprotected, by a waterline, by an objective.

Run as root: `.venv/bin/python benchmarks/latency_objective.py [--quick] [--json FILE]`. Real
cgroups, the demo's service and open-loop load (src/slackwater/demo), two batch pods of low priority
that weigh as much as the service and want every CPU, and the agent as a user starts it. The
objective is twice the p90 of the service alone, measured first. Every round has a slice of every
row, in an order of its own and with the same intended times, so that drift of the machine hits all
of them; each slice has an agent of its own, which knows nothing yet. `--first` puts the benchmark
before all other work of the machine. Exit code 0: measured, goals reached or not; 1: could not.
"""

import argparse
import os
import random
import sys
from collections.abc import Sequence

import msgspec

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from benchmarks._colocation import Goal, Spread
from benchmarks._latency_objective import (
    HARMED,
    TIMES,
    RowSummary,
    Slice,
    goals,
    quiet_seconds,
    slice_of,
    summarize,
)
from slackwater.demo.cgroup_tree import CannotBuildTreeError
from slackwater.demo.demo_environment import DemoEnvironment
from slackwater.demo.demo_plan import ALONE, LATENCY_OBJECTIVE, DemoPhase, LoadPart
from slackwater.demo.demo_report import NOISY, MachineSummary
from slackwater.demo.measurements import MeasurementError, find_percentiles, ignore_progress
from slackwater.demo.processes import raise_on_termination
from slackwater.demo.program import describe_machine, find_cgroup_mounts, open_environment
from slackwater.observation.host import Roots

#: Fewer quiet seconds of a row than these decide nothing.
ENOUGH = 60
_WHEN_DECIDED = (
    f"The goals count only where the service is above the objective at least {100 * HARMED:.0f} % "
    "of the time unprotected."
)
HEAD = "round row            p90 ms   p99 ms above %  batch  idle %  demoted  bounded  noise"


class Plan(msgspec.Struct, frozen=True):
    """How often and how long each row is run. Seconds; `load` in CPUs."""

    rounds: int
    seconds: float
    calibration: float
    load: float
    cool_down: int
    first: bool
    json: str

    def parts(self) -> tuple[LoadPart, ...]:
        return (LoadPart("steady", 1.0, self.load),)


class Result(msgspec.Struct, frozen=True):
    """Everything that was measured; `objective` in milliseconds."""

    objective: float
    slices: tuple[Slice, ...]


def calibrate(environment: DemoEnvironment, plan: Plan) -> float:
    """The objective in milliseconds."""
    alone = environment.run(ALONE, plan.calibration, ignore_progress, seed=0, load=plan.parts())
    found = find_percentiles(alone.answers)
    if found is None:
        raise MeasurementError("the service alone answered nothing")
    return TIMES * found.p90


def run(environment: DemoEnvironment, plan: Plan, objective: float) -> list[Slice]:
    environment.objective, environment.cool_down = objective / 1000, plan.cool_down
    found: list[Slice] = []
    for number in range(1, plan.rounds + 1):
        for phase in random.Random(number).sample(LATENCY_OBJECTIVE, len(LATENCY_OBJECTIVE)):  # noqa: S311
            found.append(_run_slice(environment, plan, phase, number))
            print(slice_line(found[-1], objective), flush=True)
    return found


def _run_slice(environment: DemoEnvironment, plan: Plan, phase: DemoPhase, number: int) -> Slice:
    return slice_of(
        number,
        environment.run(phase, plan.seconds, ignore_progress, seed=number, load=plan.parts()),
    )


def slice_line(one: Slice, objective: float) -> str:
    row = summarize([one], one.phase, objective)
    if row is None:
        return f"{one.number:>5} {one.phase:<12} no answers"
    noise = sum(second.noise for second in one.seconds) / len(one.seconds)
    return (
        f"{one.number:>5} {one.phase:<12} {row.p90:>8.1f} {row.p99:>8.1f} {100 * row.above:>7.0f} "
        f"{row.hog:>6.2f} {100 * row.idle_used:>7.0f} {100 * row.demoted:>8.0f} "
        f"{100 * row.bounded:>8.0f} {noise:>6.2f}"
    )


def table(slices: Sequence[Slice], objective: float) -> list[str]:
    head = (
        f"{'':<26}{'p90 ms':>22}{'p99 ms':>9}{'above objective %':>20}{'batch CPUs':>12}"
        f"{'of idle %':>11}{'demoted %':>11}{'bounded %':>11}{'seconds':>9}"
    )
    lines = [head]
    for phase in LATENCY_OBJECTIVE:
        row = summarize(slices, phase.name, objective)
        lines.append(
            f"{phase.title:<26}{'no seconds':>22}" if row is None else _row(phase.title, row)
        )
    return lines


def _row(title: str, row: RowSummary) -> str:
    p90 = f"{row.p90:.1f} {_spelled(row.p90_spread, 1)}"
    above = f"{100 * row.above:.1f} {_spelled(row.above_spread, 100)}"
    return (
        f"{title:<26}{p90:>22}{row.p99:>9.1f}{above:>20}{row.hog:>12.2f}"
        f"{100 * row.idle_used:>11.0f}{100 * row.demoted:>11.0f}{100 * row.bounded:>11.0f}"
        f"{row.seconds:>9}"
    )


def _spelled(found: Spread, times: float) -> str:
    return f"({times * found.low:.1f}-{times * found.high:.1f})"


def goal_line(goal: Goal) -> str:
    verdict = {True: "reached", False: "MISSED", None: "says nothing here"}
    return f"goal: {goal.what}: {goal.measured}: {verdict[goal.reached]}"


def report(slices: Sequence[Slice], objective: float) -> list[str]:
    quiet = quiet_seconds(slices)
    counts = {
        phase.name: sum(len(each.seconds) for each in quiet if each.phase == phase.name)
        for phase in LATENCY_OBJECTIVE
    }
    lines = [
        "",
        f"All seconds (objective {objective:.1f} ms; quartiles of the slices in brackets):",
        *table(slices, objective),
        *map(goal_line, goals(slices, objective)),
        _WHEN_DECIDED,
        "",
        f"Seconds with at most {NOISY:g} CPUs of steal or foreign work:",
        *table(quiet, objective),
    ]
    if min(counts.values()) < ENOUGH:
        return [*lines, f"Too few to judge by: {min(counts.values())} in one row."]
    return [*lines, *map(goal_line, goals(quiet, objective))]


def describe(about: MachineSummary, cost: float, plan: Plan) -> str:
    return (
        f"{about.model or 'unknown CPU'}, {about.cpus} CPUs, Linux {about.kernel}, cgroup "
        f"{about.cgroup}; {plan.rounds} rounds of {plan.seconds:g} s a row; one request costs "
        f"{1000 * cost:.1f} ms of CPU; load {plan.load:g} CPUs; cool-down {plan.cool_down} s"
        f"{'; before all other work' if plan.first else ''}"
    )


def read_plan(arguments: Sequence[str]) -> Plan:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each row in each round")
    parser.add_argument("--load", type=float, default=0.7, help="of the service, in CPUs")
    parser.add_argument("--cool-down", type=int, default=15, help="of the actions, in seconds")
    parser.add_argument("--first", action="store_true", help="before the machine's other work")
    parser.add_argument("--json", default="", metavar="FILE", help="keep every second")
    parser.add_argument("--quick", action="store_true", help="1 round of 15 s")
    said = parser.parse_args(arguments)
    rounds, seconds = (1, 15.0) if said.quick else (said.rounds, said.seconds)
    calibration = min(seconds, 20.0)
    return Plan(rounds, seconds, calibration, said.load, said.cool_down, said.first, said.json)


def main() -> int:
    plan, roots = read_plan(sys.argv[1:]), Roots()
    try:
        mounts = find_cgroup_mounts(roots, os.environ)
        about = describe_machine(roots, mounts)
        with raise_on_termination(), open_environment(mounts, roots, about.cpus) as environment:
            if plan.first:
                environment.tree.go_first()
            print(describe(about, environment.cost, plan))
            objective = calibrate(environment, plan)
            print(f"objective: {objective:.1f} ms, {TIMES:g} x the p90 of the service alone")
            print(HEAD, flush=True)
            slices = run(environment, plan, objective)
    except (CannotBuildTreeError, MeasurementError) as error:
        print(f"latency_objective: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    for line in report(slices, objective):
        print(line)
    if plan.json:
        with open(plan.json, "wb") as file:
            file.write(msgspec.json.encode(Result(objective, tuple(slices))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
