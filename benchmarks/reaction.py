"""How fast best-effort work gives way: from a load's onset to the first cut, and to the formula.

Run as root: `.venv/bin/python benchmarks/reaction.py [--quick] [--psi]`. It makes real cgroups:
a best-effort tier full of busy loops, a burstable one whose loops wait for a signal, and the
agent as a user starts it. The loops start at twenty different phases of the agent's period; a
process of its own notes the tier's quota every 5 ms. `--psi`: twice as many loops as CPUs, so that
protected work waits and the kernel's pressure wakes the agent (cgroup v2). First it measures how
much of its budget the tier gets where nothing else runs, last how soon the tier has its CPU back
when a load that left it nothing ends. An onset or end during which the machine's other work used
more than `--noise` is repeated. Exit code 0: measured, also where a bar was missed; 1: could not
measure.
"""

import argparse
import itertools
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence

import msgspec

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from benchmarks._pods import write_folder
from benchmarks._running import (
    CannotMeasureError,
    RunningAgent,
    free_address,
    make_tiers,
    new_bed,
    quota,
)
from benchmarks._sampler import sampling, usage_files, usage_in
from benchmarks._series import (
    RECOVERED,
    Reaction,
    Recovery,
    Sample,
    between,
    others,
    quota_changes,
    reaction,
    recovery,
    shares_of_budget,
)
from benchmarks.cgroup_reads import Row, describe, mounts_here
from slackwater.model.cgroup import CgroupController, CgroupVersion
from slackwater.model.gap import Gap
from tests.kernel.bed import Bed

CPUS = os.cpu_count() or 1
#: A budget is measured over so long; one CFS period more or less is 2 % of it.
BUDGET_WINDOW = 5_000_000
#: A load's end is watched for so many seconds, and the tier should be back within so many.
END_WATCHED, BACK_WITHIN = 25.0, 20.0
#: How often one onset is repeated on a machine with other work.
TRIES = 4
#: First cut in seconds after the onset, median and worst, as measured on such a machine.
KNOWN = {
    "koordlet": "0.85 s median, 0.4 to 1.3; then it swings for 3 s",
    "Volcano's agent": "6.7 s, 2.4 to 13.4",
}


class Plan(msgspec.Struct, frozen=True):
    """What is run. Times in seconds; `load` is the number of busy loops of the onset."""

    rounds: int
    #: How many ends of a load that left nothing are watched.
    ends: int
    period: float
    load: int
    threshold: int
    recover: int
    watched: float
    alone: float
    psi: bool
    endpoint: bool
    #: What the machine's other work may use during an onset, in milliCPU.
    noise: float

    def allowed(self) -> float:
        return CPUS * 10.0 * self.threshold


class Found(msgspec.Struct, frozen=True):
    """What was measured."""

    rows: list[Row]
    reactions: list[Reaction]
    recoveries: list[Recovery]


def run(bed: Bed, plan: Plan, folder: str) -> Found:
    make_tiers(bed, CPUS)
    best_effort, burstable = f"{bed.kubepods}/besteffort", f"{bed.kubepods}/burstable"
    if plan.psi and not os.path.exists(f"{bed.directory(burstable)}/cpu.pressure"):
        raise CannotMeasureError("the groups have no PSI: it takes cgroup v2 and a kernel with it")
    write_folder(f"{folder}/node", [], CPUS, threshold=plan.threshold, recover=plan.recover)
    bed.burn(best_effort, CPUS)
    loops = bed.burn(burstable, plan.load)
    more = bed.burn(burstable, CPUS)
    _signal(loops + more, signal.SIGSTOP)
    arguments = ["--period", f"{round(plan.period * 1000)}ms"]
    arguments += ["--listen", free_address()] if plan.endpoint else []
    with sampling(bed, best_effort, f"{folder}/samples") as sampler:
        agent = RunningAgent(bed, folder, ["--standalone", f"{folder}/node"], arguments)
        try:
            agent.wait_for_quota(best_effort)
            _recover(bed, plan, best_effort)
            alone = _watch(plan.alone)
            onsets = _onsets(bed, plan, loops)
            ends = _load_ends(bed, plan, loops + more)
            agent.check()
        finally:
            agent.end()
        samples = sampler.samples()
    gaps = [(after.at - one.at) / 1000 for one, after in itertools.pairwise(samples)]
    rows = [Row("between two looks at the quota, median", statistics.median(gaps), "ms")]
    rows += budget_rows(between(samples, *alone), plan)
    allowed = plan.allowed()
    return Found(
        rows,
        [reaction(samples, *each, allowed) for each in onsets],
        [recovery(samples, *each, allowed) for each in ends],
    )


