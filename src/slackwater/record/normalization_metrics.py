"""Metrics of CPU normalization: the ratio in force, and the quotas that it scaled."""

from collections.abc import Iterator

from slackwater.model.cgroup import CgroupRef
from slackwater.model.decision import Grant, PolicyAction
from slackwater.model.gap import Gap
from slackwater.model.knob import QUOTA
from slackwater.model.units import Unlimited
from slackwater.model.workload import Workload
from slackwater.policies import normalization
from slackwater.record import metric_table as table
from slackwater.record.journal import TickRecord
from slackwater.record.metric_table import MetricSample

#: More pods than a node runs have no series of their own.
MOST_PODS = 250
_MILLI = 1000
_HUNDRED = 100


def normalization_samples(record: TickRecord) -> Iterator[MetricSample]:
    """The ratio is 1 where it is off: whoever divides by it need not ask."""
    told = next((each for each in record.story.told if each.policy == normalization.NAME), None)
    hundredths = told.numbers.get(normalization.RATIO_NUMBER) if told else None
    yield MetricSample(table.NORMALIZATION_RATIO, (hundredths or _HUNDRED) / _HUNDRED)
    if told:
        odd = told.course is not PolicyAction.ACTED or bool(told.remarks)
        yield MetricSample(table.NORMALIZATION_PROBLEM, odd)
    declared = record.snapshot.node_resources.amplified_cpu
    if isinstance(declared, int):
        yield MetricSample(table.AMPLIFIED_ALLOCATABLE, declared / _MILLI)
    if told:
        yield from _quota_samples(record)


def _quota_samples(record: TickRecord) -> Iterator[MetricSample]:
    scaled = {
        grant.target.id: grant
        for grant in record.story.grants
        if grant.knob == QUOTA.name
        and any(step.by == normalization.NAME for step in grant.contributions)
    }
    found = {
        (pod.namespace, pod.name): cores
        for pod in record.snapshot.workloads
        if (cores := _quota_of(pod, scaled)) is not None
    }
    yield MetricSample(table.NORMALIZED_PODS, len(found))
    for labels in sorted(found)[:MOST_PODS]:
        yield MetricSample(table.NORMALIZED_QUOTA, found[labels], labels)


def _quota_of(pod: Workload, scaled: dict[int, Grant]) -> float | None:
    """The pod's own quota or its containers' together, whichever is less: on cgroup v1 the pod's
    keeps room for containers that start with their whole limit. None where nothing is limited."""
    whole = _cores(pod.ref, scaled)
    parts = [cores for each in pod.containers if (cores := _cores(each.ref, scaled)) is not None]
    if whole is None:
        return sum(parts) if parts else None
    return min(whole, sum(parts)) if parts and len(parts) == len(pod.containers) else whole


def _cores(ref: CgroupRef | Gap, scaled: dict[int, Grant]) -> float | None:
    grant = None if isinstance(ref, Gap) else scaled.get(ref.id)
    if grant is None or isinstance(grant.value, Unlimited) or not isinstance(grant.value, int):
        return None
    if grant.exact is not None:
        return grant.exact.numerator / grant.exact.denominator / _MILLI
    return grant.value / _MILLI
