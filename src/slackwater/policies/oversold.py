"""Sells idle CPU and memory: the node's extended resources, such as gocrane.io/cpu.

    unreclaimable = max(used + idle CPUs held exclusively - used by elastic pods, predicted)
    budget        = (allocatable x (1 - reserve) - unreclaimable) x worth, at least 0

Owns the offer (seed 002, "Dynamic resource oversold", as decided in docs/differences.md): it falls
with the budget at once and rises in steps; it is never below what pods were already given, because
the kubelet refuses such pods when it restarts. The prediction is the node's TimeSeriesPrediction,
and where that is missing or over, a percentile of what this agent has seen itself. What is bought
is enforced by other policies; what is sold and used together is theirs to bound. `worth` is the
normalization ratio: pods buy CPU in the unit that they declare, and their quotas are divided by it.
"""

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from slackwater.contract.crane.metrics import needs_of_metrics
from slackwater.contract.kubernetes_pod import Pod
from slackwater.contract.node_offer import OFFERABLE
from slackwater.contract.schema import Duration, Percentage, SettingsStruct
from slackwater.model.cgroup import CgroupRef, Level
from slackwater.model.decision import (
    NODE,
    Act,
    Because,
    Command,
    CommandKind,
    Decision,
    OfferReport,
    Remark,
)
from slackwater.model.elastic import BATCH_CPU, BATCH_MEMORY, ELASTIC_CPU, ELASTIC_MEMORY
from slackwater.model.gap import Gap
from slackwater.model.knob import KnobKey
from slackwater.model.metric import MetricKey, MetricRequest, Samples
from slackwater.model.needs import Needs, ReadingField, merge_needs
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Micros, Percent, Ratio, left_over, percent, promised
from slackwater.model.workload import Workload, WorkloadContainer
from slackwater.policies.oversold_offer import (
    OfferMemory,
    OfferRules,
    ResourceLook,
    UseHistory,
    next_offer,
)
from slackwater.policies.policy import Policy
from slackwater.signals import DecayingHistogram

NAME = "oversold"
_SECOND = 1_000_000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_MILLI, _BYTE = "m", "B"
_ONE_CPU = 1000
_TIMES = frozenset({ReadingField.TIMES})
#: The first buckets of the histories: 10 m, and 10 MiB.
_FIRST_MILLI, _FIRST_BYTES = 10, 10 << 20
#: The working sets of many containers are measured in turn.
_OLDEST_MEMORY_SECONDS = 60
#: Not measured where nobody can hold CPUs alone, or has bought memory: it is 0 then.
_EXCLUSIVE_IDLE = MetricKey("exclusive_cpu_idle")
_MEMORY_TOTAL, _MEMORY_USED = MetricKey("memory_total"), MetricKey("memory_total_usage")
_ELASTIC_MEMORY_USED = MetricKey("ext_res_container_mem_total_usage")
_WORKING_SETS = MetricKey("container_mem_total_usage")


class Offered(enum.Enum):
    """Which of the node's resources are sold."""

    BOTH = "both"
    CPU = "cpu"
    MEMORY = "memory"


class OfferNames(enum.Enum):
    """Whose names the resources have: Crane's, or Volcano's and Koordinator's."""

    CRANE = "crane"
    BATCH = "batch"


#: Name of CPU, how many milliCPU one of it is, and name of memory.
_NAMES = {
    OfferNames.CRANE: (ELASTIC_CPU, 1000, ELASTIC_MEMORY),
    OfferNames.BATCH: (BATCH_CPU, 1, BATCH_MEMORY),
}


