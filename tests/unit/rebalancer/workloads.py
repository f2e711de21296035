"""Fleets and workloads for the rebalancer's tests. F6 is the seed's example."""

from collections.abc import Iterable, Mapping

from slackwater.model.gap import Gap
from slackwater.rebalancer.observed import (
    ContainerAmounts,
    Cores,
    HpaTarget,
    HpaTargetKind,
    LastRotation,
    NamespaceUsage,
    ObservedWorkload,
    PercentOf,
    PodUsage,
    Scaling,
    Unavailable,
    WorkloadName,
    WorkloadUsage,
)
from slackwater.rebalancer.selection import Proposal
from slackwater.rebalancer.sources.cluster_reader import timestamp

NAME = WorkloadName("shop", "Deployment", "web")
F6 = {"A": 1.2, "B": 1.1, "C": 0.8, "D": 0.6, "E": 0.4, "F": 0.3}
HPA70 = HpaTarget(HpaTargetKind.UTILIZATION, 70, "web")
NO_LIMIT = Gap("no limit")
NAN = Gap("the usage of container web is nan")
#: 2026-11-17T12:00:00Z.
NOON = 1_794_916_800.0
HOUR = 3600.0


def cores(amount: float | Gap) -> Cores | Gap:
    return amount if isinstance(amount, Gap) else Cores(amount)


def pod_usage(
    name: str, usage: float | Gap, request: float | Gap = 1.0, **other: object
) -> PodUsage:
    given: dict[str, object] = {
        "uid": f"uid-{name}",
        "node": f"node-{name}",
        "limit": NO_LIMIT,
        "containers": (),
        **other,
    }
    given["started"] = NOON - given.pop("age", HOUR)  # type: ignore[operator]
    return PodUsage(name=name, usage=cores(usage), request=cores(request), **given)  # type: ignore[arg-type]


def measured(
    usages: Mapping[str, float | Gap] = F6,
    hpa_target: HpaTarget | Gap = HPA70,
    /,
    **others: Mapping[str, object],
) -> WorkloadUsage:
    """All alike but for `others`: by pod, what is different about it."""
    pods = [pod_usage(name, usage, **others.get(name, {})) for name, usage in usages.items()]  # type: ignore[arg-type]
    return WorkloadUsage(NAME, tuple(pods), hpa_target, NOON)


def all_with(usages: Iterable[str] = F6, **other: object) -> dict[str, dict[str, object]]:
    """For `fleet`: the same about each of them."""
    return dict.fromkeys(usages, other)


def numbered(*usages: float) -> dict[str, float]:
    return {f"p{number}": usage for number, usage in enumerate(usages, 1)}


def names(proposal: Proposal) -> str:
    return " ".join(each.name for each in proposal.rotate)


def box(
    name: str = "web", request: float | Gap = 1.0, limit: float | Gap = NO_LIMIT
) -> ContainerAmounts:
    return ContainerAmounts(name, cores(request), cores(limit))


def live(name: str, *boxes: ContainerAmounts, **other: object) -> PodUsage:
    given: dict[str, object] = {"node": f"node-{name}", "started": NOON - HOUR, **other}
    return PodUsage(name, f"uid-{name}", containers=boxes or (box(),), **given)  # type: ignore[arg-type]


def observed(
    *pods: PodUsage,
    hpa_target: HpaTarget | Unavailable = HPA70,
    scaling: Scaling | None = None,
    workload: WorkloadName = NAME,
    opted_out: str = "",
    last: LastRotation | Gap | None = None,
) -> ObservedWorkload:
    pods = pods or tuple(live(name) for name in F6)
    return ObservedWorkload(
        workload=workload,
        api_version="apps/v1",
        uid="uid-web",
        resource_version="7",
        pods=pods,
        hpa_target=hpa_target,
        scaling=scaling or Scaling(len(pods), len(pods)),
        opted_out=opted_out,
        last=last,
    )


def usage(
    usages: Mapping[str, float | Gap] = F6,
    requests: Mapping[str, float] | None = None,
    container: str = "web",
) -> NamespaceUsage:
    return NamespaceUsage(
        {(pod, container): cores(amount) for pod, amount in usages.items()},
        {(pod, container): Cores(amount) for pod, amount in (requests or {}).items()},
    )


def at(text: str) -> float:
    """Seconds since 1970."""
    found = timestamp(text)
    assert found is not None
    return found


def rotated(stamp: str = "2026-11-17T11:00:00Z", **other: object) -> LastRotation:
    """The seed's example, an hour before noon."""
    given: dict[str, object] = {"pods": 4, "hot": 2, **other}
    values = (Cores(1.15), Cores(4.4 / 6), PercentOf(34.8))
    return LastRotation(at(stamp), *values, **given)  # type: ignore[arg-type]
