"""Folds all intents into grants: one for each knob of each cgroup that somebody wants changed.

Knows knobs and verbs, never a policy's name: deleting a policy changes no line here. What knobs
demand of each other is here too: on cgroup v1 a quota is at most its parent's, and a burst is at
most its quota.
"""

from collections.abc import Iterable, Iterator, Mapping

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
from slackwater.model.units import Bandwidth, MilliCpu, Unlimited, left_over
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
    if snapshot.version is not CgroupVersion.V1 or not grants:
        return grants
    standing = _ungranted(snapshot, grants)
    by_path: dict[str, Grant] = {}
    for grant in sorted(grants.values(), key=lambda each: each.target.depth()):
        for path in _above(grant.target.path):
            if path in by_path:
                above = by_path[path]
                grant = _clipped(grant, path, above.value, above.contributions[-1].by)
            elif path in standing:
                grant = _clipped(grant, path, standing[path], "what stands above it")
        by_path[grant.target.path] = grant
    return {grant.target.id: grant for grant in by_path.values()}


def _ungranted(snapshot: NodeSnapshot, grants: Mapping[int, Grant]) -> dict[str, MilliCpu]:
    """The quotas that nobody asks to change, by path: a stranger's, or what an earlier run left
    and is kept for now."""
    return {
        reading.ref.path: MilliCpu(left_over(reading.quota.limit * 1000, reading.quota.period))
        for reading in snapshot.readings.values()
        if reading.ref.id not in grants
        and isinstance(reading.quota, Bandwidth)
        and not isinstance(reading.quota.limit, Unlimited)
    }


def _above(path: str) -> Iterator[str]:
    """The paths of all groups above this one, nearest first."""
    while path := path.rpartition("/")[0]:
        yield path


def _clipped(grant: Grant, path: str, most: MilliCpu | int | Unlimited, by: str) -> Grant:
    """The same with what binds it from above as its last contribution: explain names who."""
    if isinstance(most, Unlimited):
        return grant
    if not isinstance(grant.value, Unlimited) and grant.value <= most:
        return grant
    because = Because(f"the quota of {path}", f"{most}m", "cgroup v1 nests")
    step = Contribution(by, Verb.CAP, most, most, because)
    return msgspec.structs.replace(
        grant, value=most, contributions=(*grant.contributions, step), clipped_by=by
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