def _onsets(bed: Bed, plan: Plan, loops: list[int]) -> list[tuple[int, int]]:
    """When each onset was and how long it was watched, at phases spread over the period."""
    found = []
    for number in random.sample(range(plan.rounds), plan.rounds):
        for _ in range(TRIES):
            phase = (number + random.random()) / plan.rounds  # noqa: S311
            watched, noise = _round(bed, plan, loops, phase)
            if noise <= plan.noise:
                found.append(watched)
                break
            print(f"an onset is repeated: other work used {noise:.0f}m", flush=True)
    if not found:
        raise CannotMeasureError(f"other work used over {plan.noise:g}m during every onset")
    return found


def _round(bed: Bed, plan: Plan, loops: list[int], phase: float) -> tuple[tuple[int, int], float]:
    """One onset at this phase of the period, and what other work used meanwhile. The agent keeps
    to its period on the same clock, so phases of the clock are phases of its rounds."""
    _recover(bed, plan, f"{bed.kubepods}/besteffort")
    time.sleep((phase * plan.period - time.monotonic()) % plan.period)
    before = _other_work(bed)
    _signal(loops, signal.SIGCONT)
    try:
        start, end = _watch(plan.watched)
        return (start, end), 1000 * (_other_work(bed) - before) / (end - start)
    finally:
        _signal(loops, signal.SIGSTOP)


def _load_ends(bed: Bed, plan: Plan, loops: list[int]) -> list[tuple[int, int]]:
    """When each load that left nothing ended, and until when that was watched."""
    found: list[tuple[int, int]] = []
    for _ in range(plan.ends * TRIES):
        if len(found) == plan.ends:
            break
        _recover(bed, plan, f"{bed.kubepods}/besteffort")
        before, start = _other_work(bed), time.monotonic_ns() // 1000
        _signal(loops, signal.SIGCONT)
        try:
            time.sleep(plan.watched)
        finally:
            _signal(loops, signal.SIGSTOP)
        watched = _watch(END_WATCHED)
        noise = 1000 * (_other_work(bed) - before) / (watched[1] - start)
        if noise <= plan.noise:
            found.append(watched)
        else:
            print(f"a load's end is repeated: other work used {noise:.0f}m", flush=True)
    return found


def _other_work(bed: Bed) -> int:
    """CPU time used outside of our tree, as far as the agent counts it, in microseconds."""
    if bed.version is CgroupVersion.V2:
        return 0
    everything = bed.read("", "cpuacct.usage", CgroupController.CPUACCT)
    return int(everything) // 1000 - bed.usage(bed.kubepods)


def _watch(seconds: float) -> tuple[int, int]:
    """From now on, in microseconds."""
    start = time.monotonic_ns() // 1000
    time.sleep(seconds)
    return start, time.monotonic_ns() // 1000


def _recover(bed: Bed, plan: Plan, path: str) -> None:
    """Until the tier has nearly all that others leave; not for ever where others are restless."""
    everything, tier = usage_files(bed, path)
    for _ in range(30):
        before = _read_usages(everything, tier)
        start, end = _watch(1.0)
        after = _read_usages(everything, tier)
        used = others([Sample(start, 0, *before), Sample(end, 0, *after)])
        found = quota(bed, path)
        if found is not None and found >= RECOVERED * (plan.allowed() - used):
            return


def _read_usages(*files: str) -> tuple[int, ...]:
    found = []
    for name in files:
        with open(name, "rb") as file:
            found.append(usage_in(file.read()))
    return tuple(found)


def _signal(pids: list[int], number: int) -> None:
    for pid in pids:
        os.kill(pid, number)


def budget_rows(alone: Sequence[Sample], plan: Plan) -> list[Row]:
    overall, worst = shares_of_budget(alone, plan.allowed(), BUDGET_WINDOW)
    what = f"of its budget the tier leaves unused, nothing else runs, {plan.alone:g} s"
    return [
        Row(what, 100 * (1 - overall), "%", 5.0),
        Row("the same, worst five seconds", 100 * (1 - worst), "%", 5.0),
        Row("changes of its quota meanwhile", len(quota_changes(alone)) - 1, "writes"),
    ]


