"""The table of test stages: what each runs, what it needs, and which run side by side.

Groups run one after another. The stages of one group run side by side, three at a time. A stage
that measures how much CPU something got on this machine is a group of its own.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.cluster import CONTROL_PLANE_PROGRAMS, MANY_NODES_PROGRAMS, NODE_PROGRAMS
from tools.host_kernel import HostKernel
from tools.kubernetes.programs import OLDEST_KUBERNETES, Module

PYTHON = sys.executable
# Programs of the same virtual environment; sys.executable is not resolved, so this stays in it.
PROGRAMS = Path(sys.executable).parent


@dataclass(frozen=True, slots=True)
class Preparation:
    """Something that is fetched or built once, beside the first stages, and kept in the cache.

    `check` fails, and says why, where it cannot be had.
    """

    what: str
    check: tuple[str, ...]
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VirtualMachine:
    """`options` are those of `tools.vm run`; `kernel` is what it needs of the cache."""

    kernel: Preparation
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """Either quiet commands that count as one test together, or arguments for pytest.

    `kernel` is what tests/kernel and tests/kubelet read from SLACKWATER_TEST_KERNEL. `programs` are
    Kubernetes' own: tests find the path of each in a variable of its name. `api_server` is the one
    that they get for kube-apiserver, where it is of another version than the rest.
    """

    name: str
    what: str
    commands: tuple[tuple[str, ...], ...] = ()
    tests: tuple[str, ...] = ()
    kernel: str = ""
    machine: VirtualMachine | None = None
    programs: tuple[str, ...] = ()
    api_server: Module | None = None
    needs: tuple[Preparation, ...] = ()
    #: It makes cgroups on this machine and measures there, so nothing may run beside it.
    uses_host_cgroups: bool = False

    @property
    def preparations(self) -> tuple[Preparation, ...]:
        return self.needs if self.machine is None else (*self.needs, self.machine.kernel)


Group = tuple[Stage, ...]


def _tool(name: str, what: str, check: Sequence[str], command: Sequence[str]) -> Preparation:
    program = (PYTHON, "-m", f"tools.{name}")
    return Preparation(what, (*program, *check), (*program, *command))


def _machine(init: str, kernel: str, memory: str, clock: str, cpus: str = "2") -> VirtualMachine:
    choice = ("--init", init, "--kernel", kernel)
    prepared = _tool("vm", f"Linux {kernel}", ("check", *choice), ("prepare", *choice))
    options = ("--memory", memory, "--clock", clock, "--smp", cpus)
    return VirtualMachine(prepared, (*choice, *options))


_KAFKA = _tool("kafka", "Kafka", ("check",), ("fetch",))
_IMAGE = _tool("image", "the image", ("check",), ("build",))
_CONTROL_PLANE = (*CONTROL_PLANE_PROGRAMS, *MANY_NODES_PROGRAMS)
_CLUSTER = Preparation(
    "the control plane's programs",
    (PYTHON, "-m", "tools.cluster", "check", *_CONTROL_PLANE),
    (PYTHON, "-m", "tools.kubernetes", "build", *_CONTROL_PLANE),
)
_NODE = Preparation(
    "the kubelet and containerd",
    (PYTHON, "-m", "tools.cluster", "check", *NODE_PROGRAMS),
    (PYTHON, "-m", "tools.kubernetes", "build", *NODE_PROGRAMS),
)
_BROWSER = _tool("browser", "Chromium", ("check",), ("check",))
_KUBELET = _tool(
    "kubernetes",
    "the kubelet and containerd",
    ("check", *NODE_PROGRAMS),
    ("build", *NODE_PROGRAMS),
)

LINT = Stage(
    "lint",
    "ruff check, ruff format --check",
    ((PYTHON, "-m", "ruff", "check", "."), (PYTHON, "-m", "ruff", "format", "--check", ".")),
)
TYPES = Stage("types", "mypy", ((PYTHON, "-m", "mypy"),))
LAYERS = Stage("layers", "lint-imports", ((str(PROGRAMS / "lint-imports"),),))
#: Seconds that a test with real programs may take, in place of pyproject's; only a hang reaches it.
_PATIENT = ("--timeout", "1800")
# worksteal: with long tests among short ones a fixed half each is never half of the time.
_TWO_WORKERS = ("-n", "2", "--dist", "worksteal")
UNIT = Stage("unit", "pytest tests/unit", tests=("tests/unit", *_TWO_WORKERS))
QUICK_UNIT = Stage(
    "unit",
    "pytest tests/unit without the long ones",
    tests=("tests/unit", *_TWO_WORKERS, "-m", "not long"),
)
BROKER = Stage(
    "kafka",
    "pytest tests/kafka: a real Kafka broker",
    tests=("tests/kafka", *_PATIENT),
    needs=(_KAFKA,),
)
CLUSTER = Stage(
    "cluster",
    "pytest tests/cluster: real control planes",
    # A control plane for each worker; the tests of one file share it.
    tests=("tests/cluster", "-m", "not node", "-n", "2", "--dist", "loadfile", *_PATIENT),
    programs=_CONTROL_PLANE,
    needs=(_CLUSTER,),
)
#: One worker: two browsers and two API servers on two CPUs are slower than one after another.
BROWSER = Stage(
    "browser",
    "pytest tests/browser: the page in a real Chromium",
    tests=("tests/browser", *_PATIENT),
    programs=CONTROL_PLANE_PROGRAMS,
    needs=(_CLUSTER, _BROWSER),
)
NODE = Stage(
    "node",
    "pytest tests/cluster: a real node on this host's cgroups",
    tests=("tests/cluster", "-m", "node", *_PATIENT),
    programs=(*CONTROL_PLANE_PROGRAMS, *NODE_PROGRAMS),
    needs=(_CLUSTER, _NODE, _IMAGE),
    uses_host_cgroups=True,
)
KERNEL_V1 = Stage(
    "kernel v1",
    "pytest tests/kernel on this host's cgroup v1",
    tests=("tests/kernel", *_PATIENT),
    kernel="v1",
    uses_host_cgroups=True,
)
KERNEL_V2_HOST = Stage(
    "kernel v2 host",
    "pytest tests/kernel on this host's cgroup v2",
    tests=("tests/kernel", *_PATIENT),
    kernel="v2",
    uses_host_cgroups=True,
)
# Their clock counts instructions: a neighbour makes them slower and changes nothing they measure.
# Each sleeps two fifths of its time, so three at a time keep two CPUs busy.
KERNEL_V2 = Stage(
    "kernel v2",
    "pytest tests/kernel in a VM: 6.12, cgroupfs",
    tests=("tests/kernel", *_PATIENT),
    kernel="v2",
    machine=_machine("cgroupfs", "6.12", "2G", "instructions"),
)
KERNEL_V2_SYSTEMD = Stage(
    "kernel v2 systemd",
    "pytest tests/kernel in a VM: 6.1, systemd",
    tests=("tests/kernel", *_PATIENT),
    kernel="v2-systemd",
    machine=_machine("systemd", "6.1", "2G", "instructions"),
)
#: Two packages, each with a last-level cache of its own, of two cores of two threads.
_EIGHT_CPUS = "8,sockets=2,cores=2,threads=2"
# Six idle CPUs more make every measurement of those above slower, so they are not for all tests.
CPU_SETS_V2 = Stage(
    "cpu sets v2",
    "pytest tests/kernel, CPU sets, in a VM: 6.12, cgroupfs, 8 CPUs",
    tests=("tests/kernel/test_cpu_sets.py", "tests/kernel/test_pinned_pods.py", *_PATIENT),
    kernel="v2",
    machine=_machine("cgroupfs", "6.12", "2G", "instructions", _EIGHT_CPUS),
)
CPU_SETS_V2_SYSTEMD = Stage(
    "cpu sets v2 systemd",
    "pytest tests/kernel, CPU sets, in a VM: 6.1, systemd, 8 CPUs",
    tests=("tests/kernel/test_cpu_sets.py", "tests/kernel/test_pinned_pods.py", *_PATIENT),
    kernel="v2-systemd",
    machine=_machine("systemd", "6.1", "2G", "instructions", _EIGHT_CPUS),
)
# They wait for the kubelet most of the time: each keeps less than half a CPU busy.
KUBELET_SYSTEMD = Stage(
    "kubelet systemd",
    "pytest tests/kubelet in a VM: 6.1, systemd, a real kubelet",
    tests=("tests/kubelet", *_PATIENT),
    kernel="v2-systemd",
    machine=_machine("systemd", "6.1", "3G", "host"),
    programs=NODE_PROGRAMS,
    needs=(_KUBELET,),
)
KUBELET_CGROUPFS = Stage(
    "kubelet cgroupfs",
    "pytest tests/kubelet in a VM: 6.12, a real kubelet",
    tests=("tests/kubelet", *_PATIENT),
    kernel="v2",
    machine=_machine("cgroupfs", "6.12", "3G", "host"),
    programs=NODE_PROGRAMS,
    needs=(_KUBELET,),
)

#: What an API server of another version could answer otherwise: definitions, the chart, what
#: policies refuse, lists and watches, evictions by uid, patches of a status, the webhook.
_OF_VERSIONS = (
    "versions",
    "chart",
    "rbac",
    "rbac_node",
    "rbac_manager",
    "rbac_rebalancer",
    "kube_client",
    "kube_informer",
    "commands",
    "objects_of_crane",
    "webhook",
    "manager",
)


def _version(module: Module) -> Stage:
    """The other programs are of the version of all tests: they make accounts, no claim is about
    them."""
    [(program, _)] = module.programs
    built = _tool(
        "kubernetes", f"Kubernetes {module.version}", ("check", program), ("build", program)
    )
    return Stage(
        module.name.replace("-", " "),
        f"pytest tests/cluster, a part, with the API server of Kubernetes {module.version}",
        tests=(
            *(f"tests/cluster/test_{name}.py" for name in _OF_VERSIONS),
            *("-m", "not node and not long", "-n", "2", "--dist", "loadfile", *_PATIENT),
        ),
        programs=_CONTROL_PLANE,
        api_server=module,
        needs=(_CLUSTER, built),
    )


#: Not of `make test`: it builds another API server, which takes minutes. `make versions` runs it.
VERSIONS: tuple[Group, ...] = ((_version(OLDEST_KUBERNETES),),)

_CHECKS: Group = (LINT, TYPES, LAYERS)
FAST: tuple[Group, ...] = (_CHECKS, (QUICK_UNIT,))


def all_groups(host: HostKernel) -> tuple[Group, ...]:
    """A pure cgroup v2 host runs the v2 tests natively as well."""
    native: tuple[Group, ...] = ((KERNEL_V1,),)
    if host.is_pure_v2:
        native += ((KERNEL_V2_HOST,),)
    return (
        _CHECKS,
        (UNIT,),
        (BROKER,),
        (CLUSTER,),
        (BROWSER,),
        (NODE,),
        *native,
        (KERNEL_V2, KERNEL_V2_SYSTEMD, CPU_SETS_V2, CPU_SETS_V2_SYSTEMD),
        (KUBELET_SYSTEMD, KUBELET_CGROUPFS),
    )


class UnknownStageError(Exception):
    """The text is one sentence for the person."""


def slug(name: str) -> str:
    """The name without spaces, for a shell and for files: `kernel v1` is `kernel-v1`."""
    return name.replace(" ", "-")


def select(groups: Sequence[Group], names: Sequence[str]) -> tuple[Group, ...]:
    """The named stages in the table's order, all of them if none is named."""
    known = [slug(stage.name) for group in groups for stage in group]
    wanted = {slug(name) for name in names}
    if unknown := sorted(wanted.difference(known)):
        listed = ", ".join(known)
        raise UnknownStageError(f"there is no stage {', '.join(unknown)}; stages: {listed}")
    chosen = (tuple(s for s in group if not wanted or slug(s.name) in wanted) for group in groups)
    return tuple(group for group in chosen if group)


def obstacle(stage: Stage, host: HostKernel) -> str:
    """Why a stage cannot run on this machine; empty if it can."""
    if not stage.uses_host_cgroups:
        return ""
    if stage.kernel == "v1" and host.v1_cpu is None:
        return "this host has no cgroup v1 cpu hierarchy"
    if not host.is_root:
        return "only root can make cgroups and namespaces"
    if not host.writable:
        return f"{host.v1_cpu or host.v2_cpu or 'the cgroup tree'} is read-only"
    return ""
