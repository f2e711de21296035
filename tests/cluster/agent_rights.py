"""What the tests of an agent's rights share: a control plane, and requests about a Node."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from slackwater.contract.resources import (
    NODE_TOPOLOGIES,
    NODES,
)
from slackwater.kube.client import Client
from tests.cluster.chart import (
    AGENT,
    OTHER,
    OWN,
    REPORT,
    WORK,
    Ask,
    event,
    make,
    make_event,
    make_spared_pods,
    patch,
    patch_status,
    pod_client,
    refusal,
    try_evicting,
    with_rights,
)
from tools.cluster.control_plane import ControlPlane
from tools.cluster.processes import wait_for


def condition(kind: str) -> dict[str, object]:
    told = {"type": kind, "status": "True", "reason": "Test", "message": "a test"}
    return {"status": {"conditions": [told]}}


def status(**fields: object) -> dict[str, object]:
    return {"status": fields}


def offered(amounts: dict[str, Any]) -> dict[str, object]:
    """As the agent writes them: both lists in one request."""
    return status(capacity=amounts, allocatable=amounts)


#: Of others, on the agent's node.
THEIRS = {"key": "a", "value": "x", "effect": "NoExecute"}


SECOND = {"key": "a", "value": "y", "effect": "NoSchedule"}


OURS = {"key": "interference.crane.io", "effect": "PreferNoSchedule"}


def topology(name: str, managed_by: str = "Slackwater", **metadata: object) -> dict[str, Any]:
    labels = {"app.kubernetes.io/managed-by": managed_by}
    return {
        "apiVersion": NODE_TOPOLOGIES.api_version,
        "kind": NODE_TOPOLOGIES.kind,
        "metadata": {"name": name, "labels": labels, **metadata},
        "topologyPolicies": ["None"],
        "zones": [],
    }


def told(name: str, host: str, component: str) -> dict[str, Any]:
    """An event that is there already."""
    made = event("Pod", f"on-{host}", WORK, host, component)
    return made | {"metadata": {"name": name, "namespace": WORK}}


def tainted(*taints: dict[str, str], name: str = OWN) -> Ask:
    """The whole list, as it can only be replaced."""
    return patch(NODES, name, spec={"taints": list(taints) or None})


def taint_by_others(plane: ControlPlane) -> None:
    body = json.dumps({"spec": {"taints": [THEIRS, SECOND]}})
    plane.kubectl("patch", "node", OWN, "--type=merge", "-p", body)


def _wait_for_the_policies(agent: Client) -> None:
    """The API server learns of a policy a moment after it was made."""
    asked = (
        patch_status(OTHER, **REPORT),
        try_evicting(WORK, f"on-{OTHER}"),
        make_event("Node", OTHER),
        make(NODE_TOPOLOGIES, topology(OTHER)),
    )
    for ask in asked:
        wait_for("a policy to hold", partial(_is_held, agent, ask))


def _is_held(agent: Client, ask: Ask) -> bool:
    return "this agent" in refusal(agent, ask)


@contextmanager
def with_agent_rights(plane: ControlPlane) -> Iterator[ControlPlane]:
    """With policies that hold already, and with objects of others."""
    with with_rights(plane) as made:
        _wait_for_the_policies(pod_client(made, AGENT, "agent"))
        make_spared_pods(made)
        made.create(
            topology("koordinators", "Koordinator"),
            told("own", OWN, AGENT),
            told("others", OTHER, AGENT),
            told("kubelets", OWN, "kubelet"),
        )
        yield made