def reaction_rows(found: list[Reaction], plan: Plan) -> list[Row]:
    cuts = [one.first_cut for one in found if one.first_cut is not None]
    settled = [one.settled for one in found if one.settled is not None]
    if not cuts or not settled:
        raise CannotMeasureError("the quota was never cut: others use too much of this machine")
    median, worst = (0.3, None) if plan.psi else (0.85 * plan.period, 1.2 * plan.period)
    # An onset just after a tick is seen whole by the second one after it.
    ticks = 2 * plan.period + 0.2
    never = len(found) - len(settled)
    return [
        Row("first cut after the onset, median", statistics.median(cuts), "s", median),
        Row("first cut after the onset, worst", max(cuts), "s", worst),
        Row("within 5 % of the formula for good, median", statistics.median(settled), "s", ticks),
        Row("within 5 % of the formula for good, worst", max(settled), "s", ticks),
        Row("onsets without a cut", len(found) - len(cuts), "of them", 0.0),
        Row(f"onsets that did not settle in {plan.watched:g} s", never, "of them", 0.0),
        Row("swings after the first cut, most in one onset", max(o.swings for o in found), "", 0.0),
    ]


def recovery_rows(found: list[Recovery], plan: Plan) -> list[Row]:
    back = [one.recovered for one in found if one.recovered is not None]
    never = plan.ends - len(back)
    rows = [Row(f"loads' ends without 90 % of the budget in {END_WATCHED:g} s", never, "", 0.0)]
    if back:
        what = "90 % of the budget for good after the load's end"
        rows.append(Row(f"{what}, median", statistics.median(back), "s", BACK_WITHIN))
        rows.append(Row(f"{what}, worst", max(back), "s", BACK_WITHIN))
    swung = max((one.swings for one in found), default=0)
    return [*rows, Row("swings on the way back, most after one end", swung, "", 0.0)]


def recovery_line(number: int, one: Recovery) -> str:
    back = "   -" if one.recovered is None else f"{one.recovered:.3f}"
    path = " ".join(map(str, one.path[:24]))
    return f"{number:>5} {back:>9} {one.swings:>7} {one.formula:>8.0f}  {one.before} -> {path}"


def round_line(number: int, one: Reaction) -> str:
    cut, settled = (
        "   -" if each is None else f"{each:.3f}" for each in (one.first_cut, one.settled)
    )
    path = " ".join(map(str, one.path[:12]))
    return (
        f"{number:>5} {cut:>9} {settled:>9} {one.swings:>7} {one.formula:>8.0f}  "
        f"{one.before} -> {path}"
    )


def read_plan() -> Plan:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--ends", type=int, default=5, help="of a load that left nothing")
    parser.add_argument("--period", type=float, default=1.0, help="the agent's, in seconds")
    parser.add_argument("--threshold", type=int, default=80, help="of the share's settings")
    parser.add_argument("--recover", type=int, default=10, help="the same; it concerns no cut")
    parser.add_argument("--psi", action="store_true", help="protected work waits, and wakes it")
    parser.add_argument("--noise", type=float, default=100.0, help="milliCPU of other work")
    parser.add_argument("--no-endpoint", action="store_true", help="the agent serves nothing")
    parser.add_argument("--quick", action="store_true", help="5 rounds, fast recovery")
    said = parser.parse_args()
    return Plan(
        rounds=5 if said.quick else said.rounds,
        ends=2 if said.quick else said.ends,
        period=said.period,
        load=2 * CPUS if said.psi else max(CPUS // 2, 1),
        threshold=said.threshold,
        recover=100 if said.quick else said.recover,
        watched=5 * said.period,
        alone=10.0 if said.quick else 30.0,
        psi=said.psi,
        endpoint=not said.no_endpoint,
        noise=said.noise,
    )


def main() -> int:
    plan = read_plan()
    mounts = mounts_here()
    cpu = mounts.identity()
    version = CgroupVersion.V1 if isinstance(cpu, Gap) else cpu.version
    print(describe(mounts))
    print(
        f"{plan.rounds} onsets of {plan.load} busy loops, period {plan.period:g} s, "
        f"{plan.allowed():.0f}m allowed, recover {plan.recover} %",
        flush=True,
    )
    try:
        with new_bed(version, "reaction") as bed, tempfile.TemporaryDirectory() as folder:
            found = run(bed, plan, folder)
        rows = found.rows + reaction_rows(found.reactions, plan)
        rows += recovery_rows(found.recoveries, plan)
    except CannotMeasureError as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 1
    print("onset first cut   settled  swings  formula  quota in milliCPU")
    for number, one in enumerate(found.reactions, 1):
        print(round_line(number, one))
    print("  end      back  swings  formula  quota in milliCPU")
    for number, end in enumerate(found.recoveries, 1):
        print(recovery_line(number, end))
    for row in rows:
        print(row.line())
    for name, measured in KNOWN.items():
        print(f"known: first cut of {name}: {measured}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
