"""What the machine says that its NodeResourceTopology holds: its CPUs, and its NUMA nodes' amounts.

None of it has an event of its own: turbo, hyper-threads and huge pages are switched in files that
cannot be watched. Whoever reports it looks again now and then, and when other CPUs are online.
"""

import os
import re

import msgspec

from slackwater.bounded_read import Contents, read_start
from slackwater.contract.koordinator.normalization import CpuBasicInfo
from slackwater.contract.koordinator.topology import TopologyFacts, ZoneFacts
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import Gap
from slackwater.model.machine import Machine, NumaNode
from slackwater.model.units import Bytes
from slackwater.observation import kernel_text
from slackwater.observation.detection.kubelet_cpus import (
    KubeletPlaces,
    find_places,
    process_is_there,
    read_kubelet_cpus,
)
from slackwater.observation.detection.kubelet_topology import read_topology_policy
from slackwater.observation.host import Roots, read_machine

_L3_MASK = "fs/resctrl/info/L3/cbm_mask"
_HUGE_FOLDER = re.compile(r"hugepages-([0-9]{1,9})kB", re.ASCII)
_KB_PER_MI, _KB_PER_GI = 1024, 1024 * 1024
_BYTES_PER_KB = 1024
#: One part in so many: a smaller difference is the same amount of memory.
_SAME_MEMORY = 10


class TopologyReader:
    """Keeps where the kubelet's files are: looking through every process costs milliseconds."""

    def __init__(self, roots: Roots) -> None:
        self._roots = roots
        self._places: KubeletPlaces | None = None
        self._zones: tuple[ZoneFacts, ...] = ()

    def read(self) -> TopologyFacts | Gap:
        if self._places is None or not process_is_there(self._places):
            self._places = find_places(self._roots)
        machine = read_machine(self._roots)
        zones = _read_zones(self._roots, machine, _read_reserved(self._places))
        if isinstance(zones, Gap):
            return zones
        self._zones = tuple(map(_steady, zones, _matching(zones, self._zones)))
        info = _basic_info(machine, _read_cache_mask(self._roots))
        return TopologyFacts(info, self._zones, read_topology_policy(self._places))


def _matching(
    zones: tuple[ZoneFacts, ...], before: tuple[ZoneFacts, ...]
) -> list[ZoneFacts | None]:
    known = {each.number: each for each in before}
    return [known.get(each.number) for each in zones]


def _steady(zone: ZoneFacts, before: ZoneFacts | None) -> ZoneFacts:
    """In a virtual machine with a balloon a NUMA node's memory moves all the time: it stays as it
    was, as in the kubelet, until it is another amount altogether."""
    if before is None or zone.memory is None or before.memory is None:
        return zone
    moved = abs(zone.memory - before.memory)
    if moved * _SAME_MEMORY > before.memory:
        return zone
    return msgspec.structs.replace(zone, memory=before.memory)


def _basic_info(machine: Machine, mask: str) -> CpuBasicInfo:
    """What is not known is what Koordinator makes of it: a name of unknown, and off."""
    return CpuBasicInfo(
        machine.model if isinstance(machine.model, str) else kernel_text.UNKNOWN,
        machine.smt is True,
        machine.turbo is True,
        mask,
        machine.vendor if isinstance(machine.vendor, str) else kernel_text.UNKNOWN,
    )


def _read_cache_mask(roots: Roots) -> str:
    """Where resctrl is mounted; a container sees the host's mounts only below the host's root."""
    for folder in (roots.sys, f"{roots.host}/sys"):
        contents = read_start(f"{folder}/{_L3_MASK}", kernel_text.LONGEST_COUNTERS)
        if isinstance(contents, Contents):
            mask = kernel_text.cache_mask("cbm_mask", contents.data)
            return "" if isinstance(mask, Gap) else mask
    return ""


def _read_reserved(places: KubeletPlaces) -> CpuSet:
    """An amount is of the whole node and of no zone."""
    reserved = read_kubelet_cpus(places).reserved
    return reserved if isinstance(reserved, CpuSet) else CpuSet()


def _read_zones(roots: Roots, machine: Machine, reserved: CpuSet) -> tuple[ZoneFacts, ...] | Gap:
    """A kernel without NUMA is one zone."""
    if isinstance(machine.nodes, Gap):
        if isinstance(machine.cpus, Gap):
            return machine.cpus
        memory = _read_memory(f"{roots.proc}/meminfo")
        pages = _read_huge_pages(f"{roots.sys}/kernel/mm/hugepages")
        cpus = machine.cpus
        return (ZoneFacts(0, len(cpus), memory, pages, len(cpus & reserved)),)
    return tuple(_read_zone(roots, node, reserved) for node in machine.nodes)


def _read_zone(roots: Roots, node: NumaNode, reserved: CpuSet) -> ZoneFacts:
    folder = f"{roots.sys}/devices/system/node/node{node.number}"
    memory = _read_memory(f"{folder}/meminfo")
    pages = _read_huge_pages(f"{folder}/hugepages")
    return ZoneFacts(node.number, len(node.cpus), memory, pages, len(node.cpus & reserved))


def _read_memory(file: str) -> Bytes | None:
    contents = read_start(file, kernel_text.LONGEST_COUNTERS)
    total = contents if isinstance(contents, Gap) else kernel_text.memory_total(file, contents.data)
    return None if isinstance(total, Gap) else total


def _read_huge_pages(folder: str) -> dict[str, Bytes]:
    """By the resource's name. A kernel without huge pages has no such folder."""
    try:
        found = [match for name in os.listdir(folder) if (match := _HUGE_FOLDER.fullmatch(name))]
    except OSError:
        return {}
    sizes: dict[str, Bytes] = {}
    for match in found:
        file = f"{folder}/{match[0]}/nr_hugepages"
        contents = read_start(file, kernel_text.LONGEST_COUNTERS)
        pages = contents if isinstance(contents, Gap) else kernel_text.number(file, contents.data)
        if isinstance(pages, int) and pages >= 0:
            size = int(match[1])
            sizes[_huge_name(size)] = Bytes(pages * size * _BYTES_PER_KB)
    return sizes


def _huge_name(size: int) -> str:
    """As the kubelet names them: hugepages-2Mi, hugepages-1Gi, hugepages-64Ki."""
    if size % _KB_PER_GI == 0:
        return f"hugepages-{size // _KB_PER_GI}Gi"
    return f"hugepages-{size // _KB_PER_MI}Mi" if size % _KB_PER_MI == 0 else f"hugepages-{size}Ki"