class OversoldSettings(SettingsStruct, frozen=True):
    """Settings of the node's extended resources."""

    enabled: Annotated[
        bool,
        Meta(
            description="Whether idle CPU and memory are offered as extended resources of the "
            "Node. Switching it off removes them; pods that have bought some go on.",
        ),
    ] = False
    offer: Annotated[Offered, Meta(description="What is offered: CPU, memory, or both.")] = (
        Offered.BOTH
    )
    names: Annotated[
        OfferNames,
        Meta(
            description="What the resources are called: gocrane.io/cpu, in whole CPUs, as "
            "Kubernetes takes whole numbers of an extended resource only, and gocrane.io/memory; "
            "or kubernetes.io/batch-cpu, in milliCPU, and kubernetes.io/batch-memory.",
        ),
    ] = OfferNames.CRANE
    reserve_cpu: Annotated[
        Percentage,
        Meta(
            ge=0,
            le=100,
            description="The share of the allocatable CPU that is never sold: peaks shorter than "
            "a tick, and forecasts that are exceeded. As much as bestEffortShare keeps free by "
            "default, so that what is sold can be used. The node's annotation "
            "reserve.node.gocrane.io/cpu counts before it.",
        ),
    ] = Percent(20)
    reserve_memory: Annotated[
        Percentage,
        Meta(
            ge=0,
            le=100,
            description="The same of memory; the annotation is reserve.node.gocrane.io/memory.",
        ),
    ] = Percent(20)
    dead_band: Annotated[
        Percentage,
        Meta(
            ge=0,
            le=50,
            description="A raise by no more than this fraction of the offer is not made, and a "
            "cut within it goes half of it deeper: each change is a write to the API server.",
        ),
    ] = Percent(10)
    raise_step: Annotated[
        Percentage,
        Meta(
            ge=1,
            le=100,
            description="The most by which the offer grows in one raiseInterval, as a share of "
            "the allocatable amount. It falls at once.",
        ),
    ] = Percent(20)
    raise_interval: Annotated[
        Duration,
        Meta(
            ge=_SECOND,
            le=_HOUR,
            description="The least time between a change of the offer and the next raise.",
        ),
    ] = Micros(_MINUTE)
    stale_after: Annotated[
        Duration,
        Meta(
            ge=_SECOND,
            le=_HOUR,
            description="How long an offer stands while neither usage nor a prediction is known. "
            "Then it falls to what pods have already been given.",
        ),
    ] = Micros(2 * _MINUTE)
    percentile: Annotated[
        Percentage,
        Meta(
            ge=50,
            le=100,
            description="Of the agent's own history, which predicts where there is no "
            "TimeSeriesPrediction: the share of its minutes that used less.",
        ),
    ] = Percent(98)
    margin: Annotated[
        Percentage,
        Meta(ge=0, le=100, description="What is added to that percentile, as a fraction of it."),
    ] = Percent(15)
    half_life: Annotated[
        Duration,
        Meta(
            ge=_MINUTE,
            le=7 * 24 * _HOUR,
            description="After this time a minute of that history counts half.",
        ),
    ] = Micros(12 * _HOUR)
    warm_up: Annotated[
        Duration,
        Meta(
            ge=0,
            le=24 * _HOUR,
            description="How much of its own history an agent must have seen before it offers "
            "more by it. A prediction from elsewhere needs none.",
        ),
    ] = Micros(5 * _MINUTE)

    @property
    def cpu_resource(self) -> str:
        return _NAMES[self.names][0]

    @property
    def memory_resource(self) -> str:
        return _NAMES[self.names][2]


class OversoldMemory(msgspec.Struct, frozen=True, omit_defaults=True, tag="oversold"):
    """`saved_at` is of a memory that an earlier run left: the time of day then, in seconds.
    `buyers` is what each container that bought CPU used, by its cgroup's id."""

    cpu: OfferMemory = OfferMemory(UseHistory(DecayingHistogram(_FIRST_MILLI)))
    memory: OfferMemory = OfferMemory(UseHistory(DecayingHistogram(_FIRST_BYTES)))
    saved_at: int = 0
    buyers: Mapping[int, int] = {}


