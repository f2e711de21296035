"""Folds all intents into grants: one for each knob of each cgroup that somebody wants changed.

Knows knobs and verbs, never a policy's name: deleting a policy changes no line here. What knobs
demand of each other is here too: a burst is at most its quota. What quotas demand of those above
them is nesting's.
"""

from collections.abc import Iterable, Mapping

import msgspec

from slackwater.model.cgroup import CgroupRef
from slackwater.model.decision import Grant, Intent, QuotaIntent, SettingIntent
from slackwater.model.gap import Gap
from slackwater.model.knob import BURST, QUOTA, KnobValue
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Bandwidth, MilliCpu, Unlimited
from slackwater.resolution.nesting import nested
from slackwater.resolution.quota import grant_quota, quota_value
from slackwater.resolution.setting_law import grant_setting

_Key = tuple[int, str]


def resolve(snapshot: NodeSnapshot, intents: Iterable[Intent]) -> tuple[Grant, ...]:
    """Parents before children, so that a story reads from the top. A target whose quota could
    not be read gets no grant of it: what stands there stays."""
    quotas: dict[int, list[QuotaIntent]] = {}
    settings: dict[_Key, list[SettingIntent]] = {}
    for intent in intents:
        match intent:
            case QuotaIntent():
                quotas.setdefault(intent.target.id, []).append(intent)
            case SettingIntent():
                settings.setdefault((intent.target.id, intent.knob), []).append(intent)
    granted = nested(snapshot, _quota_grants(snapshot, quotas.values()))
    others = [grant_setting(wishes[0].target, key[1], wishes) for key, wishes in settings.items()]
    bursts = [_within_quota(snapshot, grant, granted) for grant in others]
    grants = (*granted.values(), *(grant for grant in bursts if grant is not None))
    return tuple(sorted(grants, key=lambda g: (g.target.depth(), g.target.path, g.knob)))


def _quota_grants(snapshot: NodeSnapshot, wishes: Iterable[list[QuotaIntent]]) -> dict[int, Grant]:
    found: dict[int, Grant] = {}
    baselines = {held.ref.id: held.baseline for held in snapshot.held if held.knob == QUOTA.name}
    for each in wishes:
        target = each[0].target
        baseline = _baseline(snapshot, target, baselines)
        if not isinstance(baseline, Gap):
            found[target.id] = grant_quota(target, baseline, each)
    return found


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
    if isinstance(grant.value, Unlimited) or grant.value > quota.limit:
        return msgspec.structs.replace(grant, value=quota.limit, clipped_by="its own quota")
    return grant


def _quota_in_force(
    snapshot: NodeSnapshot, target: CgroupRef, granted: Grant | None
) -> Bandwidth | Gap:
    """What is granted, else what stands there."""
    reading = snapshot.readings.get(target.id)
    standing = reading.quota if reading else Gap(f"{target.path} was not read")
    if granted is None or isinstance(standing, Gap):
        return standing
    return quota_value(granted.value, standing.period)


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
            return Gap("a quota that is no bandwidth")
