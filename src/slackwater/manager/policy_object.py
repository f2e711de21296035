"""The policy objects that the manager judges, as they came from the API server.

A spec that the contract refuses is kept with the reason, so that the object's condition can say
so; metadata and status of such an object are read all the same.
"""

from collections.abc import Callable, Mapping

import msgspec

from slackwater.contract.crane.ensurance import AvoidanceAction, NodeQos, NodeQosEnsurancePolicy
from slackwater.contract.crane.fields import EnsuranceStatus, read_ensurance_status
from slackwater.contract.crane.objects import (
    read_avoidance_action,
    read_node_qos,
    read_node_qos_ensurance_policy,
    read_pod_qos,
)
from slackwater.contract.crane.pod_qos import PodQos
from slackwater.contract.ensurance_metric import EnsuranceMetric, read_ensurance_metric
from slackwater.contract.resources import (
    AVOIDANCE_ACTIONS,
    ENSURANCE_METRICS,
    NODE_QOS,
    NODE_QOS_ENSURANCE_POLICIES,
    POD_QOS,
    Resource,
)
from slackwater.model.gap import Gap
from slackwater.model.problem import InvalidError
from slackwater.status.api_objects import PolicyHeader

Value = AvoidanceAction | NodeQos | NodeQosEnsurancePolicy | PodQos | EnsuranceMetric
#: Where objects come from, in the contract's messages.
_SOURCE = "the cluster"
_Read = Callable[[object, str], Value]

#: How each of kube.resource's ENSURANCE_KINDS is read.
READERS: Mapping[Resource, _Read] = {
    AVOIDANCE_ACTIONS: read_avoidance_action,
    NODE_QOS: read_node_qos,
    NODE_QOS_ENSURANCE_POLICIES: read_node_qos_ensurance_policy,
    POD_QOS: read_pod_qos,
    ENSURANCE_METRICS: read_ensurance_metric,
}


class PolicyObject(msgspec.Struct, frozen=True):
    """`value` is a Gap if the spec cannot be used. `status` is the one that the object has; None
    also if that cannot be read, so that it is written anew."""

    resource: Resource
    name: str
    uid: str
    generation: int
    status: EnsuranceStatus | None
    value: Value | Gap

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.name}"


def reader_of(resource: Resource) -> Callable[[msgspec.Raw], PolicyObject]:
    """How an informer reads this kind."""
    read_value = READERS[resource]

    def read(raw: msgspec.Raw) -> PolicyObject:
        head = msgspec.json.decode(raw, type=PolicyHeader)
        meta = head.metadata
        return PolicyObject(
            resource,
            meta.name,
            meta.uid,
            meta.generation,
            read_ensurance_status(head.status),
            _value(read_value, raw, f"{_SOURCE}: {resource.kind} {meta.name}: "),
        )

    return read


def _value(read: _Read, raw: msgspec.Raw, prefix: str) -> Value | Gap:
    """The status is ours and judged apart: a wrong one must not make the spec unreadable. Nor is
    the object named (`prefix`) in a sentence that stands in the object itself."""
    document = msgspec.json.decode(raw)
    document.pop("status", None)
    try:
        return read(document, _SOURCE)
    except InvalidError as error:
        return Gap(str(error).replace(prefix, ""))
