"""Doctor on real kernels: every mainline knob works where the kernel has it, nothing is left."""

import os

import pytest

from slackwater.doctor.checkup import run_checks, run_checks_with_probe
from slackwater.doctor.doctor_report import DoctorReport
from slackwater.model.cgroup import CgroupController, CgroupVersion
from slackwater.model.knob import KNOBS
from slackwater.observation.host import Roots
from tests.kernel.bed import Bed

EVERYWHERE = {"weight", "quota", "burst", "idle", "cpus", "memory-max"}
VENDOR = {knob.name for knob in KNOBS if knob.vendor}
V2_ONLY = {knob.name for knob in KNOBS if knob.v1 is None}


def tried(report: DoctorReport) -> dict[str, bool | None]:
    return {row.knob: row.works for row in report.knobs if row.level == "scratch"}


def test_probe_tries_every_knob_and_leaves_nothing(bed: Bed, version: CgroupVersion) -> None:
    bed.make(f"{bed.kubepods}/besteffort")
    before = {c: sorted(os.listdir(bed.directory("", c))) for c in CgroupController}
    report = run_checks_with_probe(Roots(), {}, bed.kubepods)
    works = EVERYWHERE | (V2_ONLY if version is CgroupVersion.V2 else set())
    assert {knob for knob, state in tried(report).items() if state} == works
    assert {knob for knob, state in tried(report).items() if state is False} == (
        EVERYWHERE | V2_ONLY | VENDOR
    ) - works
    assert {c: sorted(os.listdir(bed.directory("", c))) for c in CgroupController} == before


def test_what_stands_in_the_tree_is_seen_and_not_touched(bed: Bed, version: CgroupVersion) -> None:
    pod = f"{bed.kubepods}/besteffort/pod{'0' * 32}"
    container = bed.make(f"{pod}/{'a' * 64}")
    file = "cpu.max" if version is CgroupVersion.V2 else "cpu.cfs_quota_us"
    before = bed.read(container, file)
    report = run_checks(Roots(), {}, bed.kubepods)
    rows = {row.level: row for row in report.knobs if row.knob == "quota"}
    assert set(rows) == {"node", "tier", "pod", "container"}
    assert all((row.file, row.works) == (file, None) for row in rows.values())
    assert bed.read(container, file) == before
    assert report.cgroup.kubepods == bed.kubepods


def test_the_machine_is_known(version: CgroupVersion) -> None:
    report = run_checks(Roots(), {}, "")
    assert report.machine.cpus == len(os.sched_getaffinity(0))
    assert report.machine.topology is not None
    assert report.cgroup.version in (("v2",) if version is CgroupVersion.V2 else ("v1", "hybrid"))
    assert report.cgroup.version_source == "file system magic"


@pytest.mark.systemd
def test_a_machine_of_systemds_says_so() -> None:
    report = run_checks(Roots(), {}, "")
    assert (report.cgroup.driver, report.cgroup.driver_source) == ("systemd", "cgroup root")
