"""How fast and how precisely a waterline is kept: from an onset above it to the throttle and back.

Run as root: `.venv/bin/python benchmarks/avoidance.py [--quick]`. It makes real cgroups: a
Burstable batch pod of low priority with busy loops for half of the CPUs, a Burstable service whose
loops, for the other half, wait for a signal, and the agent as a user starts it, with the seed's
NodeQOS and throttle action about cpu_total_usage. The service's loops start at twenty different
phases of the agent's period; a process of its own notes the batch container's quota every 5 ms.
An onset during which the machine's other work used more than `--noise` is repeated once, and the
one with less noise is kept, and said. `--own` is for a machine that is never quiet (cgroup v1): the
benchmark's groups go first, and the agent, in a mount namespace of its own, sees their usage as the
node's; batch is not demoted then, as that would also mean behind all other work. Exit code 0:
measured, also where a bar was missed; 1: could not measure.
"""

import argparse
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

from benchmarks._avoidance import BAND, Avoidance, avoidance, steps_time
from benchmarks._running import CannotMeasureError, RunningAgent, make_tiers, new_bed, quota
from benchmarks._sampler import sampling
from benchmarks._series import Sample
from benchmarks.cgroup_reads import Row, describe, mounts_here
from slackwater.model.cgroup import CgroupController, CgroupVersion
from slackwater.model.gap import Gap
from slackwater.model.weight import LARGEST_SHARES
from tests.kernel.bed import Bed

CPUS = os.cpu_count() or 1
HALF = max(CPUS // 2, 1)
AVOIDANCE_THRESHOLD = RESTORE_THRESHOLD = 2
#: In percent of the node.
WATERLINE = 75
TRIES = 2
#: crane-agent on such a machine, first throttle after the onset.
KNOWN = "20.2 s where it throttled at all"
_SERVICE = "5e41ce00-0000-4000-8000-000000000001", "5e" * 32
_BATCH = "ba7c4000-0000-4000-8000-000000000002", "ba" * 32
_POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: default, uid: {uid}, labels: {{app: {name}}}}}
spec:
  nodeName: here
  priority: {priority}
  containers: [{{name: main, resources: {{requests: {{cpu: {request}m}}}}}}]
status:
  phase: Running
  qosClass: Burstable
  containerStatuses: [{{name: main, containerID: "containerd://{container}"}}]
"""
_OBJECTS = """\
apiVersion: v1
kind: Node
metadata: {{name: here}}
status: {{allocatable: {{cpu: "{cpus}"}}}}
---
apiVersion: slackwater.io/v1
kind: AgentSettings
spec: {{watermarkRelief: {{longestFactor: 1, demote: {demote}}}}}
---
apiVersion: ensurance.crane.io/v1alpha1
kind: AvoidanceAction
metadata: {{name: throttle}}
spec:
  coolDownSeconds: {cool_down}
  throttle: {{cpuThrottle: {{minCPURatio: 10, stepCPURatio: {step}}}}}
---
apiVersion: ensurance.crane.io/v1alpha1
kind: NodeQOSEnsurancePolicy
metadata: {{name: waterline}}
spec:
  nodeQualityProbe: {{timeoutSeconds: 10, nodeLocalGet: {{localCacheTTLSeconds: 60}}}}
  objectiveEnsurances:
  - name: cpu-usage
    avoidanceThreshold: {avoidance}
    restoreThreshold: {restore}
    actionName: throttle
    strategy: None
    metricRule: {{name: cpu_total_usage, value: {waterline}}}
