"""The node at a glance: usage, requests, quotas and pressure. What `slackwater top` shows.

A value that is not known is null, with the reason in `gaps`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from slackwater.model.cgroup import CgroupRef, CpuPressure, Level, Tier
from slackwater.model.decision import PolicyAction
from slackwater.model.gap import Gap
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Bandwidth, Unlimited
from slackwater.model.workload import Workload, WorkloadContainer
from slackwater.record.agent_view import API_VERSION, AgentView
from slackwater.record.journal import TimedEntry
from slackwater.record.offers import OfferRow, offer_rows
from slackwater.record.rules import CommandRow, RuleRow, command_rows, rule_rows

#: How many of the journal's last entries are shown.
_ENTRIES = 20
_UNREAD = Gap("it was not read")
_TOO_FEW = Gap("it was read less than twice")


class UsageRow(msgspec.Struct, frozen=True, rename="camel"):
    """A tier, a pod or a container. CPU is in milliCPU; `throttled` is the percentage of the
    kernel's periods in which the quota held it back, `pressure` that of the last ten seconds."""

    name: str
    level: str
    tier: str
    namespace: str = ""
    usage: int | None = None
    request: int | None = None
    quota: int | str | None = None
    throttled: float | None = None
    pressure: float | None = None
    weight: int | None = None
    gaps: Mapping[str, str] = {}
    containers: tuple["UsageRow", ...] = ()


class NodeOverview(msgspec.Struct, frozen=True, rename="camel"):
    """`request` is the sum of all pods' requests, `kubepods` what they use, `outside_pods` what all
    else uses: the system's services, and processes that nobody put into a pod."""

    allocatable: int | None = None
    usage: int | None = None
    kubepods: int | None = None
    outside_pods: int | None = None
    request: int | None = None
    pressure: float | None = None
    gaps: Mapping[str, str] = {}


_AnyRow = TypeVar("_AnyRow", UsageRow, NodeOverview)


class EntryRow(TimedEntry[str], frozen=True, omit_defaults=True):
    result: str = ""


