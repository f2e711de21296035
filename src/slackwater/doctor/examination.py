"""What `slackwater doctor` gathers, once: the machine, its cgroups, and the kubelet's tree."""

import time
from collections.abc import Mapping

import msgspec

from slackwater.model.cgroup import CgroupMounts, CgroupRef, Level
from slackwater.model.gap import Gap
from slackwater.model.machine import Machine
from slackwater.model.units import Micros
from slackwater.observation.cgroups.tree import CgroupTree, Unread
from slackwater.observation.cgroups.weight_formula import FormulasInForce, formulas_in_force
from slackwater.observation.cpu_inventory import CpuInventory, NodeCpus
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


class TreeContent(msgspec.Struct, frozen=True):
    """What the chosen tree holds; `samples` has one cgroup of each level."""

    samples: dict[Level, CgroupRef]
    unread: tuple[Unread, ...]
    weights: FormulasInForce


class Examination(msgspec.Struct, frozen=True):
    """`trees` are all that look like a kubelet's; `content` is of the chosen one."""

    roots: Roots
    asked_kubepods: str
    machine: Machine
    version: VersionVerdict | Undetected
    mounts: CgroupMounts | Gap
    driver: DriverVerdict
    kubelet: KubeletProcess | Gap
    kubepods: Kubepods | Gap
    trees: tuple[str, ...]
    content: TreeContent
    cpus: NodeCpus


_NO_SAMPLES = TreeContent({}, (), FormulasInForce(_NO_TREE, _NO_TREE))


def examine(roots: Roots, environ: Mapping[str, str], kubepods: str) -> Examination:
    """`kubepods` is the tree to use; it is detected if empty."""
    machine = read_machine(roots)
    version = detect_version(roots, environ)
    mounts = version if isinstance(version, Gap) else find_mounts(roots, version)
    driver = detect_driver(roots, environ, None if isinstance(mounts, Gap) else mounts)
    found = _find_tree(roots, mounts, driver, kubepods)
    driver = _cite_taken_tree(driver, mounts, found)
    return Examination(
        roots=roots,
        asked_kubepods=kubepods,
        machine=machine,
        version=version,
        mounts=mounts,
        driver=driver,
        kubelet=find_kubelet(roots),
        kubepods=found,
        trees=_list_trees(mounts),
        content=_read_tree(mounts, found, machine),
        cpus=CpuInventory(roots).read(read_now()),
    )


def _find_tree(
    roots: Roots, mounts: CgroupMounts | Gap, driver: DriverVerdict, asked: str
) -> Kubepods | Gap:
    if isinstance(mounts, Gap):
        return mounts
    return find_kubepods(mounts, clues_of(roots, mounts, driver), asked)


def _cite_taken_tree(
    verdict: DriverVerdict, mounts: CgroupMounts | Gap, kubepods: Kubepods | Gap
) -> DriverVerdict:
    """The finding about the driver cites the chosen tree, not another one beside it."""
    top = mounts if isinstance(mounts, Gap) else mounts.identity()
    if isinstance(top, Gap) or isinstance(kubepods, Gap):
        return verdict
    taken = Finding(TREE_SOURCE, kubepods.driver.value, f"{top.directory}/{kubepods.path} exists")
    findings = tuple(
        taken if (each.source, each.found) == (taken.source, taken.found) else each
        for each in verdict.findings
    )
    return msgspec.structs.replace(verdict, findings=findings)


def _list_trees(mounts: CgroupMounts | Gap) -> tuple[str, ...]:
    top = mounts if isinstance(mounts, Gap) else mounts.identity()
    return () if isinstance(top, Gap) else tuple(trees_below(top.directory))


def _read_tree(
    mounts: CgroupMounts | Gap, kubepods: Kubepods | Gap, machine: Machine
) -> TreeContent:
    if isinstance(mounts, Gap) or isinstance(kubepods, Gap):
        return _NO_SAMPLES
    tree = CgroupTree(mounts, kubepods.path)
    try:
        scan = tree.scan()
        cpus = 1 if isinstance(machine.cpus, Gap) else len(machine.cpus)
        samples: dict[Level, CgroupRef] = {}
        for ref in scan.refs:
            samples.setdefault(ref.level, ref)
        return TreeContent(samples, scan.unread, formulas_in_force(mounts, tree, scan, cpus))
    finally:
        tree.close()


def read_now() -> Micros:
    return Micros(time.monotonic_ns() // 1000)
