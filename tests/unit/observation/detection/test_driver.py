"""Which driver: six sources in order, all of them kept."""

from collections.abc import Callable
from pathlib import Path

import pytest

from slackwater.model.cgroup import CgroupController, CgroupMounts, CgroupVersion, Driver, Mount
from slackwater.observation.detection import (
    DriverVerdict,
    EnvironmentValueError,
    Finding,
    detect_driver,
)
from slackwater.observation.detection.kubelet import CONFIG_FILES
from tests.unit.observation.detection.host_picture import HostPicture

CGROUPFS, SYSTEMD = Driver.CGROUPFS, Driver.SYSTEMD
CONFIG, CONF, FLAGS = CONFIG_FILES
ENVIRONMENT, TREE, PROCESS = "CGROUP_DRIVER", "cgroup tree", "kubelet process"
GUESS, DEFAULT = "cgroup root", "default"


@pytest.fixture
def host(tmp_path: Path) -> HostPicture:
    return HostPicture(tmp_path)


def verdict_of(host: HostPicture, **environ: str) -> DriverVerdict:
    return detect_driver(host.roots, environ, None)


def finding_of(verdict: DriverVerdict, source: str) -> Finding:
    [finding] = [f for f in verdict.findings if f.source == source]
    return finding


def say_by_environment(host: HostPicture, driver: str) -> dict[str, str]:
    return {ENVIRONMENT: driver}


def say_by_tree(host: HostPicture, driver: str) -> dict[str, str]:
    host.folder("cgroup/kubepods.slice" if driver == "systemd" else "cgroup/kubepods")
    return {}


def say_by_file(path: str) -> Callable[[HostPicture, str], dict[str, str]]:
    def say(host: HostPicture, driver: str) -> dict[str, str]:
        host.kubelet_file(path, f"cgroupDriver: {driver}\n")
        return {}

    return say


def say_by_process(host: HostPicture, driver: str) -> dict[str, str]:
    host.process(812, "kubelet", "kubelet", f"--cgroup-driver={driver}")
    return {}


def say_by_look(host: HostPicture, driver: str) -> dict[str, str]:
    host.folder("cgroup/system.slice" if driver == "systemd" else "cgroup/cpu")
    return {}


IN_ORDER: list[tuple[str, Callable[[HostPicture, str], dict[str, str]]]] = [
    (ENVIRONMENT, say_by_environment),
    (TREE, say_by_tree),
    (CONFIG, say_by_file(CONFIG)),
    (CONF, say_by_file(CONF)),
    (FLAGS, say_by_file(FLAGS)),
    (PROCESS, say_by_process),
    (GUESS, say_by_look),
]
NAMES = [source for source, _ in IN_ORDER]


@pytest.mark.parametrize("driver", Driver)
@pytest.mark.parametrize("position", range(len(IN_ORDER)), ids=NAMES)
def test_each_source_alone_decides(host: HostPicture, position: int, driver: Driver) -> None:
    source, say = IN_ORDER[position]
    verdict = verdict_of(host, **say(host, driver.value))
    assert (verdict.driver, verdict.source) == (driver, source)
    assert verdict.conflict is None


@pytest.mark.parametrize("driver", Driver)
@pytest.mark.parametrize("position", range(len(IN_ORDER) - 1), ids=NAMES[:-1])
def test_a_source_beats_all_after_it_and_their_words_are_kept(
    host: HostPicture, position: int, driver: Driver
) -> None:
    [other] = set(Driver) - {driver}
    source, say = IN_ORDER[position]
    environ = say(host, driver.value)
    for _, contradict in IN_ORDER[position + 1 :]:
        environ |= contradict(host, other.value)
    verdict = verdict_of(host, **environ)
    assert (verdict.driver, verdict.source) == (driver, source)
    assert {f.found for f in verdict.findings[position + 1 : -1]} == {other.value}


def test_nothing_at_all_is_cgroupfs_by_default(host: HostPicture) -> None:
    verdict = verdict_of(host)
    assert (verdict.driver, verdict.source) == (CGROUPFS, DEFAULT)
    assert [f.found for f in verdict.findings[:-1]] == [None] * len(IN_ORDER)


def test_every_source_is_kept_in_order(host: HostPicture) -> None:
    verdict = verdict_of(host, CGROUP_DRIVER="systemd")
    assert [f.source for f in verdict.findings] == [*NAMES, DEFAULT]
    assert all(f.note for f in verdict.findings)


# The environment.


@pytest.mark.parametrize("value", ["Systemd", " systemd", "cgroup", "systemd\n", "x" * 300])
def test_a_wrong_driver_in_the_environment_is_an_error(host: HostPicture, value: str) -> None:
    with pytest.raises(EnvironmentValueError) as raised:
        verdict_of(host, CGROUP_DRIVER=value)
    sentence = f"CGROUP_DRIVER is {value[:80]!r}; it must be systemd or cgroupfs"
    assert str(raised.value) == sentence


def test_an_empty_variable_counts_as_unset(host: HostPicture) -> None:
    assert verdict_of(host, CGROUP_DRIVER="").source == DEFAULT


# The tree.


