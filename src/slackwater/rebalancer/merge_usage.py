"""Adds measured CPU usage to the pods of a workload, container by container.

Decides which container counts, and whether requests come from the pod's spec or from Prometheus.
Pure.
"""

import math
from collections.abc import Iterable

import msgspec

from slackwater.model.gap import Gap
from slackwater.rebalancer.observed import (
    MOST_CORES,
    ContainerAmounts,
    Cores,
    HpaTarget,
    NamespaceUsage,
    ObservedWorkload,
    PodUsage,
    WorkloadUsage,
)
from slackwater.settings.rebalancer import RequestSource, WorkloadSettings

#: All containers of the pod together.
WHOLE = "*"


def merge_usage(
    observed: ObservedWorkload,
    usage: NamespaceUsage,
    settings: WorkloadSettings,
    requests: RequestSource,
    now: float,
) -> WorkloadUsage:
    """`now` in seconds since 1970. Series of pods that are not live are ignored."""
    container = choose_container(observed, settings)
    pods = tuple(_merge_pod(pod, container, usage, requests) for pod in observed.pods)
    target = observed.hpa_target
    hpa_target = target if isinstance(target, HpaTarget) else Gap(target.because)
    if container == WHOLE:
        return WorkloadUsage(observed.workload, pods, hpa_target, now)
    others = _left_out(observed, container, usage)
    return WorkloadUsage(observed.workload, pods, hpa_target, now, container, others)


def _left_out(
    observed: ObservedWorkload, container: str, usage: NamespaceUsage
) -> dict[str, Cores | Gap]:
    """A busy sidecar is nothing that the decision sees, but people should."""
    found: dict[str, Cores | Gap] = {}
    for pod in observed.pods:
        for each in pod.containers:
            if each.name == container:
                continue
            used, most = _usage(usage, pod.name, each.name), found.get(each.name)
            if most is None or isinstance(most, Gap):
                found[each.name] = used
            elif not isinstance(used, Gap):
                found[each.name] = max(most, used)
    return dict(sorted(found.items()))


def choose_container(observed: ObservedWorkload, settings: WorkloadSettings) -> str:
    """The configured one, else the HPA's, else one named like the workload, else the whole pod."""
    if settings.container:
        return settings.container
    target = observed.hpa_target
    if isinstance(target, HpaTarget) and target.container:
        return target.container
    present = {each.name for pod in observed.pods for each in pod.containers}
    # An HPA that was found by its own name may scale a workload with another name.
    names = (name for name in (settings.name, observed.workload.name) if name in present)
    return next(names, WHOLE)


def _merge_pod(
    pod: PodUsage, container: str, usage: NamespaceUsage, requests: RequestSource
) -> PodUsage:
    counted = [each for each in pod.containers if container in (WHOLE, each.name)]
    none = Gap("it has no containers" if container == WHOLE else f"it has no container {container}")
    used = _sum((_usage(usage, pod.name, each.name) for each in counted), none)
    request = _sum((_request(usage, pod.name, each, requests) for each in counted), none)
    limit = _sum((_finite(each.limit, f"limit of {each.name}") for each in counted), none)
    if container == WHOLE and pod.pod_level is not None:
        request, limit = _prefer_pod_level(pod.pod_level, request, limit, requests)
    return msgspec.structs.replace(pod, usage=used, request=_positive(request), limit=limit)


def _prefer_pod_level(
    pod_level: ContainerAmounts, request: Cores | Gap, limit: Cores | Gap, requests: RequestSource
) -> tuple[Cores | Gap, Cores | Gap]:
    """What the spec states for the whole pod replaces the containers' sums. Prometheus has no
    series of it."""
    if not isinstance(pod_level.request, Gap) and requests is not RequestSource.PROMETHEUS:
        request = pod_level.request
    return request, limit if isinstance(pod_level.limit, Gap) else pod_level.limit


def _usage(usage: NamespaceUsage, pod: str, container: str) -> Cores | Gap:
    found = usage.usage.get((pod, container), Gap(f"no usage of container {container}"))
    return _finite(found, f"usage of container {container}")


def _request(
    usage: NamespaceUsage, pod: str, container: ContainerAmounts, requests: RequestSource
) -> Cores | Gap:
    series = usage.requests.get((pod, container.name))
    what = f"request of container {container.name}"
    if requests is RequestSource.SPEC or (series is None and requests is RequestSource.AUTO):
        return _finite(container.request, what)
    return Gap(f"no series of the {what}") if series is None else _finite(series, what)


def _finite(amount: Cores | Gap, what: str) -> Cores | Gap:
    if isinstance(amount, Gap):
        return amount
    if 0 <= amount <= MOST_CORES:
        return amount
    return Gap(f"the {what} is {amount:g}, but must be 0 to {MOST_CORES:g} cores")


def _positive(request: Cores | Gap) -> Cores | Gap:
    """There is no percentage of zero; the HPA refuses it as well."""
    if isinstance(request, Gap) or request > 0:
        return request
    return Gap("its CPU request is zero")


def _sum(amounts: Iterable[Cores | Gap], none: Gap) -> Cores | Gap:
    """`none` if there are no amounts. A Gap if one of them is: part of a pod says nothing about the
    pod, and the HPA does the same."""
    known: list[float] = []
    for amount in amounts:
        if isinstance(amount, Gap):
            return amount
        known.append(amount)
    return Cores(math.fsum(known)) if known else none
