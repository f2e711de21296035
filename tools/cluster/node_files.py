"""What the programs of a node read: containerd's, the kubelet's and the network's configuration.

Owns the texts. A node has file system, process and network namespaces of its own, so the usual
paths below /run and /var can be used, and the machine's own are not touched.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from tools.cluster.ports import LOOPBACK

#: Inside the node, where every client of a container runtime looks first.
RUNTIME_SOCKET = "/run/containerd/containerd.sock"
PAUSE_IMAGE = "localhost/pause:1"
BUSYBOX_IMAGE = "localhost/busybox:1"
REST = "while :; do sleep 3600; done"
#: Debian's package containernetworking-plugins.
NETWORK_PLUGINS = "/usr/lib/cni"
POD_ADDRESSES = "10.85.0.0/16"
#: As on a machine that kubeadm made.
KUBELET_ROOT = "/var/lib/kubelet"
KUBELET_CONFIG = f"{KUBELET_ROOT}/config.yaml"


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """The node's part of the cluster's folder; the same path inside and outside."""

    folder: Path

    @property
    def containerd_config(self) -> Path:
        return self.folder / "containerd.toml"

    @property
    def kubelet_config(self) -> Path:
        """At KUBELET_CONFIG, as the node sees it."""
        return self.folder / "kubelet" / "config.yaml"

    @property
    def pid(self) -> Path:
        """The number of the node's first process, for as long as the cluster is owned."""
        return self.folder / "pid"

    @property
    def network(self) -> Path:
        return self.folder / "network"


def containerd_config(files: NodeFiles) -> str:
    """`restrict_oom_score_adj`: a root without CAP_SYS_RESOURCE could start no sandbox."""
    return f"""version = 2
root = "{files.folder}/containerd"
state = "/run/containerd"
[grpc]
address = "{RUNTIME_SOCKET}"
[plugins."io.containerd.internal.v1.opt"]
path = "{files.folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE_IMAGE}"
disable_tcp_service = true
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{NETWORK_PLUGINS}"
conf_dir = "{files.network}"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
"""


def network_config(files: NodeFiles) -> str:
    """A cable from each pod to the node, which forwards between them; there is no way out."""
    addresses = {
        "type": "host-local",
        "subnet": POD_ADDRESSES,
        "dataDir": str(files.folder / "addresses"),
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    plugin = {"type": "ptp", "ipMasq": False, "ipam": addresses}
    return json.dumps({"cniVersion": "0.4.0", "name": "slackwater", "plugins": [plugin]}, indent=1)


def kubelet_config(authority: Path, cgroup_root: str, port: int, health_port: int) -> str:
    """JSON is YAML. Nothing is evicted for a full disk: it is the developer's own."""
    never = ("memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available")
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": LOOPBACK,
        "port": port,
        "healthzPort": health_port,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority)},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup_root}",
        "cgroupsPerQOS": True,
        "enforceNodeAllocatable": ["pods"],
        "containerRuntimeEndpoint": f"unix://{RUNTIME_SOCKET}",
        "evictionHard": dict.fromkeys(never, "0%"),
        "failSwapOn": False,
        "imageGCHighThresholdPercent": 100,
        "localStorageCapacityIsolation": False,
        "makeIPTablesUtilChains": False,
        "resolvConf": "",
        # Tests wait for what a node says of itself.
        "nodeStatusUpdateFrequency": "5s",
        "shutdownGracePeriod": "0s",
    }
    return json.dumps(config, indent=1)


def kubelet_arguments(files: NodeFiles, kubeconfig: Path, name: str) -> list[str]:
    """`external`: a loopback address is refused as --node-ip, but not as somebody else's word."""
    return [
        f"--config={KUBELET_CONFIG}",
        f"--kubeconfig={kubeconfig}",
        f"--root-dir={KUBELET_ROOT}",
        f"--cert-dir={files.folder / 'kubelet-certificates'}",
        f"--hostname-override={name}",
        "--cloud-provider=external",
    ]
