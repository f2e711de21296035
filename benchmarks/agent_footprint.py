"""What the agent costs on a full node: CPU, memory, descriptors and system calls at each tick.

Run as root: `.venv/bin/python benchmarks/agent_footprint.py [--quick]`. It makes real cgroups for
pods of two containers, with a YAML file for each pod, runs the agent as a user would, scrapes it
as Prometheus would, and removes everything. Four duties: `needed`, what best-effort throttling
needs (tiers); `everything`, every container as well; `policies`, every policy on and nothing but
best-effort pods that ask something of each of them; and `rules`, the same and rules of a NodeQOS.
With --cluster the objects are those of a real API server instead of files, and the agent reports to
it. CPU is that of the agent's own cgroup, from five seconds after its first decision on. Exit code
0: measured, also where a bar was missed; 1: could not measure.
"""

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from benchmarks._pods import POLICIES, BatchPod, BenchPod, write_folder, write_rules
from benchmarks._running import (
    CannotMeasureError,
    RunningAgent,
    free_address,
    make_tiers,
    new_bed,
)
from benchmarks.cgroup_reads import Row, describe, mounts_here
from slackwater.model.cgroup import CgroupVersion
from slackwater.model.gap import Gap
from tests.kernel.bed import Bed

if TYPE_CHECKING:
    from benchmarks._cluster import BenchCluster

#: The bars are for this many pods: what the known agents were measured with.
MEASURED_PODS = 250
#: milliCPU and MiB, by duty.
BARS = {
    "needed": (2.0, 32.0),
    "everything": (8.0, 40.0),
    "policies": (10.0, 40.0),
    "rules": (10.0, 40.0),
}
#: On a node of this many pods CPU may be this many times as much.
LARGE_PODS, LARGE_FACTOR = 1000, 4
POLICIES_DUTY, RULES_DUTY = "policies", "rules"
#: Those of which every pod is a batch pod.
BATCH_DUTIES = (POLICIES_DUTY, RULES_DUTY)
#: With TLS, informers and a writer: issue 6.
CLUSTER_BARS = dict.fromkeys(BARS, (10.0, 40.0))
#: milliCPU and MiB of known agents with 250 real pods on such a machine, and what each did.
KNOWN = {
    "needed": {"Volcano's agent (tiers, every 10 s)": (1.6, 56.0)},
    "everything": {
        "koordlet (every container, 1 s)": (280.0, 113.0),
        "crane-agent": (240.0, 137.0),
    },
}
SETTLING = 5.0
SCRAPE_EVERY = 15.0
#: A cost is linear if the largest node costs at most so much more than a line through the others.
LINEAR = 1.25


class Options(msgspec.Struct, frozen=True):
    seconds: float
    traced: float
    endpoint: bool
    busy: int
    #: A folder for what each agent's time went into; profiling itself makes it dearer.
    profiles: str = ""


class Footprint(msgspec.Struct, frozen=True):
    """One agent's. `start` is CPU time until the window, in seconds; `calls` are at each tick."""

    pods: int
    duty: str
    milli: float
    rss: float
    anonymous: float
    descriptors: int
    start: float
    told: int
    scrape: float | None
    calls: dict[str, float] | None

    def line(self) -> str:
        calls = "-" if self.calls is None else f"{sum(self.calls.values()):.0f}"
        scrape = "-" if self.scrape is None else f"{self.scrape:.1f}"
        return (
            f"{self.pods:>5} {self.duty:<11}{self.milli:>8.2f}{self.rss:>8.1f}"
            f"{self.anonymous:>7.1f}{self.descriptors:>7}{calls:>9}{scrape:>8}"
            f"{self.start:>8.2f}{self.told:>6}"
        )


HEAD = " pods duty         mCPU  RSS MiB   anon    fds  calls/t  scrape   start  told"
LEGEND = "scrape: CPU ms of one; start: CPU s until measured; told: lines of JSON while measured"


