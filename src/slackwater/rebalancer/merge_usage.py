"""What two servers said about the same pods, put together: the API server's objects, and usage.

Owns which containers of a pod count, and that usage, request and limit are of the same ones.
Refuses numbers that mean nothing (NaN, infinite, negative, more than any machine has): they are
Gaps. Asks nobody.
"""

import math
from collections.abc import Iterable

from slackwater.model.gap import Gap
from slackwater.rebalancer.observed import (
    MOST_CORES,
    ContainerAmounts,
    Cores,
    HpaTarget,
    LivePod,
    NamespaceUsage,
    ObservedWorkload,
    PodUsage,
    Seconds,
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
    """`now` in seconds since 1970. A series without a live pod is nobody's, and is left out."""
    container = choose_container(observed, settings)
    pods = tuple(_merge_pod(pod, container, usage, requests, now) for pod in observed.pods)
    hpa_target = (
        observed.hpa_target
        if isinstance(observed.hpa_target, HpaTarget)
        else Gap(observed.hpa_target.because)
    )
    return WorkloadUsage(observed.workload, pods, hpa_target)


def choose_container(observed: ObservedWorkload, settings: WorkloadSettings) -> str:
    """The named one, else the HPA's, else the one called like the workload, else the whole pod."""
    if settings.container:
        return settings.container
    if isinstance(observed.hpa_target, HpaTarget) and observed.hpa_target.container:
        return observed.hpa_target.container
    there = {each.name for pod in observed.pods for each in pod.containers}
    # An HPA that was found by its own name may scale a workload that is called otherwise.
    called = (name for name in (settings.name, observed.workload.name) if name in there)
    return next(called, WHOLE)


def _merge_pod(
    pod: LivePod, container: str, usage: NamespaceUsage, requests: RequestSource, now: float
) -> PodUsage:
    boxes = [each for each in pod.containers if container in (WHOLE, each.name)]
    none = Gap("it has no containers" if container == WHOLE else f"it has no container {container}")
    used = _sum(_used(usage, pod.name, each.name) for each in boxes) if boxes else none
    asked = _sum(_asked(usage, pod.name, each, requests) for each in boxes) if boxes else none
    limit = _sum(_finite(each.limit, f"limit of {each.name}") for each in boxes) if boxes else none
    if container == WHOLE and pod.whole is not None:
        asked, limit = _of_whole(pod.whole, asked, limit, requests)
    return PodUsage(
        name=pod.name,
        uid=pod.uid,
        node=pod.node,
        usage=used,
        request=_positive(asked),
        limit=limit,
        age=Seconds(max(now - pod.started, 0.0)),
        running=pod.running,
        ready=pod.ready,
        terminating=pod.terminating,
        held_back=pod.held_back,
    )


def _of_whole(
    whole: ContainerAmounts, asked: Cores | Gap, limit: Cores | Gap, requests: RequestSource
) -> tuple[Cores | Gap, Cores | Gap]:
    """What the pod states for itself goes before its containers'. There is no series of it."""
    if not isinstance(whole.request, Gap) and requests is not RequestSource.PROMETHEUS:
        asked = whole.request
    return asked, limit if isinstance(whole.limit, Gap) else whole.limit


def _used(usage: NamespaceUsage, pod: str, container: str) -> Cores | Gap:
    found = usage.usage.get((pod, container), Gap(f"no usage of container {container}"))
    return _finite(found, f"usage of container {container}")


def _asked(
    usage: NamespaceUsage, pod: str, box: ContainerAmounts, requests: RequestSource
) -> Cores | Gap:
    series = usage.requests.get((pod, box.name))
    what = f"request of container {box.name}"
    if requests is RequestSource.SPEC or (series is None and requests is RequestSource.AUTO):
        return _finite(box.request, what)
    return Gap(f"no series of the {what}") if series is None else _finite(series, what)


def _finite(amount: Cores | Gap, what: str) -> Cores | Gap:
    if isinstance(amount, Gap):
        return amount
    if 0 <= amount <= MOST_CORES:
        return amount
    return Gap(f"the {what} is {amount:g}, but must be 0 to {MOST_CORES:g} cores")


def _positive(request: Cores | Gap) -> Cores | Gap:
    """Of nothing there are no percents; the HPA says the same."""
    if isinstance(request, Gap) or request > 0:
        return request
    return Gap("its CPU request is zero")


def _sum(amounts: Iterable[Cores | Gap]) -> Cores | Gap:
    """Of all, or a Gap: a part of a pod is not a pod. The HPA does the same."""
    found: list[float] = []
    for amount in amounts:
        if isinstance(amount, Gap):
            return amount
        found.append(amount)
    return Cores(math.fsum(found))
