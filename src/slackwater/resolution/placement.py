"""Gives containers CPUs of their own, and everybody else the rest.

Claims become ordinary intents: a set of CPUs for each container that has a claim, and for every
other group of the tree a set without those that a container holds alone. How such a set is merged
with what other policies ask of the same knob is the resolver's business.

    exclusive   its own CPUs, on which nothing else of the tree runs; and no quota, for it and its
                pod: CPU time that nobody else can use is not rationed
    share       its own CPUs, on which others may run as well; no other claim gets them
    the rest    every CPU that no container holds alone

What a container has it keeps, whoever comes: the ledger tells, or the cgroup itself. Reserved CPUs
belong to nobody, so that there is always one for the rest.

Where the sets are written differs by the kernel's rules. On cgroup v2 a group without a set of its
own has that of the group above: only groups are written that would run on other CPUs without it,
and what starts below a tier is within the tier's set at once. On cgroup v1 every group has a set,
and a new one copies that of the group above, so only containers are written: whatever starts later
would take a narrowed pod's set for its own for good, and a runtime that names CPUs outside of it
would fail.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, compress
from operator import is_not

import msgspec

from slackwater.model.cgroup import CgroupReading, CgroupRef, CgroupVersion, Level
from slackwater.model.cpus import CpuPolicy, CpuSet, Topology
from slackwater.model.decision import (
    Because,
    CpuClaim,
    CpuPlacement,
    Intent,
    PlacedClaim,
    Verb,
    join_some,
)
from slackwater.model.gap import Gap
from slackwater.model.knob import CPUS, QUOTA
from slackwater.model.snapshot import Held, NodeSnapshot
from slackwater.model.units import UNLIMITED
from slackwater.resolution.defragmentation import find_moves
from slackwater.resolution.packing import CpuLayout, FreeCpus

_Groups = tuple[tuple[CpuClaim, ...], ...]


class ResolvedClaims(msgspec.Struct, frozen=True):
    """Who has which CPUs, and what follows for each group."""

    placement: CpuPlacement | None = None
    intents: tuple[Intent, ...] = ()


NO_CLAIMS = ResolvedClaims()


def place_claims(snapshot: NodeSnapshot, claims: Sequence[CpuClaim]) -> ResolvedClaims:
    return Placer().place(snapshot, (tuple(claims),), 0)


class Placer:
    """Places tick after tick, and does nothing while neither the claims nor anything about CPUs
    changed. `revision` changes whenever anything in the snapshot does but the counters and the
    clock. The result is always that of a new Placer, which is property-tested."""

    def __init__(self) -> None:
        self._machine: tuple[Topology, CpuLayout] | None = None
        self._groups: _Groups = ()
        self._revision: int | None = None
        self._snapshot: NodeSnapshot | None = None
        self._found = NO_CLAIMS

    def place(self, snapshot: NodeSnapshot, groups: _Groups, revision: int) -> ResolvedClaims:
        """`groups` are the claims, in one tuple or several."""
        if not any(groups):
            self._snapshot, self._found = None, NO_CLAIMS
            return self._found
        before, self._snapshot = self._snapshot, snapshot
        if before is None or groups != self._groups or not self._is_same(before, revision):
            self._groups = groups
            self._found = self._place(snapshot, tuple(chain.from_iterable(groups)))
        self._revision = revision
        return self._found

    def _is_same(self, before: NodeSnapshot, revision: int) -> bool:
        return revision == self._revision or (
            self._snapshot is not None and _has_same_cpus(before, self._snapshot)
        )

    def _place(self, snapshot: NodeSnapshot, claims: tuple[CpuClaim, ...]) -> ResolvedClaims:
        topology = snapshot.topology
        if isinstance(topology, Gap):
            return ResolvedClaims(None, tuple(_standing(snapshot, claims, topology)))
        if self._machine is None or self._machine[0] != topology:
            self._machine = (topology, CpuLayout(topology))
        machine = self._machine[1]
        tree = _Tree(snapshot, machine.online.mask)
        reserved = snapshot.reserved_cpus.mask & tree.top or tree.top & -tree.top
        placed = _assign(machine, tree, reserved, claims)
        if any(each.claim.movable for each in placed):
            placed = _defragmented(machine, tree, reserved, placed)
        if not any(each.cpus for each in placed):
            return ResolvedClaims(CpuPlacement(CpuSet(tree.top), placed))
        shown = _without_refused(snapshot, placed) if snapshot.refused_cpus else placed
        alone = sum(each.cpus.mask for each in shown if _is_exclusive(each))
        common = tree.top & ~alone
        intents = (*_sets(tree, common, placed), *_quotas(tree, shown))
        if alone and snapshot.refused_cpus:
            shown = tuple(_with_intruders(snapshot, shown))
        return ResolvedClaims(CpuPlacement(CpuSet(common), shown), intents)


def _has_same_cpus(one: NodeSnapshot, other: NodeSnapshot) -> bool:
    """Whether all that a placement follows from is the same, whatever other knobs read."""
    return (
        (one.topology is other.topology or one.topology == other.topology)
        and one.reserved_cpus == other.reserved_cpus
        and one.version is other.version
        and one.kubepods == other.kubepods
        and one.off == other.off
        and one.refused_cpus == other.refused_cpus
        and _reads_same_cpus(one, other)
        and (one.held is other.held or _held_cpus(one) == _held_cpus(other))
    )


def _reads_same_cpus(one: NodeSnapshot, other: NodeSnapshot) -> bool:
    before, now = one.readings.values(), other.readings.values()
    return len(before) == len(now) and all(
        old.ref == new.ref and old.cpus == new.cpus
        for old, new in compress(zip(before, now, strict=True), map(is_not, before, now))
    )


def _held_cpus(snapshot: NodeSnapshot) -> list[Held]:
    return [held for held in snapshot.held if held.knob == CPUS.name]


def _is_exclusive(placed: PlacedClaim) -> bool:
    return placed.claim.policy is CpuPolicy.EXCLUSIVE


class _Tree:
    """The groups of the kubelet's tree that were read, with the CPUs that each would have without
    us. Masks throughout; 0 is a group that has the parent's, or that could not be read."""

    def __init__(self, snapshot: NodeSnapshot, online: int) -> None:
        self.version = snapshot.version
        self.root = snapshot.kubepods.path
        self.by_path = {reading.ref.path: reading for reading in snapshot.readings.values()}
        self.off = {key.cgroup for key in snapshot.off if key.knob == CPUS.name}
        self.refused = snapshot.refused_cpus
        #: By id, what each would have without us.
        self.own = {id_: _mask(reading.cpus) for id_, reading in snapshot.readings.items()}
        #: By id, what each has: as we wrote it, or else as it reads.
        self.has = dict(self.own)
        #: By id, why a set cannot be written: on v2 a group has one only where its parent hands the
        #: controller on.
        self.unread = {
            id_: reading.cpus.reason
            for id_, reading in snapshot.readings.items()
            if isinstance(reading.cpus, Gap)
        }
        for held in _held_cpus(snapshot):
            self.own[held.ref.id] = _mask(held.baseline)
            self.has[held.ref.id] = _mask(held.ours)
        self.top = self.own.get(snapshot.kubepods.id, 0) & online or online
        self._allowed = {self.root: self.top}

    def allowed_below(self, path: str) -> int:
        """What no group from here upwards forbids."""
        found = self._allowed.get(path)
        if found is None:
            above = self.allowed_below(path.rpartition("/")[0]) if "/" in path else self.top
            reading = self.by_path.get(path)
            own = self.own.get(reading.ref.id, 0) if reading else 0
            found = self._allowed[path] = above & own if own else above
        return found

    def allowed(self, ref: CgroupRef) -> int:
        return self.allowed_below(ref.path.rpartition("/")[0])

    def above(self, path: str) -> Iterator[str]:
        """The groups above this one, below the root of the tree, nearest first."""
        path = path.rpartition("/")[0]
        while len(path) > len(self.root):
            yield path
            path = path.rpartition("/")[0]


