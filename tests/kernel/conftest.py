"""One suite, several kernels: SLACKWATER_TEST_KERNEL says which one this is.

Tests marked for another kernel are not collected here (they run there); nothing is skipped. What
says nothing about a kernel (`native`) runs once, on this machine itself, where it is quickest.
"""

import contextlib
import gc
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slackwater.model.cgroup import CgroupVersion
from tests.kernel.batch_pods import V1, BatchPod
from tests.kernel.bed import Bed, _rmdir, leftovers
from tests.kernel.in_process import InProcess, cpu_inventory
from tests.kernel.launching import import_machinery
from tests.kernel.machine import IS_MACHINE
from tests.kernel.running import Launch, Running

KERNELS = {
    "v1": (CgroupVersion.V1, frozenset({"v1", "cgroupfs"})),
    "v2": (CgroupVersion.V2, frozenset({"v2", "cgroupfs"})),
    "v2-systemd": (CgroupVersion.V2, frozenset({"v2", "systemd"})),
}
#: What says how much CPU work got comes last: neighbours that begin with us (a machine that boots)
#: take most of it at first.
MEASURING = frozenset(
    {
        "test_agent",
        "test_bed",
        "test_burst",
        "test_cgroup_readings",
        "test_cpu_map",
        "test_demo",
        "test_elastic",
        "test_explain",
        "test_metrics",
        "test_node_usage",
        "test_pod_pressure",
        "test_pressure",
        "test_rules",
        "test_survey",
        "test_writing",
    }
)
MARKS = frozenset({"v1", "v2", "cgroupfs", "systemd", "native", "machine"})


def kernel_name() -> str:
    named = os.environ.get("SLACKWATER_TEST_KERNEL")
    if named is not None and named not in KERNELS:
        raise pytest.UsageError(f"SLACKWATER_TEST_KERNEL is {named!r}; one of {sorted(KERNELS)}")
    return named or ("v1" if os.path.isdir("/sys/fs/cgroup/cpu") else "v2")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    offers = KERNELS[kernel_name()][1] | {"machine" if IS_MACHINE else "native"}
    there = [i for i in items if {m.name for m in i.iter_markers()} & MARKS <= offers]
    config.hook.pytest_deselected(items=[i for i in items if i not in there])
    items[:] = sorted(there, key=lambda item: item.path.stem in MEASURING)


@pytest.fixture(scope="session", autouse=True)
def _ready_to_fork() -> None:
    """What is imported stays; a forked process must not look through all of it for garbage."""
    if IS_MACHINE:
        import_machinery()
        gc.collect()
        gc.freeze()


@pytest.fixture(scope="session")
def version() -> CgroupVersion:
    """The cgroup version under test; the first use clears what killed runs left behind."""
    found = KERNELS[kernel_name()][0]
    for top in leftovers(found):
        for folder, _, _ in os.walk(top, topdown=False):
            _rmdir(folder)
    return found


@pytest.fixture
def bed(version: CgroupVersion, request: pytest.FixtureRequest) -> Iterator[Bed]:
    made = Bed(version, re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:60])
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def start(bed: Bed, tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Agents of this test, ended with it."""
    started: list[Running] = []

    def run(*arguments: str, **more: Launch) -> Running:
        started.append(Running(bed, tmp_path, *arguments, **more))
        return started[-1]

    yield run
    for running in started:
        with contextlib.suppress(ValueError):  # it was read to its end
            running.process.kill()
            running.process.communicate()


@pytest.fixture
def tiers(bed: Bed) -> tuple[str, str]:
    """A best-effort tier with a kubelet's weight, and a burstable one."""
    best_effort = bed.make(f"{bed.kubepods}/besteffort")
    burstable = bed.make(f"{bed.kubepods}/burstable")
    bed.write(best_effort, *(("cpu.shares", "2") if bed.version is V1 else ("cpu.weight", "1")))
    return best_effort, burstable


@pytest.fixture
def pod(bed: Bed) -> BatchPod:
    return BatchPod(bed)


@pytest.fixture
def agent(bed: Bed, pod: BatchPod, tmp_path: Path) -> Iterator[InProcess]:
    """An agent beside that pod, whose rounds the test calls."""
    made = InProcess(bed.mounts, bed.kubepods, tmp_path, cpus=cpu_inventory(tmp_path))
    try:
        yield made
    finally:
        made.close()
