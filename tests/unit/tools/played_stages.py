"""Stages that only seem to be: each says that it begins and ends, and waits for others as told."""

from pathlib import Path

from tools.children import Children
from tools.side_by_side import Look, Prepared, SideBySide
from tools.stages import BrokerSuite, ClusterSuite, KernelSuite, Suite, TestStage, VmSuite
from tools.suite_run import SuiteRun
from tools.verdicts import Finished, Verdict
from tools.vm.machine import Clock

#: Stands in for `python -m tools.vm` and for pytest: says who it is, waits for what others do as it
#: was told, crashes as often as told, then leaves a report.
STAGE = """
import pathlib, sys, time
here = pathlib.Path(__file__).parent
if "--collect-only" in sys.argv:
    with (here / "calls").open("a") as calls:
        print("collects", file=calls)
    sys.exit(4)
if "--out" in sys.argv:
    out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
else:
    reports = [word for word in sys.argv if word.startswith("--junitxml=")]
    out = pathlib.Path(reports[0].partition("=")[2]).parent
me = here / out.name
with (here / "calls").open("a") as calls:
    print("begins", out.name, file=calls)
print(out.name, "speaks", flush=True)
awaited = set(filter(None, me.with_suffix(".awaits").read_text().split(",")))
while not awaited <= set((here / "calls").read_text().splitlines()):
    time.sleep(0.01)
crashes = int(me.with_suffix(".crashes").read_text())
me.with_suffix(".crashes").write_text(str(crashes - 1))
with (here / "calls").open("a") as calls:
    print("ends", out.name, file=calls)
print(out.name, "is silent", flush=True)
if crashes > 0:
    (out / "junit.xml").write_text("<testsuite><testcase name='half'/>")
    sys.exit(125)
(out / "junit.xml").write_text("<testsuite><testcase name='whole'/></testsuite>")
"""


def vm(name: str, load: float = 0.75, clock: Clock = Clock.HOST) -> VmSuite:
    return VmSuite(name, "tests", "v2", "cgroupfs", "6.12", clock=clock, load=load)


def with_own_clock(name: str) -> VmSuite:
    return vm(name, clock=Clock.INSTRUCTIONS)


def unit(name: str) -> Suite:
    return Suite(name, "tests", ("tests/unit",))


def cluster(name: str) -> ClusterSuite:
    return ClusterSuite(name, "tests", ("tests/cluster",), ("etcd",))


def broker(name: str) -> BrokerSuite:
    return BrokerSuite(name, "tests", ("tests/kafka",))


def node(name: str) -> ClusterSuite:
    return ClusterSuite(name, "tests", ("tests/cluster",), ("etcd", "kubelet"))


def kernel(name: str) -> KernelSuite:
    return KernelSuite(name, "tests", "v1")


def there(_stage: TestStage) -> Prepared:
    return Prepared("")


#: What each stage waits for before it ends: calls of others, with commas between them.
Awaits = dict[TestStage, str]


def made(
    folder: Path,
    awaits: Awaits,
    crashes: int = 0,
    prepared: Look = there,
    cpus: int = 2,
) -> SideBySide:
    for stage, what in awaits.items():
        (folder / f"{stage.name}.awaits").write_text(what)
        (folder / f"{stage.name}.crashes").write_text(str(crashes))
    runs = [SuiteRun(stage, folder / "reports") for stage in awaits]
    return SideBySide(runs, Children(folder), prepared, cpus)


def calls(folder: Path) -> list[str]:
    said = folder / "calls"
    lines = said.read_text().splitlines() if said.exists() else []
    return [line for line in lines if line != "collects"]


def verdicts(finished: list[Finished]) -> list[Verdict]:
    return [one.verdict for one in finished]


def overlap(folder: Path, one: str, other: str) -> bool:
    """Whether both ran at some time."""
    said = calls(folder)
    ends = min(said.index(f"ends {one}"), said.index(f"ends {other}"))
    return max(said.index(f"begins {one}"), said.index(f"begins {other}")) < ends