def _mask(cpus: object) -> int:
    return cpus.mask if isinstance(cpus, CpuSet) else 0


def _assign(
    machine: CpuLayout, tree: _Tree, reserved: int, claims: Iterable[CpuClaim]
) -> tuple[PlacedClaim, ...]:
    """First those that keep what they have, then those that keep a part of it, then new ones; last
    those whose CPUs cannot be written."""
    ordered = sorted(claims, key=_turn)
    free = FreeCpus(machine, tree.top & ~reserved)
    grantable = free.mask.bit_count()
    found: dict[int, int] = {}
    unplaced: list[tuple[CpuClaim, int]] = []
    for claim in ordered:
        has = tree.has.get(claim.target.id, 0)
        # A set with every reserved CPU in it is that of a group without a claim. One with some of
        # them was a claim's before they were reserved: it keeps the others.
        is_common = not reserved & ~has
        usable = 0 if is_common else has & ~reserved & tree.allowed(claim.target)
        if usable.bit_count() == claim.count and not usable & ~free.mask:
            found[claim.target.id] = free.take(usable)
        else:
            unplaced.append((claim, usable))
    for claim, usable in sorted(
        unplaced, key=lambda each: (each[0].target.id in tree.refused, not each[1])
    ):
        found[claim.target.id] = _choose(free, tree, claim, usable & free.mask)
    return tuple(
        PlacedClaim(claim, CpuSet(cpus))
        if (cpus := found[claim.target.id])
        else PlacedClaim(claim, refused=_refusal(tree, claim, grantable, free))
        for claim in ordered
    )


