"""The machine's CPUs for the tick: topology, reserved CPUs, and the kubelet's CPU manager.

Owns when each of them is read again: the topology when other CPUs are online, the kubelet's files
when they are other files than before, its process when it is not there any more. A tick in which
nothing changed costs two small reads and a stat for each file, and gets the same object as before.
"""

import os

import msgspec

from slackwater.model.cpus import CpuSet, KubeletCpus, Topology
from slackwater.model.gap import NOT_ASKED, Gap
from slackwater.model.units import Micros
from slackwater.observation.detection.kubelet_cpus import (
    NONE,
    STATE_FILE,
    KubeletCpuReport,
    KubeletPlaces,
    find_places,
    process_is_there,
    read_kubelet_cpus,
    round_up_to_cpus,
)
from slackwater.observation.host import Roots, read_online, read_topology

#: Looking through every process costs milliseconds on a full node.
SEARCH_AGAIN = Micros(10_000_000)


class NodeCpus(msgspec.Struct, frozen=True):
    """What a snapshot says of them; `reserved_source` is for people."""

    topology: Topology | Gap
    reserved: CpuSet
    reserved_source: str
    kubelet: KubeletCpus | Gap
    kubelet_source: str

    def knows_assigned(self) -> bool:
        """Whether what the kubelet gave to containers is all there; only its state file tells."""
        nothing = isinstance(self.kubelet, KubeletCpus) and self.kubelet.policy == NONE
        return nothing or self.kubelet_source == STATE_FILE


_FileStamp = tuple[int, int, int, int, int]


class CpuInventory:
    """Guards what was read last."""

    def __init__(self, roots: Roots) -> None:
        self._roots = roots
        self._online: CpuSet | Gap = NOT_ASKED
        self._topology: Topology | Gap = NOT_ASKED
        self._places: KubeletPlaces | None = None
        self._searched = Micros(0)
        self._stamps: tuple[_FileStamp | None, ...] = ()
        self._report: KubeletCpuReport | None = None
        self._latest: NodeCpus | None = None

    def read(self, at: Micros) -> NodeCpus:
        changed = self._look_at_online()
        report = self._look_at_kubelet(at)
        if self._latest is None or changed or report is not self._report:
            self._report = report
            self._latest = _combine(self._topology, report)
        return self._latest

    def _look_at_online(self) -> bool:
        online = read_online(self._roots)
        # CPUs that could not be placed are looked at again: a CPU goes offline file by file.
        if online == self._online and not isinstance(self._topology, Gap):
            return False
        self._online = online
        found = online if isinstance(online, Gap) else read_topology(self._roots, online)
        before, self._topology = self._topology, found
        return found != before

    def _look_at_kubelet(self, at: Micros) -> KubeletCpuReport:
        if self._has_to_search(at):
            self._places, self._searched = self._search(), at
        places = self._places or KubeletPlaces((), ())
        stamps = tuple(map(_stamp, (*places.states, *places.configs)))
        if self._report is not None and stamps == self._stamps and self._searched != at:
            return self._report
        self._stamps = stamps
        found = read_kubelet_cpus(places)
        return self._report if self._report is not None and found == self._report else found

    def _search(self) -> KubeletPlaces:
        """While a kubelet restarts its files stay where they were: the usual places are another's,
        and would make its CPU manager vanish for a moment."""
        found = find_places(self._roots)
        known = self._places
        return found if known is None or not known.directory or found.directory else known

    def _has_to_search(self, at: Micros) -> bool:
        places = self._places
        if places is None or (places.directory and not process_is_there(places)):
            return True
        return not places.directory and at - self._searched >= SEARCH_AGAIN


def _stamp(path: str) -> _FileStamp | None:
    """Another one for each other file, and for other contents of it."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size, found.st_nlink


def _combine(topology: Topology | Gap, report: KubeletCpuReport) -> NodeCpus:
    first = CpuSet() if isinstance(topology, Gap) else first_cpus(topology, 1)
    asked = report.reserved
    if isinstance(asked, CpuSet):
        reserved = asked
    elif isinstance(topology, Gap):
        reserved = CpuSet()
    else:
        reserved = first_cpus(topology, round_up_to_cpus(asked))
    return NodeCpus(topology, reserved | first, report.reserved_source, report.cpus, report.source)


def first_cpus(topology: Topology, number: int) -> CpuSet:
    """So many in packed order: whole cores of the first package, node by node."""
    packed = sorted(topology.cpus, key=lambda cpu: (cpu.package, cpu.node, cpu.core, cpu.number))
    return CpuSet.of(cpu.number for cpu in packed[:number])
