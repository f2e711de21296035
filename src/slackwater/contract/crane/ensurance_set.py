"""All objects of QoS ensurance that an agent sees, together, and which of them are for its node."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec

from slackwater.contract.crane.ensurance import (
    AvoidanceAction,
    NodeQos,
    NodeQosEnsurancePolicy,
    Policy,
    Rule,
)
from slackwater.contract.crane.objects import (
    read_avoidance_action,
    read_node_qos,
    read_node_qos_ensurance_policy,
    read_pod_qos,
)
from slackwater.contract.crane.pod_qos import PodQos, PodQosSpec
from slackwater.contract.crane.summary import is_for_node
from slackwater.contract.ensurance_metric import EnsuranceMetric, read_ensurance_metric
from slackwater.contract.ensurance_plugin import PluginState
from slackwater.contract.kubernetes import KubernetesObject, ObjectMeta

_Object = TypeVar("_Object", bound=KubernetesObject)


def policy_title(policy: Policy) -> str:
    """The name of a source of metrics too: NodeQOS/waterline1."""
    kind = "NodeQOS" if isinstance(policy, NodeQos) else "NodeQOSEnsurancePolicy"
    return f"{kind}/{policy.metadata.name}"


def pod_qos_title(pod_qos: PodQos) -> str:
    return f"PodQOS/{pod_qos.metadata.name}"


class EnsuranceObjects(msgspec.Struct, frozen=True):
    """Each kind in the order of the names, so that nothing depends on who listed them."""

    node_qos: tuple[NodeQos, ...] = ()
    ensurance_policies: tuple[NodeQosEnsurancePolicy, ...] = ()
    actions: tuple[AvoidanceAction, ...] = ()
    pod_qos: tuple[PodQos, ...] = ()
    metrics: tuple[EnsuranceMetric, ...] = ()
    #: No objects: what the plug-ins that the settings switch on say of themselves.
    plugins: tuple[PluginState, ...] = ()

    def policies(self) -> tuple[Policy, ...]:
        return (*self.node_qos, *self.ensurance_policies)

    def policies_for(self, labels: Mapping[str, str]) -> tuple[Policy, ...]:
        """Those that a node with these labels follows."""
        return tuple(each for each in self.policies() if is_for_node(each, labels))

    def action(self, name: str) -> AvoidanceAction | None:
        return next((each for each in self.actions if each.metadata.name == name), None)

    def metric(self, name: str) -> EnsuranceMetric | None:
        return next((each for each in self.metrics if each.metadata.name == name), None)

    def measuring_plugin(self, metric: str) -> PluginState | None:
        """The plug-in that measures this metric itself."""
        return next(
            (
                each
                for each in self.plugins
                if each.attributes and each.attributes.measures and each.attributes.name == metric
            ),
            None,
        )

    def rules_for(self, labels: Mapping[str, str]) -> Iterator[tuple[Policy, Rule]]:
        for policy in self.policies_for(labels):
            for rule in policy.spec.rules:
                yield policy, rule


NO_OBJECTS = EnsuranceObjects()


def allow_nothing(name: str) -> EnsuranceObjects:
    """In place of a PodQOS of this name that cannot be read: it matches no pod. Without it, an
    agent that knows no other would choose among all pods."""
    return EnsuranceObjects(pod_qos=(PodQos(ObjectMeta(name), PodQosSpec()),))


def join_ensurance(parts: Iterable[EnsuranceObjects]) -> EnsuranceObjects:
    """Of two objects of one kind and name the last counts."""
    found = list(parts)
    return EnsuranceObjects(
        _by_name(each.node_qos for each in found),
        _by_name(each.ensurance_policies for each in found),
        _by_name(each.actions for each in found),
        _by_name(each.pod_qos for each in found),
        _by_name(each.metrics for each in found),
    )


def _by_name(groups: Iterable[Iterable[_Object]]) -> tuple[_Object, ...]:
    named = {each.metadata.name: each for group in groups for each in group}
    return tuple(named[name] for name in sorted(named))


def read_ensurance(kind: str, document: object, source: str) -> EnsuranceObjects | None:
    """One object as a set; None of another kind. Raises InvalidError."""
    match kind:
        case "NodeQOS":
            return EnsuranceObjects(node_qos=(read_node_qos(document, source),))
        case "NodeQOSEnsurancePolicy":
            policy = read_node_qos_ensurance_policy(document, source)
            return EnsuranceObjects(ensurance_policies=(policy,))
        case "AvoidanceAction":
            return EnsuranceObjects(actions=(read_avoidance_action(document, source),))
        case "PodQOS":
            return EnsuranceObjects(pod_qos=(read_pod_qos(document, source),))
        case "EnsuranceMetric":
            return EnsuranceObjects(metrics=(read_ensurance_metric(document, source),))
        case _:
            return None