"""


class Plan(msgspec.Struct, frozen=True):
    """What is run. Times in seconds."""

    rounds: int
    period: float
    cool_down: int
    watched: float
    noise: float
    #: stepCPURatio, in percent.
    step: int = 10
    #: Whether the benchmark's own groups are all that the agent sees of the node's usage.
    own: bool = False

    def waterline(self) -> float:
        """In milliCPU."""
        return CPUS * 10.0 * WATERLINE

    def longest_restore(self) -> float:
        """After which a restore is given up."""
        steps = steps_time(10, 100, self.step, self.period)
        return self.cool_down + RESTORE_THRESHOLD * self.period + steps + 5


class Onset(msgspec.Struct, frozen=True):
    """Microseconds, and what other work used meanwhile, in milliCPU."""

    start: int
    end: int
    watched: int
    noise: float


def write_objects(folder: str, plan: Plan) -> None:
    os.makedirs(folder)
    pods = {"service": (_SERVICE, 1000, 100), "batch": (_BATCH, -10, 50)}
    for name, ((uid, container), priority, request) in pods.items():
        with open(f"{folder}/{name}.yaml", "w") as file:
            file.write(
                _POD.format(
                    name=name, uid=uid, container=container, priority=priority, request=request
                )
            )
    with open(f"{folder}/objects.yaml", "w") as file:
        file.write(
            _OBJECTS.format(
                cpus=CPUS, cool_down=plan.cool_down, step=plan.step, avoidance=AVOIDANCE_THRESHOLD,
                restore=RESTORE_THRESHOLD, waterline=round(plan.waterline()),
                demote="false" if plan.own else "true",
            )
        )  # fmt: skip


def run(bed: Bed, plan: Plan, folder: str) -> list[tuple[Onset, Avoidance]]:
    make_tiers(bed, CPUS)
    service, batch = (
        bed.make(f"{bed.kubepods}/burstable/pod{uid}/{container}")
        for uid, container in (_SERVICE, _BATCH)
    )
    write_objects(f"{folder}/node", plan)
    bed.burn(batch, HALF)
    loops = bed.burn(service, HALF)
    _signal(loops, signal.SIGSTOP)
    arguments = ["--period", f"{round(plan.period * 1000)}ms", "--listen", ""]
    before: tuple[str, ...] = ()
    if plan.own:
        bed.write(bed.top, "cpu.shares", str(LARGEST_SHARES))
        before = _see_only(bed)
    with sampling(
        bed, batch, f"{folder}/samples", whole=bed.kubepods if plan.own else ""
    ) as sampler:
        agent = RunningAgent(bed, folder, ["--standalone", f"{folder}/node"], arguments, before)
        try:
            time.sleep(3 * plan.period)
            onsets = _onsets(bed, plan, loops, batch)
            agent.check()
        finally:
            agent.end()
        samples = sampler.samples()
    return [(one, _judge(samples, one, plan)) for one in onsets]


def _see_only(bed: Bed) -> tuple[str, ...]:
    """The command in front of the agent's: there the tree's usage stands in for the node's."""
    files = (
        f"{bed.directory(path, CgroupController.CPUACCT)}/cpuacct.usage"
        for path in (bed.kubepods, "")
    )
    script = 'mount --bind "$0" "$1" && shift && exec "$@"'
    return ("unshare", "--mount", "sh", "-c", script, *files)


def _judge(samples: Sequence[Sample], one: Onset, plan: Plan) -> Avoidance:
    return avoidance(samples, one.start, one.end, one.watched, plan.waterline())


def _onsets(bed: Bed, plan: Plan, loops: list[int], batch: str) -> list[Onset]:
    """At phases spread over the period; of several tries the least noisy one."""
    found = []
    for number in random.sample(range(plan.rounds), plan.rounds):
        tries: list[Onset] = []
        while not tries or (len(tries) < TRIES and tries[-1].noise > plan.noise):
            phase = (number + random.random()) / plan.rounds  # noqa: S311
            tries.append(_onset(bed, plan, loops, batch, phase))
        found.append(min(tries, key=lambda each: each.noise))
        noise = found[-1].noise
        print(f"onset {len(found)} of {plan.rounds}: other work used {noise:.0f}m", flush=True)
    return found


def _onset(bed: Bed, plan: Plan, loops: list[int], batch: str, phase: float) -> Onset:
    """One onset at this phase of the period, until batch is restored. The agent keeps to its period
    on the same clock, so phases of the clock are phases of its rounds."""
    time.sleep((phase * plan.period - time.monotonic()) % plan.period)
    start, before = _now(), _other_work(bed)
    _signal(loops, signal.SIGCONT)
    try:
        time.sleep(plan.watched)
    finally:
        _signal(loops, signal.SIGSTOP)
    end = _now()
    noise = 0.0 if plan.own else 1000 * (_other_work(bed) - before) / (end - start)
    deadline = time.monotonic() + plan.longest_restore()
    while quota(bed, batch) is not None and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(2 * plan.period)
    return Onset(start, end, _now(), noise)


