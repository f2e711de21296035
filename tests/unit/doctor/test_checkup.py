"""Doctor on hosts that we do not have: what it finds, what it calls a problem."""

import os
import shutil
import stat
from pathlib import Path

import msgspec
import pytest

from slackwater.doctor.checkup import run_checks, run_checks_with_probe
from slackwater.doctor.doctor_report import DoctorReport, FeatureRow, KnobRow
from slackwater.observation.detection import EnvironmentValueError
from slackwater.observation.host import Roots
from tests.unit.doctor.host_tree import V2, group, host, kubelet, put, remove

UID = "d2988e14-83bc-4d3d-931a-59f8a3174396"
POD = f"kubepods/burstable/pod{UID}"
CONTAINER = f"{POD}/{'a' * 64}"


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    return host(tmp_path)


@pytest.fixture(autouse=True)
def _as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)


#: One container of a static kubelet's.
PINNED = '{"policyName": "static", "defaultCpuSet": "0,2", "entries": {"a": {"main": "1,3"}}}'


def cgroupfs_tree(roots: Roots) -> None:
    group(roots, "kubepods", cpu_weight="157\n")
    group(roots, "kubepods/besteffort", cpu_weight="1\n")
    group(roots, "kubepods/burstable", cpu_weight="16\n")
    group(roots, POD, cpu_weight="39\n")
    group(roots, CONTAINER, cpu_weight="39\n")


def what(report: DoctorReport) -> list[str]:
    return [problem.what for problem in report.problems]


def knob(report: DoctorReport, name: str, level: str) -> KnobRow:
    return next(row for row in report.knobs if (row.knob, row.level) == (name, level))


def feature(report: DoctorReport, name: str) -> FeatureRow:
    return next(row for row in report.features if row.feature == name)


def test_a_healthy_cgroupfs_node(roots: Roots) -> None:
    cgroupfs_tree(roots)
    kubelet(roots, "--cgroup-driver=cgroupfs")
    report = run_checks(roots, V2, "")
    assert what(report) == []
    assert (report.cgroup.version, report.cgroup.driver) == ("v2", "cgroupfs")
    assert report.cgroup.kubepods == "kubepods"
    assert report.cgroup.version_source == "SLACKWATER_CGROUP_VERSION"
    assert (report.machine.cpus, report.machine.smt, report.machine.numa_nodes) == (4, True, 1)
    assert report.machine.model == "Box"
    assert report.machine.topology is not None
    assert (report.machine.topology.cores, report.machine.topology.cpus) == (2, "0-3")
    assert report.machine.turbo is None
    assert report.machine.psi


def test_every_source_is_shown_also_those_that_lost(roots: Roots) -> None:
    cgroupfs_tree(roots)
    kubelet(roots, "--cgroup-driver=cgroupfs")
    sources = [finding.source for finding in run_checks(roots, V2, "").cgroup.findings]
    assert "VOLCANO_TEST_CGROUP_VERSION" in sources
    assert "CGROUP_DRIVER" in sources
    assert sources[-1] == "default"
    assert len(sources) == len(set(sources))


def test_knobs_are_looked_at_on_every_level_and_not_tried(roots: Roots) -> None:
    cgroupfs_tree(roots)
    report = run_checks(roots, V2, "")
    levels = [row.level for row in report.knobs if row.knob == "quota"]
    assert levels == ["node", "tier", "pod", "container"]
    row = knob(report, "quota", "tier")
    assert (row.file, row.works) == ("cpu.max", None)
    vendor = knob(report, "cpu-qos-level", "tier")
    assert vendor.works is False
    assert "vendor" in vendor.note
    assert feature(report, "best_effort_share").possible is None
    assert feature(report, "qos_level").possible is None
    assert feature(report, "interference").possible is True


def test_an_old_kernel_lacks_burst_and_idle(roots: Roots) -> None:
    cgroupfs_tree(roots)
    for path in ("kubepods", "kubepods/besteffort", "kubepods/burstable", POD, CONTAINER):
        remove(roots, path, "cpu.max.burst", "cpu.idle")
    report = run_checks(roots, V2, "")
    assert knob(report, "burst", "pod").note == "this cgroup has no cpu.max.burst"
    assert feature(report, "quota_burst").possible is False
    assert feature(report, "quota_burst").because == "burst does not work here"
    assert what(report) == []


