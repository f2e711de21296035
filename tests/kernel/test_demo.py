"""`slackwater demo` on real cgroups: what it measures, and that nothing of it stays."""

import itertools
import json
import math
import os
import signal
import subprocess
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slackwater.demo.cgroup_tree import PREFIX, DemoTree, clear_leftovers
from slackwater.demo.demo_plan import (
    DEMO,
    DEMO_ROUNDS,
    OBJECTIVE_RATIO,
    SLACKWATER,
    BatchControl,
)
from slackwater.model.cgroup import CgroupMounts, CgroupVersion
from tests.kernel.bed import mounts_of
from tests.kernel.launching import launch
from tests.kernel.machine import IS_MACHINE

pytestmark = pytest.mark.cgroupfs
#: An emulated CPU starts Python in seconds.
PATIENCE = 300.0
CPUS = os.cpu_count() or 1
#: Of a phase. Pictures say nothing about a kernel, and an emulated CPU draws for many seconds.
SECONDS, UNDRAWN = ("1", ("--no-picture",)) if IS_MACHINE else ("2.5", ())


def folders(mounts: CgroupMounts) -> list[str]:
    """Top folders of demos, in every hierarchy."""
    tops = sorted({mount.directory for mount in mounts.by_controller.values()})
    return [f"{top}/{name}" for top in tops for name in os.listdir(top) if name.startswith(PREFIX)]


def ours(mounts: CgroupMounts, pid: int) -> list[str]:
    return [each for each in folders(mounts) if f"{PREFIX}{pid}-" in each]


def root_controllers() -> str:
    try:
        return Path("/sys/fs/cgroup/cgroup.subtree_control").read_text()
    except OSError:
        return ""


@pytest.fixture
def mounts(version: CgroupVersion) -> CgroupMounts:
    return mounts_of(version)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str) -> subprocess.Popen[str]:
        started.append(launch("demo", "--out", str(tmp_path), *arguments))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


def wait_for_words(process: subprocess.Popen[str], words: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if words in line:
            return
    raise AssertionError(f"it never said {words!r}")


def processes_in(mounts: CgroupMounts, pid: int) -> list[int]:
    return [
        int(word)
        for top in ours(mounts, pid)
        for folder, _, _ in os.walk(top)
        for word in Path(folder, "cgroup.procs").read_text().split()
    ]


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def assert_phases(report: dict[str, Any]) -> None:
    assert [phase["name"] for phase in report["phases"]] == [phase.name for phase in DEMO]
    for phase in report["phases"]:
        found = phase["latency"]
        assert 0 < found["p50"] <= found["p90"] <= found["p99"] <= found["worst"]
        assert all(math.isfinite(value) for value in found.values())
        assert phase["requests"] > 0
        assert phase["cpu"]["service"] > 0
        assert (phase["cpu"]["hog"] > 0) == (phase["name"] != "alone")
        assert 0 < phase["utilisation"] < 1.2
        assert phase["noise"]["steal"] >= 0
        assert phase["samples"][-1]["until"] >= phase["seconds"]


def assert_pictures(report: dict[str, Any], folder: Path, errors: str) -> None:
    svg = folder / "slackwater-demo.svg"
    assert ET.parse(svg).getroot().tag.endswith("svg")  # noqa: S314 - our own file
    png = folder / "slackwater-demo.png"
    if "only the SVG was written" in errors:  # a machine without fonts
        assert report["pictures"] == [str(svg)]
        assert not png.exists()
    else:
        assert report["pictures"] == [str(svg), str(png)]
        assert png.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_a_short_demo_measures_draws_and_puts_everything_back(
    start: Callable[..., subprocess.Popen[str]], mounts: CgroupMounts, tmp_path: Path
) -> None:
    before = root_controllers()
    process = start("--seconds", SECONDS, "-o", "json", *UNDRAWN)
    output, errors = process.communicate(timeout=900)
    assert process.returncode == 0, errors
    told = [
        f"slackwater: {phase.title}, {float(SECONDS) / DEMO_ROUNDS:g} s ({number} of {DEMO_ROUNDS})"
        for number in range(1, DEMO_ROUNDS + 1)
        for phase in DEMO
    ]
    assert errors.splitlines()[: len(told)] == told
    report = json.loads(output)
    assert (report["apiVersion"], report["kind"]) == ("slackwater.io/v1", "DemoReport")
    assert report["machine"]["cpus"] == CPUS
    assert report["machine"]["simulatedBecause"] is None
    assert_phases(report)
    for phase in report["phases"][:2]:
        assert {(s["quota"], s["demoted"]) for s in phase["samples"]} == {(None, False)}
    alone = report["phases"][0]["slices"][0]["latency"]["p90"]
    assert report["objective"]["milliseconds"] == pytest.approx(OBJECTIVE_RATIO * alone, abs=0.01)
    assert report["agent"]  # it ran
    if not UNDRAWN:
        assert_pictures(report, tmp_path, errors)
    assert ours(mounts, process.pid) == []
    assert root_controllers() == before


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.native),
        pytest.param(signal.SIGHUP, 129, marks=pytest.mark.native),
    ],
)
def test_an_interrupted_demo_leaves_nothing(
    start: Callable[..., subprocess.Popen[str]],
    mounts: CgroupMounts,
    number: signal.Signals,
    code: int,
) -> None:
    before = root_controllers()
    process = start("--seconds", "600", "--no-picture")
    wait_for_words(process, "service alone")
    wait_until(lambda: len(set(processes_in(mounts, process.pid))) == 2)  # service and load
    running = processes_in(mounts, process.pid)
    process.send_signal(number)
    output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == code
    assert output == ""
    assert "Traceback" not in errors
    assert ours(mounts, process.pid) == []
    assert [pid for pid in running if os.path.exists(f"/proc/{pid}")] == []
    assert root_controllers() == before


