"""The demo from beginning to end: where it can run, its phases, and cleaning up.

It chooses between real cgroups and the simulated kernel. It prints nothing: an observer gets the
progress, the caller the report.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from slackwater.demo.cgroup_tree import CannotBuildTreeError
from slackwater.demo.demo_environment import DemoEnvironment
from slackwater.demo.demo_plan import DEMO
from slackwater.demo.demo_report import DemoReport, MachineSummary, make_report
from slackwater.demo.measurements import MeasurementError, ProgressObserver
from slackwater.demo.processes import ignore_signals
from slackwater.demo.simulated import CPUS, run_simulated
from slackwater.model.cgroup import CgroupMounts
from slackwater.model.gap import Gap
from slackwater.observation.detection import detect_version, find_mounts
from slackwater.observation.host import Roots, read_machine

ASKED = "asked for with --simulated"


def run_demo(
    roots: Roots, environ: Mapping[str, str], seconds: float, watch: ProgressObserver
) -> DemoReport:
    """On real cgroups. Raises CannotBuildTree where there are none to be had, and CannotMeasure
    where something went wrong on the way."""
    mounts = find_cgroup_mounts(roots, environ)
    about = describe_machine(roots, mounts)
    try:
        with open_environment(mounts, roots, about.cpus) as environment:
            measured = [environment.run(phase, seconds, watch) for phase in DEMO]
            cost = round(environment.cost * 1000, 3)
    except OSError as error:
        raise MeasurementError(f"{error.filename or 'the demo'}: {error.strerror}") from error
    return make_report(
        MachineSummary(about.cpus, about.model, about.kernel, about.cgroup, None, cost), measured
    )


def simulate_demo(
    roots: Roots, because: str, seconds: float, watch: ProgressObserver
) -> DemoReport:
    """On the simulated kernel, in an instant."""
    with tempfile.TemporaryDirectory(prefix="slackwater-demo-") as folder:
        measured = [run_simulated(phase, seconds, Path(folder), watch) for phase in DEMO]
    here = describe_machine(roots, None)
    return make_report(MachineSummary(CPUS, here.model, here.kernel, None, because), measured)


def find_cgroup_mounts(roots: Roots, environ: Mapping[str, str]) -> CgroupMounts:
    """Raises CannotBuildTree with one sentence."""
    version = detect_version(roots, environ)
    mounts = version if isinstance(version, Gap) else find_mounts(roots, version)
    if isinstance(mounts, Gap):
        raise CannotBuildTreeError(mounts.reason)
    return mounts


def describe_machine(roots: Roots, mounts: CgroupMounts | None) -> MachineSummary:
    machine = read_machine(roots)
    cpus = os.cpu_count() or 1 if isinstance(machine.cpus, Gap) else len(machine.cpus)
    model = None if isinstance(machine.model, Gap) else machine.model
    cpu = None if mounts is None else mounts.identity()
    version = None if cpu is None or isinstance(cpu, Gap) else cpu.version
    return MachineSummary(cpus, model, os.uname().release, version.value if version else None)


@contextmanager
def open_environment(mounts: CgroupMounts, roots: Roots, cpus: int) -> Iterator[DemoEnvironment]:
    """An environment that is removed at the end, whatever happens and without interruption."""
    with tempfile.TemporaryDirectory(prefix="slackwater-demo-") as folder:
        environment = DemoEnvironment(mounts, roots, cpus, Path(folder))
        try:
            environment.open()
            yield environment
        finally:
            with ignore_signals():
                environment.close()