def needs(settings: OversoldSettings, _off: frozenset[KnobKey]) -> Needs:
    """What the node uses is in every snapshot."""
    if settings.offer is Offered.CPU:
        return Needs()
    return needs_of_metrics(map(_memory_request, (_MEMORY_TOTAL, _MEMORY_USED)))


def needs_of_pods(settings: OversoldSettings, pods: Sequence[Pod]) -> Needs:
    """The usage of containers where some of it is what was sold, or idle on CPUs that somebody
    holds alone: reading it costs more than everything else."""
    parts: list[Needs] = []
    if settings.offer is not Offered.MEMORY:
        if any(_buys(pod, settings.cpu_resource) for pod in pods):
            parts.append(Needs({Level.POD: frozenset(), Level.CONTAINER: _TIMES}))
        if any(map(_may_hold_cpus, pods)):
            parts.append(needs_of_metrics((MetricRequest(_EXCLUSIVE_IDLE),)))
    if settings.offer is not Offered.CPU and any(
        _buys(pod, settings.memory_resource) for pod in pods
    ):
        parts.append(needs_of_metrics((_memory_request(_elastic_memory(settings)),)))
    return merge_needs(parts)


def _memory_request(key: MetricKey) -> MetricRequest:
    return MetricRequest(key, _OLDEST_MEMORY_SECONDS)


def _buys(pod: Pod, resource: str) -> bool:
    return any(resource in each.extended_requests for each in pod.resources.containers)


def _may_hold_cpus(pod: Pod) -> bool:
    """Nobody gets CPUs alone without asking for whole ones, of us or of the kubelet."""
    return any(
        each.requests.cpu >= _ONE_CPU and each.requests.cpu % _ONE_CPU == 0
        for each in pod.resources.containers
    )


def _elastic_memory(settings: OversoldSettings) -> MetricKey:
    """The one sum of Crane's resource, or the working sets to add up for another."""
    return _ELASTIC_MEMORY_USED if settings.names is OfferNames.CRANE else _WORKING_SETS


def decide(snapshot: NodeSnapshot, memory: OversoldMemory, settings: OversoldSettings) -> Decision:
    memory = _aged(memory, snapshot, settings)
    rules = _rules(settings)
    offers: list[OfferReport] = []
    cpu, ram, buyers = memory.cpu, memory.memory, memory.buyers
    if settings.offer is not Offered.MEMORY:
        look = look_at_cpu(snapshot, settings, buyers)
        buyers = _usage_of_buyers(snapshot, settings.cpu_resource)
        report, cpu = next_offer(look, cpu, rules, snapshot.at, early=snapshot.early)
        offers.append(report)
    if settings.offer is not Offered.CPU:
        look = look_at_memory(snapshot, settings)
        report, ram = next_offer(look, ram, rules, snapshot.at, early=snapshot.early)
        offers.append(report)
    after = OversoldMemory(cpu, ram, buyers=buyers)
    known = {settings.cpu_resource: cpu, settings.memory_resource: ram}
    decided = tuple(each for each in offers if known[each.resource].claim is not None)
    return Act(
        (),
        after,
        commands=tuple(_command(each) for each in decided),
        remarks=tuple(_remarks(snapshot, settings)),
        offers=tuple(offers),
        # Until something is known, what an earlier run offered stands.
        is_settling=len(decided) < len(offers),
    )


def keep(memory: OversoldMemory, now: int) -> OversoldMemory:
    """The histories: what the Node shows says what was offered."""
    cpu, ram = (
        OfferMemory(UseHistory(each.history.minutes)) for each in (memory.cpu, memory.memory)
    )
    return OversoldMemory(cpu, ram, now)


def _aged(
    memory: OversoldMemory, snapshot: NodeSnapshot, settings: OversoldSettings
) -> OversoldMemory:
    """What an earlier run left has aged meanwhile. A clock that went back ages nothing."""
    if not memory.saved_at:
        return memory
    away = Micros(max(snapshot.wall_time - memory.saved_at, 0) * _SECOND)
    cpu, ram = (
        OfferMemory(UseHistory(each.history.minutes.age(away, settings.half_life)))
        for each in (memory.cpu, memory.memory)
    )
    return OversoldMemory(cpu, ram)


