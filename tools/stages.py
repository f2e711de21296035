"""Owns the list of test stages: their order, what each runs, and what each needs of the machine.

Refuses to run them (tools.check_runner, tools.side_by_side) and to count them (tools.verdicts).
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.cluster import CONTROL_PLANE_PROGRAMS, MANY_NODES_PROGRAMS, NODE_PROGRAMS
from tools.host_kernel import HostKernel
from tools.vm.machine import Clock

PYTHON = sys.executable
# Programs of the same virtual environment; sys.executable is not resolved, so this stays in it.
PROGRAMS = Path(sys.executable).parent


@dataclass(frozen=True, slots=True)
class Check:
    """Commands that are one test together, quiet unless they fail."""

    name: str
    what: str
    commands: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Suite:
    """Tests that pytest runs on this machine."""

    name: str
    what: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KernelSuite:
    """Tests on this machine's kernel."""

    name: str
    what: str
    test_kernel: str


@dataclass(frozen=True, slots=True)
class VmSuite:
    """Tests in a virtual machine with a kernel of its own; machines may run side by side.

    `programs` are Kubernetes' own, built before: the tests find each in a variable of its name.
    What says how much CPU work got goes by a clock of its own, which a busy host does not disturb.
    `load` is how many of this machine's CPUs it keeps busy, measured over its whole run.
    """

    name: str
    what: str
    test_kernel: str
    init: str
    kernel: str
    tests: str = "tests/kernel"
    memory: str = "2G"
    programs: tuple[str, ...] = ()
    clock: Clock = Clock.INSTRUCTIONS
    load: float = 0.6


@dataclass(frozen=True, slots=True)
class ClusterSuite:
    """Tests on this machine against Kubernetes' own programs, built before: the tests find each in
    a variable of its name."""

    name: str
    what: str
    arguments: tuple[str, ...]
    programs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BrokerSuite:
    """Tests on this machine against a real Kafka broker, whose archives are fetched before. Apart
    from the clusters: where Maven cannot fetch, these have to run all the same."""

    name: str
    what: str
    arguments: tuple[str, ...]


TestStage = Suite | KernelSuite | ClusterSuite | BrokerSuite | VmSuite
Stage = Check | TestStage

CHECKS = (
    Check(
        "lint",
        "ruff check, ruff format --check",
        ((PYTHON, "-m", "ruff", "check", "."), (PYTHON, "-m", "ruff", "format", "--check", ".")),
    ),
    Check("types", "mypy", ((PYTHON, "-m", "mypy"),)),
    Check("layers", "lint-imports", ((str(PROGRAMS / "lint-imports"),),)),
)
# worksteal: with long tests among short ones a fixed half each is never a half of the time.
UNIT = Suite(
    "unit",
    "pytest tests/unit, the long ones too",
    ("tests/unit", "-n", "2", "--dist", "worksteal"),
)
FAST: tuple[Stage, ...] = (
    *CHECKS,
    Suite("unit", "pytest tests/unit", ("tests/unit", "-n", "2", "-m", "not long")),
)
KERNEL_V1 = KernelSuite("kernel v1", "pytest tests/kernel on this host's cgroup v1", "v1")
KERNEL_V2_HOST = KernelSuite("kernel v2 host", "pytest tests/kernel on this host's cgroup v2", "v2")
# Those that take longest come before others.
MACHINES: tuple[VmSuite, ...] = (
    VmSuite("kernel v2", "pytest tests/kernel in a VM: 6.12, cgroupfs", "v2", "cgroupfs", "6.12"),
    VmSuite(
        "kernel v2 systemd",
        "pytest tests/kernel in a VM: 6.1, systemd",
        "v2-systemd",
        "systemd",
        "6.1",
    ),
    VmSuite(
        "kubelet systemd",
        "pytest tests/kubelet in a VM: 6.1, systemd, a real kubelet",
        "v2-systemd",
        "systemd",
        "6.1",
        "tests/kubelet",
        "3G",
        ("kubelet",),
        Clock.HOST,
        load=0.45,
    ),
    VmSuite(
        "kubelet cgroupfs",
        "pytest tests/kubelet in a VM: 6.12, a real kubelet",
        "v2",
        "cgroupfs",
        "6.12",
        "tests/kubelet",
        "3G",
        ("kubelet",),
        Clock.HOST,
        load=0.45,
    ),
)
CLUSTER = ClusterSuite(
    "cluster",
    "pytest tests/cluster: real control planes",
    # A control plane for each worker; what shares a file shares one.
    ("tests/cluster", "-m", "not node", "-n", "2", "--dist", "loadfile"),
    (*CONTROL_PLANE_PROGRAMS, *MANY_NODES_PROGRAMS),
)
NODE = ClusterSuite(
    "node",
    "pytest tests/cluster: a real node on this host's cgroups",
    ("tests/cluster", "-m", "node"),
    (*CONTROL_PLANE_PROGRAMS, *NODE_PROGRAMS),
)
BROKER = BrokerSuite("kafka", "pytest tests/kafka: a real Kafka broker", ("tests/kafka",))


class UnknownStageError(Exception):
    """The text is one sentence for the person."""


def all_stages(host: HostKernel) -> tuple[Stage, ...]:
    """Every stage in order; a pure cgroup v2 host runs the v2 tests natively as well."""
    native: tuple[Stage, ...] = (KERNEL_V1, KERNEL_V2_HOST) if host.is_pure_v2 else (KERNEL_V1,)
    return (*CHECKS, UNIT, BROKER, CLUSTER, NODE, *native, *MACHINES)


def slug(name: str) -> str:
    """The name as a shell likes it: `kernel v1` is also `kernel-v1`."""
    return name.replace(" ", "-")


def select(stages: Sequence[Stage], names: Sequence[str]) -> tuple[Stage, ...]:
    """The named stages in their own order, all of them if none is named."""
    known = {slug(stage.name) for stage in stages}
    wanted = {slug(name) for name in names}
    if unknown := sorted(wanted - known):
        listed = ", ".join(slug(stage.name) for stage in stages)
        raise UnknownStageError(f"there is no stage {', '.join(unknown)}; stages: {listed}")
    return tuple(stage for stage in stages if not wanted or slug(stage.name) in wanted)


def obstacle(stage: Stage, host: HostKernel, unprepared: str) -> str:
    """Why a stage cannot run here, or what could not be prepared for it; nothing if it can."""
    match stage:
        case KernelSuite(test_kernel="v1") if host.v1_cpu is None:
            return "this host has no cgroup v1 cpu hierarchy"
        case KernelSuite() if not host.is_root:
            return "only root can make cgroups"
        case KernelSuite() if not host.writable:
            return f"{host.v1_cpu or host.v2_cpu} is read-only"
        case ClusterSuite(name=NODE.name) if not host.is_root:
            return "only root can make a node's namespaces and cgroups"
        case ClusterSuite(name=NODE.name) if not host.writable:
            return f"{host.v1_cpu or host.v2_cpu or 'the cgroup tree'} is read-only"
        case VmSuite() | ClusterSuite() | BrokerSuite():
            return unprepared
    return ""