@pytest.mark.parametrize(
    ("node", "container", "pods", "containers"),
    [
        ("157\n", "39\n", "linear", "linear"),
        ("157\n", "100\n", "linear", "quadratic"),
        ("300\n", "100\n", "quadratic", "quadratic"),
        ("157\n", "1\n", "linear", None),
        ("1\n", "1\n", None, None),
        ("garbage\n", "39\n", None, None),
    ],
)
def test_the_formulas_are_read_from_the_tree(
    roots: Roots, node: str, container: str, pods: str | None, containers: str | None
) -> None:
    """1024 shares in a pod: weight 39 by the linear formula, 100 by the quadratic one."""
    cgroupfs_tree(roots)
    put(Path(roots.cgroup) / "kubepods/cpu.weight", node)
    put(Path(roots.cgroup) / POD / "cpu.weight", "39\n" if pods == "linear" else "100\n")
    put(Path(roots.cgroup) / CONTAINER / "cpu.weight", container)
    weights = run_checks(roots, V2, "").cgroup.weights
    assert (weights.pods, weights.containers) == (pods, containers)


def test_a_machine_without_a_kubelet_is_no_problem(roots: Roots) -> None:
    report = run_checks(roots, V2, "")
    assert what(report) == []
    assert report.cgroup.kubepods is None
    assert knob(report, "quota", "none").works is None
    assert report.cgroup.weights.source == "there is no kubelet tree to read"


def test_a_kubelet_without_a_tree_is_one(roots: Roots) -> None:
    kubelet(roots)
    [problem] = run_checks(roots, V2, "").problems
    assert problem.what.startswith("A kubelet runs here, but its tree was not found: ")
    assert "--kubepods" in problem.action


def test_an_asked_tree_that_is_not_there(roots: Roots) -> None:
    cgroupfs_tree(roots)
    [problem] = run_checks(roots, V2, "elsewhere").problems
    assert "--kubepods" in problem.what
    assert "elsewhere" in problem.what


def test_no_cgroups_at_all(roots: Roots) -> None:
    Path(roots.cgroup).rmdir()
    report = run_checks(roots, {}, "")
    [problem] = report.problems
    assert problem.what.startswith("No cgroups: ")
    assert "--cgroup-root" in problem.action
    assert report.cgroup.version is None
    assert all(
        row.possible is False
        for row in report.features
        if row.feature not in ("interference", "oversold")
    )


def test_a_folder_that_is_no_cgroup_file_system(roots: Roots) -> None:
    [problem] = run_checks(roots, {}, "").problems
    assert "not a cgroup file system" in problem.what


def test_a_driver_that_contradicts_the_tree(roots: Roots) -> None:
    cgroupfs_tree(roots)
    kubelet(roots, "--cgroup-driver=systemd")
    [problem] = run_checks(roots, V2, "").problems
    assert "contradictory" in problem.what
    assert "systemd" in problem.what


def test_systemd_slices_without_systemds_socket(roots: Roots) -> None:
    group(roots, "kubepods.slice")
    group(roots, "kubepods.slice/kubepods-besteffort.slice")
    report = run_checks(roots, V2, "")
    [problem] = report.problems
    assert "reset within a minute" in problem.what
    assert f"{roots.host}/run/systemd/private" in problem.what
    assert "CPUQuotaPerSecUSec" in knob(report, "quota", "tier").note


def test_tiers_without_the_cpu_controller(roots: Roots) -> None:
    cgroupfs_tree(roots)
    for tier in ("kubepods/besteffort", "kubepods/burstable"):
        remove(roots, tier, "cpu.max", "cpu.weight")
    [problem] = run_checks(roots, V2, "").problems
    assert problem.what == "The kubelet's tiers lack cpu.weight and cpu.max."


@pytest.mark.parametrize(
    ("accounting", "why"),
    [
        ((), "the cpuacct controller is mounted nowhere"),
        (("cpuacct",), "kubepods is not below "),
        (("cpuacct", "cpuacct/kubepods"), ""),
    ],
)
def test_usage_that_cannot_be_read_on_cgroup_v1(
    roots: Roots, accounting: tuple[str, ...], why: str
) -> None:
    """An agent says for ever that it does not know the usage yet."""
    for path in ("cpu", "cpu/kubepods", "cpu/kubepods/besteffort", *accounting):
        put(Path(roots.cgroup) / path / "cpu.stat", "nr_periods 0\n")
        put(Path(roots.cgroup) / path / "cpu.shares", "2\n")
        put(Path(roots.cgroup) / path / "cpu.cfs_quota_us", "-1\n")
    report = run_checks(roots, {"SLACKWATER_CGROUP_VERSION": "v1"}, "")
    found = [each for each in what(report) if each.startswith("What pods use cannot be read")]
    assert len(found) == bool(why), what(report)
    assert all(why in each for each in found)


def test_containers_without_the_cpuset_controller(roots: Roots) -> None:
    cgroupfs_tree(roots)
    for path in (POD, CONTAINER):
        remove(roots, path, "cpuset.cpus")
    report = run_checks(roots, V2, "")
    assert report.problems == ()
    [note] = report.notes
    assert "have no cpuset.cpus: core_pinning cannot bind them" in note.what
    assert "cgroup.subtree_control" in note.action