def measure(
    bed: Bed, pods: int, duty: str, options: Options, cluster: "BenchCluster | None"
) -> Footprint:
    with tempfile.TemporaryDirectory() as folder:
        address = free_address()
        listening = ["--listen", address] if options.endpoint else []
        objects = cluster.arguments() if cluster else _folder(f"{folder}/node", pods, duty)
        reading = "needed" if duty in BATCH_DUTIES else duty
        profile = f"{options.profiles}/{duty}-{pods}.pstats" if options.profiles else ""
        agent = RunningAgent(
            bed, folder, objects, ["--reading", reading, *listening], profile=profile
        )
        try:
            agent.wait_for_quota(f"{bed.kubepods}/besteffort")
            time.sleep(SETTLING)
            if profile:
                agent.start_profile()
            return _observe(agent, pods, duty, options, address)
        finally:
            agent.end()


def _folder(path: str, pods: int, duty: str) -> list[str]:
    cpus = os.cpu_count() or 1
    made = [_pod(number, duty) for number in range(pods)]
    if duty in BATCH_DUTIES:
        write_folder(path, made, cpus, POLICIES)
        if duty == RULES_DUTY:
            write_rules(path)
    else:
        write_folder(path, made, cpus)
    return ["--standalone", path]


def _pod(number: int, duty: str) -> BenchPod:
    return BatchPod(number) if duty in BATCH_DUTIES else BenchPod(number)


def _observe(
    agent: RunningAgent, pods: int, duty: str, options: Options, address: str
) -> Footprint:
    start, told, began = agent.cpu(), agent.lines(), time.monotonic()
    scrapes: list[float] = []
    sizes = [agent.memory()]
    scrape_at = began + SCRAPE_EVERY / 2
    while (left := began + options.seconds - time.monotonic()) > 0:
        time.sleep(min(left, max(scrape_at - time.monotonic(), 0)))
        if time.monotonic() >= scrape_at:
            scrape_at += SCRAPE_EVERY
            sizes.append(agent.memory())
            if options.endpoint:
                scrapes.append(agent.scrape(address))
    agent.check()
    sizes.append(agent.memory())
    spent, took = agent.cpu() - start, time.monotonic() - began
    told = agent.lines() - told
    descriptors = agent.descriptors()
    calls = agent.system_calls(options.traced)  # last: tracing slows it down
    return Footprint(
        pods,
        duty,
        spent / took / 1000,
        max(resident for resident, _ in sizes),
        max(anonymous for _, anonymous in sizes),
        descriptors,
        start / 1e6,
        told,
        statistics.median(scrapes) if scrapes else None,
        None if calls is None else {name: n / options.traced for name, n in calls.items()},
    )


def bars(found: list[Footprint], of: Mapping[str, tuple[float, float]] = BARS) -> list[Row]:
    rows = []
    for one in found:
        milli, rss = of[one.duty]
        if one.pods == LARGE_PODS:
            most = LARGE_FACTOR * milli
            rows.append(Row(f"CPU, {one.pods} pods, {one.duty} read", one.milli, "m", most))
        if one.pods != MEASURED_PODS:
            continue
        rows.append(Row(f"CPU, {one.pods} pods, {one.duty} read", one.milli, "m", milli))
        rows.append(Row(f"RSS, {one.pods} pods, {one.duty} read", one.rss, "MiB", rss))
        for name, (theirs, size) in KNOWN.get(one.duty, {}).items():
            rows.append(Row(f"CPU against {name}, {theirs:g} m", one.milli / theirs, "x"))
            rows.append(Row(f"RSS against {name}, {size:g} MiB", one.rss / size, "x"))
    return rows


def growth(found: list[Footprint], duty: str) -> list[Row]:
    """What 100 more pods cost, and whether the largest node is on the line of the others."""
    rows = []
    mine = sorted((one for one in found if one.duty == duty), key=lambda one: one.pods)
    for what, unit, points in (
        ("CPU", "m", [(one.pods, one.milli) for one in mine]),
        ("RSS", "MiB", [(one.pods, one.rss) for one in mine]),
    ):
        if len(points) < 2:
            continue
        slope = statistics.linear_regression(*zip(*points, strict=True)).slope
        rows.append(Row(f"{what} per 100 pods, {duty} read", 100 * slope, unit))
        if len(points) > 2:
            line = statistics.linear_regression(*zip(*points[:-1], strict=True))
            pods, cost = points[-1]
            ratio = cost / (line.intercept + line.slope * pods)
            what = f"{what} of {pods} pods against the line of the fewer, {duty} read"
            rows.append(Row(what, ratio, "x", LINEAR))
    return rows


