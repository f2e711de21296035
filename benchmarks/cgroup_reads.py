"""What reading cgroups costs: our held descriptors beside C, beside plain Python and beside Go.

Run as root: `.venv/bin/python benchmarks/cgroup_reads.py [--quick]`. It makes real cgroups of its
own, reads them, and removes them. Rounds are interleaved, so that all methods meet the same
neighbours; ratios are medians over rounds. Exit code 1: a bar was missed.
"""

import argparse
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

import msgspec

from slackwater.model.cgroup import CgroupController, CgroupMounts, CgroupVersion, Level
from slackwater.model.gap import Gap
from slackwater.model.needs import ReadingField
from slackwater.model.units import Micros
from slackwater.observation.cgroups.files import GroupFolders, HeldFiles, raise_descriptor_limit
from slackwater.observation.cgroups.tree import CgroupTree
from slackwater.observation.detection import detect_version, find_mounts
from slackwater.observation.host import Roots, read_machine

HERE = os.path.dirname(os.path.abspath(__file__))
PASSES = 5
PACKAGES = ("model", "observation", "execution")
HELD = {"cpu.stat": CgroupController.CPU, "cpuacct.usage": CgroupController.CPUACCT}
TIMES = frozenset({ReadingField.TIMES})

COUNTED = """
import os, sys
from benchmarks.cgroup_reads import mounts_here
from slackwater.observation.cgroups.tree import CgroupTree
tree = CgroupTree(mounts_here(), sys.argv[1])
os.access("/mark-scan", 0)
tree.scan()
os.access("/mark-making", 0)
os.mkdir(sys.argv[2])
os.access("/mark-refresh", 0)
tree.refresh()
os.access("/mark-end", 0)
"""

Method = Callable[[int], float]


class Row(msgspec.Struct, frozen=True):
    """One line of the table; without a bar it is there to compare."""

    what: str
    measured: float
    unit: str
    bar: float | None = None

    def missed(self) -> bool:
        return self.bar is not None and self.measured > self.bar

    def line(self) -> str:
        bar = "" if self.bar is None else f"<= {self.bar:g} {self.unit}"
        verdict = "" if self.bar is None else "MISSED" if self.missed() else "ok"
        return f"{self.what:<70} {self.measured:>9.2f} {self.unit:<8} {bar:<14} {verdict}"


class Forest:
    """Our own kubepods tree of real cgroups, in the hierarchies whose files are read."""

    def __init__(self, mounts: CgroupMounts, pods: int) -> None:
        self.mounts = mounts
        self.kubepods = f"slackwater-bench-{os.getpid()}"
        self.paths = [self.kubepods, f"{self.kubepods}/burstable", f"{self.kubepods}/besteffort"]
        for number in range(pods):
            pod = f"{self.paths[1 + number % 2]}/pod{number:032x}"
            self.paths += [pod, *(f"{pod}/{2 * number + one:064x}" for one in range(2))]

    def directories(self, path: str) -> list[str]:
        found = {self.mounts.directory(c, path) for c in set(HELD.values())}
        return [directory for directory in found if isinstance(directory, str)]

    def grow(self) -> None:
        for path in self.paths:
            for directory in self.directories(path):
                os.mkdir(directory)
                control = f"{directory}/cgroup.subtree_control"
                if os.path.exists(control):
                    with contextlib.suppress(OSError), open(control, "w") as file:
                        file.write("+cpu")

    def fell(self) -> None:
        for directory in self.directories(self.kubepods):
            for folder, _, _ in os.walk(directory, topdown=False):
                os.rmdir(folder)


def mounts_here() -> CgroupMounts:
    verdict = detect_version(Roots(), os.environ)
    found = verdict if isinstance(verdict, Gap) else find_mounts(Roots(), verdict)
    if isinstance(found, Gap):
        raise SystemExit(f"no cgroups to measure: {found.reason}")
    return found


