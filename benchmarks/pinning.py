"""CPU sets: how soon a change reaches running threads, how long a CPU is shared that a container
holds alone, and what the placement of a full machine costs.

Run as root: `.venv/bin/python benchmarks/pinning.py [--quick]`. It makes real cgroups with resting
processes and starts the agent as a user does, with a period of 1 s. A pod's annotation is changed
at random phases of the period: the time is from the change of the object to what the kernel says
the threads may use, of the pod itself and of everybody else. Then pods come and go for a minute
while a container holds CPUs alone, and every 10 ms all processes are looked at. A new container is
on all CPUs of its parent until the next tick, so about a period is what can be had. At last the
agent's own cost on a full node. It takes about three minutes. Exit code 0: measured, also where a
bar was missed; 1: could not measure.
"""

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count, cycle, islice

import msgspec

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from benchmarks._pinned import (
    PinnedFolder,
    SharedTimes,
    allowed,
    alone_among,
    every_cpu,
)
from benchmarks._running import CannotMeasureError, RunningAgent, make_tiers, new_bed
from benchmarks.cgroup_reads import Row, describe, mounts_here
from slackwater.model.cgroup import CgroupReading, CgroupRef, CgroupVersion, Level
from slackwater.model.cpus import Cpu, CpuPolicy, CpuSet, KubeletCpus, Topology
from slackwater.model.decision import Because, CpuClaim
from slackwater.model.gap import Gap
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Micros, MilliCpu
from slackwater.resolution.placement import Placer

CPUS = os.cpu_count() or 1
PERIOD = 1.0
#: In milliseconds: a live change at a 1 s tick.
REACHED_WITHIN = 1200.0
#: The same: a period, and what its tick takes until it writes.
SHARED_WITHIN = 1200.0
LOOK_EVERY = 0.01
PATIENCE = 60.0
#: The pod that holds CPUs alone, and those that are always there beside it.
ALONE, NEIGHBOURS = 1, {2: "/burstable", 3: "/besteffort"}
_FIRST_GUEST, _FIRST_OF_CROWD = 10, 5000
#: Pods; and of the agent, thousandths of a CPU and MiB.
CROWD, _MOST_CPU, _MOST_MEMORY = 250, 10.0, 40.0
_SETTLING = 5.0
_NONE, _SHARE, _EXCLUSIVE = CpuPolicy.NONE, CpuPolicy.SHARE, CpuPolicy.EXCLUSIVE
#: After an exclusive one, again and again: every direction once.
CHANGES = (_NONE, _SHARE, _EXCLUSIVE, _SHARE, _NONE, _EXCLUSIVE)
#: Two sockets of 64 cores of two threads, eight cores to a last-level cache.
_SOCKETS, _CORES, _CORES_OF_A_CACHE = 2, 64, 8
PLACED, PLACED_WITHIN = 250, 5.0
#: In microseconds: nothing is placed. Most of it is the new snapshot.
UNCHANGED_WITHIN, _UNCHANGED_TICKS = 50.0, 2000
_ASKED = Because("annotation", "exclusive", "1 CPU by its limit")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of it")
    quick = parser.parse_args().quick
    mounts = mounts_here()
    cpu = mounts.identity()
    if isinstance(cpu, Gap):
        raise SystemExit(f"no cgroups to measure: {cpu.reason}")
    print(describe(mounts))
    try:
        with new_bed(cpu.version, "pinning") as bed, tempfile.TemporaryDirectory() as folder:
            make_tiers(bed, CPUS)
            objects = PinnedFolder(bed, folder)
            place = ["--standalone", str(objects.objects)]
            config = ["--kubelet-config", str(objects.kubelet_config)]
            agent = RunningAgent(bed, folder, place, ["--period", f"{PERIOD:g}s", *config])
            try:
                rows = _measure(objects, agent, 6 if quick else 60, 6.0 if quick else 60.0)
                rows += _crowd(objects, agent, 6.0 if quick else 20.0)
            finally:
                agent.end()
    except CannotMeasureError as error:
        print(f"could not measure: {error}", file=sys.stderr)
        return 1
    for row in (*rows, *_placement()):
        print(row.line())
    return 0