def _without_refused(
    snapshot: NodeSnapshot, placed: Iterable[PlacedClaim]
) -> tuple[PlacedClaim, ...]:
    """A claim whose CPUs could not be written has none: nobody makes room for it, and its quota
    stays. They are its own all the same, and are tried again in each tick."""
    return tuple(
        PlacedClaim(each.claim, refused=f"CPUs cannot be set here ({why}), {_goes_on(each.claim)}")
        if each.cpus and (why := _why_not_written(snapshot, each.claim.target, each.cpus))
        else each
        for each in placed
    )


def _why_not_written(snapshot: NodeSnapshot, ref: CgroupRef, cpus: CpuSet) -> str:
    """Empty where it has them, whoever wrote that."""
    reading = snapshot.readings.get(ref.id)
    if reading is None or reading.cpus == cpus:
        return ""
    return snapshot.refused_cpus.get(ref.id, "")


def _with_intruders(snapshot: NodeSnapshot, placed: Iterable[PlacedClaim]) -> Iterator[PlacedClaim]:
    """With who could not be kept off CPUs that a container should hold alone."""
    claimed = {each.claim.target.id for each in placed if each.cpus}
    intruders = [
        (snapshot.readings[group], why)
        for group, why in snapshot.refused_cpus.items()
        if group in snapshot.readings and group not in claimed
    ]
    for each in placed:
        found = [
            f"{_name_of(snapshot, reading.ref)} could not be kept off CPUs of "
            f"{each.claim.container} ({why})"
            for reading, why in intruders
            # A group without a set has that of the group above.
            if _is_exclusive(each) and (_mask(reading.cpus) or each.cpus.mask) & each.cpus.mask
        ]
        yield msgspec.structs.replace(each, shared=join_some(found)) if found else each


def _name_of(snapshot: NodeSnapshot, ref: CgroupRef) -> str:
    """As people know it, where there is an object for it."""
    for pod in snapshot.workloads:
        for each in pod.containers:
            if isinstance(each.ref, CgroupRef) and each.ref.id == ref.id:
                return f"{pod.title()}/{each.name}"
    return ref.path


def _defragmented(
    machine: CpuLayout, tree: _Tree, reserved: int, placed: Iterable[PlacedClaim]
) -> tuple[PlacedClaim, ...]:
    """With the CPUs to which containers move that may be moved."""
    free_to_move = [
        each
        if tree.allowed(each.claim.target) == tree.top
        else msgspec.structs.replace(each, claim=msgspec.structs.replace(each.claim, movable=False))
        for each in placed
    ]
    moves = find_moves(machine, free_to_move, CpuSet(tree.top & ~reserved))
    after = {move.claim.target.id: move.after for move in moves}
    return tuple(
        PlacedClaim(e.claim, after.get(e.claim.target.id, e.cpus), e.refused) for e in placed
    )


def _turn(claim: CpuClaim) -> tuple[int, str, str, str]:
    return claim.started, claim.target.owner, claim.container, claim.target.path


def _choose(free: FreeCpus, tree: _Tree, claim: CpuClaim, usable: int) -> int:
    """With those of the usable ones that are still free; none where there are not enough."""
    if claim.target.id in tree.off or claim.target.id in tree.unread:
        return 0
    allowed, missing = tree.allowed(claim.target), claim.count - usable.bit_count()
    if missing <= 0:
        return free.take(free.choose(claim.count, usable))
    if not usable:
        return free.take(free.choose(claim.count, allowed))
    more = free.choose_beside(usable, missing, allowed & ~usable)
    return free.take(usable | more) if more else 0


