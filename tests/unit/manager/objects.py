"""Objects as an API server sends them, and as the manager reads them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from slackwater.contract.crane.ensurance import AvoidanceAction
from slackwater.contract.koordinator.slo_config import SloConfigName
from slackwater.contract.resources import (
    AVOIDANCE_ACTIONS,
    ENSURANCE_METRICS,
    NODE_QOS,
    NODE_QOS_ENSURANCE_POLICIES,
    POD_QOS,
    Resource,
)
from slackwater.kube.informer import InformerView
from slackwater.manager.cluster_view import NODE_KIND, ClusterView, watched_kinds
from slackwater.manager.controllers.policy_status import PolicyContext
from slackwater.manager.policy_object import PolicyObject, reader_of
from slackwater.status.api_objects import ClusterNode

KINDS = watched_kinds(SloConfigName())
NOW = "2026-11-17T10:00:00Z"
EARLIER = "2026-11-17T09:00:00Z"
PROBE = {"nodeLocalGet": {"localCacheTTLSeconds": 60}}
RULES = {NODE_QOS: "rules", NODE_QOS_ENSURANCE_POLICIES: "objectiveEnsurances"}


def rule(action: str = "throttle", **said: Any) -> dict[str, Any]:
    metric = {"name": said.pop("metric", "cpu_total_usage"), "value": said.pop("value", 6000)}
    return {"name": "cpu-usage", "actionName": action, "metricRule": metric, **said}


def document(
    resource: Resource, name: str, spec: Mapping[str, Any], status: Any = None, generation: int = 1
) -> dict[str, Any]:
    head = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": name,
            "uid": f"uid-of-{name}",
            "generation": generation,
            "resourceVersion": "7",
        },
        "spec": spec,
    }
    return head if status is None else {**head, "status": status}


def policy_document(
    *rules: Mapping[str, Any], resource: Resource = NODE_QOS, name: str = "waterline", **said: Any
) -> dict[str, Any]:
    spec = {"nodeQualityProbe": PROBE, RULES[resource]: list(rules or (rule(),))}
    if "selector" in said:
        spec["selector"] = {"matchLabels": said.pop("selector")}
    return document(resource, name, spec, **said)


def read(resource: Resource, raw: Mapping[str, Any]) -> PolicyObject:
    return reader_of(resource)(msgspec.Raw(msgspec.json.encode(raw)))


def policy(*rules: Mapping[str, Any], resource: Resource = NODE_QOS, **said: Any) -> PolicyObject:
    return read(resource, policy_document(*rules, resource=resource, **said))


def action(name: str = "throttle", step: int = 10, **said: Any) -> PolicyObject:
    spec = {"throttle": {"cpuThrottle": {"minCPURatio": 10, "stepCPURatio": step}}}
    return read(AVOIDANCE_ACTIONS, document(AVOIDANCE_ACTIONS, name, spec, **said))


def pod_qos(*allowed: str, **said: Any) -> PolicyObject:
    spec = {"labelSelector": {"matchLabels": {"app": "batch"}}, "allowedActions": list(allowed)}
    return read(POD_QOS, document(POD_QOS, "batch", spec, **said))


def metric(name: str = "queue-depth", **spec: Any) -> PolicyObject:
    spec = {"source": {"file": {"name": "queue.prom"}, "series": "queue_length"}} | spec
    return read(ENSURANCE_METRICS, document(ENSURANCE_METRICS, name, spec))


def value_of(found: PolicyObject) -> AvoidanceAction:
    assert isinstance(found.value, AvoidanceAction), found.value
    return found.value


WORLD = PolicyContext(
    nodes={"n1": {"pool": "web"}, "n2": {"pool": "batch"}, "n3": {}},
    actions={"throttle": value_of(action())},
)


def view_of(nodes: InformerView[ClusterNode] | None = None, **said: Any) -> ClusterView:
    """Everything is listed and empty, except for what is given for a kind."""
    views = {kind: said.get(kind.resource.kind, InformerView({}, synced=True)) for kind in KINDS}
    return ClusterView({**views, NODE_KIND: nodes or InformerView({}, synced=True)})
