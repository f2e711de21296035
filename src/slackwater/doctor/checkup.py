"""`slackwater doctor` from start to end: read the machine, probe if asked to, judge, report.

The facts are gathered once. A rule is one function that turns them into problems: what is wrong in
one sentence, what to do about it in another.
"""

import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from slackwater.doctor.doctor_report import (
    CgroupSection,
    CpuManagerSection,
    DoctorProblem,
    DoctorReport,
    KnobRow,
    MachineSection,
    StartSection,
    TopologyRow,
    WeightSection,
)
from slackwater.doctor.features import judge_features, refuse_pinning
from slackwater.doctor.knobs import inspect_knobs, list_unread_knobs, probe_knobs
from slackwater.doctor.reported_topology import describe_topology
from slackwater.execution.cgroup_writer import CgroupWriter
from slackwater.model.cgroup import (
    CgroupController,
    CgroupMounts,
    CgroupRef,
    CgroupVersion,
    Driver,
    Level,
)
from slackwater.model.gap import Gap
from slackwater.model.knob import CPUS
from slackwater.model.machine import Machine
from slackwater.model.units import Micros
from slackwater.model.weight import WeightFormula
from slackwater.nri.plugin import DEFAULT_SOCKET
from slackwater.observation.cgroups.tree import CgroupTree, Unread
from slackwater.observation.cgroups.weight_formula import FormulasInForce, formulas_in_force
from slackwater.observation.cpu_inventory import CpuInventory, NodeCpus
from slackwater.observation.detection import (
    DriverVerdict,
    Finding,
    Kubepods,
    Undetected,
    VersionVerdict,
    clues_of,
    detect_driver,
    detect_version,
    find_kubepods,
    find_mounts,
)
from slackwater.observation.detection.driver import TREE_SOURCE
from slackwater.observation.detection.kubelet import KubeletProcess, SeveralKubelets, find_kubelet
from slackwater.observation.detection.kubepods import SHOWN, UnusableOrder, trees_below
from slackwater.observation.detection.mounts import MAGIC_SOURCE
from slackwater.observation.host import Roots, read_machine

_NO_TREE = Gap("there is no kubelet tree to read")
ROOT_USER = 0


class TreeContent(msgspec.Struct, frozen=True):
    """What the chosen tree holds; `samples` has one cgroup of each level."""

    samples: dict[Level, CgroupRef]
    unread: tuple[Unread, ...]
    weights: FormulasInForce


class Examination(msgspec.Struct, frozen=True):
    """`trees` are all that look like a kubelet's; `content` is of the chosen one."""

    roots: Roots
    asked_kubepods: str
    machine: Machine
    version: VersionVerdict | Undetected
    mounts: CgroupMounts | Gap
    driver: DriverVerdict
    kubelet: KubeletProcess | Gap
    kubepods: Kubepods | Gap
    trees: tuple[str, ...]
    content: TreeContent
    cpus: NodeCpus


_NO_SAMPLES = TreeContent({}, (), FormulasInForce(_NO_TREE, _NO_TREE))


def examine(roots: Roots, environ: Mapping[str, str], kubepods: str) -> Examination:
    """`kubepods` is the tree to use; it is detected if empty."""
    machine = read_machine(roots)
    version = detect_version(roots, environ)
    mounts = version if isinstance(version, Gap) else find_mounts(roots, version)
    driver = detect_driver(roots, environ, None if isinstance(mounts, Gap) else mounts)
    found = _find_tree(roots, mounts, driver, kubepods)
    driver = _cite_taken_tree(driver, mounts, found)
    return Examination(
        roots=roots,
        asked_kubepods=kubepods,
        machine=machine,
        version=version,
        mounts=mounts,
        driver=driver,
        kubelet=find_kubelet(roots),
        kubepods=found,
        trees=_list_trees(mounts),
        content=_read_tree(mounts, found, machine),
        cpus=CpuInventory(roots).read(_now()),
    )


def _find_tree(
    roots: Roots, mounts: CgroupMounts | Gap, driver: DriverVerdict, asked: str
) -> Kubepods | Gap:
    if isinstance(mounts, Gap):
        return mounts
    return find_kubepods(mounts, clues_of(roots, mounts, driver), asked)


