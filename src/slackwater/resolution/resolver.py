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
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Bandwidth, MilliCpu, Ratio, Unlimited
from slackwater.resolution.nesting import RAISED_EVERY, Nester
from slackwater.resolution.quota import grant_quota, quota_amount, quota_value

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
        self._groups: _Groups = ()
        #: By knob, in the order of the grants.
        self._folded: dict[_Key, _Folded] = {}
        #: Of the same, those that other knobs or the snapshot bear upon.
        self._quotas: tuple[_Key, ...] = ()
        self._bursts: tuple[_Key, ...] = ()
        #: Of this revision, by whether crowds go up in the tick (resolution.nesting).
        self._granted: dict[bool, tuple[Grant, ...]] = {}
        self._last: tuple[Grant, ...] = ()
        self._nester = Nester()
        #: By cgroup: a burst, the quota in force and what that follows; and the burst granted.
        self._clipped: dict[int, tuple[Grant, Bandwidth | Gap, str, Grant | None]] = {}

    def resolve(self, snapshot: NodeSnapshot, groups: _Groups, revision: int) -> tuple[Grant, ...]:
        """`groups` are the intents, in one tuple or several."""
        known, self._revision = self._revision, None  # until all is well: a wrong intent raises
        differing = _differing(self._groups, groups) if known is not None else None
        if differing is None:
            self._regroup(snapshot, groups)
        else:
            self._refold(differing)
            if revision != known:
                self._rebase(snapshot)
        self._groups, self._revision = groups, revision
        raised = snapshot.tick % RAISED_EVERY == 0
        if raised not in self._granted:
            self._granted[raised] = share_equal(self._last, self._finish(snapshot))
        self._last = self._granted[raised]
        return self._last

    def _regroup(self, snapshot: NodeSnapshot, groups: _Groups) -> None:
        """Folds every knob whose intents or baseline are others."""
        noted = _noted_baselines(snapshot)
        folded = self._folded
        self._folded, self._granted, self._clipped = {}, {}, {}
        for key, intents in _group(groups).items():
            target, known = intents[0].target, folded.get(key)
            baseline = _baseline(snapshot, target, noted) if key[1] == QUOTA.name else None
            if known is None or known.baseline != baseline or known.intents != intents:
                grant = _grant(target, KNOB[key[1]], intents, baseline)
            else:
                grant = known.grant
            # With these intents, not with equal ones: they are found again by identity.
            self._folded[key] = _Folded(intents, baseline, grant)
        self._quotas = tuple(key for key in self._folded if key[1] == QUOTA.name)
        self._bursts = tuple(key for key in self._folded if key[1] == BURST.name)

    def _rebase(self, snapshot: NodeSnapshot) -> None:
        """Folds the quotas whose baseline is another in this revision."""
        noted = _noted_baselines(snapshot)
        self._granted = {}
        for key in self._quotas:
            known = self._folded[key]
            target = known.intents[0].target
            baseline = _baseline(snapshot, target, noted)
            if baseline != known.baseline:
                grant = _grant(target, QUOTA, known.intents, baseline)
                self._folded[key] = _Folded(known.intents, baseline, grant)

    def _refold(self, differing: Iterable[tuple[Intent, Intent]]) -> None:
        """Folds the knobs of a few intents that are others. Where their reasons alone differ, as
        what a policy saw moves at each tick, the grants of this revision get the new reasons."""
        pairs: dict[_Key, tuple[Grant | None, Grant | None]] = {}
        for old, new in differing:
            key = (old.target.id, old.knob)
            known = self._folded[key]
            intents = tuple(new if each is old else each for each in known.intents)
            grant = _grant(new.target, KNOB[old.knob], intents, known.baseline)
            self._folded[key] = _Folded(intents, known.baseline, grant)
            pairs[key] = (pairs[key][0] if key in pairs else known.grant, grant)
        if pairs:
            replaced = {up: _replaced(all_, pairs.values()) for up, all_ in self._granted.items()}
            self._granted = {up: all_ for up, all_ in replaced.items() if all_ is not None}

    def _finish(self, snapshot: NodeSnapshot) -> tuple[Grant, ...]:
        """With what knobs demand of each other."""
        found = {key: each.grant for key, each in self._folded.items()}
        quotas = {key[0]: grant for key in self._quotas if (grant := found[key])}
        nested = self._nester.nest(snapshot, quotas)
        for key in self._quotas:
            found[key] = nested.get(key[0])
        for key in self._bursts:
            burst = found[key]
            found[key] = burst and self._clip(snapshot, burst, nested.get(key[0]))
        return tuple(filter(None, found.values()))

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


def _replaced(
    grants: tuple[Grant, ...], pairs: Iterable[tuple[Grant | None, Grant | None]]
) -> tuple[Grant, ...] | None:
    """With the second of each pair in the first one's place. None where that would not do: it is
    not in force as it is, or what others follow from it differs."""
    found = list(grants)
    for old, new in pairs:
        if old is None or new is None or old not in grants:
            return None
        if (old.value, old.contributions[-1].by) != (new.value, new.contributions[-1].by):
            return None
        found[found.index(old)] = new
    return tuple(found)


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
    """A burst is at most its quota (tg_set_cfs_bandwidth), and means nothing without one."""
    if isinstance(quota, Gap) or isinstance(quota.limit, Unlimited):
        return None
    if follows:
        burst = msgspec.structs.replace(burst, follows=follows)
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
    return quota_value(quota_amount(granted), standing.period)


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
