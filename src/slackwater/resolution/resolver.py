"""Folds all intents into grants: one for each knob of each cgroup that somebody wants changed.

Knows knobs and verbs, never a policy's name: deleting a policy changes no line here.
"""

from collections.abc import Iterable

from slackwater.model.cgroup import CgroupRef
from slackwater.model.decision import Grant, Intent
from slackwater.model.gap import Gap
from slackwater.model.knob import QUOTA
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Bandwidth, MilliCpu, Unlimited
from slackwater.resolution.quota import grant_quota


def resolve(snapshot: NodeSnapshot, intents: Iterable[Intent]) -> tuple[Grant, ...]:
    """Parents before children, so that a story reads from the top. A target whose quota could
    not be read gets no grant: what stands there stays."""
    by_target: dict[int, list[Intent]] = {}
    for intent in intents:
        by_target.setdefault(intent.target.id, []).append(intent)
    grants = (_grant(snapshot, wishes[0].target, wishes) for wishes in by_target.values())
    known = [grant for grant in grants if grant is not None]
    return tuple(sorted(known, key=lambda grant: (grant.target.depth(), grant.target.path)))


def _grant(snapshot: NodeSnapshot, target: CgroupRef, wishes: list[Intent]) -> Grant | None:
    baseline = baseline_quota(snapshot, target)
    return None if isinstance(baseline, Gap) else grant_quota(target, baseline, wishes)


def baseline_quota(snapshot: NodeSnapshot, target: CgroupRef) -> MilliCpu | Unlimited | Gap:
    """The quota without us: as noted before our first write, else as it reads now."""
    for held in snapshot.held:
        if (held.ref.id, held.knob) == (target.id, QUOTA.name):
            return _milli(held.baseline)
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