def held_by_us(mounts: CgroupMounts, files: list[tuple[str, str, int]]) -> Method:
    text = HeldFiles(GroupFolders(mounts), HELD).text

    def run(passes: int) -> float:
        start = time.perf_counter_ns()
        for _ in range(passes):
            for name, path, identity in files:
                text(name, path, identity)
        return time.perf_counter_ns() - start

    run(1)
    return run


def opened_by_python(files: list[str]) -> Method:
    def run(passes: int) -> float:
        start = time.perf_counter_ns()
        for _ in range(passes):
            for name in files:
                with open(name, "rb") as file:
                    file.read()
        return time.perf_counter_ns() - start

    return run


@contextlib.contextmanager
def program(command: list[str]) -> Iterator[Method]:
    """A loop in another language: a number of passes in, nanoseconds out."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        into, out = child.stdin, child.stdout

        def run(passes: int) -> float:
            print(passes, file=into, flush=True)
            return float(out.readline())

        yield run
        into.close()


def compiled(folder: str) -> dict[str, list[str]]:
    """The programs that could be built here; says which could not."""
    built: dict[str, list[str]] = {}
    for name, source, command in (
        ("C pread, held", "pread.c", ["cc", "-O2"]),
        ("Go os.ReadFile", "readfile.go", ["go", "build"]),
    ):
        if shutil.which(command[0]) is None:
            print(f"not measured: {name}: {command[0]} is not on PATH")
            continue
        built[name] = [f"{folder}/{source}.program"]
        subprocess.run([*command, "-o", *built[name], f"{HERE}/read_loops/{source}"], check=True)
    return built


def measure_reads(forest: Forest, count: int, rounds: int) -> list[Row]:
    refs = CgroupTree(forest.mounts, forest.kubepods).scan().refs
    containers = [ref for ref in refs if ref.level is Level.CONTAINER]
    accounting = forest.mounts.mount(CgroupController.CPUACCT)
    v1 = not isinstance(accounting, Gap) and accounting.version is CgroupVersion.V1
    names = tuple(HELD) if v1 else ("cpu.stat",)
    files = [(name, ref.path, ref.id) for ref in containers for name in names][:count]
    paths = [f"{forest.mounts.directory(HELD[name], path)}/{name}" for name, path, _ in files]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as running:
        with open(f"{folder}/files", "w") as file:
            file.write("".join(f"{path}\n" for path in paths))
        methods: dict[str, Method] = {"Slackwater, held": held_by_us(forest.mounts, files)}
        for name, command in compiled(folder).items():
            methods[name] = running.enter_context(program([*command, f"{folder}/files"]))
        methods["Python open/read/close"] = opened_by_python(paths)
        taken: dict[str, list[float]] = {name: [] for name in methods}
        for _ in range(rounds):
            for name, run in methods.items():
                taken[name].append(run(PASSES))
    return read_rows(taken, len(files))


def read_rows(taken: dict[str, list[float]], files: int) -> list[Row]:
    rows = [
        Row(f"{name}, {files} files", statistics.median(took) / PASSES / files / 1000, "us/file")
        for name, took in taken.items()
    ]
    ours = taken["Slackwater, held"]
    for name, bar in (("C pread, held", 2.0), ("Go os.ReadFile", None), ("Python open", None)):
        theirs = next((took for other, took in taken.items() if other.startswith(name)), None)
        if theirs is not None:
            ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
            rows.append(Row(f"Slackwater against {name}", ratio, "x", bar))
    return rows


def measure_tree(forest: Forest, rounds: int) -> list[Row]:
    tree, scans, ticks, looks = CgroupTree(forest.mounts, forest.kubepods), [], [], []
    refs = tree.scan().refs
    for _ in range(rounds):
        start = time.perf_counter()
        tree.scan()
        scanned = time.perf_counter()
        tree.refresh()
        looked = time.perf_counter()
        for ref in refs:
            tree.read(ref, TIMES, Micros(0))
        ticks.append((time.perf_counter() - looked) / len(refs) * 1e6)
        scans.append((scanned - start) * 1e3)
        looks.append((looked - scanned) * 1e3)
    tree.close()
    pods = sum(ref.level is Level.POD for ref in refs)
    return [
        Row(f"discovery of {pods} pods x 2 containers", statistics.median(scans), "ms", 1000.0),
        Row("refresh that finds nothing new", statistics.median(looks), "ms"),
        Row(f"readings of {len(refs)} groups, decoded", statistics.median(ticks), "us/group"),
    ]


def measure_calls(forest: Forest) -> list[Row]:
    if shutil.which("strace") is None:
        print("not measured: system calls: strace is not on PATH")
        return []
    new = forest.mounts.directory(CgroupController.CPU, f"{forest.paths[1]}/pod{'f' * 32}")
    command = ["strace", "-f", "-o", "/dev/stdout", sys.executable, "-c", COUNTED]
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(HERE)}
    trace = subprocess.check_output(
        [*command, forest.kubepods, str(new)], env=environment, text=True
    )
    rows = []
    for phase, bars in (("scan", (None, None)), ("refresh", (2.0, 8.0))):
        part = trace.split(f'"/mark-{phase}"')[1].split('"/mark-')[0]
        for call, bar in zip(("openat", "getdents64"), bars, strict=True):
            what = "whole scan" if phase == "scan" else "refresh that finds one new pod"
            rows.append(Row(f"{call} calls of a {what}", part.count(f" {call}("), "calls", bar))
    return rows


def measure_memory(rounds: int) -> list[Row]:
    """Resident memory of fresh processes; the first of each kind writes the .pyc files."""
    report = "print(open('/proc/self/statm').read().split()[1])"
    top = f"{os.path.dirname(HERE)}/src/slackwater"
    modules = [
        f"slackwater.{package}.{name.removesuffix('.py')}"
        for package in PACKAGES
        for name in sorted(os.listdir(f"{top}/{package}"))
        if name.endswith(".py") and not name.startswith("__")
    ]
    ours = f"import {', '.join(modules)}\n"
    # msgspec imports typing_extensions wherever it is installed: mypy brings it here, nothing
    # that an installation depends on does (docs/adr/0003).
    shipped = "import sys; sys.modules['typing_extensions'] = None\n" + ours
    sizes: dict[str, list[float]] = {code: [] for code in ("", shipped, ours)}
    for _ in range(rounds + 1):
        for code, found in sizes.items():
            pages = subprocess.check_output([sys.executable, "-c", code + report], text=True)
            found.append(int(pages) * os.sysconf("SC_PAGESIZE") / 2**20)
    bare, lean, here = (statistics.median(found[1:]) for found in sizes.values())
    what = f"importing {', '.join(PACKAGES)} above a bare interpreter ({bare:.1f})"
    return [
        Row(what, lean - bare, "MiB", 12.0),
        Row("the same where development tools bring typing_extensions", here - bare, "MiB", 12.0),
    ]


def describe(mounts: CgroupMounts) -> str:
    machine, cpu = read_machine(Roots()), mounts.identity()
    version = cpu if isinstance(cpu, Gap) else cpu.version.value
    return (
        f"{os.cpu_count()} CPUs of {machine.model}, Linux {os.uname().release}, cgroup {version}, "
        f"Python {sys.version.split()[0]}, load {os.getloadavg()[0]:.1f}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a small tree and few rounds")
    quick = parser.parse_args().quick
    raise_descriptor_limit()
    mounts = mounts_here()
    print(describe(mounts), flush=True)
    forest, rounds = Forest(mounts, pods=50 if quick else 500), 5 if quick else 31
    try:
        forest.grow()
        rows = measure_reads(forest, 100 if quick else 1000, rounds)
        rows += measure_tree(forest, rounds)
        rows += measure_calls(forest)
    finally:
        forest.fell()
    rows += measure_memory(3 if quick else 5)
    for row in rows:
        print(row.line())
    return 1 if any(row.missed() for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
