"""Folds all intents into grants: one for each knob of each cgroup that a policy wants changed.

Knows knobs and verbs, never a policy's name: deleting a policy changes no line here. How several
intents become one value is a field of the knob's row (knob.Fold); the quota law is in
resolution.quota. What knobs demand of each other is here too: a burst is at most its quota. What
quotas demand of those above them is in resolution.nesting.

Laws of every fold but the quota's (property-tested): the order of intents does not matter, and one
intent more never makes the value laxer.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import assert_never

import msgspec

from slackwater.model.cgroup import CgroupRef
from slackwater.model.cpus import CpuSet
from slackwater.model.decision import Contribution, Grant, Intent, Verb
from slackwater.model.gap import Gap
from slackwater.model.knob import BURST, KNOB, QUOTA, Fold, Knob, KnobValue
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Bandwidth, MilliCpu, Ratio, Unlimited
from slackwater.resolution.nesting import nest_quotas
from slackwater.resolution.quota import grant_quota, quota_amount, quota_value

_Key = tuple[int, str]


def resolve(snapshot: NodeSnapshot, intents: Iterable[Intent]) -> tuple[Grant, ...]:
    """Parents before children, so that a story reads from the top. A target whose quota could
    not be read gets no grant of it: what stands there stays."""
    by_knob: dict[_Key, list[Intent]] = {}
    for intent in intents:
        by_knob.setdefault((intent.target.id, intent.knob), []).append(intent)
    baselines = {held.ref.id: held.baseline for held in snapshot.held if held.knob == QUOTA.name}
    quotas: dict[int, Grant] = {}
    others: list[Grant] = []
    for (target_id, name), wishes in by_knob.items():
        knob, target = KNOB[name], wishes[0].target
        match knob.fold:
            case Fold.QUOTA_LAW:
                baseline = _baseline(snapshot, target, baselines)
                if not isinstance(baseline, Gap):
                    quotas[target_id] = grant_quota(target, baseline, wishes)
            case Fold.SMALLEST | Fold.LARGEST:
                others.append(grant_strictest(target, knob, wishes))
            case Fold.INTERSECTION:
                others.append(grant_common_cpus(target, knob, wishes))
            case fold:
                assert_never(fold)
    granted = nest_quotas(snapshot, quotas)
    bursts = [_within_quota(snapshot, grant, granted) for grant in others]
    grants = (*granted.values(), *(grant for grant in bursts if grant is not None))
    return tuple(sorted(grants, key=lambda g: (g.target.depth(), g.target.path, g.knob)))


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


def _within_quota(
    snapshot: NodeSnapshot, grant: Grant, quotas: Mapping[int, Grant]
) -> Grant | None:
    """A burst is at most its quota (tg_set_cfs_bandwidth), and means nothing without one."""
    if grant.knob != BURST.name:
        return grant
    granted = quotas.get(grant.target.id)
    quota = _quota_in_force(snapshot, grant.target, granted)
    if isinstance(quota, Gap) or isinstance(quota.limit, Unlimited):
        return None
    if granted is not None and granted.follows:
        grant = msgspec.structs.replace(grant, follows=granted.follows)
    if isinstance(grant.value, int) and grant.value <= quota.limit:
        return grant
    return msgspec.structs.replace(grant, value=quota.limit, clipped_by="its own quota")


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