def _rules(settings: OversoldSettings) -> OfferRules:
    return OfferRules(
        settings.dead_band,
        settings.raise_step,
        settings.raise_interval,
        settings.stale_after,
        settings.percentile,
        settings.margin,
        settings.half_life,
        settings.warm_up,
    )


def look_at_cpu(
    snapshot: NodeSnapshot, settings: OversoldSettings, before: Mapping[int, int]
) -> ResourceLook:
    """`before` is what each buyer used in the tick before."""
    name = settings.cpu_resource
    scale, shown = _NAMES[settings.names][1], _shown(snapshot, name)
    idle = snapshot.metrics.get(_EXCLUSIVE_IDLE.title(), ())
    return ResourceLook(
        resource=name,
        unit=_MILLI,
        scale=scale,
        allocatable=snapshot.allocatable,
        reserve=_reserve(snapshot, "cpu", settings.reserve_cpu),
        used=snapshot.usage,
        exclusive_idle=idle if isinstance(idle, Gap) else _total(idle),
        elastic_used=_elastic_cpu_used(snapshot, name),
        forecast=snapshot.forecast.cpu,
        allocated=promised(_allocated(snapshot, name), scale),
        shown=None if shown is None else left_over(shown, scale),
        worth=_cpu_worth(snapshot),
        ended_used=_ended_cpu_used(snapshot, name, before),
    )


def look_at_memory(snapshot: NodeSnapshot, settings: OversoldSettings) -> ResourceLook:
    """Without a Node object pods may have the machine's memory."""
    name = settings.memory_resource
    allocatable: int | Gap = snapshot.node_resources.memory
    if isinstance(allocatable, Gap):
        allocatable = _metric(snapshot, _MEMORY_TOTAL)
    return ResourceLook(
        resource=name,
        unit=_BYTE,
        scale=1,
        allocatable=allocatable,
        reserve=_reserve(snapshot, "memory", settings.reserve_memory),
        used=_metric(snapshot, _MEMORY_USED),
        exclusive_idle=0,
        elastic_used=_elastic_memory_used(snapshot, settings),
        forecast=snapshot.forecast.memory,
        allocated=_allocated(snapshot, name),
        shown=_shown(snapshot, name),
    )


def _reserve(snapshot: NodeSnapshot, resource: str, setting: Percent) -> Ratio:
    stated = snapshot.node_resources.reserve.get(resource)
    return stated if isinstance(stated, Ratio) else percent(setting)


def _cpu_worth(snapshot: NodeSnapshot) -> Ratio:
    """No ratio is below 1: where it cannot be read, that offers the least."""
    worth = snapshot.node_resources.cpu_worth
    return Ratio(1) if isinstance(worth, Gap) else worth


def _metric(snapshot: NodeSnapshot, key: MetricKey) -> int | Gap:
    found = snapshot.metric(key)
    return found if isinstance(found, Gap) else _total(found)


def _total(samples: Samples) -> int:
    return int(sum(each.value for each in samples))


def _buyers(snapshot: NodeSnapshot, resource: str) -> Iterator[tuple[Workload, WorkloadContainer]]:
    """The containers that ask for it; an amount that cannot be read asks too, zero does not."""
    for pod in snapshot.workloads:
        if resource in pod.extended_requests:
            for each in pod.containers:
                if each.extended_requests.get(resource, 0):
                    yield pod, each


def _buyers_groups(snapshot: NodeSnapshot, resource: str) -> Iterator[CgroupRef]:
    """Of the containers that bought CPU. One without a group does not run."""
    refs = (each.ref for _, each in _buyers(snapshot, resource))
    return (ref for ref in refs if isinstance(ref, CgroupRef))


