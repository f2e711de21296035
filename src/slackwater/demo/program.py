"""The demo from beginning to end: where it can run, its phases, and everything put back.

Owns the choice between real cgroups and the simulated kernel. Prints nothing: a watcher sees each
glimpse, the caller gets the report.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from slackwater.demo.demo_report import About, Report, report_of
from slackwater.demo.interrupts import undisturbed
from slackwater.demo.measurements import CannotMeasure, Watch
from slackwater.demo.plan import DEMO
from slackwater.demo.simulated import CPUS, run_simulated
from slackwater.demo.testbed import Stage
from slackwater.demo.tree import CannotBuildTree
from slackwater.model.cgroup import CgroupMounts
from slackwater.model.gap import Gap
from slackwater.observation.detection import detect_version, find_mounts
from slackwater.observation.host import Roots, read_machine

ASKED = "asked for with --simulated"


def run_demo(roots: Roots, environ: Mapping[str, str], seconds: float, watch: Watch) -> Report:
    """On real cgroups. Raises CannotBuildTree where there are none to be had, and CannotMeasure
    where something went wrong on the way."""
    mounts = find_real(roots, environ)
    about = about_machine(roots, mounts)
    try:
        with opened_stage(mounts, roots, about.cpus) as stage:
            measured = [stage.run(phase, seconds, watch) for phase in DEMO]
            cost = round(stage.cost * 1000, 3)
    except OSError as error:
        raise CannotMeasure(f"{error.filename or 'the demo'}: {error.strerror}") from error
    return report_of(
        About(about.cpus, about.model, about.kernel, about.cgroup, None, cost), measured
    )


def simulate_demo(roots: Roots, because: str, seconds: float, watch: Watch) -> Report:
    """On the simulated kernel, in a blink."""
    with tempfile.TemporaryDirectory(prefix="slackwater-demo-") as folder:
        measured = [run_simulated(phase, seconds, Path(folder), watch) for phase in DEMO]
    here = about_machine(roots, None)
    return report_of(About(CPUS, here.model, here.kernel, None, because), measured)


def find_real(roots: Roots, environ: Mapping[str, str]) -> CgroupMounts:
    """Raises CannotBuildTree with one sentence."""
    version = detect_version(roots, environ)
    mounts = version if isinstance(version, Gap) else find_mounts(roots, version)
    if isinstance(mounts, Gap):
        raise CannotBuildTree(mounts.reason)
    return mounts


def about_machine(roots: Roots, mounts: CgroupMounts | None) -> About:
    machine = read_machine(roots)
    cpus = os.cpu_count() or 1 if isinstance(machine.cpus, Gap) else len(machine.cpus)
    model = None if isinstance(machine.model, Gap) else machine.model
    cpu = None if mounts is None else mounts.identity()
    version = None if cpu is None or isinstance(cpu, Gap) else cpu.version
    return About(cpus, model, os.uname().release, version.value if version else None)


@contextmanager
def opened_stage(mounts: CgroupMounts, roots: Roots, cpus: int) -> Iterator[Stage]:
    """A stage that is gone afterwards, whatever happens in between; its end is not interrupted."""
    with tempfile.TemporaryDirectory(prefix="slackwater-demo-") as folder:
        stage = Stage(mounts, roots, cpus, Path(folder))
        try:
            stage.open()
            yield stage
        finally:
            with undisturbed():
                stage.close()