@pytest.mark.native
def test_an_interrupted_agent_is_gone_too(
    start: Callable[..., subprocess.Popen[str]], mounts: CgroupMounts
) -> None:
    process = start("--seconds", "1", "--no-picture")
    wait_for_words(process, SLACKWATER.title)
    wait_until(lambda: len(set(processes_in(mounts, process.pid))) >= 2 + 2 * CPUS)
    running = processes_in(mounts, process.pid)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert errors.splitlines()[-1] == "slackwater: stopped; everything was restored"
    assert ours(mounts, process.pid) == []
    assert [pid for pid in running if os.path.exists(f"/proc/{pid}")] == []


def test_what_a_killed_demo_left_is_cleared_by_the_next(
    start: Callable[..., subprocess.Popen[str]], mounts: CgroupMounts
) -> None:
    process = start("--seconds", "600", "--no-picture")
    wait_until(lambda: len(set(processes_in(mounts, process.pid))) == 2)
    process.kill()
    process.communicate()
    left = ours(mounts, process.pid)
    assert len(left) == len({mount.directory for mount in mounts.by_controller.values()})
    assert set(left) <= set(clear_leftovers(mounts))
    assert ours(mounts, process.pid) == []


def test_a_living_demo_is_no_leftover(mounts: CgroupMounts) -> None:
    tree = DemoTree(mounts, CPUS)
    try:
        tree.make()
        made = ours(mounts, os.getpid())
        assert made
        assert not set(made) & set(clear_leftovers(mounts))
        assert ours(mounts, os.getpid()) == made
    finally:
        tree.remove()
    assert ours(mounts, os.getpid()) == []


#: Weights of the best-effort and the burstable tier, quota in CPUs, cpu.idle.
HOLDS: dict[CgroupVersion, dict[BatchControl, tuple[str | float | None, ...]]] = {
    CgroupVersion.V1: {
        BatchControl.ABSENT: ("2", "1024", None, "0"),
        BatchControl.DEFAULT_WEIGHT: ("1024", "1024", None, "0"),
        BatchControl.KUBELET: ("2", "1024", None, "0"),
        BatchControl.STATIC_QUOTA: ("1024", "1024", CPUS / 2, "0"),
        BatchControl.IDLE: ("3", "1024", None, "1"),
        BatchControl.BEST_EFFORT_SHARE: ("2", "1024", None, "0"),
        BatchControl.ELASTIC: ("2", "1024", None, "0"),
        BatchControl.UNPROTECTED: ("2", "2048", None, "0"),
        BatchControl.WATERLINE: ("2", "2048", None, "0"),
        BatchControl.LATENCY_OBJECTIVE: ("2", "2048", None, "0"),
    },
    CgroupVersion.V2: {
        BatchControl.ABSENT: ("1", "39", None, "0"),
        BatchControl.DEFAULT_WEIGHT: ("100", "100", None, "0"),
        BatchControl.KUBELET: ("1", "39", None, "0"),
        BatchControl.STATIC_QUOTA: ("100", "100", CPUS / 2, "0"),
        BatchControl.IDLE: ("1", "39", None, "1"),
        BatchControl.BEST_EFFORT_SHARE: ("1", "39", None, "0"),
        BatchControl.ELASTIC: ("1", "39", None, "0"),
        BatchControl.UNPROTECTED: ("1", "79", None, "0"),
        BatchControl.WATERLINE: ("1", "79", None, "0"),
        BatchControl.LATENCY_OBJECTIVE: ("1", "79", None, "0"),
    },
}


def test_every_hold_follows_every_other(mounts: CgroupMounts, version: CgroupVersion) -> None:
    tree = DemoTree(mounts, CPUS)
    try:
        tree.make()
        for first, second in itertools.product(BatchControl, BatchControl):
            for each in (first, second):
                tree.apply(each)
                found, expected = standing(tree, version), HOLDS[version][each]
                if (
                    each is BatchControl.IDLE
                ):  # what an idle group's weight reads as differs by kernel
                    found, expected = found[1:], expected[1:]
                assert found == expected, (first, second)
    finally:
        tree.remove()


def standing(tree: DemoTree, version: CgroupVersion) -> tuple[str | float | None, ...]:
    file = "cpu.shares" if version is CgroupVersion.V1 else "cpu.weight"
    top = "/sys/fs/cgroup/cpu" if version is CgroupVersion.V1 else "/sys/fs/cgroup"
    best_effort, burstable = Path(top, tree.besteffort), Path(top, tree.burstable)
    return (
        (best_effort / file).read_text().strip(),
        (burstable / file).read_text().strip(),
        tree.quota(),
        (best_effort / "cpu.idle").read_text().strip(),
    )
