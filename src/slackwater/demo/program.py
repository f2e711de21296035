"""The demo from beginning to end: where it can run, its phases, and cleaning up.

It chooses between real cgroups and the simulated kernel. It prints nothing: an observer gets the
progress, the caller the report.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from slackwater.demo.cgroup_tree import CannotBuildTreeError
from slackwater.demo.demo_environment import DemoEnvironment
from slackwater.demo.demo_plan import (
    ALONE,
    DEMO,
    DEMO_COOL_DOWN,
    DEMO_LOAD,
    DEMO_ROUNDS,
    OBJECTIVE_RATIO,
)
from slackwater.demo.demo_report import DemoReport, MachineSummary, make_report
from slackwater.demo.measurements import (
    MeasurementError,
    PhaseMeasurement,
    PhaseProgress,
    ProgressObserver,
    find_percentiles,
    join_slices,
)
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
            slices = run_slices(environment, seconds, watch)
            cost = round(environment.cost * 1000, 3)
    except OSError as error:
        raise MeasurementError(f"{error.filename or 'the demo'}: {error.strerror}") from error
    return make_report(
        MachineSummary(about.cpus, about.model, about.kernel, about.cgroup, None, cost),
        [join_slices(each) for each in slices],
        round(1000 * environment.objective, 3),
    )


def run_slices(
    environment: DemoEnvironment, seconds: float, watch: ProgressObserver
) -> list[list[PhaseMeasurement]]:
    """The slices of each phase, one of every phase in each round. The first one of the service
    alone says what the objective is."""
    found: list[list[PhaseMeasurement]] = [[] for _ in DEMO]
    environment.cool_down = DEMO_COOL_DOWN
    for number in range(1, DEMO_ROUNDS + 1):
        for phase, slices in zip(DEMO, found, strict=True):

            def tell(progress: PhaseProgress, number: int = number) -> None:
                watch(msgspec.structs.replace(progress, number=number, slices=DEMO_ROUNDS))

            slices.append(
                environment.run(phase, seconds / DEMO_ROUNDS, tell, seed=number, load=DEMO_LOAD)
            )
            if number == 1 and phase is ALONE:
                alone = find_percentiles(slices[0].answers)
                if alone is None:
                    raise MeasurementError("the service answered nothing, alone as it was")
                environment.objective = OBJECTIVE_RATIO * alone.p90 / 1000
    return found


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