def common_calls(one: Footprint) -> str:
    calls = sorted((one.calls or {}).items(), key=lambda item: -item[1])[:8]
    names = ", ".join(f"{name} {count:.1f}" for name, count in calls)
    return f"calls at each tick, {one.pods} pods, {one.duty} read: {names}"


def measure_all(
    bed: Bed,
    sizes: list[int],
    duties: list[str],
    options: Options,
    cluster: "BenchCluster | None" = None,
) -> list[Footprint]:
    """The tree grows from one size to the next: groups are made once."""
    make_tiers(bed, os.cpu_count() or 1)
    if options.busy:
        bed.burn(f"{bed.kubepods}/besteffort", options.busy)
    found: list[Footprint] = []
    made = 0
    for pods in sorted(sizes):
        for number in range(made, pods):
            pod = _pod(number, duties[0])
            groups = cluster.add(pod, bed.kubepods) if cluster else pod.paths(bed.kubepods)
            for path in groups:
                bed.make(path)
        made = pods
        for duty in duties:
            found.append(measure(bed, pods, duty, options, cluster))
            print(found[-1].line(), flush=True)
    return found


def _cluster(wanted: bool) -> contextlib.AbstractContextManager["BenchCluster | None"]:
    if not wanted:
        return contextlib.nullcontext()
    from benchmarks._cluster import new_cluster

    return new_cluster(os.cpu_count() or 1)


def _trees(duties: list[str]) -> list[list[str]]:
    """Duties that share a tree of pods."""
    mixed = [duty for duty in duties if duty not in BATCH_DUTIES]
    batch = [duty for duty in duties if duty in BATCH_DUTIES]
    return [each for each in (mixed, batch) if each]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="of each measurement")
    parser.add_argument("--pods", type=int, nargs="+", default=[50, 250, 500, 1000])
    parser.add_argument("--duty", choices=list(BARS), nargs="+", default=list(BARS))
    parser.add_argument("--busy", type=int, default=0, help="busy loops in the best-effort tier")
    parser.add_argument("--no-endpoint", action="store_true", help="not served, not scraped")
    parser.add_argument("--cluster", action="store_true", help="objects from a real API server")
    parser.add_argument("--profile", metavar="FOLDER", default="", help="cProfile's of each agent")
    parser.add_argument("--quick", action="store_true", help="12 s each, 50 and 250 pods")
    said = parser.parse_args()
    mounts = mounts_here()
    cpu = mounts.identity()
    version = CgroupVersion.V1 if isinstance(cpu, Gap) else cpu.version
    seconds, sizes = (12.0, [50, 250]) if said.quick else (said.seconds, said.pods)
    traced = 5.0 if said.quick else 10.0
    options = Options(seconds, traced, not said.no_endpoint, said.busy, said.profile)
    print(describe(mounts))
    print(HEAD, flush=True)
    try:
        found = []
        for duties in _trees(said.duty):
            with new_bed(version, "footprint") as bed, _cluster(said.cluster) as cluster:
                found += measure_all(bed, sizes, duties, options, cluster)
    except CannotMeasureError as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 1
    print(LEGEND)
    if any(one.calls is None for one in found):
        print("not measured: system calls: strace is not on PATH")
    for one in found:
        if one.calls is not None and one.pods in (MEASURED_PODS, max(sizes)):
            print(common_calls(one))
    chosen = CLUSTER_BARS if said.cluster else BARS
    for row in [*bars(found, chosen), *(row for duty in said.duty for row in growth(found, duty))]:
        print(row.line())
    return 0


if __name__ == "__main__":
    sys.exit(main())
