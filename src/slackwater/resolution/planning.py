"""Compares grants with readings: which knobs have to change, and which are released.

The difference is exact: writing an equal quota disturbs the group. A value that another writer put
in place of ours is repaired each time; where it does so again and again within seconds, the knob
is left to it for a while, and the report says so.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import compress
from operator import is_not

import msgspec

from slackwater.model.cgroup import CgroupReading, CgroupVersion
from slackwater.model.cpus import CpuSet
from slackwater.model.decision import Command, Grant, Note, NoteKind, Yielded
from slackwater.model.gap import NOT_ASKED, Gap
from slackwater.model.knob import BURST, IDLE, KNOB, WEIGHT, KnobKey, KnobValue
from slackwater.model.plan import Change
from slackwater.model.snapshot import (
    Held,
    NodeSnapshot,
    WritePrecision,
    find_changed_held,
    find_changed_knobs,
)
from slackwater.model.units import Bandwidth, Micros, Permille, Unlimited
from slackwater.resolution.quota import granted_quota
from slackwater.settings.agent_settings import AgentSettings


class Drift(msgspec.Struct, frozen=True):
    """Repairs of one knob in a row, the last one's time, and until when it is yielded."""

    repairs: int = 0
    last: Micros = Micros(0)
    yielded_until: Micros = Micros(0)


_NO_DRIFT = Drift()
_Key = tuple[int, str]


class PlannedChanges(msgspec.Struct, frozen=True):
    """`releases` are knobs that no policy wants changed any more: back to their baselines."""

    changes: tuple[Change, ...]
    releases: tuple[Held, ...]
    notes: tuple[Note, ...]
    yielded: tuple[Yielded, ...]
    drift: dict[KnobKey, Drift]
    #: What policies ask of the API server, standing ones included.
    commands: tuple[Command, ...] = ()


def plan_changes(
    snapshot: NodeSnapshot,
    grants: Sequence[Grant],
    drift: Mapping[KnobKey, Drift],
    settings: AgentSettings,
) -> PlannedChanges:
    return Planner().plan(snapshot, tuple(grants), drift, settings)


