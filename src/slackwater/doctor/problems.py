"""What is wrong with a machine, and what to do about it.

A rule is one function that turns the facts of an examination into problems: what is wrong in one
sentence, what to do about it in another.
"""

import os
from collections.abc import Callable, Iterator

from slackwater.doctor.doctor_report import (
    DoctorProblem,
    KnobRow,
)
from slackwater.doctor.examination import Examination
from slackwater.model.cgroup import CgroupController, CgroupVersion, Driver, Level
from slackwater.model.gap import Gap
from slackwater.model.knob import CPUS
from slackwater.observation.detection.kubelet import SeveralKubelets
from slackwater.observation.detection.kubepods import SHOWN, UnusableOrder
from slackwater.observation.detection.mounts import MAGIC_SOURCE

_ROOT_USER = 0
Rule = Callable[[Examination, tuple[KnobRow, ...]], Iterator[DoctorProblem]]


def find_problems(
    examination: Examination, knobs: tuple[KnobRow, ...]
) -> tuple[DoctorProblem, ...]:
    return tuple(problem for rule in _RULES for problem in rule(examination, knobs))


def find_notes(examination: Examination, knobs: tuple[KnobRow, ...]) -> tuple[DoctorProblem, ...]:
    """What is fine as long as its reason is right."""
    return (*_chosen_tree(examination), *_no_cpusets(knobs))


def _chosen_tree(examination: Examination) -> Iterator[DoctorProblem]:
    kubepods = examination.kubepods
    if isinstance(kubepods, Gap) or not kubepods.because:
        return
    what = f"{_name_trees(examination)}; an agent takes {kubepods.path}, as {kubepods.because}."
    yield DoctorProblem(what, f"Nothing, unless that is wrong. {_remedy(examination)}")


def _no_cpusets(knobs: tuple[KnobRow, ...]) -> Iterator[DoctorProblem]:
    """On cgroup v2 a group has the files of the controllers that its parent hands on."""
    levels = (Level.POD.value, Level.CONTAINER.value)
    if any(row.knob == CPUS.name and row.level in levels and row.works is False for row in knobs):
        yield DoctorProblem(
            "The kubelet's pods and containers have no cpuset.cpus: core_pinning cannot bind them.",
            "Nothing, unless they are to be bound: then restart the kubelet, which enables the "
            "cpuset controller below kubepods (cgroup.subtree_control).",
        )


def _no_cgroups(examination: Examination, _: tuple[KnobRow, ...]) -> Iterator[DoctorProblem]:
    if isinstance(examination.version, Gap):
        yield DoctorProblem(
            f"No cgroups: {examination.version.reason}.",
            "Mount the host's /sys/fs/cgroup and name it with --cgroup-root.",
        )
    elif isinstance(examination.mounts, Gap):
        yield DoctorProblem(
            f"No controllers: {examination.mounts.reason}.",
            "Check the kernel's command line for cgroup_disable= and the mounts of the host.",
        )
    else:
        cpu = examination.mounts.identity()
        if isinstance(cpu, Gap):
            yield DoctorProblem(
                f"No CPU control: {cpu.reason}.", "Enable the kernel's cpu controller for cgroups."
            )


def _wrong_tree(examination: Examination, _: tuple[KnobRow, ...]) -> Iterator[DoctorProblem]:
    if not isinstance(examination.kubepods, Gap) or isinstance(examination.mounts, Gap):
        return
    if examination.asked_kubepods:
        yield DoctorProblem(
            f"The tree that --kubepods names is not there: {examination.kubepods.reason}.",
            "Leave --kubepods out to let it be found, or name a folder of the cgroup root.",
        )
    elif isinstance(unusable := examination.kubepods, UnusableOrder):
        yield DoctorProblem(
            f"An agent does not start: {unusable.reason}.",
            "Name the right file with --kubelet-config (in the chart agent.kubeletConfig).",
        )
    elif _kubelet_runs(examination) and not examination.trees:
        yield DoctorProblem(
            f"A kubelet runs here, but its tree was not found: {examination.kubepods.reason}.",
            "Name the tree with --kubepods, or the host's cgroups with --cgroup-root.",
        )


def _driver_conflict(examination: Examination, _: tuple[KnobRow, ...]) -> Iterator[DoctorProblem]:
    if examination.driver.conflict:
        yield DoctorProblem(
            f"The cgroup driver is contradictory: {examination.driver.conflict}.",
            "Correct the configuration, or restart the kubelet so that it lays out its tree anew.",
        )


def _two_trees(examination: Examination, _: tuple[KnobRow, ...]) -> Iterator[DoctorProblem]:
    kubepods, trees = examination.kubepods, examination.trees
    unclear = isinstance(kubepods, Gap) and not isinstance(kubepods, UnusableOrder)
    if unclear and not examination.asked_kubepods and len(trees) > 1:
        yield DoctorProblem(
            f"{_name_trees(examination)}; nothing tells which one is, so an agent does not start.",
            _remedy(examination),
        )


def _name_trees(examination: Examination) -> str:
    return f"Several trees look like a kubelet's ({', '.join(examination.trees[:SHOWN])})"


def _remedy(examination: Examination) -> str:
    shown = (
        ""
        if examination.roots.kubelet_config
        else "name the kubelet's configuration with --kubelet-config (agent.kubeletConfig), "
    )
    return (
        f"Name the right one with --kubepods (in the chart agent.paths.kubepods), {shown}"
        "or remove what an earlier kubelet left."
    )