def _cite_taken_tree(
    verdict: DriverVerdict, mounts: CgroupMounts | Gap, kubepods: Kubepods | Gap
) -> DriverVerdict:
    """The finding about the driver cites the chosen tree, not another one beside it."""
    top = mounts if isinstance(mounts, Gap) else mounts.identity()
    if isinstance(top, Gap) or isinstance(kubepods, Gap):
        return verdict
    taken = Finding(TREE_SOURCE, kubepods.driver.value, f"{top.directory}/{kubepods.path} exists")
    findings = tuple(
        taken if (each.source, each.found) == (taken.source, taken.found) else each
        for each in verdict.findings
    )
    return msgspec.structs.replace(verdict, findings=findings)


def _list_trees(mounts: CgroupMounts | Gap) -> tuple[str, ...]:
    top = mounts if isinstance(mounts, Gap) else mounts.identity()
    return () if isinstance(top, Gap) else tuple(trees_below(top.directory))


def _read_tree(
    mounts: CgroupMounts | Gap, kubepods: Kubepods | Gap, machine: Machine
) -> TreeContent:
    if isinstance(mounts, Gap) or isinstance(kubepods, Gap):
        return _NO_SAMPLES
    tree = CgroupTree(mounts, kubepods.path)
    try:
        scan = tree.scan()
        cpus = 1 if isinstance(machine.cpus, Gap) else len(machine.cpus)
        samples: dict[Level, CgroupRef] = {}
        for ref in scan.refs:
            samples.setdefault(ref.level, ref)
        return TreeContent(samples, scan.unread, formulas_in_force(mounts, tree, scan, cpus))
    finally:
        tree.close()


Rule = Callable[[Examination, tuple[KnobRow, ...]], Iterator[DoctorProblem]]


def find_problems(
    examination: Examination, knobs: tuple[KnobRow, ...]
) -> tuple[DoctorProblem, ...]:
    return tuple(problem for rule in _RULES for problem in rule(examination, knobs))


def find_notes(examination: Examination, knobs: tuple[KnobRow, ...]) -> tuple[DoctorProblem, ...]:
    """What is fine as long as its reason is right."""
    return (*_chosen_tree(examination), *_no_cpusets(knobs))


def _chosen_tree(examination: Examination) -> Iterator[DoctorProblem]:
    kubepods = examination.kubepods
    if isinstance(kubepods, Gap) or not kubepods.because:
        return
    what = f"{_name_trees(examination)}; an agent takes {kubepods.path}, as {kubepods.because}."
    yield DoctorProblem(what, f"Nothing, unless that is wrong. {_remedy(examination)}")


def _no_cpusets(knobs: tuple[KnobRow, ...]) -> Iterator[DoctorProblem]:
    """On cgroup v2 a group has the files of the controllers that its parent hands on."""
    levels = (Level.POD.value, Level.CONTAINER.value)
    if any(row.knob == CPUS.name and row.level in levels and row.works is False for row in knobs):
        yield DoctorProblem(
            "The kubelet's pods and containers have no cpuset.cpus: core_pinning cannot bind them.",
            "Nothing, unless they are to be bound: then restart the kubelet, which enables the "
            "cpuset controller below kubepods (cgroup.subtree_control).",
        )


def _no_cgroups(examination: Examination, _: tuple[KnobRow, ...]) -> Iterator[DoctorProblem]:
    if isinstance(examination.version, Gap):
        yield DoctorProblem(
            f"No cgroups: {examination.version.reason}.",
            "Mount the host's /sys/fs/cgroup and name it with --cgroup-root.",
        )
    elif isinstance(examination.mounts, Gap):
        yield DoctorProblem(
            f"No controllers: {examination.mounts.reason}.",
            "Check the kernel's command line for cgroup_disable= and the mounts of the host.",
        )
    else:
        cpu = examination.mounts.identity()
        if isinstance(cpu, Gap):
            yield DoctorProblem(
                f"No CPU control: {cpu.reason}.", "Enable the kernel's cpu controller for cgroups."
            )