def _elastic_cpu_used(snapshot: NodeSnapshot, resource: str) -> int | Gap:
    total = 0
    for ref in _buyers_groups(snapshot, resource):
        used = snapshot.usage_of(ref)
        if isinstance(used, Gap):
            return used
        total += used
    return total


def _usage_of_buyers(snapshot: NodeSnapshot, resource: str) -> dict[int, int]:
    """By cgroup id, as far as it is known."""
    known = [(ref.id, snapshot.usage_of(ref)) for ref in _buyers_groups(snapshot, resource)]
    return {number: used for number, used in known if not isinstance(used, Gap)}


def _ended_cpu_used(snapshot: NodeSnapshot, resource: str, before: Mapping[int, int]) -> int:
    """The node's usage has the last interval of a buyer that ended in it, and no group tells how
    much that was: what it used before is the most that is believed."""
    running = {ref.id for ref in _buyers_groups(snapshot, resource)}
    return sum(used for number, used in before.items() if number not in running)


def _elastic_memory_used(snapshot: NodeSnapshot, settings: OversoldSettings) -> int | Gap:
    key = _elastic_memory(settings)
    samples = snapshot.metrics.get(key.title(), ())
    if isinstance(samples, Gap) or key is _ELASTIC_MEMORY_USED:
        return samples if isinstance(samples, Gap) else _total(samples)
    buyers = {(pod.uid, each.name) for pod, each in _buyers(snapshot, settings.memory_resource)}
    return _total(
        tuple(
            each
            for each in samples
            if (each.labels.get("PodUid"), each.labels.get("ContainerName")) in buyers
        )
    )


def _allocated(snapshot: NodeSnapshot, resource: str) -> int:
    """What the scheduler counts as taken, in milliCPU or bytes: pods that wait or end have it too.
    An amount that cannot be read, which no API server accepts, was given to nobody."""
    amounts = (pod.extended_requests.get(resource, 0) for pod in snapshot.workloads)
    return sum(each for each in amounts if isinstance(each, int))


def _shown(snapshot: NodeSnapshot, resource: str) -> int | None:
    shown = snapshot.node_resources.extended.get(resource)
    return shown if isinstance(shown, int) else None


def _command(offer: OfferReport) -> Command:
    kept = offer.unreclaimable()
    seen = "not known" if kept is None else f"{kept}{offer.unit} of {offer.forecast or 'usage'}"
    allowed = "" if offer.allocatable is None else f"{offer.allocatable}{offer.unit} allocatable"
    because = Because("cannot be reclaimed", seen, allowed or offer.missing)
    return Command(
        f"{CommandKind.NODE_RESOURCE.value}/{offer.resource}",
        CommandKind.NODE_RESOURCE,
        offer.resource,
        because,
        NAME,
        value=str(offer.offered),
    )


def _remarks(snapshot: NodeSnapshot, settings: OversoldSettings) -> Iterator[Remark]:
    """About annotations of the Node that cannot be read, and pods whose amount cannot."""
    for stated in snapshot.node_resources.reserve.values():
        if isinstance(stated, Gap):
            yield Remark(NODE, f"{stated.reason}; the setting counts")
    if isinstance(worth := snapshot.node_resources.cpu_worth, Gap):
        yield Remark(NODE, f"{worth.reason}; CPU is offered as if it were 1.00")
    names = (settings.cpu_resource, settings.memory_resource)
    for pod in snapshot.workloads:
        for name in names if pod.extended_requests else ():
            amount = pod.extended_requests.get(name)
            if isinstance(amount, Gap):
                yield Remark(pod.title(), f"{amount.reason}; it counts as none")


def concerns(pod: Workload) -> bool:
    return not pod.extended_requests.keys().isdisjoint(OFFERABLE)


POLICY = Policy(
    NAME,
    OversoldMemory(),
    needs,
    decide,
    settings=OversoldSettings,
    description="sells idle CPU and memory as extended resources of the Node",
    concerns=concerns,
    keep=keep,
    needs_of_pods=needs_of_pods,
)