class SourceRow(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A kind of object from the API server: seconds since it was last heard from, and the problem
    if it cannot be reached now."""

    name: str
    age: float
    problem: str = ""


class Overview(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """`state` is acting, holding, off, paused, blind or starting; `because` says why where it is
    not acting. Tiers are in the kubelet's order, pods by usage, the largest first. `rules` are
    those about metrics, `commands` those that are in flight, `offers` the extended resources that
    the node sells."""

    api_version: str = API_VERSION
    kind: str = "Overview"
    tick: int = 0
    at: str | None = None
    state: str = "starting"
    because: str = ""
    problems: tuple[str, ...] = ()
    node: NodeOverview = NodeOverview()
    tiers: tuple[UsageRow, ...] = ()
    pods: tuple[UsageRow, ...] = ()
    entries: tuple[EntryRow, ...] = ()
    sources: tuple[SourceRow, ...] = ()
    rules: tuple[RuleRow, ...] = ()
    commands: tuple[CommandRow, ...] = ()
    offers: tuple[OfferRow, ...] = ()


def make_overview(view: AgentView) -> Overview:
    state, because = _describe_state(view)
    record = view.latest
    problems, sources = (*view.open_problems(), *view.link.remarks()), tuple(_source_rows(view))
    if record is None:
        return Overview(state=state, because=because, problems=problems, sources=sources)
    snapshot = record.snapshot
    return Overview(
        tick=snapshot.tick,
        at=view.timestamp(snapshot.at),
        state=state,
        because=because,
        problems=problems,
        sources=sources,
        node=_node_overview(snapshot),
        tiers=tuple(_tier_row(snapshot, tier) for tier in Tier),
        pods=tuple(
            sorted((_pod_row(snapshot, each) for each in snapshot.workloads), key=_by_usage)
        ),
        entries=tuple(_entry_rows(view))[-_ENTRIES:],
        rules=rule_rows(view),
        commands=command_rows(view),
        offers=offer_rows(view),
    )


def _source_rows(view: AgentView) -> Iterator[SourceRow]:
    for name, each in view.link.sources.items():
        yield SourceRow(name, each.age // 100_000 / 10, each.problem)


def _by_usage(row: UsageRow) -> tuple[int, str, str]:
    """Unknown usage comes last."""
    return (1 if row.usage is None else -row.usage, row.namespace, row.name)


def _describe_state(view: AgentView) -> tuple[str, str]:
    record = view.latest
    if view.blind:
        return "blind", view.blind
    if view.paused:
        return "paused", view.paused
    if record is None:
        return "starting", "the agent has not looked yet"
    if not record.story.told:
        return "off", "; ".join(f"{name}: {why}" for name, why in view.off.items())
    silent = [each for each in record.story.told if each.course is not PolicyAction.ACTED]
    if silent:
        return "holding", "; ".join(f"{each.policy}: {each.reason}" for each in silent)
    return "acting", ""


def _node_overview(snapshot: NodeSnapshot) -> NodeOverview:
    return _fill_row(
        NodeOverview(request=sum(pod.request for pod in snapshot.workloads)),
        {
            "allocatable": snapshot.allocatable,
            "usage": snapshot.usage,
            "kubepods": snapshot.usage_of(snapshot.kubepods),
            "outside_pods": _outside_pods(snapshot),
            "pressure": _stall_percent(snapshot.pressure),
        },
    )


def _outside_pods(snapshot: NodeSnapshot) -> int | Gap:
    node, pods = snapshot.usage, snapshot.usage_of(snapshot.kubepods)
    if isinstance(node, Gap):
        return node
    return pods if isinstance(pods, Gap) else max(node - pods, 0)


def _tier_row(snapshot: NodeSnapshot, tier: Tier) -> UsageRow:
    request = sum(pod.request for pod in snapshot.workloads if pod.tier is tier)
    row = UsageRow(tier.value, Level.TIER.value, tier.value, request=request)
    ref = snapshot.tiers.get(tier)
    if ref is not None:
        return _add_readings(snapshot, ref, row)
    if tier is Tier.GUARANTEED:
        row = _add_readings(snapshot, Gap("guaranteed pods have no group of their own"), row)
        return _fill_row(row, {"usage": _outside_tiers(snapshot)})
    return _add_readings(snapshot, Gap("there is no such group"), row)


def _outside_tiers(snapshot: NodeSnapshot) -> int | Gap:
    """The usage of pods outside the tiers' cgroups: the guaranteed ones."""
    left = 0
    for sign, ref in ((1, snapshot.kubepods), *((-1, ref) for ref in snapshot.tiers.values())):
        usage = snapshot.usage_of(ref)
        if isinstance(usage, Gap):
            return usage
        left += sign * usage
    return max(left, 0)


def _pod_row(snapshot: NodeSnapshot, pod: Workload) -> UsageRow:
    inner = tuple(_container_row(snapshot, pod, each) for each in pod.containers)
    level, tier = Level.POD.value, pod.tier.value
    row = UsageRow(pod.name, level, tier, pod.namespace, request=pod.request, containers=inner)
    return _add_readings(snapshot, pod.ref, row)


def _container_row(snapshot: NodeSnapshot, pod: Workload, container: WorkloadContainer) -> UsageRow:
    level, tier = Level.CONTAINER.value, pod.tier.value
    row = UsageRow(container.name, level, tier, pod.namespace, request=container.request)
    return _add_readings(snapshot, container.ref, row)


def _add_readings(snapshot: NodeSnapshot, ref: CgroupRef | Gap, row: UsageRow) -> UsageRow:
    """The row with the readings of its cgroup."""
    if isinstance(ref, Gap):
        fields = ("usage", "throttled", "quota", "pressure", "weight")
        return _fill_row(row, dict.fromkeys(fields, ref))
    rate, reading = snapshot.rates.get(ref.id), snapshot.readings.get(ref.id)
    return _fill_row(
        row,
        {
            "usage": snapshot.usage_of(ref),
            "throttled": rate.throttled_periods / 10 if rate else _TOO_FEW,
            "quota": _quota_milli(reading.quota) if reading else _UNREAD,
            "pressure": _stall_percent(reading.pressure) if reading else _UNREAD,
            "weight": reading.weight if reading else _UNREAD,
        },
    )


def _quota_milli(quota: Bandwidth | Gap) -> int | str | Gap:
    if isinstance(quota, Gap):
        return quota
    milli = quota.milli()
    return milli.value if isinstance(milli, Unlimited) else milli


def _stall_percent(pressure: CpuPressure | Gap) -> float | Gap:
    """The kernel's avg10 of `some`, in percent."""
    return pressure if isinstance(pressure, Gap) else pressure.some.avg10 / 100


def _fill_row(row: _AnyRow, found: Mapping[str, Any]) -> _AnyRow:
    """The row with the known values; the reasons for the others go to `gaps`."""
    known = {name: value for name, value in found.items() if not isinstance(value, Gap)}
    gaps = {name: value.reason for name, value in found.items() if isinstance(value, Gap)}
    kept = {name: why for name, why in row.gaps.items() if name not in known}
    return msgspec.structs.replace(row, **known, gaps=kept | gaps)


def _entry_rows(view: AgentView) -> Iterator[EntryRow]:
    """Effects, each once: an event's entry repeats the effect that follows it, and what is refused
    or only planned is tried again at every tick."""
    before: dict[str, tuple[str, str]] = {}
    for entry in (each for record in view.ticks for each in record.entries):
        said = (entry.after, entry.result)
        repeated = entry.result not in ("", "applied") and before.get(entry.what) == said
        before[entry.what] = said
        if entry.event is None and not repeated:
            at, because = view.timestamp(entry.at), entry.because
            yield EntryRow(at, entry.what, entry.before, entry.after, because, entry.result)
