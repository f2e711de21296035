"""`slackwater doctor` from start to end: read the machine, probe if asked to, judge, report."""

import os
import stat
from collections.abc import Mapping
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
from slackwater.doctor.examination import Examination, examine, read_now
from slackwater.doctor.features import judge_features, refuse_pinning
from slackwater.doctor.knobs import inspect_knobs, list_unread_knobs, probe_knobs
from slackwater.doctor.problems import find_notes, find_problems
from slackwater.doctor.reported_topology import describe_topology
from slackwater.execution.cgroup_writer import CgroupWriter
from slackwater.model.cgroup import CgroupMounts
from slackwater.model.gap import Gap
from slackwater.model.machine import Machine
from slackwater.model.weight import WeightFormula
from slackwater.nri.plugin import DEFAULT_SOCKET
from slackwater.observation.cpu_inventory import NodeCpus
from slackwater.observation.host import Roots


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
    return CgroupWriter(mounts, os.sysconf("SC_PAGE_SIZE"), read_now)


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