def _refusal(tree: _Tree, claim: CpuClaim, grantable: int, free: FreeCpus) -> str:
    goes_on = _goes_on(claim)
    if claim.target.id in tree.off:
        return f"CPUs cannot be set here, {goes_on}"
    if claim.target.id in tree.unread:
        return f"CPUs cannot be set here ({tree.unread[claim.target.id]}), {goes_on}"
    wanted, verb = ("1 CPU", "is") if claim.count == 1 else (f"{claim.count} CPUs", "are")
    if claim.count > grantable:
        return f"{wanted} {verb} more than the {grantable} that can be had here, {goes_on}"
    left = (free.mask & tree.allowed(claim.target)).bit_count()
    return f"{wanted} of its own {verb} not free, {left} are, {goes_on}"


def _goes_on(claim: CpuClaim) -> str:
    return f"so {claim.container} runs on the CPUs that nobody holds alone"


def _sets(tree: _Tree, common: int, placed: Iterable[PlacedClaim]) -> Iterator[Intent]:
    """Parents before children: what a group has without a set of its own follows from above."""
    own = {each.claim.target.id: each for each in placed if each.cpus}
    by, inside = next(iter(own.values())).claim.by, _inside(tree, own.values())
    because, known = _others(CpuSet(tree.top & ~common)), dict[int, CpuSet]()
    is_v1 = tree.version is CgroupVersion.V1
    wanted: dict[str, int] = {}
    for reading in sorted(tree.by_path.values(), key=_depth):
        ref, path = reading.ref, reading.ref.path
        without = tree.own[ref.id]
        if not is_v1:
            above = wanted.get(path.rpartition("/")[0], tree.top)
            without = without & above or above
        if path == tree.root or isinstance(reading.cpus, Gap) or ref.id in tree.off:
            wanted[path] = without
            continue
        mine = own.get(ref.id)
        if mine is not None:
            yield Intent(ref, CPUS.name, Verb.SET, mine.cpus, mine.claim.because, mine.claim.by)
            continue
        rest = tree.own[ref.id] & common or common & tree.allowed(ref) or common
        wanted[path] = mask = rest | inside.get(path, 0)
        if mask != without and (not is_v1 or ref.level is Level.CONTAINER):
            cpus = known.setdefault(mask, CpuSet(mask))
            yield Intent(ref, CPUS.name, Verb.SET, cpus, because, by)


def _depth(reading: CgroupReading) -> int:
    return reading.ref.depth()


def _inside(tree: _Tree, placed: Iterable[PlacedClaim]) -> dict[str, int]:
    """By the path of a group, the CPUs of claims below it."""
    found: dict[str, int] = {}
    for each in placed:
        for path in tree.above(each.claim.target.path):
            found[path] = found.get(path, 0) | each.cpus.mask
    return found


def _others(alone: CpuSet) -> Because:
    return Because("CPUs that containers hold alone", alone.format(), "everybody else has the rest")


def _quotas(tree: _Tree, placed: Iterable[PlacedClaim]) -> Iterator[Intent]:
    """Of the containers and, once each, of their pods."""
    pods: dict[str, tuple[CpuSet, str]] = {}
    for each in filter(_is_exclusive, placed):
        if each.cpus:
            target, by = each.claim.target, each.claim.by
            path = target.path.rpartition("/")[0]
            pods[path] = (pods[path][0] | each.cpus if path in pods else each.cpus, by)
            yield _unlimited(target, each.cpus, by)
    for path, (cpus, by) in pods.items():
        if path in tree.by_path:
            yield _unlimited(tree.by_path[path].ref, cpus, by)


def _unlimited(ref: CgroupRef, cpus: CpuSet, by: str) -> Intent:
    because = Because("CPUs that nobody else can use", cpus.format(), "no quota on them")
    return Intent(ref, QUOTA.name, Verb.FLOOR, UNLIMITED, because, by)


def _standing(snapshot: NodeSnapshot, claims: Sequence[CpuClaim], gap: Gap) -> Iterator[Intent]:
    """What stands, while the machine's CPUs are not known."""
    because = Because("the machine's CPUs", "are not known", f"as it stands: {gap.reason}")
    exclusive = [each.target for each in claims if each.policy is CpuPolicy.EXCLUSIVE]
    lifted = {ref.id for ref in exclusive}
    pods = {ref.path.rpartition("/")[0] for ref in exclusive}
    by = claims[0].by
    for held in snapshot.held:
        if held.knob == CPUS.name and isinstance(held.ours, CpuSet):
            yield Intent(held.ref, CPUS.name, Verb.SET, held.ours, because, by)
        elif held.knob == QUOTA.name and (held.ref.id in lifted or held.ref.path in pods):
            yield Intent(held.ref, QUOTA.name, Verb.FLOOR, UNLIMITED, because, by)
