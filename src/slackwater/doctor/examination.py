"""What doctor looked at, gathered once: version, mounts, driver, tree, machine. Judges nothing."""

from collections.abc import Mapping

import msgspec

from slackwater.model.cgroup import CgroupMounts, CgroupRef, Level
from slackwater.model.gap import Gap
from slackwater.model.machine import Machine
from slackwater.observation.cgroups.tree import CgroupTree, Unread
from slackwater.observation.cgroups.weight_formula import FormulasInForce, formulas_in_force
from slackwater.observation.detection import (
    DriverVerdict,
    Finding,
    Kubepods,
    Undetected,
    VersionVerdict,
    clues_of,
    detect_driver,
    detect_version,
    find_kubepods,
    find_mounts,
)
from slackwater.observation.detection.driver import TREE_SOURCE
from slackwater.observation.detection.kubelet import KubeletProcess, find_kubelet
from slackwater.observation.detection.kubepods import trees_below
from slackwater.observation.host import Roots, read_machine

_NO_TREE = Gap("there is no kubelet tree to read")


class Examination(msgspec.Struct, frozen=True):
    """`trees` are all that look like a kubelet's; `samples` holds one cgroup of each level of
    the one that was taken."""

    roots: Roots
    asked_kubepods: str
    machine: Machine
    version: VersionVerdict | Undetected
    mounts: CgroupMounts | Gap
    driver: DriverVerdict
    kubelet: KubeletProcess | Gap
    kubepods: Kubepods | Gap
    trees: tuple[str, ...]
    samples: dict[Level, CgroupRef]
    unread: tuple[Unread, ...]
    weights: FormulasInForce


class _Tree(msgspec.Struct, frozen=True):
    samples: dict[Level, CgroupRef]
    unread: tuple[Unread, ...]
    weights: FormulasInForce


_NO_SAMPLES = _Tree({}, (), FormulasInForce(_NO_TREE, _NO_TREE))


def examine(roots: Roots, environ: Mapping[str, str], kubepods: str) -> Examination:
    """`kubepods` is the tree that was asked for; empty lets it be found."""
    machine = read_machine(roots)
    version = detect_version(roots, environ)
    mounts = version if isinstance(version, Gap) else find_mounts(roots, version)
    driver = detect_driver(roots, environ, None if isinstance(mounts, Gap) else mounts)
    found = _find_tree(roots, mounts, driver, kubepods)
    driver = _citing(driver, mounts, found)
    tree = _look_into(mounts, found, machine)
    return Examination(
        roots=roots,
        asked_kubepods=kubepods,
        machine=machine,
        version=version,
        mounts=mounts,
        driver=driver,
        kubelet=find_kubelet(roots),
        kubepods=found,
        trees=_trees(mounts),
        samples=tree.samples,
        unread=tree.unread,
        weights=tree.weights,
    )


def _find_tree(
    roots: Roots, mounts: CgroupMounts | Gap, driver: DriverVerdict, asked: str
) -> Kubepods | Gap:
    if isinstance(mounts, Gap):
        return mounts
    return find_kubepods(mounts, clues_of(roots, mounts, driver), asked)


def _citing(
    verdict: DriverVerdict, mounts: CgroupMounts | Gap, kubepods: Kubepods | Gap
) -> DriverVerdict:
    """The tree that was taken is the witness for its driver, not another one beside it."""
    top = mounts if isinstance(mounts, Gap) else mounts.identity()
    if isinstance(top, Gap) or isinstance(kubepods, Gap):
        return verdict
    taken = Finding(TREE_SOURCE, kubepods.driver.value, f"{top.directory}/{kubepods.path} exists")
    findings = tuple(
        taken if (each.source, each.found) == (taken.source, taken.found) else each
        for each in verdict.findings
    )
    return msgspec.structs.replace(verdict, findings=findings)


def _trees(mounts: CgroupMounts | Gap) -> tuple[str, ...]:
    top = mounts if isinstance(mounts, Gap) else mounts.identity()
    return () if isinstance(top, Gap) else tuple(trees_below(top.directory))


def _look_into(mounts: CgroupMounts | Gap, kubepods: Kubepods | Gap, machine: Machine) -> _Tree:
    if isinstance(mounts, Gap) or isinstance(kubepods, Gap):
        return _NO_SAMPLES
    tree = CgroupTree(mounts, kubepods.path)
    try:
        scan = tree.scan()
        cpus = 1 if isinstance(machine.cpus, Gap) else len(machine.cpus)
        samples: dict[Level, CgroupRef] = {}
        for ref in scan.refs:
            samples.setdefault(ref.level, ref)
        return _Tree(samples, scan.unread, formulas_in_force(mounts, tree, scan, cpus))
    finally:
        tree.close()
