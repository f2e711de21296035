"""All objects of QoS ensurance that an agent sees, together, and which of them are for its node."""

from collections.abc import Iterator, Mapping

import msgspec

from slackwater.contract.crane.ensurance import (
    AvoidanceAction,
    NodeQos,
    NodeQosEnsurancePolicy,
    Policy,
    Rule,
)
from slackwater.contract.crane.pod_qos import PodQos
from slackwater.contract.crane.summary import is_for_node


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

    def policies(self) -> tuple[Policy, ...]:
        return (*self.node_qos, *self.ensurance_policies)

    def policies_for(self, labels: Mapping[str, str]) -> tuple[Policy, ...]:
        """Those that a node with these labels follows."""
        return tuple(each for each in self.policies() if is_for_node(each, labels))

    def action(self, name: str) -> AvoidanceAction | None:
        return next((each for each in self.actions if each.metadata.name == name), None)

    def rules_for(self, labels: Mapping[str, str]) -> Iterator[tuple[Policy, Rule]]:
        for policy in self.policies_for(labels):
            for rule in policy.spec.rules:
                yield policy, rule


NO_OBJECTS = EnsuranceObjects()
