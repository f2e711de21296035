"""Memory of pods and containers: their working sets."""

import re
from collections.abc import Mapping

from slackwater.model.cgroup import CgroupController, CgroupMounts, CgroupRef, CgroupVersion
from slackwater.model.elastic import ELASTIC_MEMORY
from slackwater.model.gap import Gap
from slackwater.model.metric import Samples
from slackwater.model.units import Micros
from slackwater.observation.cgroups.files import GroupFolders, HeldFiles
from slackwater.observation.kernel_text import garbage, number
from slackwater.observation.metrics.pod_metrics import (
    GroupSeries,
    SeriesOfWorkloads,
    SeriesSamples,
    total_of,
)
from slackwater.observation.metrics.tick_view import MetricAges, TickView
from slackwater.observation.metrics.turns import GroupTurns

#: Groups whose memory a tick reads. With more of them files are opened for each reading, which is
#: slower: a descriptor that is not used each tick is not worth its kernel memory.
_GROUPS_IN_A_TICK = 48
#: memory.stat has 1 to 3 KiB, and each reading of it sums it up anew: one has to be enough.
_STAT_BUFFER = 8192
_STAT = "memory.stat"
# On v1 the lines without total_ leave out the groups below (memcg_stat_show in mm/memcontrol.c).
_INACTIVE_V1 = re.compile(rb"^total_inactive_file ([0-9]{1,20})$", re.MULTILINE)
_INACTIVE_V2 = re.compile(rb"^inactive_file ([0-9]{1,20})$", re.MULTILINE)


class WorkingSets:
    """Bytes that a group uses less those of files that nobody used for a while: what the kubelet
    and Crane call its working set. Guards the descriptors."""

    names = frozenset({"container_mem_total_usage", "ext_res_container_mem_total_usage"})
    keeps_samples = True

    def __init__(self, mounts: CgroupMounts, series: SeriesOfWorkloads) -> None:
        mount = mounts.mount(CgroupController.MEMORY)
        self._unmounted = mount if isinstance(mount, Gap) else None
        v1 = not isinstance(mount, Gap) and mount.version is CgroupVersion.V1
        self._usage = "memory.usage_in_bytes" if v1 else "memory.current"
        self._inactive = _INACTIVE_V1 if v1 else _INACTIVE_V2
        files = dict.fromkeys((self._usage, _STAT), CgroupController.MEMORY)
        self._folders = GroupFolders(mounts)
        self._held = HeldFiles(self._folders, files, _STAT_BUFFER)
        self._series = series
        self._turns = GroupTurns()
        self._samples = SeriesSamples()

    def measure(
        self, at: Micros, wanted: MetricAges, view: TickView
    ) -> Mapping[str, Samples | Gap]:
        if self._unmounted is not None:
            return dict.fromkeys(wanted, self._unmounted)
        if self._turns.follow(self._series.series(view.workloads)):
            kept = self._turns.series if self._are_few() else ()
            self._held.keep(frozenset(each.ref.id for each in kept))
        due = self._turns.due(at, wanted)
        for each in due:
            self._turns.note(each.ref, at, self._working_set(each.ref), wanted)
        room = range(_GROUPS_IN_A_TICK - len(due))
        for _, each in zip(room, self._turns.in_turn(at), strict=False):
            self._turns.note(each.ref, at, self._working_set(each.ref), wanted)
        self._samples.keep(wanted)
        return {name: self._one(name, at, oldest) for name, oldest in wanted.items()}

    def forget(self) -> None:
        self._held.close()
        self._turns, self._samples = GroupTurns(), SeriesSamples()

    def _one(self, name: str, at: Micros, oldest: Micros) -> Samples | Gap:
        def value(each: GroupSeries) -> float | Gap:
            return self._turns.value(each.ref, at, oldest)

        if name == "container_mem_total_usage":
            return self._samples.make(name, self._turns.series, value)
        return total_of(self._turns.series, ELASTIC_MEMORY, value)

    def _are_few(self) -> bool:
        return len(self._turns.series) <= _GROUPS_IN_A_TICK

    def _texts(self, ref: CgroupRef) -> tuple[bytes | Gap, ...]:
        names = (self._usage, _STAT)
        if self._are_few():
            return tuple(self._held.text(name, ref.path, ref.id) for name in names)
        return self._folders.texts(CgroupController.MEMORY, ref.path, ref.id, names)

    def _working_set(self, ref: CgroupRef) -> float | Gap:
        usage, stat = self._texts(ref)
        if isinstance(usage, Gap):
            return usage
        if isinstance(stat, Gap):
            return stat
        used, inactive = number(self._usage, usage), self._inactive.search(stat)
        if isinstance(used, Gap):
            return used
        if inactive is None:
            return garbage(_STAT, stat)
        return float(max(used - int(inactive[1]), 0))