def _wrong_tree(examination: Examination, _: tuple[KnobRow, ...]) -> Iterator[DoctorProblem]:
    if not isinstance(examination.kubepods, Gap) or isinstance(examination.mounts, Gap):
        return
    if examination.asked_kubepods:
        yield DoctorProblem(
            f"The tree that --kubepods names is not there: {examination.kubepods.reason}.",
            "Leave --kubepods out to let it be found, or name a folder of the cgroup root.",
        )
    elif isinstance(unusable := examination.kubepods, UnusableOrder):
        yield DoctorProblem(
            f"An agent does not start: {unusable.reason}.",
            "Name the right file with --kubelet-config (in the chart agent.kubeletConfig).",
        )
    elif _kubelet_runs(examination) and not examination.trees:
        yield DoctorProblem(
            f"A kubelet runs here, but its tree was not found: {examination.kubepods.reason}.",
            "Name the tree with --kubepods, or the host's cgroups with --cgroup-root.",
        )


def _driver_conflict(examination: Examination, _: tuple[KnobRow, ...]) -> Iterator[DoctorProblem]:
    if examination.driver.conflict:
        yield DoctorProblem(
            f"The cgroup driver is contradictory: {examination.driver.conflict}.",
            "Correct the configuration, or restart the kubelet so that it lays out its tree anew.",
        )


def _two_trees(examination: Examination, _: tuple[KnobRow, ...]) -> Iterator[DoctorProblem]:
    kubepods, trees = examination.kubepods, examination.trees
    unclear = isinstance(kubepods, Gap) and not isinstance(kubepods, UnusableOrder)
    if unclear and not examination.asked_kubepods and len(trees) > 1:
        yield DoctorProblem(
            f"{_name_trees(examination)}; nothing tells which one is, so an agent does not start.",
            _remedy(examination),
        )


def _name_trees(examination: Examination) -> str:
    return f"Several trees look like a kubelet's ({', '.join(examination.trees[:SHOWN])})"


def _remedy(examination: Examination) -> str:
    shown = (
        ""
        if examination.roots.kubelet_config
        else "name the kubelet's configuration with --kubelet-config (agent.kubeletConfig), "
    )
    return (
        f"Name the right one with --kubepods (in the chart agent.paths.kubepods), {shown}"
        "or remove what an earlier kubelet left."
    )


def _kubelet_runs(examination: Examination) -> bool:
    kubelet = examination.kubelet
    return not isinstance(kubelet, Gap) or isinstance(kubelet, SeveralKubelets)


def _other_layout(examination: Examination, _: tuple[KnobRow, ...]) -> Iterator[DoctorProblem]:
    kubepods, verdict = examination.kubepods, examination.driver
    if isinstance(kubepods, Gap) or verdict.conflict or kubepods.driver is verdict.driver:
        return
    yield DoctorProblem(
        f"The driver is {verdict.driver.value} by {verdict.source}, but {kubepods.path} is laid "
        f"out as by {kubepods.driver.value}.",
        "Name another tree with --kubepods, or correct CGROUP_DRIVER.",
    )


def _wrong_override(examination: Examination, _: tuple[KnobRow, ...]) -> Iterator[DoctorProblem]:
    version = examination.version
    if isinstance(version, Gap) or not version.is_override():
        return
    looked = [f for f in version.findings if f.source == MAGIC_SOURCE and f.found]
    for finding in looked:
        if finding.found != version.label:
            yield DoctorProblem(
                f"{version.source} says {version.label}, but {finding.note}.",
                f"Unset {version.source}: it is for tests.",
            )


def _not_allowed(_: Examination, __: tuple[KnobRow, ...]) -> Iterator[DoctorProblem]:
    user = os.geteuid()
    if user != ROOT_USER:
        yield DoctorProblem(
            f"Running as user {user}: cgroup files belong to root and cannot be written.",
            "Run as root (sudo), or give the container CAP_DAC_OVERRIDE and a writable mount.",
        )


def _read_only(examination: Examination, _: tuple[KnobRow, ...]) -> Iterator[DoctorProblem]:
    mounts = examination.mounts
    there = () if isinstance(mounts, Gap) else mounts.by_controller.values()
    sealed = sorted({mount.directory for mount in there if _is_read_only(mount.directory)})
    if sealed:
        yield DoctorProblem(
            f"The cgroup file system is mounted read-only at {', '.join(sealed)}.",
            "Mount it read-write, for example as a hostPath volume.",
        )


def _is_read_only(directory: str) -> bool:
    try:
        return bool(os.statvfs(directory).f_flag & os.ST_RDONLY)
    except OSError:  # gone, or not permitted: other rules report that
        return False