class Planner:
    """Plans tick after tick, and looks only at grants that may have something to do.

    A grant is at rest where its value stands, and nothing of a drift is remembered. It stays so
    while it is the same object and its group's knobs, and what is ours of them, are the same: then
    it is not looked at. Readings, grants and what is ours are the same objects while nothing
    changes, so that comparing them costs little. The result is that of a new Planner, which is
    property-tested.
    """

    def __init__(self) -> None:
        self._grants: tuple[Grant, ...] = ()
        self._readings: Mapping[int, CgroupReading] = {}
        self._held: tuple[Held, ...] = ()
        self._precision: WritePrecision | None = None
        #: Places of the grants that are not at rest.
        self._restless: frozenset[int] = frozenset()
        self._releases: tuple[Held, ...] = ()

    def plan(
        self,
        snapshot: NodeSnapshot,
        grants: tuple[Grant, ...],
        drift: Mapping[KnobKey, Drift],
        settings: AgentSettings,
    ) -> PlannedChanges:
        places = self._places_to_look_at(snapshot, grants, drift)
        if places is None:
            places = range(len(grants))
            self._releases = tuple(_unwanted(snapshot.held, grants))
        self._grants, self._readings, self._held = grants, snapshot.readings, snapshot.held
        self._precision = snapshot.precision
        made, restless = self._plan(snapshot, places, drift, settings)
        self._restless = frozenset(restless)
        return made

    def _places_to_look_at(
        self, snapshot: NodeSnapshot, grants: tuple[Grant, ...], drift: Iterable[KnobKey]
    ) -> Sequence[int] | None:
        """None where all grants are to be looked at, and what is released as well."""
        before = self._grants
        if not before or len(before) != len(grants) or snapshot.precision != self._precision:
            return None
        differing = list(compress(range(len(grants)), map(is_not, before, grants)))
        for place in differing:
            old, new = before[place], grants[place]
            if (old.target, old.knob) != (new.target, new.knob) or new.knob == IDLE.name:
                return None  # what is released follows from these
        changed = find_changed_knobs(self._readings, snapshot.readings)
        held = find_changed_held(self._held, snapshot.held)
        if changed is None or held is None or (held and self._releases):
            return None  # what is released follows from what is ours
        changed |= held | {key.cgroup for key in drift}
        places = self._restless.union(differing)
        if changed:
            here = (n for n, grant in enumerate(grants) if grant.target.id in changed)
            places = places.union(here)
        return sorted(places)

    def _plan(
        self,
        snapshot: NodeSnapshot,
        places: Iterable[int],
        drift: Mapping[KnobKey, Drift],
        settings: AgentSettings,
    ) -> tuple[PlannedChanges, list[int]]:
        """What these grants ask for, and the places of those that are not at rest."""
        precision = snapshot.precision or WritePrecision()
        changes: list[Change] = []
        notes: list[Note] = []
        yielded: list[Yielded] = []
        remembered: dict[KnobKey, Drift] = {}
        staying: dict[str, Bandwidth] = {}
        restless: list[int] = []
        looked_at = [
            (n, self._grants[n], _change(snapshot, self._grants[n], precision)) for n in places
        ]
        ours = _held_of(
            snapshot.held, {grant.target.id for _, grant, change in looked_at if change}
        )
        for place, grant, change in looked_at:
            key = KnobKey(grant.target.id, grant.knob)
            known = drift.get(key, _NO_DRIFT)
            if change is not None or known != _NO_DRIFT:
                restless.append(place)
            if change is not None and _is_drift(snapshot, change, ours.get((key.cgroup, key.knob))):
                known, note = _repaired(change, known, snapshot.at, settings)
                notes += [note] if note else []
            elif change is not None and _is_slight(change, settings.raise_deadband):
                staying.update(_quota_of(change))
                change = None
            if known.yielded_until > snapshot.at:
                yielded.append(Yielded(grant.target, grant.knob, known.yielded_until))
                staying.update(_quota_of(change))
            elif change is not None:
                changes.append(change)
            if known != _NO_DRIFT:
                remembered[key] = known
        bound = tuple(_bound(changes, staying, snapshot.version)) if staying else tuple(changes)
        made = PlannedChanges(bound, self._releases, tuple(notes), tuple(yielded), remembered)
        return made, restless


def find_bursts_in_the_way(planned: PlannedChanges) -> tuple[Held, ...]:
    """Those releases without which a planned quota would be refused: a burst must not exceed its
    group's quota (tg_set_cfs_bandwidth in kernel/sched/core.c)."""
    quotas = {
        change.ref.id: change.new.limit
        for change in planned.changes
        if isinstance(change.new, Bandwidth)
    }
    return tuple(
        held
        for held in planned.releases
        if held.knob == BURST.name
        and isinstance(held.ours, int)
        and isinstance(limit := quotas.get(held.ref.id), int)
        and held.ours > limit
    )


def _held_of(held: Iterable[Held], groups: Collection[int]) -> dict[_Key, Held]:
    """What is ours of these groups: of thousands mostly one or none."""
    if not groups:
        return {}
    return {(each.ref.id, each.knob): each for each in held if each.ref.id in groups}


def _quota_of(change: Change | None) -> dict[str, Bandwidth]:
    """The quota that stays, by its group's path, although another one is granted."""
    if change is None or not isinstance(change.old, Bandwidth):
        return {}
    return {change.ref.path: change.old}


def _bound(
    changes: Iterable[Change], staying: Mapping[str, Bandwidth], version: CgroupVersion | None
) -> Iterator[Change]:
    """The resolver held bursts to the granted quota, and on cgroup v1 quotas to those above: the
    kernel holds them to the quotas that stay. One that is not set yet and does not fit below those
    is not set now: they bind it anyway, and a burst may stand there that would not fit either."""
    limits = {path: quota for path, quota in staying.items() if not _is_unlimited(quota)}
    fitting: list[Change] = []
    for change in changes:
        new = change.new
        if version is CgroupVersion.V1 and isinstance(new, Bandwidth):
            lowered = _lower(change.ref.path, new, limits)
            if lowered != new and _is_unlimited(change.old):
                continue
            if lowered != new:
                limits[change.ref.path] = new = lowered
        fitting.append(msgspec.structs.replace(change, new=new))
    for change in fitting:
        new, quota = change.new, limits.get(change.ref.path)
        if change.knob == BURST and isinstance(new, int) and quota is not None:
            new = new if isinstance(quota.limit, Unlimited) else min(new, quota.limit)
        if new != change.old:
            yield msgspec.structs.replace(change, new=new)