def _now() -> int:
    return time.monotonic_ns() // 1000


def _other_work(bed: Bed) -> int:
    """CPU time used outside of our tree, as far as the agent counts it, in microseconds."""
    if bed.version is CgroupVersion.V2:
        return 0
    everything = bed.read("", "cpuacct.usage", CgroupController.CPUACCT)
    return int(everything) // 1000 - bed.usage(bed.kubepods)


def _signal(pids: list[int], number: int) -> None:
    for pid in pids:
        os.kill(pid, number)


def rows(found: Sequence[Avoidance], plan: Plan) -> list[Row]:
    first = [one.first_throttle for one in found if one.first_throttle is not None]
    if not first:
        raise CannotMeasureError("no onset was throttled")
    late = [one.restored - _expected(one, plan) for one in found if one.restored is not None]
    away = [100 * abs(one.ended / plan.waterline() - 1) for one in found]
    return [
        Row("first throttle after the onset, median", statistics.median(first), "s", 2.5),
        Row("first throttle after the onset, worst", max(first), "s"),
        Row("onsets without a throttle", len(found) - len(first), "of them", 0.0),
        Row("usage at the end away from the waterline, median", statistics.median(away), "%",
            100 * BAND),
        Row("usage at the end away from the waterline, worst", max(away), "%", 100 * BAND),
        Row("swings of the quota, most in one onset", max(one.swings for one in found), "", 0.0),
        Row("onsets whose throttle was not restored", len(found) - len(late), "of them", 0.0),
        Row("restored later than cool-down and steps take, median",
            statistics.median(late) if late else float("inf"), "s", 2 * plan.period),
    ]  # fmt: skip


def _expected(one: Avoidance, plan: Plan) -> float:
    """Seconds from the load's end: the counts, the cool-down and the steps."""
    first = one.path[0] * 100 // (100 - plan.step) if one.path else 0
    counts = RESTORE_THRESHOLD * plan.period
    return max(plan.cool_down, counts) + steps_time(one.lowest, first, plan.step, plan.period)


def onset_line(number: int, noise: float, one: Avoidance) -> str:
    throttled, restored = (
        "   -" if each is None else f"{each:.2f}" for each in (one.first_throttle, one.restored)
    )
    path = " ".join(map(str, one.path[:14]))
    return (
        f"{number:>5} {throttled:>9} {one.ended:>8.0f} {one.swings:>7} {restored:>9} "
        f"{noise:>7.0f}  {path}"
    )


def read_plan() -> Plan:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--period", type=float, default=1.0, help="the agent's, in seconds")
    parser.add_argument("--cool-down", type=int, default=5, help="of the action, in seconds")
    parser.add_argument("--watched", type=float, default=15.0, help="how long a load is there")
    parser.add_argument("--step", type=int, default=10, help="stepCPURatio")
    parser.add_argument("--noise", type=float, default=100.0, help="milliCPU of other work")
    parser.add_argument("--own", action="store_true", help="without the machine's other work")
    parser.add_argument("--quick", action="store_true", help="3 onsets")
    said = parser.parse_args()
    rounds = 3 if said.quick else said.rounds
    return Plan(rounds, said.period, said.cool_down, said.watched, said.noise, said.step, said.own)


def main() -> int:
    plan, mounts = read_plan(), mounts_here()
    cpu = mounts.identity()
    version = CgroupVersion.V1 if isinstance(cpu, Gap) else cpu.version
    print(describe(mounts))
    print(
        f"{plan.rounds} onsets of {HALF} busy loops beside {HALF} of batch, waterline "
        f"{plan.waterline():.0f}m, period {plan.period:g} s, cool-down {plan.cool_down} s, step "
        f"{plan.step} %"
        f"{', without the other work of the machine' if plan.own else ''}",
        flush=True,
    )
    try:
        with new_bed(version, "avoidance") as bed, tempfile.TemporaryDirectory() as folder:
            found = run(bed, plan, folder)
        lines = rows([one for _, one in found], plan)
    except CannotMeasureError as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 1
    print("onset  throttle    ended  swings  restored   noise  quota in milliCPU")
    for number, (onset, one) in enumerate(found, 1):
        print(onset_line(number, onset.noise, one))
    for row in lines:
        print(row.line())
    print(f"known: crane-agent, first throttle: {KNOWN}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
