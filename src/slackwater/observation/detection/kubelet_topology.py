"""The policy of the kubelet's topology manager, by the names that a NodeResourceTopology has."""

from slackwater.bounded_read import Contents, read_start
from slackwater.contract.koordinator.topology import NO_POLICY
from slackwater.observation.detection.kubelet import (
    KubeletSetting,
    setting_in_arguments,
    setting_in_text,
)
from slackwater.observation.detection.kubelet_cpus import KubeletPlaces

_POLICY = KubeletSetting("topologyManagerPolicy", "--topology-manager-policy", "[a-z-]{1,40}")
_SCOPE = KubeletSetting("topologyManagerScope", "--topology-manager-scope", "container|pod")
_NAMES = {
    "single-numa-node": "SingleNUMANode",
    "restricted": "Restricted",
    "best-effort": "BestEffort",
}
_POD = "pod"


def read_topology_policy(places: KubeletPlaces) -> str:
    """A flag beats the file. What nobody says is the kubelet's default: none, by container."""
    found = (read_start(path) for path in places.configs)
    config = next((each.data for each in found if isinstance(each, Contents)), b"")
    policy, scope = (
        setting_in_arguments(places.arguments, setting).value
        or setting_in_text(config, setting).value
        for setting in (_POLICY, _SCOPE)
    )
    name = _NAMES.get(policy or "")
    level = "PodLevel" if scope == _POD else "ContainerLevel"
    return f"{name}{level}" if name else NO_POLICY
