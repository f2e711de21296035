"""What a node's programs read: texts that are valid, agree, and keep to the node's own places."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from slackwater.nri.plugin import DEFAULT_SOCKET
from tools.cluster import NODE_NEEDS, node
from tools.cluster.many_nodes import kwok_arguments, played_node
from tools.cluster.node import NodeFiles

FILES = NodeFiles(Path("/c/node"))
SHIM = Path("/programs/containerd-shim-runc-v2")


@pytest.fixture
def containerd() -> dict[str, Any]:
    return tomllib.loads(node.containerd_config(FILES, SHIM))


@pytest.fixture
def kubelet() -> dict[str, Any]:
    text = node.kubelet_config(Path("/c/ca.crt"), "slackwater-c-node", 21001, 21002)
    found: dict[str, Any] = json.loads(text)
    return found


def test_kubelet_and_containerd_agree(kubelet: dict[str, Any], containerd: dict[str, Any]) -> None:
    assert kubelet["containerRuntimeEndpoint"] == f"unix://{containerd['grpc']['address']}"
    runtime = containerd["plugins"]["io.containerd.cri.v1.runtime"]
    runc = runtime["containerd"]["runtimes"]["runc"]
    assert runc["options"]["SystemdCgroup"] is False
    assert runc["runtime_path"] == str(SHIM)
    assert kubelet["cgroupDriver"] == "cgroupfs"


def test_a_root_without_all_capabilities_can_start_pods(containerd: dict[str, Any]) -> None:
    plugins = containerd["plugins"]
    assert plugins["io.containerd.cri.v1.runtime"]["restrict_oom_score_adj"] is True
    images = plugins["io.containerd.cri.v1.images"]["pinned_images"]
    assert images == {"sandbox": node.PAUSE_IMAGE}


def test_plugins_of_the_runtime_register_where_they_look_first(containerd: dict[str, Any]) -> None:
    """And none is started that this machine may have."""
    nri = containerd["plugins"]["io.containerd.nri.v1.nri"]
    assert nri["disable"] is False
    assert nri["socket_path"] == f"/{DEFAULT_SOCKET}"
    assert Path(nri["plugin_path"]).is_relative_to(FILES.folder)
    assert FILES.nri_socket.is_relative_to(FILES.folder)


def test_images_and_snapshots_are_in_the_nodes_folder(containerd: dict[str, Any]) -> None:
    """Not in /var, which is an overlay inside: overlays cannot lie on one."""
    assert Path(containerd["root"]).is_relative_to(FILES.folder)
    assert containerd["state"].startswith("/run/")


def test_the_kubelet_listens_on_loopback_to_those_it_knows(kubelet: dict[str, Any]) -> None:
    assert kubelet["address"] == "127.0.0.1"
    assert kubelet["authentication"]["anonymous"] == {"enabled": False}
    assert kubelet["authorization"] == {"mode": "Webhook"}
    assert (kubelet["port"], kubelet["healthzPort"]) == (21001, 21002)
    assert "readOnlyPort" not in kubelet


def test_the_kubelet_keeps_to_its_own_cgroups_and_evicts_nothing(kubelet: dict[str, Any]) -> None:
    assert kubelet["cgroupRoot"] == "/slackwater-c-node"
    assert kubelet["enforceNodeAllocatable"] == ["pods"]
    assert set(kubelet["evictionHard"].values()) == {"0%"}


def test_the_configuration_lies_where_everybody_looks() -> None:
    inside = Path(node.KUBELET_CONFIG).relative_to(node.KUBELET_ROOT)
    assert FILES.kubelet_config == FILES.folder / "kubelet" / inside
    arguments = node.kubelet_arguments(FILES, Path("/k"), "n")
    assert f"--config={node.KUBELET_CONFIG}" in arguments
    assert "--hostname-override=n" in arguments


def test_pods_have_a_cable_each(containerd: dict[str, Any]) -> None:
    config = json.loads(node.network_config(FILES))
    [plugin] = config["plugins"]
    assert f"{node.NETWORK_PLUGINS}/{plugin['type']}" in NODE_NEEDS
    assert Path(plugin["ipam"]["dataDir"]).is_relative_to(FILES.folder)
    cni = containerd["plugins"]["io.containerd.cri.v1.runtime"]["cni"]
    assert cni == {"bin_dirs": [node.NETWORK_PLUGINS], "conf_dir": str(FILES.network)}


def test_a_played_node_is_one_that_kwok_looks_for() -> None:
    node = played_node("kwok-7")
    [(name, value)] = node["metadata"]["annotations"].items()
    arguments = kwok_arguments(Path("/k"), 21001)
    assert f"--manage-nodes-with-annotation-selector={name}={value}" in arguments
    assert "--server-address=127.0.0.1:21001" in arguments
    assert node["status"]["allocatable"] == node["status"]["capacity"]
