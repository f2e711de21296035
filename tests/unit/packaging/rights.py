"""Which line of code uses each right that the chart grants: one without has no business there.

Owns the table. A row's words must stand in its file, so that the row goes with the code.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tools.provision import ROOT

SOURCE = ROOT / "src" / "slackwater"


class Right(NamedTuple):
    """One verb on one resource, written group/resource, that a role grants."""

    role: str
    resource: str
    verb: str


class User(NamedTuple):
    """A file below src/slackwater, and words in it that ask the API server for that."""

    file: str
    words: str


_CONNECTION, _COMMANDS = "agent/cluster_connection.py", "execution/api_commands.py"
_TOPOLOGY, _VIEW = "execution/topology_writer.py", "manager/cluster_view.py"
_WRITER, _RELEASE = "manager/object_writer.py", "manager/node_release.py"
_READER, _ROTATION = "rebalancer/sources/cluster_reader.py", "rebalancer/rotation.py"
_WATCHING = ("list", "watch")
_STATUS = "case WriteVerb.STATUS:"


def _watched(role: str, users: Mapping[str, User]) -> dict[Right, User]:
    """An informer lists and watches."""
    return {Right(role, name, verb): user for name, user in users.items() for verb in _WATCHING}


def _event_rights(role: str, by: User) -> dict[Right, User]:
    return {Right(role, "/events", verb): by for verb in ("create", "patch")}


def _lease_rights(role: str, by: User) -> dict[Right, User]:
    name = "coordination.k8s.io/leases"
    return {Right(role, name, verb): by for verb in ("create", "get", "update")}


_AGENT, _MANAGER, _REBALANCER = "slackwater-agent", "slackwater-manager", "slackwater-rebalancer"
_POLICIES = ("avoidanceactions", "nodeqoss", "nodeqosensurancepolicies", "podqoss")
_FEEDS = {
    "ensurance.crane.io/avoidanceactions": "AVOIDANCE_ACTIONS",
    "ensurance.crane.io/nodeqoss": "NODE_QOS",
    "ensurance.crane.io/nodeqosensurancepolicies": "NODE_QOS_ENSURANCE_POLICIES",
    "ensurance.crane.io/podqoss": "POD_QOS",
    "slackwater.io/ensurancemetrics": "ENSURANCE_METRICS",
    "prediction.crane.io/timeseriespredictions": "TIME_SERIES_PREDICTIONS",
    "topology.node.k8s.io/noderesourcetopologies": "NODE_TOPOLOGIES",
    "config.volcano.sh/colocationconfigurations": "COLOCATION_CONFIGURATIONS",
    "/pods": "PODS",
    "/nodes": "NODES",
    "/configmaps": "CONFIG_MAPS",
}
_TOPOLOGIES = "topology.node.k8s.io/noderesourcetopologies"
_PREDICTIONS = "prediction.crane.io/timeseriespredictions"

USERS: Mapping[Right, User] = {
    # The agent.
    **_watched(_AGENT, {name: User(_CONNECTION, kind) for name, kind in _FEEDS.items()}),
    **_watched("slackwater-agent-volcano", {"/configmaps": User(_CONNECTION, "CONFIG_MAPS")}),
    Right(_AGENT, "/pods", "get"): User(_COMMANDS, "self._client.get(PODS, name, namespace)"),
    Right(_AGENT, "/nodes", "get"): User(_COMMANDS, "self._client.get(NODES, self._node)"),
    Right(_AGENT, "/nodes", "patch"): User(
        _COMMANDS, "self._client.patch(NODES, self._node, patch"
    ),
    Right(_AGENT, "/nodes/status", "patch"): User(
        "execution/node_patch.py", "self._client.apply(NODES, self._node, body"
    ),
    Right(_AGENT, _TOPOLOGIES, "get"): User(_TOPOLOGY, "client.get(NODE_TOPOLOGIES, name)"),
    Right(_AGENT, _TOPOLOGIES, "create"): User(_TOPOLOGY, "client.create(NODE_TOPOLOGIES"),
    Right(_AGENT, _TOPOLOGIES, "update"): User(_TOPOLOGY, "client.replace(NODE_TOPOLOGIES"),
    Right(_AGENT, _TOPOLOGIES, "delete"): User(_TOPOLOGY, "client.delete(NODE_TOPOLOGIES"),
    Right(_AGENT, "/pods/eviction", "create"): User(_COMMANDS, "partial(self._client.evict"),
    **_event_rights(_AGENT, User(_CONNECTION, "EventRecorder(client, FIELD_MANAGER")),
    # The manager.
    **_watched(
        _MANAGER,
        {
            **{f"ensurance.crane.io/{each}": User(_VIEW, "ENSURANCE_KINDS") for each in _POLICIES},
            "slackwater.io/ensurancemetrics": User(_VIEW, "ENSURANCE_KINDS"),
            "/nodes": User(_VIEW, "WatchedKind(NODES"),
            "/pods": User(_VIEW, "PODS, read_scheduled_pod"),
            "/configmaps": User(_VIEW, "CONFIG_MAPS, read_template_object"),
            _TOPOLOGIES: User(_VIEW, "NODE_TOPOLOGIES, read_reported_info"),
            _PREDICTIONS: User(_VIEW, "TIME_SERIES_PREDICTIONS, read_prediction_object"),
        },
    ),
    **{
        Right(_MANAGER, f"{name}/status", "patch"): User(_WRITER, _STATUS)
        for name in (
            *(f"ensurance.crane.io/{each}" for each in _POLICIES),
            "slackwater.io/ensurancemetrics",
            _PREDICTIONS,
        )
    },
    Right(_MANAGER, "/nodes", "patch"): User(_WRITER, "case WriteVerb.ANNOTATE:"),
    Right(_MANAGER, "/nodes/status", "patch"): User(_WRITER, "case WriteVerb.CONDITION:"),
    # Server-side apply of what is not there is a creation.
    Right(_MANAGER, _PREDICTIONS, "create"): User(_WRITER, "case WriteVerb.APPLY:"),
    Right(_MANAGER, _PREDICTIONS, "patch"): User(_WRITER, "case WriteVerb.APPLY:"),
    Right(_MANAGER, _PREDICTIONS, "delete"): User(_WRITER, "case WriteVerb.DELETE:"),
    **_event_rights(_MANAGER, User("manager/program.py", "EventRecorder(client, FIELD_MANAGER")),
    **_lease_rights(_MANAGER, User("kube/lease.py", "self._client.replace(LEASES")),
    Right("slackwater-webhook", "/nodes", "get"): User(_RELEASE, "client.get(NODES, name)"),
    **{
        Right(
            "slackwater-webhook", "admissionregistration.k8s.io/mutatingwebhookconfigurations", verb
        ): User(file, words)
        for verb, file, words in (
            ("get", "manager/webhook/certificate_rotation.py", "get(MUTATING_WEBHOOKS"),
            ("patch", "manager/webhook/certificate_rotation.py", "patch(MUTATING_WEBHOOKS"),
            ("delete", _RELEASE, "client.delete(MUTATING_WEBHOOKS"),
        )
    },
    Right("slackwater-webhook", "/secrets", "get"): User(
        "manager/webhook/certificate_rotation.py", "self._client.get(SECRETS, SECRET"
    ),
    Right("slackwater-webhook", "/secrets", "patch"): User(
        "manager/webhook/certificate_rotation.py", "self._client.patch("
    ),
    Right("slackwater-webhook", "apps/deployments/scale", "patch"): User(
        _RELEASE, 'subresource="scale"'
    ),
    # The hook that helm runs before it uninstalls.
    **{
        Right("slackwater-agent-release", f"/{name}", verb): User(
            "manager/agent_release.py", f"client.{verb}({kind}"
        )
        for name, kind, verb in (
            ("configmaps", "CONFIG_MAPS", "get"),
            ("configmaps", "CONFIG_MAPS", "patch"),
            ("pods", "PODS", "list"),
            ("nodes", "NODES", "list"),
        )
    },
    # The rebalancer.
    Right(_REBALANCER, "/pods", "list"): User(_READER, "self._listed(PODS"),
    Right(_REBALANCER, "/pods", "get"): User(
        "kube/pod_removal.py", "client.get(PODS, name, namespace)"
    ),
    Right(_REBALANCER, "/pods", "delete"): User(_ROTATION, "self._client.delete(PODS"),
    Right(_REBALANCER, "/pods/eviction", "create"): User(_ROTATION, "self._client.evict(namespace"),
    **{
        Right(_REBALANCER, f"apps/{plural}", "list"): User(_READER, f"self._listed({kind}")
        for plural, kind in (
            ("deployments", "DEPLOYMENTS"),
            ("statefulsets", "STATEFUL_SETS"),
            ("replicasets", "REPLICA_SETS"),
        )
    },
    **{
        Right(_REBALANCER, f"apps/{plural}", "patch"): User(_ROTATION, "resource_of(observed)")
        for plural in ("deployments", "statefulsets", "replicasets")
    },
    Right(_REBALANCER, "autoscaling/horizontalpodautoscalers", "list"): User(
        _READER, "self._listed(HORIZONTAL_POD_AUTOSCALERS"
    ),
    Right(_REBALANCER, "policy/poddisruptionbudgets", "list"): User(
        _READER, "self._listed(POD_DISRUPTION_BUDGETS"
    ),
    Right(_REBALANCER, "metrics.k8s.io/pods", "list"): User(
        "rebalancer/sources/metrics_api.py", "client.list(POD_METRICS"
    ),
    **_event_rights(_REBALANCER, User("rebalancer/program.py", "EventRecorder(")),
    **_lease_rights(f"{_REBALANCER}-lease", User("kube/lease.py", "self._client.create(LEASES")),
}


def granted(documents: Iterable[Mapping[str, Any]]) -> set[Right]:
    """Every right of every role. A wildcard is a right that no row has."""
    return {
        Right(role["metadata"]["name"], f"{group}/{resource}", verb)
        for role in documents
        if role["kind"] in ("Role", "ClusterRole")
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def without_user(documents: Iterable[Mapping[str, Any]]) -> set[Right]:
    """Rights that nobody uses: they have no row, or the row's words are gone from the code."""
    return {right for right in granted(documents) if not _is_used(USERS.get(right))}


def _is_used(user: User | None) -> bool:
    return user is not None and user.words in (SOURCE / user.file).read_text()
