"""Which containers would have better CPUs if all were placed anew. Pure.

Containers come and go, and what each has it keeps: after a while cores are torn apart between
containers, and a container's CPUs lie on several caches or NUMA nodes although they would fit on
one. A plan places all of them anew, the largest first, and is worth something only if together they
are better off: fewer cores shared with others, then fewer NUMA nodes, then fewer caches. Who would
not be better off stays where it is, if that is possible.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from slackwater.model.cpus import CpuSet, Topology
from slackwater.model.decision import CpuClaim, CpuPlacement, PlacedClaim
from slackwater.resolution.packing import CpuLayout, FreeCpus


class CpuMove(msgspec.Struct, frozen=True):
    """One container from its CPUs to others."""

    claim: CpuClaim
    before: CpuSet
    after: CpuSet


def plan_defragmentation(
    topology: Topology, reserved: CpuSet, placement: CpuPlacement
) -> tuple[CpuMove, ...]:
    """What could be won if every container might be moved, whatever the settings say."""
    everything = placement.common
    for each in placement.claims:
        everything |= each.cpus
    placed = [
        msgspec.structs.replace(each, claim=msgspec.structs.replace(each.claim, movable=True))
        for each in placement.claims
    ]
    return find_moves(CpuLayout(topology), placed, everything - reserved)


def find_moves(
    machine: CpuLayout, placed: Sequence[PlacedClaim], grantable: CpuSet
) -> tuple[CpuMove, ...]:
    """Of the containers that may be moved, in the order of the claims; none where that would bring
    nothing. `grantable` are the CPUs that containers may have."""
    there = [each for each in placed if each.cpus]
    fixed = [each for each in there if not each.claim.movable]
    movable = [each for each in there if each.claim.movable]
    before = {each.claim.target.id: each.cpus.mask for each in there}
    after = _place_anew(machine, fixed, movable, grantable)
    if after is None or not _score(machine, after) < _score(machine, before):
        return ()
    return tuple(
        CpuMove(each.claim, each.cpus, CpuSet(after[each.claim.target.id]))
        for each in movable
        if after[each.claim.target.id] != each.cpus.mask
    )


def _place_anew(
    machine: CpuLayout,
    fixed: Iterable[PlacedClaim],
    movable: Sequence[PlacedClaim],
    grantable: CpuSet,
) -> dict[int, int] | None:
    """None where they do not all fit, which only an order can cause that tears cores apart."""
    free = FreeCpus(machine, grantable.mask)
    found = {each.claim.target.id: free.take(each.cpus.mask) for each in fixed}
    stays = {each.claim.target.id for each in movable if _is_well_placed(machine, each.cpus.mask)}
    # Those that are well placed where they are stay there, and the others come by size.
    for each in movable:
        if each.claim.target.id in stays:
            found[each.claim.target.id] = free.take(each.cpus.mask)
    for each in sorted(movable, key=lambda one: -one.claim.count):
        if each.claim.target.id not in stays:
            cpus = free.choose(each.claim.count, machine.online.mask)
            if not cpus:
                return None
            found[each.claim.target.id] = free.take(cpus)
    return found


def _is_well_placed(machine: CpuLayout, cpus: int) -> bool:
    """No better place is possible: whole cores, in as few groups of each level as the number of its
    CPUs needs."""
    torn, *spread = _grade(machine, cpus)
    if torn > cpus.bit_count() % machine.threads:
        return False
    sizes = [max(map(int.bit_count, level)) for level in reversed(machine.levels)]
    needed = [-(-cpus.bit_count() // size) for size in sizes]
    return all(number <= least for number, least in zip(spread, needed, strict=True))


def _grade(machine: CpuLayout, cpus: int) -> tuple[int, ...]:
    """Cores of which it has only a part; then how many groups of each level it lies on, the largest
    groups first."""
    torn = sum(bool(core & cpus and core & ~cpus) for core in machine.cores)
    return (
        torn,
        *(sum(bool(group & cpus) for group in level) for level in reversed(machine.levels)),
    )


def _score(machine: CpuLayout, placed: Mapping[int, int]) -> tuple[int, ...]:
    grades = [_grade(machine, cpus) for cpus in placed.values()]
    return tuple(map(sum, zip(*grades, strict=True)))