def _measure(objects: PinnedFolder, agent: RunningAgent, changes: int, seconds: float) -> list[Row]:
    objects.start(ALONE, "", max(1, CPUS // 4))
    for number, tier in NEIGHBOURS.items():
        objects.start(number, tier)
    _change(objects, agent, CpuPolicy.EXCLUSIVE)  # once not counted: the agent is starting
    reached = [_change(objects, agent, policy) for policy in islice(cycle(CHANGES), changes)]
    agent.check()
    shared = _come_and_go(objects, agent, seconds)
    agent.check()
    durations = shared.durations()
    gaps = [after - one for one, after in zip(shared.looks, shared.looks[1:], strict=False)]
    return [
        Row(f"a live change, median of {changes}", _milli(statistics.median(reached)), "ms"),
        Row("a live change, worst", _milli(max(reached)), "ms", REACHED_WITHIN),
        Row(
            f"a held CPU is shared, worst of {len(durations)}",
            _milli(max(durations)),
            "ms",
            SHARED_WITHIN,
        ),
        Row("a held CPU is shared, median", _milli(statistics.median(durations)), "ms"),
        Row("between two looks, median", _milli(statistics.median(gaps)), "ms"),
        Row("between two looks, worst", _milli(max(gaps)), "ms"),
    ]


def _crowd(objects: PinnedFolder, agent: RunningAgent, seconds: float) -> list[Row]:
    """What the agent costs on a full node while a container holds CPUs alone: then it looks at the
    set of every group in every tick."""
    objects.fill(range(_FIRST_OF_CROWD, _FIRST_OF_CROWD + CROWD), "/burstable")
    time.sleep(_SETTLING)
    before, began = agent.cpu(), time.monotonic()
    time.sleep(seconds)
    agent.check()
    used = (agent.cpu() - before) / (time.monotonic() - began) / 1000
    return [
        Row(f"the agent beside {CROWD} more pods: CPU", used, "m", _MOST_CPU),
        Row(f"the agent beside {CROWD} more pods: RSS", agent.memory()[0], "MiB", _MOST_MEMORY),
    ]


def _milli(seconds: float) -> float:
    return seconds * 1000


def _placement() -> Iterator[Row]:
    """All containers of a full machine at once, as after a restart: claims to sets; then a tick in
    which only the clock and counters differ."""
    snapshot = full_machine()
    claims = tuple(
        CpuClaim(reading.ref, f"pod-{n}", "main", 1, CpuPolicy.EXCLUSIVE, _ASKED, "core_pinning", n)
        for n, reading in enumerate(snapshot.readings.values())
        if reading.ref.level is Level.CONTAINER
    )
    took = []
    for _ in range(20):
        begin = time.process_time()
        found = Placer().place(snapshot, (claims,), 0)
        took.append((time.process_time() - begin) * 1000)
        placed = 0 if found.placement is None else len(found.placement.claims)
        assert placed == PLACED, placed
    what = f"placement of {PLACED} containers on {_SOCKETS * _CORES * 2} CPUs, median"
    yield Row(what, statistics.median(took), "ms", PLACED_WITHIN)
    placer, groups = Placer(), (claims,)
    first = placer.place(snapshot, groups, 0)
    began = time.process_time()
    for number in range(_UNCHANGED_TICKS):
        later = msgspec.structs.replace(snapshot, tick=number, at=Micros(number))
        assert placer.place(later, groups, 0) is first
    each = (time.process_time() - began) / _UNCHANGED_TICKS
    yield Row("the same in a tick without a change, mean", each * 1_000_000, "us", UNCHANGED_WITHIN)


def full_machine() -> NodeSnapshot:
    """A pod with one container for each claim, on cgroup v2."""
    numbers = count(1)
    kubepods = CgroupRef("kubepods", next(numbers), Level.NODE)
    refs = [kubepods]
    for number in range(PLACED):
        path, owner = f"kubepods/pod{number}", str(number)
        refs += [
            CgroupRef(path, next(numbers), Level.POD, owner=owner),
            CgroupRef(f"{path}/main", next(numbers), Level.CONTAINER, owner=owner),
        ]
    cpus = tuple(
        Cpu(n, core, core // _CORES, core // _CORES, core - core % _CORES_OF_A_CACHE)
        for n in range(_SOCKETS * _CORES * 2)
        for core in (n % (_SOCKETS * _CORES),)
    )
    at = Micros(0)
    return NodeSnapshot(
        1, at, at, MilliCpu(len(cpus) * 1000), MilliCpu(0), kubepods, {},
        readings={ref.id: CgroupReading(ref, at, cpus=CpuSet()) for ref in refs},
        version=CgroupVersion.V2,
        topology=Topology(cpus),
        reserved_cpus=CpuSet.of((0,)),
        kubelet_cpus=KubeletCpus("none"),
    )  # fmt: skip


def _change(objects: PinnedFolder, agent: RunningAgent, policy: CpuPolicy) -> float:
    """Seconds until all processes are where this policy has them."""
    time.sleep(random.random() * PERIOD)  # noqa: S311
    at = objects.ask(ALONE, policy)
    _until(lambda: _is_so(objects, policy), agent)
    return time.monotonic() - at


def _is_so(objects: PinnedFolder, policy: CpuPolicy) -> bool:
    every = every_cpu()
    own = allowed(objects.pods[ALONE].process)
    others = [allowed(pod.process) for pod in objects.pods.values() if pod.number != ALONE]
    if own is None or policy is CpuPolicy.NONE:
        return own == every and set(others) == {every}
    if len(own) != objects.pods[ALONE].count or 0 in own:
        return False
    rest = every if policy is CpuPolicy.SHARE else every - own
    return set(others) == {rest}


def _until(is_so: Callable[[], bool], agent: RunningAgent) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        agent.check()
        if time.monotonic() > deadline:
            raise CannotMeasureError(f"nothing happened in {PATIENCE:g} s")
        time.sleep(0.002)


def _come_and_go(objects: PinnedFolder, agent: RunningAgent, seconds: float) -> SharedTimes:
    """Pods start and end at random times, in every tier; the holder stays."""
    shared, chance = SharedTimes(), random.Random(15)  # noqa: S311
    objects.ask(ALONE, CpuPolicy.EXCLUSIVE)
    _until(lambda: _is_so(objects, CpuPolicy.EXCLUSIVE), agent)
    end, number, due = time.monotonic() + seconds, _FIRST_GUEST, 0.0
    while (now := time.monotonic()) < end:
        if now >= due:
            number = _move(objects, chance, number)
            due = now + chance.uniform(0.05, 0.6)
        seen: dict[int, CpuSet] = {}
        for pod in objects.pods.values():
            cpus = allowed(pod.process)
            if cpus is not None:
                seen[pod.process] = cpus
        alone = alone_among(objects.pods.values(), seen, frozenset({ALONE}))
        shared.look(time.monotonic(), alone, seen)
        time.sleep(LOOK_EVERY)
    return shared


def _move(objects: PinnedFolder, chance: random.Random, number: int) -> int:
    """One pod more or one less; the next number."""
    guests = [each for each in objects.pods if each >= _FIRST_GUEST]
    if len(guests) > 12 or (guests and chance.random() < 0.4):
        objects.stop(chance.choice(guests))
        return number
    objects.start(number, chance.choice(("", "/burstable", "/besteffort")))
    return number + 1


if __name__ == "__main__":
    sys.exit(main())
