"""Latency of a service beside batch work, and what batch gets: ways to hold batch back.

Run as root: `.venv/bin/python benchmarks/colocation.py [--quick] [--json FILE] [--only ROW,...]`.
Real cgroups, the demo's service, hog and load (src/slackwater/demo), the agent as a user starts it.
Open loop: latency counts from the intended time of sending. Every round has every row, in an order
of its own, with the same intended times; steal and foreign work are noted for each and noisy rounds
are shown. It takes about 18 minutes. Exit code 0: measured, goals reached or not; 1: could not
measure.
"""

import argparse
import os
import random
import sys
from collections.abc import Sequence

import msgspec

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from benchmarks._colocation import Goal, Round, Spread, elastic_goals, goals, of, quiet, round_of
from slackwater.demo.cgroup_tree import CannotBuildTreeError
from slackwater.demo.demo_environment import DemoEnvironment
from slackwater.demo.demo_plan import BUSY, CALM, COLOCATION, THRESHOLD, DemoPhase
from slackwater.demo.demo_report import NOISY, MachineSummary
from slackwater.demo.measurements import MeasurementError, ignore_progress
from slackwater.demo.processes import raise_on_termination
from slackwater.demo.program import describe_machine, find_cgroup_mounts, open_environment
from slackwater.observation.host import Roots


class Plan(msgspec.Struct, frozen=True):
    """How often and how long each row is run."""

    rounds: int
    seconds: float
    json: str
    rows: tuple[DemoPhase, ...] = COLOCATION


def run(environment: DemoEnvironment, plan: Plan, cpus: int) -> list[Round]:
    found: list[Round] = []
    for number in range(1, plan.rounds + 1):
        order = random.Random(number).sample(plan.rows, len(plan.rows))  # noqa: S311
        for phase in order:
            one = _one(environment, phase, number, plan.seconds, cpus)
            if one is not None:
                found.append(one)
                print(round_line(one), flush=True)
    return found


def _one(
    environment: DemoEnvironment, phase: DemoPhase, number: int, seconds: float, cpus: int
) -> Round | None:
    try:
        measured = environment.run(phase, seconds, ignore_progress, seed=number)
    except OSError as error:  # cpu.idle is not in every kernel
        print(f"{number:>5} {phase.name:<11} cannot be run here: {error.strerror}", flush=True)
        return None
    return round_of(number, measured, cpus)


def round_line(one: Round) -> str:
    return (
        f"{one.number:>5} {one.phase:<11} {one.p50:>8.2f} {one.p90:>8.2f} {one.p99:>8.2f} "
        f"{one.hog:>6.2f} {100 * one.utilisation:>5.0f} {one.steal:>6.2f} {one.foreign:>7.2f}"
        f"{'  noisy' if one.is_noisy() else ''}"
    )


def table(rounds: Sequence[Round]) -> list[str]:
    head = (
        f"{'':<28}{'p50 ms':>24}{'p90 ms':>24}{'p99 ms':>24}{'hog CPUs':>10}{'node %':>8}{'n':>4}"
    )
    lines = [head]
    for phase in COLOCATION:
        count = sum(each.phase == phase.name for each in rounds)
        p50, p90, p99, hog, busy = (
            of(rounds, phase.name, what)
            for what in (_p50, _p90, _p99, lambda r: r.hog, lambda r: 100 * r.utilisation)
        )
        if hog is None or busy is None:
            lines.append(f"{phase.title:<28}{'no rounds':>24}")
            continue
        latencies = f"{_spelled(p50):>24}{_spelled(p90):>24}{_spelled(p99):>24}"
        lines.append(
            f"{phase.title:<28}{latencies}{hog.median:>10.2f}{busy.median:>8.0f}{count:>4}"
        )
    return lines


def _p50(one: Round) -> float:
    return one.p50


def _p90(one: Round) -> float:
    return one.p90


def _p99(one: Round) -> float:
    return one.p99


def _spelled(found: Spread | None) -> str:
    return "-" if found is None else f"{found.median:.1f} ({found.low:.1f}-{found.high:.1f})"


def goal_line(goal: Goal) -> str:
    verdict = {True: "reached", False: "MISSED", None: "too few quiet rounds to say"}
    return f"{goal.what}: {goal.measured}: {verdict[goal.reached]}"


def report(rounds: list[Round]) -> list[str]:
    calm = quiet(rounds)
    lines = ["", "All rounds; medians, quartiles in brackets:", *table(rounds)]
    noisy = len(rounds) - len(calm)
    if noisy:
        lines += [
            "",
            f"{noisy} of {len(rounds)} were noisy (steal or foreign work over {NOISY:g} CPUs).",
        ]
        lines += ["Without them:", *table(calm)]
    else:
        lines += ["", "No round was noisy."]
    return [
        *lines,
        "",
        "Goals, over the quiet rounds:",
        *map(goal_line, (*goals(calm), *elastic_goals(calm))),
    ]


def describe(about: MachineSummary, cost: float, plan: Plan) -> str:
    return (
        f"{about.model or 'unknown CPU'}, {about.cpus} CPUs, Linux {about.kernel}, cgroup "
        f"{about.cgroup}; {plan.rounds} rounds of {plan.seconds:g} s; one request costs "
        f"{1000 * cost:.1f} ms of CPU; load {CALM.load:g} CPUs for {100 * CALM.share:.0f} % of the "
        f"time, then {BUSY.load:g}; threshold {THRESHOLD} %"
    )


def read_plan(arguments: Sequence[str]) -> Plan:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each row in each round")
    parser.add_argument("--json", default="", metavar="FILE", help="keep every round")
    parser.add_argument("--quick", action="store_true", help="2 rounds of 3 s")
    names = ",".join(phase.name for phase in COLOCATION)
    parser.add_argument("--only", default=names, metavar="ROW,...", help=f"of {names}")
    said = parser.parse_args(arguments)
    asked = said.only.split(",")
    if unknown := set(asked) - set(names.split(",")):
        parser.error(f"--only is {','.join(sorted(unknown))}, but must be of {names}")
    rows = tuple(phase for phase in COLOCATION if phase.name in asked)
    if said.quick:
        return Plan(2, 3.0, said.json, rows)
    return Plan(said.rounds, said.seconds, said.json, rows)


def main() -> int:
    plan, roots = read_plan(sys.argv[1:]), Roots()
    try:
        mounts = find_cgroup_mounts(roots, os.environ)
        about = describe_machine(roots, mounts)
        with raise_on_termination(), open_environment(mounts, roots, about.cpus) as environment:
            print(describe(about, environment.cost, plan))
            print(
                "round row         p50 ms   p90 ms   p99 ms    hog node%  steal foreign", flush=True
            )
            rounds = run(environment, plan, about.cpus)
    except (CannotBuildTreeError, MeasurementError) as error:
        print(f"colocation: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    for line in report(rounds):
        print(line)
    if plan.json:
        with open(plan.json, "wb") as file:
            file.write(msgspec.json.encode(rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