def _lower(path: str, quota: Bandwidth, limits: Mapping[str, Bandwidth]) -> Bandwidth:
    """To the quotas above it, in its own period."""
    for above, limit in limits.items():
        if path.startswith(f"{above}/") and quota.exceeds(limit):
            if isinstance(limit.limit, Unlimited):  # nothing exceeds it
                continue
            quota = Bandwidth(Micros(limit.limit * quota.period // limit.period), quota.period)
    return quota


def _is_unlimited(quota: KnobValue) -> bool:
    return isinstance(quota, Bandwidth) and isinstance(quota.limit, Unlimited)


def _unwanted(held: Iterable[Held], grants: Sequence[Grant]) -> Iterator[Held]:
    """A weight that idle hides cannot go back before idle ends: the two go together then."""
    granted = {(grant.target.id, grant.knob) for grant in grants}
    idle = {grant.target.id for grant in grants if grant.knob == IDLE.name and grant.value}
    for each in held:
        hidden = each.knob == WEIGHT.name and each.ref.id in idle
        if (each.ref.id, each.knob) not in granted and not hidden:
            yield each


def _change(snapshot: NodeSnapshot, grant: Grant, precision: WritePrecision) -> Change | None:
    """None where it stands already, or where what stands there is not known."""
    reading = snapshot.readings.get(grant.target.id)
    knob = KNOB[grant.knob]
    standing = reading.value(grant.knob) if reading else NOT_ASKED
    if isinstance(standing, Gap) or (reading and reading.hides(grant.knob)):
        return None
    wanted = precision.settle(grant.target, knob, _wanted(grant, standing))
    return None if wanted == standing else Change(grant.target, knob, standing, wanted)


def _wanted(grant: Grant, standing: KnobValue) -> KnobValue:
    """A granted quota in this group's own period; any other value is the knob's own."""
    if not isinstance(standing, Bandwidth):
        return grant.value
    return granted_quota(grant, standing.period)


def _is_slight(change: Change, deadband: Permille) -> bool:
    """A raise that is not worth a write: writing a quota disturbs the group. Cuts always are."""
    old, new = change.old, change.new
    if not isinstance(old, Bandwidth) or not isinstance(new, Bandwidth):
        return False
    if isinstance(old.limit, Unlimited) or isinstance(new.limit, Unlimited):
        return False
    raised = new.limit - old.limit
    return old.period == new.period and raised > 0 and raised * 1000 < old.limit * deadband


def _is_drift(snapshot: NodeSnapshot, change: Change, held: Held | None) -> bool:
    """Whether somebody else wrote since we did: the baseline, put back, or another value. CPUs that
    went offline nobody took but the kernel, from every set on cgroup v1."""
    if held is None or change.old == held.ours:
        return False
    if isinstance(held.ours, CpuSet) and not isinstance(snapshot.topology, Gap):
        return change.old != held.ours & snapshot.topology.all()
    return True


def _repaired(
    change: Change, drift: Drift, at: Micros, settings: AgentSettings
) -> tuple[Drift, Note | None]:
    """One more repair and its note; or, where repairs follow each other within seconds, a yield."""
    if drift.yielded_until > at:
        return drift, None
    in_a_row = at - drift.last <= settings.fight_within
    repairs = drift.repairs + 1 if in_a_row else 1
    if repairs >= settings.yield_after:
        text = (
            f"yielded for {settings.yield_for // 1_000_000} s: somebody else wrote it "
            f"{repairs} times in a row"
        )
        truce = Drift(yielded_until=Micros(at + settings.yield_for))
        return truce, Note(change.ref, change.knob.name, NoteKind.YIELD, text)
    text = "somebody else wrote it since we did; written again"
    return Drift(repairs, at), Note(change.ref, change.knob.name, NoteKind.REPAIR, text)
