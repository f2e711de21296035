"""Chooses CPUs for one container among those that are free. Pure.

Whole cores come before single threads, and CPUs that are close together before others: of one
last-level cache, one NUMA node, one package. Among groups that would do, the one with the fewest
free CPUs is taken, so that large groups stay free for those who need them; what no group holds
alone fills whole groups first. On an empty machine where nobody tells of caches this is the order
of the kubelet's CPU manager (takeByTopologyNUMAPacked in its cpumanager/cpu_assignment.go); where
some are in use it never tears more cores or takes more packages than that.
"""

from collections.abc import Iterable
from operator import attrgetter

from slackwater.model.cpus import Cpu, CpuSet, Topology

#: What groups of CPUs share.
_SHARED = attrgetter("cache"), attrgetter("node"), attrgetter("package")
#: Threads of a core in use: the others all have as many free.
_PAIR = 2


class CpuLayout:
    """A topology as bit masks: its cores, and its groups of cores, level by level."""

    def __init__(self, topology: Topology) -> None:
        self.online = topology.all()
        cores = _partition(((cpu.package, cpu.core), cpu) for cpu in topology.cpus)
        self.core_of = {cpu: core for core in cores for cpu in CpuSet(core)}
        self.cores = cores
        #: Of a core.
        self.threads = max((core.bit_count() for core in cores), default=1)
        self.levels = self._group(topology)

    def _group(self, topology: Topology) -> tuple[tuple[int, ...], ...]:
        """Groups of more than a core each, the smallest first, the whole machine last."""
        found: dict[tuple[int, ...], None] = {}
        for key in _SHARED:
            groups = _partition((key(cpu), cpu) for cpu in topology.cpus)
            if all(group.bit_count() > self.threads for group in groups):
                found[groups] = None
        found[(self.online.mask,)] = None
        return tuple(sorted(found, key=len, reverse=True))


def _partition(pairs: Iterable[tuple[object, Cpu]]) -> tuple[int, ...]:
    """Masks of the CPUs with the same key, by their lowest CPU."""
    found: dict[object, int] = {}
    for key, cpu in pairs:
        found[key] = found.get(key, 0) | 1 << cpu.number
    return tuple(sorted(found.values(), key=_lowest))


def _lowest(mask: int) -> int:
    return mask & -mask


class FreeCpus:
    """The CPUs that are still to be had; one after another takes its own. Masks throughout."""

    def __init__(self, machine: CpuLayout, free: int) -> None:
        self._machine = machine
        self.mask = free & machine.online.mask
        #: Of cores all of whose threads are free.
        self._whole = 0
        for core in machine.cores:
            if not core & ~self.mask:
                self._whole |= core

    def take(self, cpus: int) -> int:
        """Exactly these."""
        self.mask &= ~cpus
        for cpu in CpuSet(self._whole & cpus):
            self._whole &= ~self._machine.core_of[cpu]
        return cpus

    def choose(self, count: int, allowed: int) -> int:
        """The best `count` of them; none where there are fewer."""
        free, whole = self.mask & allowed, self._whole & allowed
        if free.bit_count() < count:
            return 0
        # As many whole cores as there are and fill it, be they close together or not.
        on_cores = min(count - count % self._machine.threads, whole.bit_count())
        for depth, level in enumerate(self._machine.levels):
            fullest = self._fullest(level, free, count, whole, on_cores)
            if fullest:
                group = self._innermost(fullest, depth, free)
                return self._choose_in(group & allowed, depth, count)
        raise AssertionError("the whole machine is a group")

    def choose_beside(self, cpus: int, count: int, allowed: int) -> int:
        """`count` more for a container that has these already, as close to them as there are."""
        for level in self._machine.levels:
            near = sum(group for group in level if group & cpus)
            found = self.choose(count, allowed & near)
            if found:
                return found
        return 0

    @staticmethod
    def _fullest(
        groups: Iterable[int], free: int, count: int, whole: int, on_cores: int
    ) -> list[int]:
        """Those with the fewest free CPUs among the groups that have `count` of them, and as many
        of whole cores as that."""
        found: list[int] = []
        fewest = 0
        for group in groups:
            there = (group & free).bit_count()
            if there < count or (found and there > fewest):
                continue
            if on_cores and (group & whole).bit_count() < on_cores:
                continue
            if there != fewest:
                found, fewest = [], there
            found.append(group)
        return found

    def _innermost(self, groups: list[int], depth: int, free: int) -> int:
        """The one in the fullest group around it; of equals the lowest."""
        for level in self._machine.levels[depth + 1 :]:
            if len(groups) == 1:
                break
            around = [next(each for each in level if each & group) & free for group in groups]
            fewest = min(map(int.bit_count, around))
            pairs = zip(groups, around, strict=True)
            groups = [group for group, there in pairs if there.bit_count() == fewest]
        return groups[0]

    def _choose_in(self, group: int, depth: int, count: int) -> int:
        """Whole cores, and for what is left single threads near them."""
        pool = group & self._whole
        on_cores = min(count - count % self._machine.threads, pool.bit_count())
        taken = self._gather(pool, depth - 1, on_cores) if on_cores else 0
        left = count - taken.bit_count()
        return (
            taken | self._pick_threads(group & self.mask & ~taken, taken, left) if left else taken
        )

    def _gather(self, pool: int, depth: int, count: int) -> int:
        """Whole cores of the pool, from as few groups of that level as can be."""
        if depth < 0:
            return self._pick_cores(pool, count)
        parts = [part for group in self._machine.levels[depth] if (part := group & pool)]
        taken = 0
        while True:
            fitting = [part for part in parts if part.bit_count() >= count]
            if fitting:
                part = min(fitting, key=int.bit_count)
                return taken | self._gather(part, depth - 1, count)
            part = max(parts, key=int.bit_count)
            parts.remove(part)
            taken |= part
            count -= part.bit_count()

    def _pick_cores(self, pool: int, count: int) -> int:
        """The lowest ones. Where cores differ in size, none that is larger than what is left."""
        taken = 0
        for cpu in CpuSet(pool):
            core = self._machine.core_of[cpu] & pool
            if not core & taken and core.bit_count() <= count:
                taken |= core
                count -= core.bit_count()
            if not count:
                break
        return taken

    def _pick_threads(self, pool: int, taken: int, count: int) -> int:
        """Near what is taken, and first of cores that are in use already."""
        nearest: list[int] = []
        for level in self._machine.levels if taken else ():
            near = sum(group for group in level if group & taken) & pool
            if near.bit_count() >= count:
                pool = near
                break
            nearest.append(near)
        in_use = pool & ~self._whole
        if in_use.bit_count() >= count:
            pool = in_use
        if count == 1 and self._machine.threads <= _PAIR:
            return pool & -pool
        free, core_of = self.mask & ~taken, self._machine.core_of

        def rank(cpu: int) -> tuple[int, int, int]:
            core = core_of[cpu]
            far = sum(not near >> cpu & 1 for near in nearest)
            return far, (core & free).bit_count(), core & -core

        return CpuSet.of(sorted(CpuSet(pool), key=rank)[:count]).mask