@pytest.mark.parametrize(
    ("paths", "found"),
    [
        (["kubepods"], "cgroupfs"),
        (["kubelet/kubepods"], "cgroupfs"),
        (["kubepods.slice"], "systemd"),
        (["kubelet.slice/kubelet-kubepods.slice"], "systemd"),
        (["cpu/kubepods"], "cgroupfs"),
        (["cpu/kubelet/kubepods"], "cgroupfs"),
        (["cpu/kubelet.slice/kubelet-kubepods.slice"], "systemd"),
        (["kubepods", "kubelet/kubepods"], "cgroupfs"),
        (["kubepods", "kubepods.slice"], None),
        (["system.slice/kubelet.service"], None),
        ([], None),
    ],
)
def test_trees_on_the_disk(host: HostPicture, paths: list[str], found: str | None) -> None:
    for path in paths:
        host.folder(f"cgroup/{path}")
    assert finding_of(verdict_of(host), TREE).found == found


def test_a_tree_of_each_driver_is_named_and_decides_nothing(host: HostPicture) -> None:
    plain, sliced = host.folder("cgroup/kubepods"), host.folder("cgroup/kubepods.slice")
    host.kubelet_file(CONFIG, "cgroupDriver: systemd\n")
    verdict = verdict_of(host)
    assert finding_of(verdict, TREE).note == f"undecided: {plain} and {sliced} exist"
    assert (verdict.driver, verdict.source) == (SYSTEMD, CONFIG)


def test_where_the_mounts_are_known_only_cpus_hierarchy_counts(host: HostPicture) -> None:
    cpu = host.folder("cgroup/cpu")
    host.folder("cgroup/cpu/kubepods")
    host.folder("cgroup/memory/kubepods.slice")
    mounts = CgroupMounts({CgroupController.CPU: Mount(CgroupVersion.V1, cpu)})
    verdict = detect_driver(host.roots, {}, mounts)
    assert finding_of(verdict, TREE) == Finding(TREE, "cgroupfs", f"{cpu}/kubepods exists")


def test_mounts_without_cpu_are_as_good_as_none(host: HostPicture) -> None:
    host.folder("cgroup/kubepods.slice")
    assert detect_driver(host.roots, {}, CgroupMounts({})).source == TREE


# The look of the cgroup root.


@pytest.mark.parametrize(
    ("paths", "init", "found"),
    [
        (["system.slice"], "bash", "systemd"),
        (["systemd"], "systemd", "systemd"),
        (["systemd", "cpu"], "systemd", "systemd"),
        (["systemd", "cpu"], "bash", "cgroupfs"),
        (["systemd"], "bash", None),
        (["systemd"], None, None),
        (["cpu"], "systemd", "cgroupfs"),
        (["cgroup.controllers"], "bash", "cgroupfs"),
        (["system.slice", "cgroup.controllers"], "bash", "systemd"),
        (["unified"], "bash", "cgroupfs"),
        (["unified/system.slice"], "bash", "systemd"),
        (["unified/system.slice", "cpu"], "bash", "cgroupfs"),
        ([], "systemd", None),
    ],
)
def test_guesses(host: HostPicture, paths: list[str], init: str | None, found: str | None) -> None:
    for path in paths:
        host.folder(f"cgroup/{path}")
    if init:
        host.process(1, init)
    assert finding_of(verdict_of(host), GUESS).found == found


def test_a_systemd_hierarchy_without_systemd_is_explained(host: HostPicture) -> None:
    systemd, cpu = host.folder("cgroup/systemd"), host.folder("cgroup/cpu")
    host.process(1, "process_api")
    verdict = verdict_of(host)
    assert (verdict.driver, verdict.source) == (CGROUPFS, GUESS)
    assert finding_of(verdict, GUESS).note == (
        f"{cpu} exists; {systemd} does not count, as process 1 is 'process_api'"
    )


# Conflicts.


def test_the_environment_against_the_tree(host: HostPicture) -> None:
    tree = host.folder("cgroup/kubepods")
    verdict = verdict_of(host, CGROUP_DRIVER="systemd")
    assert verdict.driver is SYSTEMD
    assert verdict.conflict == (
        f"CGROUP_DRIVER says systemd, but the tree on disk is cgroupfs's ({tree} exists)"
    )


def test_the_config_against_the_tree(host: HostPicture) -> None:
    tree = host.folder("cgroup/kubepods.slice")
    host.kubelet_file(CONFIG, "cgroupDriver: cgroupfs\n")
    host.process(812, "kubelet", "kubelet", "--cgroup-driver=cgroupfs")
    verdict = verdict_of(host)
    assert (verdict.driver, verdict.source) == (SYSTEMD, TREE)
    assert verdict.conflict == (
        f"{CONFIG} and kubelet process say cgroupfs, "
        f"but the tree on disk is systemd's ({tree} exists)"
    )


@pytest.mark.parametrize(
    ("tree", "config"), [("kubepods.slice", "systemd"), ("", "systemd"), ("kubepods", "")]
)
def test_no_conflict_where_they_agree_or_are_silent(
    host: HostPicture, tree: str, config: str
) -> None:
    host.folder(f"cgroup/{tree}")
    host.kubelet_file(CONFIG, f"cgroupDriver: {config}\n")
    assert verdict_of(host).conflict is None


def test_a_guess_and_the_default_never_make_a_conflict(host: HostPicture) -> None:
    host.folder("cgroup/kubepods.slice")
    host.folder("cgroup/cpu")
    assert verdict_of(host).conflict is None


def test_no_machine_at_all(tmp_path: Path) -> None:
    host = HostPicture(tmp_path / "x")
    (tmp_path / "x").rename(tmp_path / "y")
    assert verdict_of(host).source == DEFAULT
