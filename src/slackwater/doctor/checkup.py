"""`slackwater doctor` from start to end: read the machine, probe if asked to, judge, report."""

import os
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from slackwater.doctor.doctor_report import (
    CgroupSection,
    DoctorProblem,
    DoctorReport,
    KnobRow,
    MachineSection,
    TopologyRow,
    WeightSection,
)
from slackwater.doctor.examination import Examination, examine, find_notes, find_problems
from slackwater.doctor.features import judge_features
from slackwater.doctor.knobs import inspect_knobs, list_unread_knobs, probe_knobs
from slackwater.execution.cgroup_writer import CgroupWriter
from slackwater.model.cgroup import CgroupMounts
from slackwater.model.gap import Gap
from slackwater.model.machine import Machine
from slackwater.model.units import Micros
from slackwater.model.weight import WeightFormula
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
    report = DoctorReport(
        cgroup=_cgroup_section(found),
        knobs=knobs,
        features=judge_features(knobs, machine.psi),
        machine=machine,
        problems=find_problems(found, knobs) + more,
        notes=find_notes(found),
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
        else TopologyRow(topology.packages(), topology.cores(), topology.all().format()),
        model=None if isinstance(machine.model, Gap) else machine.model,
        smt=None if isinstance(machine.smt, Gap) else machine.smt,
        turbo=None if isinstance(machine.turbo, Gap) else machine.turbo,
        numa_nodes=None if isinstance(nodes, Gap) else len(nodes),
        psi=not isinstance(machine.psi, Gap) if os.path.isdir(roots.proc) else None,
    )
