"""Folds all intents into grants: one for each knob of each cgroup that somebody wants changed.

Knows knobs and verbs, never a policy's name: deleting a policy changes no line here. What knobs
demand of each other is here too: on cgroup v1 a quota is at most its parent's, and a burst is at
most its quota.
"""

from collections.abc import Iterable, Mapping

import msgspec

from slackwater.model.cgroup import CgroupRef, CgroupVersion
from slackwater.model.decision import (
    Because,
    Contribution,
    Grant,
    Intent,
    QuotaIntent,
    SettingIntent,
    Verb,
)
from slackwater.model.gap import Gap
from slackwater.model.knob import BURST, QUOTA, KnobValue
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Bandwidth, MilliCpu, Unlimited
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
    granted = _nested(snapshot, _quota_grants(snapshot, quotas.values()))
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


def _nested(snapshot: NodeSnapshot, grants: dict[int, Grant]) -> dict[int, Grant]:
    """On cgroup v1 no quota exceeds that of a group above it (tg_cfs_schedulable_down); v2 takes
    the smaller one by itself."""
    if snapshot.version is not CgroupVersion.V1 or len(grants) < 2:
        return grants
    by_path: dict[str, Grant] = {}
    for grant in sorted(grants.values(), key=lambda each: each.target.depth()):
        above = _nearest_above(grant.target, by_path)
        by_path[grant.target.path] = grant if above is None else _clipped(grant, above)
    return {grant.target.id: grant for grant in by_path.values()}


def _nearest_above(target: CgroupRef, grants: Mapping[str, Grant]) -> Grant | None:
    path = target.path.rpartition("/")[0]
    while path:
        if path in grants:
            return grants[path]
        path = path.rpartition("/")[0]
    return None


def _clipped(grant: Grant, above: Grant) -> Grant:
    """The same with what binds it from above as its last contribution: explain names who."""
    if isinstance(above.value, Unlimited):
        return grant
    if not isinstance(grant.value, Unlimited) and grant.value <= above.value:
        return grant
    by = above.clipped_by or above.contributions[-1].by
    because = Because(f"the quota of {above.target.path}", f"{above.value}m", "cgroup v1 nests")
    step = Contribution(by, Verb.CAP, above.value, above.value, because)
    return msgspec.structs.replace(
        grant, value=above.value, contributions=(*grant.contributions, step), clipped_by=by
    )


def _within_quota(
    snapshot: NodeSnapshot, grant: Grant, quotas: Mapping[int, Grant]
) -> Grant | None:
    """A burst is at most its quota (tg_set_cfs_bandwidth), and means nothing without one."""
    if grant.knob != BURST.name:
        return grant
    quota = _quota_in_force(snapshot, grant.target, quotas.get(grant.target.id))
    if isinstance(quota, Gap) or isinstance(quota.limit, Unlimited):
        return None
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
