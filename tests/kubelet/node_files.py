"""What a node's programs read: containerd's and the kubelet's configuration, and static pods.

Owns the texts and where they lie, all of it in /run, which is memory: containerd's overlays cannot
lie on the machine's own overlay. Starts nothing.
"""

import json
from pathlib import Path
from typing import Any

FOLDER = Path("/run/slackwater-node")
CONTAINERD_SOCKET = FOLDER / "containerd.sock"
CONTAINERD_CONFIG = FOLDER / "containerd.toml"
KUBELET_CONFIG = FOLDER / "kubelet.yaml"
MANIFESTS = FOLDER / "manifests"
LOGS = FOLDER / "logs"
PAUSE_IMAGE = "localhost/pause:1"
BUSYBOX_IMAGE = "localhost/busybox:1"
#: The kubelet's usual read-only port; the machine has no network but its own loopback.
KUBELET_PORT = 10255
HEALTH_PORT = 10248

#: A program of one loop, written by the container itself: x86's `pause` and a jump back to it. For
#: the kernel it is always busy; an emulated CPU that pauses lets the others run.
_ELF = bytes.fromhex(
    "7f454c4602010100 0000000000000000 02003e0001000000 7800400000000000 4000000000000000"
    "0000000000000000 0000000040003800 0100000000000000"
    "0100000005000000 0000000000000000 0000400000000000 0000400000000000 7c00000000000000"
    "7c00000000000000 0010000000000000 f390ebfc"
)
_PRINTED = "".join(f"\\{byte:03o}" for byte in _ELF)
LOOP = f"printf '{_PRINTED}' >/loop && busybox chmod 755 /loop && exec /loop"
REST = "while :; do sleep 3600; done"


def containerd_config(driver: str, shim: Path) -> str:
    """The shim is named: Debian's older one comes first in the search path. Plugins (NRI) are asked
    at the usual place, which is containerd's default."""
    systemd = "true" if driver == "systemd" else "false"
    return f"""
version = 3
root = "{FOLDER}/containerd/root"
state = "{FOLDER}/containerd/state"
[grpc]
address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.internal.v1.opt"]
path = "{FOLDER}/containerd/opt"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE_IMAGE}"
[plugins."io.containerd.grpc.v1.cri"]
disable_tcp_service = true
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
runtime_path = "{shim}"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = {systemd}
"""


def kubelet_config(driver: str) -> str:
    """Standalone: no API server. JSON is YAML."""
    nothing_evicted = ("memory.available", "nodefs.available", "nodefs.inodesFree")
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": driver,
        "cgroupsPerQOS": True,
        "enforceNodeAllocatable": ["pods"],
        "staticPodPath": str(MANIFESTS),
        "address": "127.0.0.1",
        "readOnlyPort": KUBELET_PORT,
        "healthzPort": HEALTH_PORT,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "evictionHard": dict.fromkeys(nothing_evicted, "0%"),
        "failSwapOn": False,
        "imageGCHighThresholdPercent": 100,
        "localStorageCapacityIsolation": False,
        "makeIPTablesUtilChains": False,
        "podLogsDir": str(LOGS),
        "resolvConf": "",
    }
    return json.dumps(config, indent=1)


def pod(name: str, script: str, resources: dict[str, Any]) -> dict[str, Any]:
    """In the host's network: there is no other here."""
    container = {
        "name": "main",
        "image": BUSYBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", script],
        "resources": resources,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "hostNetwork": True,
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        },
    }


#: One of each tier, and best-effort work that wants everything.
PODS = {
    "best-effort": pod("best-effort", LOOP, {}),
    "burstable": pod(
        "burstable",
        REST,
        {
            "requests": {"cpu": "250m", "memory": "64Mi"},
            "limits": {"cpu": "500m", "memory": "128Mi"},
        },
    ),
    "guaranteed": pod("guaranteed", REST, {"limits": {"cpu": "300m", "memory": "96Mi"}}),
}
TIERS = {"best-effort": "BestEffort", "burstable": "Burstable", "guaranteed": "Guaranteed"}
