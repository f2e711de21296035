"""How far a metric is from its watermark, and which pods close that gap.

    gap = (1 + excess) x (used - watermark), less the relief that is in flight

in the unit in which a pod's release is counted: milliCPU, bytes, or the metric's own. Pods are
taken one after another until the gap is closed, and no pod more.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from slackwater.model.decision import Because
from slackwater.model.gap import Gap
from slackwater.model.metric import MetricKey
from slackwater.model.snapshot import NodeSnapshot
from slackwater.policies.ensurance.bound_rules import RuleLook
from slackwater.policies.ensurance.metric_attributes import MetricAttributes, ReleaseCount
from slackwater.policies.ensurance.pod_order import PodFigures


class TriggeredMetric(msgspec.Struct, frozen=True):
    """The triggered rules about one metric. Of several watermarks the smallest counts; `gap` is
    None where it cannot be counted."""

    key: MetricKey
    attributes: MetricAttributes
    looks: tuple[RuleLook, ...]
    watermark: float
    used: float
    gap: float | None

    def because(self) -> Because:
        return min(self.looks, key=lambda each: (each.limit, each.title())).because()


def group_by_metric(
    snapshot: NodeSnapshot,
    looks: Iterable[RuleLook],
    excess: int,
    in_flight: Callable[[MetricKey], float],
) -> list[TriggeredMetric]:
    """Highest action priority first; the metric's title decides among equals."""
    by_key: dict[MetricKey, list[RuleLook]] = {}
    for look in looks:
        by_key.setdefault(look.bound.key(), []).append(look)
    found = []
    for key, members in by_key.items():
        attributes = members[0].attributes
        watermark = min(each.limit for each in members)
        used = max(each.seen for each in members if each.seen is not None)
        whole = read_whole(snapshot, attributes)
        gap = count_gap(used, watermark, excess, whole)
        relief = in_flight(key)
        if gap is not None and relief and whole is not None:
            gap -= relief * whole
        found.append(TriggeredMetric(key, attributes, tuple(members), watermark, used, gap))
    return sorted(found, key=lambda m: (-m.attributes.action_priority, m.key.title()))


def count_gap(used: float, watermark: float, excess: int, whole: float | None) -> float | None:
    """`excess` in percent; `whole` is what one unit of the metric is in that of the release."""
    return None if whole is None else (100 + excess) * (used - watermark) * whole / 100


def read_whole(snapshot: NodeSnapshot, attributes: MetricAttributes) -> float | None:
    """What one unit of the metric is in the unit of the release; None where nobody knows."""
    if attributes.whole is None:
        return 1.0
    samples = snapshot.metric(MetricKey(attributes.whole.metric))
    if isinstance(samples, Gap) or not samples:
        return None
    return samples[0].value * attributes.whole.unit / 100


def release_of(figures: PodFigures, release: ReleaseCount) -> float | None:
    """What a pod releases when it goes; None where it is not known."""
    match release:
        case ReleaseCount.CPU:
            return figures.cpu
        case ReleaseCount.MEMORY:
            return figures.memory
        case ReleaseCount.SERIES:
            return figures.value
        case ReleaseCount.PLUGIN:
            return figures.evict_release
        case ReleaseCount.UNKNOWN:
            return None


def has_part(figures: PodFigures, release: ReleaseCount) -> bool:
    """Whether a throttle of the pod can release anything of a metric whose release is counted by
    pod: one without a part in it would be throttled for nothing."""
    match release:
        case ReleaseCount.SERIES:
            return (figures.value or 0.0) > 0
        case ReleaseCount.PLUGIN:
            return (figures.throttle_release or 0.0) > 0
        case _:
            return True


def release_of_throttle(figures: PodFigures, release: ReleaseCount, milli_cpu: float) -> float:
    """What a throttle that takes this much CPU releases, in the unit of the release. Where that is
    not CPU: the same share of it as of the CPU that the pod uses."""
    if release not in (ReleaseCount.SERIES, ReleaseCount.PLUGIN):
        return milli_cpu
    whole = figures.value if release is ReleaseCount.SERIES else figures.throttle_release
    if not figures.cpu or whole is None:
        return 0.0
    return whole * min(milli_cpu / figures.cpu, 1.0)


def take_until_closed(
    pods: Sequence[PodFigures], gap: float, release: Callable[[PodFigures], float | None]
) -> Iterator[PodFigures]:
    """Those that close the gap, in order; pods that release nothing, or nobody knows how much, are
    passed over."""
    for each in pods:
        if gap <= 0:
            return
        amount = release(each)
        if amount is not None and amount > 0:
            gap -= amount
            yield each
