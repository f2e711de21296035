"""Doctor among several trees: a note where a clue tells which is the kubelet's, else a problem."""

from pathlib import Path

import msgspec
import pytest

from slackwater.doctor.checkup import run_checks
from slackwater.doctor.doctor_report import DoctorReport
from slackwater.observation.host import Roots
from tests.unit.doctor.host_tree import V2, group, host, kubelet, put

UID = "d2988e14-83bc-4d3d-931a-59f8a3174396"
SEVERAL = "Several trees look like a kubelet's (kubepods, old/kubepods); "


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    return host(tmp_path)


@pytest.fixture(autouse=True)
def _as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)


def cgroupfs_tree(roots: Roots) -> None:
    for path in ("", "/besteffort", "/burstable", f"/burstable/pod{UID}"):
        group(roots, f"kubepods{path}")


def what(report: DoctorReport) -> list[str]:
    return [problem.what for problem in report.problems]


def test_two_trees_and_nothing_tells_is_a_problem(roots: Roots) -> None:
    cgroupfs_tree(roots)
    group(roots, f"old/kubepods/pod{UID}")
    kubelet(roots)
    report = run_checks(roots, V2, "")
    [problem] = report.problems
    assert problem.what == f"{SEVERAL}nothing tells which one is, so an agent does not start."
    assert problem.action.startswith("Name the right one with --kubepods (in the chart agent.paths")
    assert "agent.kubeletConfig" in problem.action
    assert (report.cgroup.kubepods, report.notes) == (None, ())
    assert what(run_checks(roots, V2, "kubepods")) == []


def test_two_trees_and_a_clue_is_a_note(roots: Roots) -> None:
    cgroupfs_tree(roots)
    group(roots, "old/kubepods")
    report = run_checks(roots, V2, "")
    [note] = report.notes
    assert note.what == f"{SEVERAL}an agent takes kubepods, as no other one has pods."
    assert note.action.startswith("Nothing, unless that is wrong. Name the right one")
    assert (report.cgroup.kubepods, what(report)) == ("kubepods", [])
    assert run_checks(roots, V2, "kubepods").notes == ()


def test_the_remedy_names_no_configuration_that_is_named_already(roots: Roots) -> None:
    cgroupfs_tree(roots)
    group(roots, f"old/kubepods/pod{UID}")
    put(Path(f"{roots.host}/k.yaml"), "kind: KubeletConfiguration\n")
    named = msgspec.structs.replace(roots, kubelet_config="/k.yaml")
    [problem] = run_checks(named, V2, "").problems
    assert "kubeletConfig" not in problem.action


def test_a_named_configuration_that_is_not_there_is_a_problem(roots: Roots) -> None:
    cgroupfs_tree(roots)
    named = msgspec.structs.replace(roots, kubelet_config="/k.yaml")
    [problem] = run_checks(named, V2, "").problems
    assert problem.what.startswith("An agent does not start: the kubelet's configuration '/k.yaml'")


def test_the_drivers_witness_is_the_tree_that_was_taken(roots: Roots) -> None:
    cgroupfs_tree(roots)
    group(roots, "a/kubepods")
    notes = [f.note for f in run_checks(roots, V2, "").cgroup.findings if f.source == "cgroup tree"]
    assert notes == [f"{roots.cgroup}/kubepods exists"]


def test_two_trees_and_a_kubelet_that_was_told_which_is_its_own(roots: Roots) -> None:
    cgroupfs_tree(roots)
    group(roots, "mine/kubepods")
    kubelet(roots, "--cgroup-root=/mine")
    report = run_checks(roots, V2, "")
    assert report.cgroup.kubepods == "mine/kubepods"
    assert "takes mine/kubepods, as the kubelet's cgroup root says so" in report.notes[0].what
    assert what(report) == []