def _systemd_out_of_reach(
    examination: Examination, _: tuple[KnobRow, ...]
) -> Iterator[DoctorProblem]:
    kubepods = examination.kubepods
    socket = f"{examination.roots.host}/run/systemd/private"
    if isinstance(kubepods, Gap) or kubepods.driver is not Driver.SYSTEMD:
        return
    if not os.access(socket, os.W_OK):
        yield DoctorProblem(
            f"systemd owns the kubelet's slices, but its socket {socket} cannot be reached: "
            "the agent changes none of their values, as files are reset within a minute.",
            "Mount the host's /run/systemd at the same place and name it with --host-root.",
        )


def _controllers_off(
    examination: Examination, knobs: tuple[KnobRow, ...]
) -> Iterator[DoctorProblem]:
    missing = [
        row.file
        for row in knobs
        if row.level == Level.TIER.value and row.knob in ("quota", "weight") and row.works is False
    ]
    if missing and Level.TIER in examination.content.samples:
        yield DoctorProblem(
            f"The kubelet's tiers lack {' and '.join(str(name) for name in missing)}.",
            "Start the kubelet with cgroupsPerQOS and let it enable the cpu controller.",
        )


def _no_accounting(examination: Examination, _: tuple[KnobRow, ...]) -> Iterator[DoctorProblem]:
    """On cgroup v1 usage is the business of a controller of its own."""
    mounts = examination.mounts
    cpu = mounts if isinstance(mounts, Gap) else mounts.identity()
    if isinstance(mounts, Gap) or isinstance(cpu, Gap) or cpu.version is CgroupVersion.V2:
        return
    accounting = mounts.mount(CgroupController.CPUACCT)
    tree = examination.kubepods
    if isinstance(accounting, Gap):
        why = accounting.reason
    elif not isinstance(tree, Gap) and not os.path.isdir(f"{accounting.directory}/{tree.path}"):
        why = f"{tree.path} is not below {accounting.directory}"
    else:
        return
    yield DoctorProblem(
        f"What pods use cannot be read, so that every policy holds: {why}.",
        "Mount the cpuacct controller where the kubelet makes its groups (as a rule together with "
        "cpu), or boot with cgroup v2.",
    )


def _unreadable(examination: Examination, _: tuple[KnobRow, ...]) -> Iterator[DoctorProblem]:
    for unread in examination.content.unread[:3]:
        yield DoctorProblem(
            f"The cgroup {unread.path} cannot be listed: {unread.gap.reason}.",
            "Run as root, and check the mount's options.",
        )


_RULES: tuple[Rule, ...] = (
    _no_cgroups,
    _wrong_tree,
    _driver_conflict,
    _two_trees,
    _other_layout,
    _wrong_override,
    _not_allowed,
    _read_only,
    _systemd_out_of_reach,
    _controllers_off,
    _no_accounting,
    _unreadable,
)


def run_checks(roots: Roots, environ: Mapping[str, str], kubepods: str) -> DoctorReport:
    """Writes nothing. Raises EnvironmentValueError for a bad override."""
    found = examine(roots, environ, kubepods)
    return _make_report(found, _inspect(found) or _list_unread(found), ())


def run_checks_with_probe(roots: Roots, environ: Mapping[str, str], kubepods: str) -> DoctorReport:
    """The same, and probes every knob on a scratch cgroup of its own."""
    found = examine(roots, environ, kubepods)
    if isinstance(found.mounts, Gap):
        return _make_report(found, (), ())
    cpus = found.machine.cpus
    first_cpu = next(iter(cpus), 0) if not isinstance(cpus, Gap) else 0
    tried = probe_knobs(found.mounts, _make_writer(found.mounts), first_cpu)
    if isinstance(tried, Gap):
        problem = DoctorProblem(
            f"Nothing was tried: {tried.reason}.",
            "Run as root where the host's cgroups are mounted read-write.",
        )
        return _make_report(found, _inspect(found) or _list_unread(found), (problem,))
    return _make_report(found, tried + _inspect(found), ())


def _make_writer(mounts: CgroupMounts) -> CgroupWriter:
    return CgroupWriter(mounts, os.sysconf("SC_PAGE_SIZE"), _now)


