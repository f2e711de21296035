"""The kinds of API objects that are used, and their paths on the API server.

Names are quoted in paths, so that none can lead somewhere else.
"""

import msgspec

from slackwater.contract.crane import kinds


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
        from urllib.parse import quote

        steps = [self.root]
        if namespace and self.namespaced:
            steps += ["namespaces", quote(namespace, safe="")]
        steps += [self.plural, *(quote(step, safe="") for step in (name, subresource) if step)]
        return "/".join(steps)


class ObjectSelector(msgspec.Struct, frozen=True):
    """Label and field selectors, as Kubernetes writes them."""

    labels: str = ""
    fields: str = ""


PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
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
COLOCATION_CONFIGURATIONS = Resource(
    "config.volcano.sh", "v1alpha1", "colocationconfigurations", "ColocationConfiguration"
)


def _of(kind: kinds.KindName) -> Resource:
    """A kind whose definition is in contract."""
    return Resource(kind.group, kind.version, kind.plural, kind.kind, kind.namespaced)


AVOIDANCE_ACTIONS = _of(kinds.AVOIDANCE_ACTION)
NODE_QOS = _of(kinds.NODE_QOS)
NODE_QOS_ENSURANCE_POLICIES = _of(kinds.NODE_QOS_ENSURANCE_POLICY)
POD_QOS = _of(kinds.POD_QOS)
#: The kinds on which Slackwater writes a status.
ENSURANCE_KINDS = (AVOIDANCE_ACTIONS, NODE_QOS, NODE_QOS_ENSURANCE_POLICIES, POD_QOS)
