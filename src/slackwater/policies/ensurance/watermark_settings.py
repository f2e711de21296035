"""The settings of QoS ensurance, and what the cluster's objects add to them on a node."""

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from slackwater.contract.crane.ensurance_set import EnsuranceObjects, pod_qos_title
from slackwater.contract.crane.pod_qos import PodQos
from slackwater.contract.ensurance_plugin import PluginName, PluginState
from slackwater.contract.schema import BOUND, Count, Duration, Percentage, SettingsStruct
from slackwater.model.decision import Remark
from slackwater.model.problem import quoted
from slackwater.model.units import Micros, Percent
from slackwater.policies.ensurance.bound_rules import BoundRule, bind_rule, describe_flaw
from slackwater.policies.ensurance.metric_attributes import (
    NODE_METRICS,
    MetricAttributes,
    describe_metric,
    describe_plugin,
)
from slackwater.policies.ensurance.pod_selection import SelectionRules

_SECOND = 1_000_000
#: Of Kubernetes, or all of them.
NamespaceName = Annotated[
    str,
    Meta(
        max_length=63,
        pattern=r"^(\*|[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)\Z",
        extra={BOUND: "a namespace's name, or '*'"},
    ),
]


class TaintEffect(enum.Enum):
    """What the node's taint does to pods that do not tolerate it."""

    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_SCHEDULE = "NoSchedule"


class WatermarkReliefSettings(SettingsStruct, frozen=True):
    """Settings of QoS ensurance; its rules are objects."""

    enabled: Annotated[
        bool,
        Meta(
            description="Whether rules of NodeQOS and NodeQOSEnsurancePolicy objects are acted on. "
            "Without such objects there is nothing to do.",
        ),
    ] = True
    taint_effect: Annotated[
        TaintEffect,
        Meta(
            description="The effect of the taint interference.crane.io, which an action without "
            "throttle and eviction puts on the node.",
        ),
    ] = TaintEffect.PREFER_NO_SCHEDULE
    demote: Annotated[
        bool,
        Meta(
            description="Whether a throttled pod also has cpu.idle, or the lowest weight, until it "
            "is restored. A quota alone does not protect the latency of others.",
        ),
    ] = True
    excess: Annotated[
        Percentage,
        Meta(
            ge=0,
            le=100,
            description="How far below its watermark a metric is brought, as a fraction of the gap "
            "to it.",
        ),
    ] = Percent(10)
    evictions_per_tick: Annotated[
        Count,
        Meta(ge=0, le=100, description="How many pods are evicted in one tick at the most."),
    ] = 5
    evictions_per_minute: Annotated[
        Count,
        Meta(ge=0, le=1000, description="How many pods are evicted in one minute at the most."),
    ] = 10
    settle: Annotated[
        Duration,
        Meta(
            ge=0,
            le=600 * _SECOND,
            description="How long to wait after an eviction, and after an evicted pod is gone, "
            "before more pods are chosen: what it brought is not measured at once. While evictions "
            "bring nothing it doubles each time, up to longestFactor times.",
        ),
    ] = Micros(10 * _SECOND)
    longest_factor: Annotated[
        Count,
        Meta(
            ge=1,
            le=1024,
            description="A rule that triggers again within its cool-down after it was restored "
            "waits twice as long the next time, up to this many times the action's "
            "coolDownSeconds. Each such time without a trigger halves it again. 1 never waits "
            "longer.",
        ),
    ] = 16
    plugins: Annotated[
        tuple[PluginName, ...],
        Meta(
            max_length=16,
            extra={BOUND: "at most 16 names of letters, digits, '-', '_' and '.'"},
            description="Plug-ins to load, by the names of their entry points: metrics and orders "
            "of pods of one's own, in Python. Each runs in a process of its own.",
        ),
    ] = ()
    exempt_namespaces: Annotated[
        tuple[NamespaceName, ...],
        Meta(
            max_length=64,
            extra={BOUND: "at most 64 namespaces, or '*'"},
            description="Namespaces whose pods may keep actions away by their annotation "
            "slackwater.io/exempt, '*' for every one. Elsewhere a PodQOS that selects a pod "
            "overrules it.",
        ),
    ] = ()
    hold_for: Annotated[
        Duration,
        Meta(
            ge=_SECOND,
            le=600 * _SECOND,
            description="How long a rule's throttles and its taint stay while its metric is "
            "missing. Then they are released.",
        ),
    ] = Micros(30 * _SECOND)


class WatermarkRules(WatermarkReliefSettings, frozen=True):
    """The settings, and what the cluster's objects add to them on this node. `metrics` are the
    attributes of metrics; `remarks` what is wrong with the rules."""

    rules: tuple[BoundRule, ...] = ()
    pod_qos: tuple[PodQos, ...] = ()
    metrics: tuple[MetricAttributes, ...] = NODE_METRICS
    remarks: tuple[Remark, ...] = ()

    def selection(self) -> SelectionRules:
        return SelectionRules(self.pod_qos, self.exempt_namespaces)


def bind(
    settings: WatermarkReliefSettings,
    ensurance: EnsuranceObjects,
    labels: Mapping[str, str],
    _: Mapping[str, str],
) -> WatermarkRules | str:
    """With the rules for a node with these labels."""
    rules = tuple(
        bind_rule(policy, rule, ensurance) for policy, rule in ensurance.rules_for(labels)
    )
    if not rules:
        return "there is no NodeQOS for this node"
    metrics = (*NODE_METRICS, *map(describe_metric, ensurance.metrics))
    metrics = (*_describe_plugins(ensurance.plugins, rules, metrics), *metrics)
    return WatermarkRules(
        **msgspec.structs.asdict(settings),
        rules=rules,
        pod_qos=ensurance.pod_qos,
        remarks=tuple(
            Remark(each.title(), flaw)
            for each in rules
            if (flaw := describe_flaw(each, metrics, ensurance.plugins))
        )
        + tuple(Remark(each.title(), each.problem) for each in ensurance.plugins if each.problem)
        + tuple(_remark_on_pod_qos(ensurance)),
        metrics=metrics,
    )


def _remark_on_pod_qos(ensurance: EnsuranceObjects) -> Iterator[Remark]:
    """A misspelt action, or "throttle" where its name belongs, allows nothing."""
    for each in ensurance.pod_qos:
        for name in each.spec.allowed_actions:
            if ensurance.action(name) is None:
                text = f"allowedActions: there is no AvoidanceAction {quoted(name)}"
                yield Remark(pod_qos_title(each), text)


def _describe_plugins(
    plugins: Iterable[PluginState],
    rules: Sequence[BoundRule],
    known: tuple[MetricAttributes, ...],
) -> Iterator[MetricAttributes]:
    for plugin in plugins:
        name = plugin.attributes.name if plugin.attributes else ""
        keys = {each.key(): None for each in rules if each.rule.metric_rule.name == name}
        yield from describe_plugin(plugin, keys, known)