def _kubelet_runs(examination: Examination) -> bool:
    kubelet = examination.kubelet
    return not isinstance(kubelet, Gap) or isinstance(kubelet, SeveralKubelets)


def _other_layout(examination: Examination, _: tuple[KnobRow, ...]) -> Iterator[DoctorProblem]:
    kubepods, verdict = examination.kubepods, examination.driver
    if isinstance(kubepods, Gap) or verdict.conflict or kubepods.driver is verdict.driver:
        return
    yield DoctorProblem(
        f"The driver is {verdict.driver.value} by {verdict.source}, but {kubepods.path} is laid "
        f"out as by {kubepods.driver.value}.",
        "Name another tree with --kubepods, or correct CGROUP_DRIVER.",
    )


def _wrong_override(examination: Examination, _: tuple[KnobRow, ...]) -> Iterator[DoctorProblem]:
    version = examination.version
    if isinstance(version, Gap) or not version.is_override():
        return
    looked = [f for f in version.findings if f.source == MAGIC_SOURCE and f.found]
    for finding in looked:
        if finding.found != version.label:
            yield DoctorProblem(
                f"{version.source} says {version.label}, but {finding.note}.",
                f"Unset {version.source}: it is for tests.",
            )


def _not_allowed(_: Examination, __: tuple[KnobRow, ...]) -> Iterator[DoctorProblem]:
    user = os.geteuid()
    if user != _ROOT_USER:
        yield DoctorProblem(
            f"Running as user {user}: cgroup files belong to root and cannot be written.",
            "Run as root (sudo), or give the container CAP_DAC_OVERRIDE and a writable mount.",
        )


def _read_only(examination: Examination, _: tuple[KnobRow, ...]) -> Iterator[DoctorProblem]:
    mounts = examination.mounts
    there = () if isinstance(mounts, Gap) else mounts.by_controller.values()
    sealed = sorted({mount.directory for mount in there if _is_read_only(mount.directory)})
    if sealed:
        yield DoctorProblem(
            f"The cgroup file system is mounted read-only at {', '.join(sealed)}.",
            "Mount it read-write, for example as a hostPath volume.",
        )


def _is_read_only(directory: str) -> bool:
    try:
        return bool(os.statvfs(directory).f_flag & os.ST_RDONLY)
    except OSError:  # gone, or not permitted: other rules report that
        return False


def _systemd_out_of_reach(
    examination: Examination, _: tuple[KnobRow, ...]
) -> Iterator[DoctorProblem]:
    kubepods = examination.kubepods
    socket = f"{examination.roots.host}/run/systemd/private"
    if isinstance(kubepods, Gap) or kubepods.driver is not Driver.SYSTEMD:
        return
    if not os.access(socket, os.W_OK):
        yield DoctorProblem(
            f"systemd owns the kubelet's slices, but its socket {socket} cannot be reached: "
            "the agent changes none of their values, as files are reset within a minute.",
            "Mount the host's /run/systemd at the same place and name it with --host-root.",
        )


def _controllers_off(
    examination: Examination, knobs: tuple[KnobRow, ...]
) -> Iterator[DoctorProblem]:
    missing = [
        row.file
        for row in knobs
        if row.level == Level.TIER.value and row.knob in ("quota", "weight") and row.works is False
    ]
    if missing and Level.TIER in examination.content.samples:
        yield DoctorProblem(
            f"The kubelet's tiers lack {' and '.join(str(name) for name in missing)}.",
            "Start the kubelet with cgroupsPerQOS and let it enable the cpu controller.",
        )


def _no_accounting(examination: Examination, _: tuple[KnobRow, ...]) -> Iterator[DoctorProblem]:
    """On cgroup v1 usage is the business of a controller of its own."""
    mounts = examination.mounts
    cpu = mounts if isinstance(mounts, Gap) else mounts.identity()
    if isinstance(mounts, Gap) or isinstance(cpu, Gap) or cpu.version is CgroupVersion.V2:
        return
    accounting = mounts.mount(CgroupController.CPUACCT)
    tree = examination.kubepods
    if isinstance(accounting, Gap):
        why = accounting.reason
    elif not isinstance(tree, Gap) and not os.path.isdir(f"{accounting.directory}/{tree.path}"):
        why = f"{tree.path} is not below {accounting.directory}"
    else:
        return
    yield DoctorProblem(
        f"What pods use cannot be read, so that every policy holds: {why}.",
        "Mount the cpuacct controller where the kubelet makes its groups (as a rule together with "
        "cpu), or boot with cgroup v2.",
    )


def _unreadable(examination: Examination, _: tuple[KnobRow, ...]) -> Iterator[DoctorProblem]:
    for unread in examination.content.unread[:3]:
        yield DoctorProblem(
            f"The cgroup {unread.path} cannot be listed: {unread.gap.reason}.",
            "Run as root, and check the mount's options.",
        )


_RULES: tuple[Rule, ...] = (
    _no_cgroups,
    _wrong_tree,
    _driver_conflict,
    _two_trees,
    _other_layout,
    _wrong_override,
    _not_allowed,
    _read_only,
    _systemd_out_of_reach,
    _controllers_off,
    _no_accounting,
    _unreadable,
)
