"""Finds the HorizontalPodAutoscaler of a workload, its CPU target and what it scales.

Does not guess: if there is none, or several disagree, the target is Unavailable. Pure.
"""

from collections.abc import Callable, Sequence

import msgspec

from slackwater.contract.workload_objects import Autoscaler, ResourceMetric, ScaleTarget, TargetKind
from slackwater.model.problem import quoted
from slackwater.model.units import QuantityError, parse_quantity
from slackwater.rebalancer.observed import HpaTarget, HpaTargetKind, NoAutoscaler, Unavailable
from slackwater.rebalancer.reason import Reason
from slackwater.settings.rebalancer import WorkloadSettings

#: WorkloadSettings.container: all containers.
_ALL = "*"


class AutoscalerChoice(msgspec.Struct, frozen=True):
    """`desired` and `current`: of the autoscaler that is scaling, if one is."""

    target: ScaleTarget
    hpa_target: HpaTarget | Unavailable
    desired: int
    current: int


def choose(
    autoscalers: Sequence[Autoscaler], settings: WorkloadSettings, exists: Callable[[], bool]
) -> AutoscalerChoice | Unavailable:
    """Of the autoscalers that scale a workload of this name; if none does and there is no such
    workload (`exists`), of those that have the name themselves."""
    fitting = sorted(
        (each for each in autoscalers if settings.kind in ("", each.spec.scale_target_ref.kind)),
        key=lambda each: each.name,
    )
    found = [each for each in fitting if each.spec.scale_target_ref.name == settings.name]
    if not found:
        names = possible_names(settings)
        called = [each for each in fitting if each.name in names]
        if not called or exists():
            return _none(called, settings)
        found = called
    targets = {_workload(each): each.spec.scale_target_ref for each in found}
    if len(targets) > 1:
        listed = ", ".join(f"{each.name} scales {_workload(each)}" for each in found)
        return Unavailable(
            Reason.HPA_TARGET_AMBIGUOUS,
            f"several HorizontalPodAutoscalers are meant by {settings.name}: {listed}; "
            "name the workload's kind, or its own name",
        )
    moving = next((each for each in found if _desired(each) != _current(each)), found[0])
    [target] = targets.values()
    return AutoscalerChoice(
        target, _chosen_target(found, settings), _desired(moving), _current(moving)
    )


def possible_names(settings: WorkloadSettings) -> tuple[str, ...]:
    """Names that the autoscaler may have: with and without the prefix, which is joined by a dash
    whether it ends with one or not."""
    prefix = settings.hpa_prefix
    if not prefix:
        return (settings.name,)
    dashed = prefix if prefix.endswith("-") else f"{prefix}-"
    return tuple(dict.fromkeys((settings.name, dashed + settings.name, prefix + settings.name)))


def _none(called: Sequence[Autoscaler], settings: WorkloadSettings) -> NoAutoscaler:
    """`called`: those that have the workload's name, but scale another one."""
    told = (
        f"no HorizontalPodAutoscaler of namespace {settings.namespace} scales "
        f"{settings.kind or 'a workload called'} {settings.name}"
    )
    if called:
        listed = ", ".join(f"{each.name} scales {_workload(each)}" for each in called)
        told += f": {listed}, whose target is not this workload's"
    else:
        told += f" or is called {' or '.join(possible_names(settings))}"
    return NoAutoscaler(Reason.HPA_TARGET_MISSING, told)


def _workload(autoscaler: Autoscaler) -> str:
    target = autoscaler.spec.scale_target_ref
    return f"{target.kind} {target.name}"


def _current(autoscaler: Autoscaler) -> int:
    return autoscaler.status.current_replicas


def _desired(autoscaler: Autoscaler) -> int:
    """desiredReplicas is 0 before the first metric and while scaling is disabled."""
    return autoscaler.status.desired_replicas or autoscaler.status.current_replicas


def _chosen_target(
    found: Sequence[Autoscaler], settings: WorkloadSettings
) -> HpaTarget | Unavailable:
    """The target that all of them agree on. A metric of the wanted container is preferred."""
    read = [hpa_target for each in found for hpa_target in _metric_targets(each, settings)]
    targets = [each for each in read if isinstance(each, HpaTarget)]
    wanted = settings.container or settings.name
    targets = [each for each in targets if each.container == wanted] or targets
    if not targets:
        unusable = "; ".join(each for each in read if isinstance(each, str))
        return Unavailable(Reason.HPA_TARGET_MISSING, unusable or _no_metric(found, settings))
    if len({(each.kind, each.value, each.container) for each in targets}) > 1:
        listed = ", ".join(_describe(each) for each in targets)
        return Unavailable(
            Reason.HPA_TARGET_AMBIGUOUS,
            f"the target for {settings.hpa_metric} of {settings.name} is not one: {listed}",
        )
    return targets[0]


def _metric_targets(autoscaler: Autoscaler, settings: WorkloadSettings) -> list[HpaTarget | str]:
    """The target of each metric with this name; a sentence if it is not usable."""
    measured = (each.measured() for each in autoscaler.spec.metrics)
    return [
        _metric_target(autoscaler, each, settings)
        for each in measured
        if each is not None and each.name == settings.hpa_metric
    ]


def _metric_target(
    autoscaler: Autoscaler, metric: ResourceMetric, settings: WorkloadSettings
) -> HpaTarget | str:
    subject = f"HorizontalPodAutoscaler {autoscaler.metadata.place}"
    if metric.container and settings.container not in ("", _ALL, metric.container):
        return (
            f"{subject} has a target for {metric.name} of container {metric.container}, "
            f"not of {settings.container}"
        )
    target = metric.target
    if target.type == TargetKind.UTILIZATION.value:
        kind, field = HpaTargetKind.UTILIZATION, "averageUtilization"
        stated: int | str | None = target.average_utilization
    elif target.type == TargetKind.AVERAGE_VALUE.value:
        kind, field = HpaTargetKind.AVERAGE_VALUE, "averageValue"
        stated = target.average_value
    else:
        return (
            f"{subject} has a target of type {target.type or 'none'} for {metric.name}, which says "
            "nothing about one pod; Utilization and AverageValue do"
        )
    value = _number(stated)
    if value <= 0:
        value_text = quoted(stated)
        return f"{subject}: {field} of {metric.name} is {value_text}, but must be above zero"
    return HpaTarget(kind, value, autoscaler.name, metric.container)


def _number(stated: int | str | None) -> float:
    """Percent or cores; zero, which is never a target, if it is not a quantity."""
    try:
        ratio = parse_quantity(str(stated))
    except QuantityError:
        return 0.0
    return ratio.numerator / ratio.denominator


def _no_metric(found: Sequence[Autoscaler], settings: WorkloadSettings) -> str:
    names = ", ".join(each.name for each in found)
    return (
        f"HorizontalPodAutoscaler {names} of namespace {settings.namespace} has no metric of type "
        f"Resource or ContainerResource called {settings.hpa_metric}"
    )


def _describe(hpa_target: HpaTarget) -> str:
    unit = "%" if hpa_target.kind is HpaTargetKind.UTILIZATION else "cores"
    container = f" for container {hpa_target.container}" if hpa_target.container else ""
    return f"{hpa_target.hpa} wants {hpa_target.value:g} {unit}{container}"
