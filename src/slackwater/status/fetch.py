"""Fetches what `slackwater status` shows: one list of each kind, from the API server.

Without Nodes there is nothing to show, so that error is raised. Whatever else may not be read is a
Gap, because a person may see less than the manager; so is a single object that cannot be decoded.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from slackwater.contract.koordinator.normalization import CpuBasicInfo
from slackwater.contract.koordinator.slo_config import SloConfigName, read_slo_config
from slackwater.contract.koordinator.topology import read_reported_info
from slackwater.contract.kubernetes import read_config_map
from slackwater.contract.resources import (
    CONFIG_MAPS,
    ENSURANCE_KINDS,
    LEASES,
    NODE_TOPOLOGIES,
    NODES,
    PODS,
    ObjectSelector,
    Resource,
)
from slackwater.http.errors import RequestError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import Client
from slackwater.kube.lease import LeaseSpec
from slackwater.model.gap import Gap
from slackwater.model.problem import InvalidError
from slackwater.status.api_objects import (
    AgentPod,
    ClusterNode,
    JudgedPolicy,
    read_agent_pod,
    read_judged_policy,
    read_lease,
    read_node,
)
from slackwater.status.cluster_status import ClusterFacts
from slackwater.status.normalization_status import NormalizationFacts, takes_part

#: The labels of the chart's DaemonSet.
AGENT_PODS = ObjectSelector("app.kubernetes.io/name=slackwater,app.kubernetes.io/component=agent")
_NOT_FOUND = "NotFound"
_Item = TypeVar("_Item")


def fetch_facts(
    client: Client, server: str, namespace: str, lease: str, slo_config: SloConfigName
) -> ClusterFacts:
    """Raises RequestError where the nodes cannot be listed."""
    unseen: dict[str, str] = {}
    nodes = _readable(client, NODES, read_node, unseen)
    policies: list[JudgedPolicy] = []
    missing: list[str] = []
    for resource in ENSURANCE_KINDS:
        read = partial(read_judged_policy, kind=resource.kind)
        try:
            policies += _readable(client, resource, read, unseen)
        except RequestError as error:
            if _is_not_found(error):
                missing.append(resource.kind)
            else:
                unseen[resource.kind] = str(error)
    normalization = _normalization(client, slo_config, nodes, unseen)
    return ClusterFacts(
        server,
        nodes,
        _agent_pods(client, unseen),
        policies,
        missing,
        unseen,
        _lease(client, namespace, lease),
        normalization,
    )


def _normalization(
    client: Client,
    source: SloConfigName,
    nodes: Sequence[ClusterNode],
    unseen: dict[str, str],
) -> NormalizationFacts | None:
    """None where the ConfigMap may not be read. Without it, and without a node that takes part,
    topologies say nothing."""
    try:
        raw = client.get(CONFIG_MAPS, source.name, source.namespace)
        found = read_config_map(msgspec.json.decode(raw), "")
    except InvalidError as error:
        unseen[str(source)] = str(error)
        return None
    except RequestError as error:
        if not _is_not_found(error):
            unseen[str(source)] = str(error)
            return None
        found = None
    config = read_slo_config(found, source)
    if config.absent and not any(map(takes_part, nodes)):
        return NormalizationFacts(config)
    return NormalizationFacts(config, _topologies(client, unseen))


def _topologies(client: Client, unseen: dict[str, str]) -> Mapping[str, CpuBasicInfo | Gap] | Gap:
    try:
        found = _readable(client, NODE_TOPOLOGIES, read_reported_info, unseen)
    except RequestError as error:
        if _is_not_found(error):
            return {}
        unseen[NODE_TOPOLOGIES.kind] = str(error)
        return Gap(str(error))
    return {each.node: each.info for each in found}


def _readable(
    client: Client,
    resource: Resource,
    read: Callable[[msgspec.Raw], _Item],
    unseen: dict[str, str],
    selector: ObjectSelector = ObjectSelector(),  # noqa: B008 - frozen
) -> list[_Item]:
    """Why something could not be read is noted in `unseen`, once for each kind."""

    def attempt(raw: msgspec.Raw) -> _Item | Gap:
        try:
            return read(raw)
        except (msgspec.DecodeError, UnicodeError) as error:
            return Gap(f"one or more of them cannot be read: {error}")

    found = client.list(resource, attempt, selector=selector).items
    for gap in (each for each in found if isinstance(each, Gap)):
        unseen[resource.kind] = gap.reason
    return [each for each in found if not isinstance(each, Gap)]


def _agent_pods(client: Client, unseen: dict[str, str]) -> list[AgentPod] | Gap:
    try:
        return _readable(client, PODS, read_agent_pod, unseen, AGENT_PODS)
    except RequestError as error:
        return Gap(str(error))


def _lease(client: Client, namespace: str, name: str) -> LeaseSpec | Gap | None:
    try:
        return read_lease(client.get(LEASES, name, namespace))
    except RequestError as error:
        return None if _is_not_found(error) else Gap(str(error))
    except msgspec.DecodeError as error:
        return Gap(f"the lease {name} cannot be read: {error}")


def _is_not_found(error: RequestError) -> bool:
    return isinstance(error, HttpStatusError) and error.reason == _NOT_FOUND