def _now() -> Micros:
    return Micros(time.monotonic_ns() // 1000)


def _inspect(found: Examination) -> tuple[KnobRow, ...]:
    if isinstance(found.mounts, Gap):
        return ()
    driver = found.driver.driver if isinstance(found.kubepods, Gap) else found.kubepods.driver
    return inspect_knobs(_make_writer(found.mounts), found.mounts, found.content.samples, driver)


def _list_unread(found: Examination) -> tuple[KnobRow, ...]:
    return () if isinstance(found.mounts, Gap) else list_unread_knobs(found.mounts)


def _make_report(
    found: Examination, knobs: tuple[KnobRow, ...], more: tuple[DoctorProblem, ...]
) -> DoctorReport:
    machine = _machine_section(found.machine, found.roots)
    manager = _cpu_manager_section(found.cpus)
    report = DoctorReport(
        cgroup=_cgroup_section(found),
        knobs=knobs,
        features=refuse_pinning(judge_features(knobs, machine.psi), manager.policy),
        machine=machine,
        cpu_manager=manager,
        topology=describe_topology(found.roots),
        container_starts=_start_section(found.roots),
        problems=find_problems(found, knobs) + more,
        notes=find_notes(found, knobs),
    )
    return msgspec.convert(_printable(msgspec.to_builtins(report)), DoctorReport)


def _printable(value: Any) -> Any:  # noqa: ANN401 - what to_builtins gives
    """File names and files may hold anything; terminals and JSON may not."""
    match value:
        case str():
            return "".join(c if c.isprintable() else repr(c)[1:-1] for c in value)
        case dict():
            return {key: _printable(item) for key, item in value.items()}
        case list() | tuple():
            return [_printable(item) for item in value]
        case _:
            return value


def _cgroup_section(found: Examination) -> CgroupSection:
    version, kubepods = found.version, found.kubepods
    return CgroupSection(
        version=None if isinstance(version, Gap) else version.label,
        version_source=version.reason if isinstance(version, Gap) else version.source,
        driver=found.driver.driver.value,
        driver_source=found.driver.source,
        findings=(*version.findings, *found.driver.findings),
        root=found.roots.cgroup,
        kubepods=None if isinstance(kubepods, Gap) else kubepods.path,
        weights=WeightSection(
            _formula(found.content.weights.pods),
            _formula(found.content.weights.containers),
            _weight_source(found),
        ),
    )


def _formula(found: WeightFormula | Gap) -> str | None:
    return None if isinstance(found, Gap) else found.value


def _weight_source(found: Examination) -> str:
    match found.content.weights.pods, found.content.weights.containers:
        case Gap(reason), _:
            return reason
        case _, Gap(reason):
            return f"the weight of kubepods; containers: {reason}"
        case _:
            return "the weights of kubepods and of its pods and containers"


def _machine_section(machine: Machine, roots: Roots) -> MachineSection:
    topology, nodes = machine.topology, machine.nodes
    return MachineSection(
        cpus=None if isinstance(machine.cpus, Gap) else len(machine.cpus),
        topology=None
        if isinstance(topology, Gap)
        else TopologyRow(
            topology.packages(), topology.cores(), topology.all().format(), topology.caches()
        ),
        model=None if isinstance(machine.model, Gap) else machine.model,
        smt=None if isinstance(machine.smt, Gap) else machine.smt,
        turbo=None if isinstance(machine.turbo, Gap) else machine.turbo,
        numa_nodes=None if isinstance(nodes, Gap) else len(nodes),
        psi=not isinstance(machine.psi, Gap) if os.path.isdir(roots.proc) else None,
    )


def _start_section(roots: Roots) -> StartSection:
    """By the socket alone: a connection would make us known to the runtime."""
    path = f"{roots.host}/{DEFAULT_SOCKET}"
    try:
        there = stat.S_ISSOCK(os.stat(path).st_mode)
    except FileNotFoundError:
        why = "NRI is off in the container runtime, or its folder is not mounted here"
        return StartSection(False, path, why)
    except OSError as error:
        return StartSection(None, path, error.strerror or str(error))
    return StartSection(there, path, "it is there" if there else "it is not a socket")


def _cpu_manager_section(cpus: NodeCpus) -> CpuManagerSection:
    match cpus.kubelet:
        case Gap(reason):
            policy, source, assigned = None, reason, ""
        case kubelet:
            policy, source = kubelet.policy, cpus.kubelet_source
            assigned = kubelet.all_assigned().format()
    return CpuManagerSection(policy, source, assigned, cpus.reserved.format(), cpus.reserved_source)
