"""The kinds of API objects that are used, and their paths on the API server.

Names are quoted in paths, so that none can lead somewhere else.
"""

import re

import msgspec

_RESERVED = re.compile(r"[^A-Za-z0-9_.~-]", re.ASCII)


def _quote(step: str) -> str:
    """Percent-encoding (RFC 3986)."""
    return _RESERVED.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), step)


class Resource(msgspec.Struct, frozen=True):
    """One kind as the API server serves it. `group` is empty for the core kinds."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        """The path of the group's list of kinds."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Of all objects, those of a namespace, one of them, or a subresource."""
        steps = [self.root]
        if namespace and self.namespaced:
            steps += ["namespaces", _quote(namespace)]
        steps += [self.plural, *(_quote(step) for step in (name, subresource) if step)]
        return "/".join(steps)


class ObjectSelector(msgspec.Struct, frozen=True):
    """Label and field selectors, as Kubernetes writes them."""

    labels: str = ""
    fields: str = ""


def _crane(group: str, plural: str, kind: str) -> Resource:
    return Resource(f"{group}.crane.io", "v1alpha1", plural, kind, namespaced=False)


PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS = Resource("", "v1", "secrets", "Secret")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
EVENTS = Resource("", "v1", "events", "Event")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
HORIZONTAL_POD_AUTOSCALERS = Resource(
    "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"
)
POD_DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
MUTATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
COLOCATION_CONFIGURATIONS = Resource(
    "config.volcano.sh", "v1alpha1", "colocationconfigurations", "ColocationConfiguration"
)


AVOIDANCE_ACTIONS = _crane("ensurance", "avoidanceactions", "AvoidanceAction")
NODE_QOS = _crane("ensurance", "nodeqoss", "NodeQOS")
NODE_QOS_ENSURANCE_POLICIES = _crane(
    "ensurance", "nodeqosensurancepolicies", "NodeQOSEnsurancePolicy"
)
POD_QOS = _crane("ensurance", "podqoss", "PodQOS")
ENSURANCE_METRICS = Resource(
    "slackwater.io", "v1alpha1", "ensurancemetrics", "EnsuranceMetric", namespaced=False
)
TIME_SERIES_PREDICTIONS = Resource(
    "prediction.crane.io", "v1alpha1", "timeseriespredictions", "TimeSeriesPrediction"
)
CRANE_TOPOLOGIES = _crane("topology", "noderesourcetopologies", "NodeResourceTopology")
NODE_TOPOLOGIES = Resource(
    "topology.node.k8s.io", "v1alpha1", "noderesourcetopologies", "NodeResourceTopology", False
)
#: The kinds on which Slackwater writes a status.
ENSURANCE_KINDS = (
    AVOIDANCE_ACTIONS,
    NODE_QOS,
    NODE_QOS_ENSURANCE_POLICIES,
    POD_QOS,
    ENSURANCE_METRICS,
)