def test_the_kubelets_cpu_manager_and_reserved_cpus(roots: Roots) -> None:
    put(Path(roots.host) / "var/lib/kubelet/cpu_manager_state", PINNED)
    put(Path(roots.host) / "k.yaml", "reservedSystemCPUs: 2")
    kubelet(roots, "--config=/k.yaml")
    found = run_checks(roots, V2, "").cpu_manager
    assert (found.policy, found.source) == ("static", "cpu_manager_state")
    assert found.assigned == "1,3"
    assert (found.reserved, found.reserved_source) == ("0,2", "reservedSystemCPUs")


def test_not_root(roots: Roots, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    [problem] = run_checks(roots, V2, "").problems
    assert problem.what.startswith("Running as user 1000: ")


def test_a_bad_override_is_an_error_of_the_caller(roots: Roots) -> None:
    with pytest.raises(EnvironmentValueError, match="SLACKWATER_CGROUP_VERSION is 'v3'"):
        run_checks(roots, {"SLACKWATER_CGROUP_VERSION": "v3"}, "")


def test_a_probe_that_cannot_make_its_scratch_group(roots: Roots) -> None:
    """A file in the way of its name."""
    cgroupfs_tree(roots)
    put(Path(roots.cgroup) / f"slackwater-scratch-{os.getpid()}", "in the way")
    [problem] = run_checks_with_probe(roots, V2, "").problems
    assert problem.what.startswith("Nothing was tried: no cgroup can be made at ")


def test_scratch_groups_of_killed_runs_are_removed(roots: Roots) -> None:
    cgroupfs_tree(roots)
    dead, alive = (Path(roots.cgroup) / f"slackwater-scratch-{pid}" for pid in ("4194305", "1"))
    dead.mkdir()
    alive.mkdir()
    run_checks_with_probe(roots, V2, "")
    assert (dead.exists(), alive.exists()) == (False, True)


def test_a_tree_of_the_other_driver(roots: Roots) -> None:
    group(roots, "mine/pods")
    [problem] = run_checks(roots, V2 | {"CGROUP_DRIVER": "systemd"}, "mine/pods").problems
    assert problem.what.startswith("The driver is systemd by CGROUP_DRIVER, but mine/pods is laid")


def test_an_absolute_kubepods(roots: Roots) -> None:
    cgroupfs_tree(roots)
    report = run_checks(roots, V2, f"{roots.cgroup}/kubepods/")
    assert (report.cgroup.kubepods, what(report)) == ("kubepods", [])
    [problem] = run_checks(roots, V2, "/").problems
    assert "'/' is not a path inside" in problem.what


def test_what_cannot_be_printed_is_spelled_out(roots: Roots) -> None:
    odd = msgspec.structs.replace(roots, cgroup=f"{roots.cgroup}/\x1b[31m\udcff")
    report = run_checks(odd, {}, "")
    assert report.cgroup.root.endswith("/\\x1b[31m\\udcff")
    assert msgspec.json.encode(report)


def test_no_proc_is_no_knowledge_of_psi(roots: Roots) -> None:
    shutil.rmtree(roots.proc)
    assert run_checks(roots, V2, "").machine.psi is None


def test_a_read_only_file_system(roots: Roots, monkeypatch: pytest.MonkeyPatch) -> None:
    class Sealed:
        f_flag = os.ST_RDONLY

    monkeypatch.setattr("os.statvfs", lambda _: Sealed)
    [problem] = run_checks(roots, V2, "").problems
    assert problem.what == f"The cgroup file system is mounted read-only at {roots.cgroup}."


def test_a_probe_on_plain_directories_finds_no_files_and_leaves_nothing(roots: Roots) -> None:
    cgroupfs_tree(roots)
    before = sorted(Path(roots.cgroup).iterdir())
    report = run_checks_with_probe(roots, V2, "")
    assert knob(report, "quota", "scratch").works is None
    assert feature(report, "best_effort_share").possible is None
    assert "cgroup.subtree_control" in feature(report, "best_effort_share").because
    assert sorted(Path(roots.cgroup).iterdir()) == before


def test_whether_the_runtime_can_ask_before_a_start(roots: Roots) -> None:
    path = Path(roots.host, "var/run/nri/nri.sock")
    found = run_checks(roots, V2, "").container_starts
    assert (found.nri, found.socket) == (False, str(path))
    assert "NRI is off" in found.because
    path.parent.mkdir(parents=True)
    path.touch()
    assert run_checks(roots, V2, "").container_starts.nri is False
    path.unlink()
    os.mknod(path, stat.S_IFSOCK | 0o600)
    assert run_checks(roots, V2, "").container_starts.nri is True
    path.unlink()
    path.parent.rmdir()
    path.parent.touch()
    assert run_checks(roots, V2, "").container_starts.nri is None
