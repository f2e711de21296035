"""Who used the machine's CPUs between two looks, from exact counters.

Owns the subtraction. Noise is what is neither the demo's nor anyone's here: steal (the
hypervisor's, from /proc/stat, which has no exact source) and foreign work of this machine.
"""

import os
import time

import msgspec

from slackwater.demo.tree import Tree
from slackwater.model.cgroup import CgroupMounts
from slackwater.model.gap import Gap
from slackwater.observation.host import NodeUsageMeter, Roots, read_ticks

_MICROS = 1e6
_USER_HZ = os.sysconf("SC_CLK_TCK")


class CannotMeasure(Exception):  # noqa: N818  it reads as a sentence where it is caught
    """One sentence about what is missing."""


class Counters(msgspec.Struct, frozen=True):
    """CPU seconds so far, and when. `own` is this process's, `tree` everything else of ours."""

    at: float
    node: float
    tree: float
    service: float
    hog: float
    own: float
    steal: float


class CpuUse(msgspec.Struct, frozen=True, rename="camel"):
    """In CPUs. `other` is all that is neither service nor hog: client, agent, foreign work."""

    service: float
    hog: float
    other: float
    idle: float


class Noise(msgspec.Struct, frozen=True, rename="camel"):
    """In CPUs: what the hypervisor took, and what other work of this machine used."""

    steal: float
    foreign: float


def use_between(before: Counters, after: Counters, cpus: int) -> CpuUse:
    """`before` must be earlier."""
    service, hog = (_rate(before, after, name) for name in ("service", "hog"))
    node, steal = (_rate(before, after, name) for name in ("node", "steal"))
    other = max(node - service - hog, 0.0)
    idle = max(cpus - service - hog - other - steal, 0.0)
    return CpuUse(round(service, 4), round(hog, 4), round(other, 4), round(idle, 4))


def noise_between(before: Counters, after: Counters) -> Noise:
    foreign = _rate(before, after, "node") - _rate(before, after, "tree")
    foreign -= _rate(before, after, "own")
    return Noise(round(_rate(before, after, "steal"), 4), round(max(foreign, 0.0), 4))


def _rate(before: Counters, after: Counters, name: str) -> float:
    moved: float = getattr(after, name) - getattr(before, name)
    return moved / (after.at - before.at)


class Gauges:
    """Guards the descriptors behind the counters."""

    def __init__(self, mounts: CgroupMounts, roots: Roots, tree: Tree) -> None:
        self._roots = roots
        self._tree = tree
        self._meter = NodeUsageMeter(mounts, roots)

    def read(self) -> Counters:
        node, ticks = self._meter.read(), read_ticks(self._roots)
        if isinstance(node, Gap) or isinstance(ticks, Gap):
            reason = node.reason if isinstance(node, Gap) else f"{ticks}"
            raise CannotMeasure(f"the node's CPU time cannot be read: {reason}")
        tree = self._tree
        return Counters(
            at=time.monotonic(),
            node=node.usage / _MICROS,
            tree=tree.usage(tree.top) / _MICROS,
            service=tree.usage(tree.burstable) / _MICROS,
            hog=tree.usage(tree.besteffort) / _MICROS,
            own=time.process_time(),
            steal=ticks.total.steal / _USER_HZ,
        )

    def close(self) -> None:
        self._meter.close()
