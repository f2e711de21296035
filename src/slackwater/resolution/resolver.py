"""Folds all intents into grants: one for each knob of each cgroup that a policy wants changed.

Knows knobs and verbs, never a policy's name: deleting a policy changes no line here. How several
intents become one value is a field of the knob's row (knob.Fold); the quota law is in
resolution.quota. What knobs demand of each other is here too: a burst is at most its quota. What
quotas demand of those above them is in resolution.nesting.

Laws of every fold but the quota's (property-tested): the order of intents does not matter, and one
intent more never makes the value laxer.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, compress, islice
from operator import is_, is_not
from typing import assert_never

import msgspec

from slackwater.model.cgroup import CgroupRef
from slackwater.model.cpus import CpuSet
from slackwater.model.decision import Contribution, Grant, Intent, Verb, share_equal
from slackwater.model.gap import Gap
from slackwater.model.knob import BURST, KNOB, QUOTA, Fold, Knob, KnobValue
from slackwater.model.snapshot import NodeSnapshot, find_changed_held, find_changed_knobs
from slackwater.model.units import Bandwidth, MilliCpu, Ratio, Unlimited
from slackwater.resolution.nesting import Nester
from slackwater.resolution.quota import grant_quota, granted_quota

_Key = tuple[int, str]
_Groups = tuple[tuple[Intent, ...], ...]
#: Of a quota; None of other knobs.
_Baseline = MilliCpu | Unlimited | Gap | None
#: More intents than this that differ from the tick before are grouped anew.
_MOST_REPLACED = 16


def resolve(snapshot: NodeSnapshot, intents: Iterable[Intent]) -> tuple[Grant, ...]:
    """Parents before children, so that a story reads from the top. A target whose quota could
    not be read gets no grant of it: what stands there stays."""
    return Resolver().resolve(snapshot, (tuple(intents),), 0)


class _Folded(msgspec.Struct, frozen=True, gc=False):
    """The intents about one knob and what they become, other knobs aside. The grant is None where
    the baseline of a quota is not known."""

    intents: tuple[Intent, ...]
    baseline: _Baseline
    grant: Grant | None


class Resolver:
    """Resolves tick after tick, and reuses what cannot have changed.

    Intents are values: the same tuple asks for the same. Other knobs aside, a grant follows from
    the intents about it and, for a quota, from its baseline. What knobs demand of each other
    follows from the snapshot as well; `revision` changes whenever anything in that does but the
    counters and the clock. The result is always that of resolve(), which is property-tested.
    """

    def __init__(self) -> None:
        self._revision: int | None = None
        self._snapshot: NodeSnapshot | None = None
        self._groups: _Groups = ()
        #: By knob, in the order of the grants.
        self._folded: dict[_Key, _Folded] = {}
        #: The same with what knobs demand of each other.
        self._finished: dict[_Key, Grant | None] = {}
        self._granted: tuple[Grant, ...] = ()
        self._nester = Nester()
        #: By cgroup: a burst, the quota in force and what that follows; and the burst granted.
        self._clipped: dict[int, tuple[Grant, Bandwidth | Gap, str, Grant | None]] = {}

    def resolve(self, snapshot: NodeSnapshot, groups: _Groups, revision: int) -> tuple[Grant, ...]:
        """`groups` are the intents, in one tuple or several."""
        known, self._revision = self._revision, None  # until all is well: a wrong intent raises
        before, self._snapshot = self._snapshot, snapshot
        differing = _differing(self._groups, groups) if known is not None else None
        moved = set() if revision == known else _find_moved(before, snapshot)
        if differing is None or moved is None:
            self._regroup(snapshot, groups)
            self._finish(snapshot)
        else:
            keys = self._refold(differing) | self._rebase(snapshot, moved)
            self._finish_again(snapshot, keys, moved)
        self._groups, self._revision = groups, revision
        return self._granted

    def _regroup(self, snapshot: NodeSnapshot, groups: _Groups) -> None:
        """Folds every knob whose intents or baseline are others."""
        noted = _noted_baselines(snapshot)
        folded = self._folded
        self._folded, self._clipped = {}, {}
        for key, intents in _group(groups).items():
            target, known = intents[0].target, folded.get(key)
            baseline = _baseline(snapshot, target, noted) if key[1] == QUOTA.name else None
            if known is None or known.baseline != baseline or known.intents != intents:
                grant = _grant(target, KNOB[key[1]], intents, baseline)
            else:
                grant = known.grant
            # With these intents, not with equal ones: they are found again by identity.
            self._folded[key] = _Folded(intents, baseline, grant)

    def _rebase(self, snapshot: NodeSnapshot, moved: Iterable[int]) -> set[_Key]:
        """Folds the quotas of these groups whose baseline is another; their keys."""
        keys = [key for each in moved if (key := (each, QUOTA.name)) in self._folded]
        noted = _noted_baselines(snapshot) if keys else {}
        found: set[_Key] = set()
        for key in keys:
            known = self._folded[key]
            target = known.intents[0].target
            baseline = _baseline(snapshot, target, noted)
            if baseline != known.baseline:
                grant = _grant(target, QUOTA, known.intents, baseline)
                self._folded[key] = _Folded(known.intents, baseline, grant)
                found.add(key)
        return found

    def _refold(self, differing: Iterable[tuple[Intent, Intent]]) -> set[_Key]:
        """Folds the knobs of a few intents that are others; their keys."""
        found: set[_Key] = set()
        for old, new in differing:
            key = (old.target.id, old.knob)
            known = self._folded[key]
            intents = tuple(new if each is old else each for each in known.intents)
            grant = _grant(new.target, KNOB[old.knob], intents, known.baseline)
            self._folded[key] = _Folded(intents, known.baseline, grant)
            found.add(key)
        return found

    def _finish(self, snapshot: NodeSnapshot) -> None:
        """With what knobs demand of each other."""
        found = {key: each.grant for key, each in self._folded.items()}
        asked = {key[0]: grant for key, grant in found.items() if grant and key[1] == QUOTA.name}
        nested = self._nester.nest(snapshot, asked)
        for key, grant in found.items():
            if key[1] == QUOTA.name:
                found[key] = nested.get(key[0])
            elif key[1] == BURST.name:
                found[key] = grant and self._clip(snapshot, grant, nested.get(key[0]))
        self._finished = found
        self._granted = share_equal(self._granted, tuple(filter(None, found.values())))

    def _finish_again(
        self, snapshot: NodeSnapshot, keys: Iterable[_Key], moved: Iterable[int]
    ) -> None:
        """What these keys and groups bear upon. The quota above a crowd is looked at in any case:
        whether it is raised depends on the tick."""
        found = {key: self._folded[key].grant for key in keys}
        groups = {*moved, *(key[0] for key in keys)}
        asked = {each: self._quota_asked(each) for each in groups}
        if any(bool(one) != bool(self._finished.get((g, QUOTA.name))) for g, one in asked.items()):
            self._finish(snapshot)
            return
        nested = self._nester.nest_moved(snapshot, asked)
        found.update(((each, QUOTA.name), grant) for each, grant in nested.items())
        for each in (*groups, *nested):
            burst = self._folded.get((each, BURST.name))
            if burst is not None and burst.grant is not None:
                key = (each, QUOTA.name)
                quota = found[key] if key in found else self._finished.get(key)
                found[each, BURST.name] = self._clip(snapshot, burst.grant, quota)
        differing = {key: grant for key, grant in found.items() if grant != self._finished[key]}
        if differing:
            self._finished.update(differing)
            self._granted = tuple(filter(None, self._finished.values()))

    def _quota_asked(self, group: int) -> Grant | None:
        folded = self._folded.get((group, QUOTA.name))
        return None if folded is None else folded.grant

    def _clip(self, snapshot: NodeSnapshot, burst: Grant, granted: Grant | None) -> Grant | None:
        """The same object as before where nothing about it differs, as with quotas."""
        quota = _quota_in_force(snapshot, burst.target, granted)
        follows = granted.follows if granted else ""
        known = self._clipped.get(burst.target.id)
        if known is None or known[0] is not burst or known[1:3] != (quota, follows):
            known = (burst, quota, follows, _within_quota(burst, quota, follows))
            self._clipped[burst.target.id] = known
        return known[3]


def _noted_baselines(snapshot: NodeSnapshot) -> dict[int, KnobValue]:
    return {held.ref.id: held.baseline for held in snapshot.held if held.knob == QUOTA.name}


def _group(groups: _Groups) -> dict[_Key, tuple[Intent, ...]]:
    """By knob, parents before children."""
    found: dict[_Key, tuple[Intent, ...]] = {}
    for intent in chain.from_iterable(groups):
        key = (intent.target.id, intent.knob)
        found[key] = (*found.get(key, ()), intent)
    return dict(sorted(found.items(), key=lambda item: _place(item[1][0])))


def _place(intent: Intent) -> tuple[int, str, str]:
    return intent.target.depth(), intent.target.path, intent.knob


def _differing(before: _Groups, now: _Groups) -> list[tuple[Intent, Intent]] | None:
    """The intents that are others now, place by place, each with the one before. None where they
    are many, or about another knob."""
    if len(before) == len(now) and all(map(is_, before, now)):
        return []
    if list(map(len, before)) != list(map(len, now)):
        return None
    found: list[tuple[Intent, Intent]] = []
    for old, new in zip(before, now, strict=True):
        if old is not new:
            found += islice(compress(zip(old, new, strict=True), map(is_not, old, new)), 99)
    about = ((old.target, old.knob) == (new.target, new.knob) for old, new in found)
    return found if len(found) <= _MOST_REPLACED and all(about) else None


def _find_moved(before: NodeSnapshot | None, now: NodeSnapshot) -> set[int] | None:
    """The groups whose knobs read otherwise, or of which something else is ours. None where there
    are other groups, or other knobs are ours."""
    if before is None or before.version is not now.version:
        return None
    read = find_changed_knobs(before.readings, now.readings)
    held = find_changed_held(before.held, now.held)
    return None if read is None or held is None else read | held


def _grant(
    target: CgroupRef, knob: Knob, intents: Sequence[Intent], baseline: _Baseline
) -> Grant | None:
    match knob.fold:
        case Fold.QUOTA_LAW:
            if baseline is None or isinstance(baseline, Gap):
                return None
            return grant_quota(target, baseline, intents)
        case Fold.SMALLEST | Fold.LARGEST:
            return grant_strictest(target, knob, intents)
        case Fold.INTERSECTION:
            return grant_common_cpus(target, knob, intents)
        case fold:
            assert_never(fold)


def grant_strictest(target: CgroupRef, knob: Knob, intents: Sequence[Intent]) -> Grant:
    """The smallest or the largest of what was asked for. The deciding intent comes last."""
    wanted = [(_number(intent), intent) for intent in intents]
    if len(wanted) > 1:  # mostly there is one, and thousands of them
        sign = 1 if knob.fold is Fold.LARGEST else -1
        wanted.sort(key=lambda each: (sign * _size(each[0]), _tie(each[1])))
    steps = [Contribution(i.by, i.verb, value, value, i.because) for value, i in wanted]
    value = wanted[-1][0]
    clipped_by = wanted[-1][1].by if value != wanted[0][0] else None
    return Grant(target, knob.name, value, tuple(steps), clipped_by)


def grant_common_cpus(target: CgroupRef, knob: Knob, intents: Sequence[Intent]) -> Grant:
    """The CPUs that all intents have in common, larger sets first. An intent that would leave none
    is passed over, as the kernel runs nothing on an empty set; the contest is recorded."""
    wanted = sorted(
        ((_cpus(intent), intent) for intent in intents),
        key=lambda each: (-len(each[0]), each[0].mask, _tie(each[1])),
    )
    value = wanted[0][0]
    steps: list[Contribution] = []
    clipped_by: str | None = None
    contest: str | None = None
    for asked, intent in wanted:
        common = value & asked
        if not common:
            contest = f"{intent.by}'s CPUs {asked.format()} are not among {value.format()}"
        elif common != value:
            value, clipped_by = common, intent.by
        steps.append(Contribution(intent.by, intent.verb, asked, value, intent.because))
    return Grant(target, knob.name, value, tuple(steps), clipped_by, contest)


def _number(intent: Intent) -> bool | int | Unlimited:
    if intent.verb is not Verb.SET or isinstance(intent.value, CpuSet | Ratio):
        raise TypeError(f"{intent.by}: {intent.knob} takes SET and a number")
    return intent.value


def _cpus(intent: Intent) -> CpuSet:
    if intent.verb is not Verb.SET or not isinstance(intent.value, CpuSet):
        raise TypeError(f"{intent.by}: {intent.knob} takes SET and a set of CPUs")
    return intent.value


def _size(value: int | Unlimited) -> float:
    return float("inf") if isinstance(value, Unlimited) else float(value)


def _tie(intent: Intent) -> tuple[str, ...]:
    because = intent.because
    return intent.by, because.signal, because.seen, because.limit


def _within_quota(burst: Grant, quota: Bandwidth | Gap, follows: str) -> Grant | None:
    """A burst is at most its quota (tg_set_cfs_bandwidth), and means nothing without one. It stays
    where one above binds instead, so that it need not be written again when that moves."""
    if isinstance(quota, Gap):
        return None
    if follows:
        burst = msgspec.structs.replace(burst, follows=follows)
    if isinstance(quota.limit, Unlimited):
        return burst if follows else None
    if isinstance(burst.value, int) and burst.value <= quota.limit:
        return burst
    return msgspec.structs.replace(burst, value=quota.limit, clipped_by="its own quota")


def _quota_in_force(
    snapshot: NodeSnapshot, target: CgroupRef, granted: Grant | None
) -> Bandwidth | Gap:
    """What is granted, else what stands there."""
    reading = snapshot.readings.get(target.id)
    standing = reading.quota if reading else Gap(f"{target.path} was not read")
    if granted is None or isinstance(standing, Gap):
        return standing
    return granted_quota(granted, standing.period)


def _baseline(
    snapshot: NodeSnapshot, target: CgroupRef, noted: Mapping[int, KnobValue]
) -> MilliCpu | Unlimited | Gap:
    """The quota without us: as noted before our first write, else as it reads now."""
    if target.id in noted:
        return _milli(noted[target.id])
    reading = snapshot.readings.get(target.id)
    return _milli(reading.quota) if reading else Gap(f"{target.path} was not read")


def _milli(quota: object) -> MilliCpu | Unlimited | Gap:
    match quota:
        case Bandwidth():
            return quota.milli()
        case Gap():
            return quota
        case _:
            return Gap("a quota that is not a bandwidth")
