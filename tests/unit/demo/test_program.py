"""Where the demo can run, and what is put back when it fails there."""

import os
from pathlib import Path

import pytest

from slackwater.demo import program
from slackwater.demo.cgroup_tree import CannotBuildTreeError
from slackwater.demo.demo_plan import DEMO
from slackwater.demo.measurements import MeasurementError, ignore_progress
from slackwater.demo.simulated import CPUS
from slackwater.model.cgroup import CgroupMounts
from slackwater.observation.detection import EnvironmentValueError
from slackwater.observation.host import Roots
from tests.unit.doctor.host_tree import host


def test_no_cgroups_at_all(tmp_path: Path) -> None:
    roots = Roots(str(tmp_path / "none"), "/proc", "/sys", "")
    with pytest.raises(CannotBuildTreeError):
        program.run_demo(roots, {}, 1.0, ignore_progress)


def test_folders_that_are_no_cgroups_are_told_with_their_place(tmp_path: Path) -> None:
    roots = host(tmp_path)
    (Path(roots.cgroup) / "cpu").mkdir(parents=True, exist_ok=True)
    with pytest.raises(CannotBuildTreeError, match="no cgroups can be made at"):
        program.run_demo(roots, {"SLACKWATER_CGROUP_VERSION": "v1"}, 1.0, ignore_progress)


def test_a_bad_variable_is_no_reason_to_simulate(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentValueError, match="SLACKWATER_CGROUP_VERSION"):
        program.run_demo(host(tmp_path), {"SLACKWATER_CGROUP_VERSION": "3"}, 1.0, ignore_progress)


def test_a_simulated_demo_says_why() -> None:
    report = program.simulate_demo(Roots(), "somebody asked", 6.0, ignore_progress)
    assert report.machine.simulated_because == "somebody asked"
    assert report.machine.cpus == CPUS
    assert report.machine.cgroup is None
    assert [phase.name for phase in report.phases] == [phase.name for phase in DEMO]
    assert len(report.meaning) == 2


def test_this_machine() -> None:
    about = program.describe_machine(Roots(), CgroupMounts({}))
    assert about.cpus >= 1
    assert about.kernel == os.uname().release
    assert about.cgroup is None


class Broken:
    """A stage on which a file is gone."""

    cost = 0.001
    closed = 0

    def __init__(self, *_: object) -> None:
        pass

    def open(self) -> None:
        raise FileNotFoundError(2, "No such file or directory", "cpu.stat")

    def close(self) -> None:
        Broken.closed += 1


def test_what_goes_wrong_on_the_way_is_one_sentence_and_the_environment_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(program, "DemoEnvironment", Broken)
    monkeypatch.setattr(program, "find_cgroup_mounts", lambda *_: CgroupMounts({}))
    with pytest.raises(MeasurementError, match=r"^cpu.stat: No such file or directory$"):
        program.run_demo(Roots(), {}, 1.0, ignore_progress)
    assert Broken.closed == 1
