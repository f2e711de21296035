"""A real node: containerd and a kubelet in namespaces of their own, on this machine's cgroups.

Owns those programs, the node's folder and its cgroups. Its network is its own: pods reach the API
server at its service address, and the API server reaches the kubelet, through a relay. When the
first process of the namespaces ends, and be it by a kill of this process, nothing of it is left but
empty cgroups and the folder.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tools.cluster.certificates import node_user
from tools.cluster.control_plane import API_SERVICE_ADDRESS, ControlPlane, answers
from tools.cluster.places import NODE, cgroup_root, hierarchies, make_root, remove_root
from tools.cluster.processes import LOOPBACK, STOP_SECONDS, ClusterError, Processes, free_ports
from tools.kubernetes.image import busybox_image

#: Inside the node, where every client of a container runtime looks first.
RUNTIME_SOCKET = "/run/containerd/containerd.sock"
#: The same for its plug-ins.
NRI_SOCKET = "/var/run/nri/nri.sock"
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
    def nri_socket(self) -> Path:
        """NRI_SOCKET as it is reached from outside the node."""
        return self.folder / "nri" / "nri.sock"

    @property
    def network(self) -> Path:
        return self.folder / "network"


def containerd_config(files: NodeFiles, shim: Path) -> str:
    """`restrict_oom_score_adj`: a root without CAP_SYS_RESOURCE could start no sandbox. The shim is
    named: Debian's older one comes first in the search path."""
    return f"""version = 3
root = "{files.folder}/containerd"
state = "/run/containerd"
[grpc]
address = "{RUNTIME_SOCKET}"
[plugins."io.containerd.internal.v1.opt"]
path = "{files.folder}/opt"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE_IMAGE}"
[plugins."io.containerd.grpc.v1.cri"]
disable_tcp_service = true
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{NETWORK_PLUGINS}"]
conf_dir = "{files.network}"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
runtime_path = "{shim}"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = false
[plugins."io.containerd.nri.v1.nri"]
disable = false
socket_path = "{NRI_SOCKET}"
plugin_path = "{files.folder}/nri-plugins"
plugin_config_path = "{files.folder}/nri-plugins"
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


INIT = Path(__file__).parent / "node_init.sh"
_INIT, _CONTAINERD, _KUBELET, _RELAY = "node-init", "containerd", "kubelet", "relay"
_SHIM = "containerd-shim-runc-v2"
_NAMESPACES = ("--mount", "--pid", "--net")
#: Of one command inside the node.
_COMMAND_SECONDS = 600.0
#: Without proxies: what is asked is never beyond this machine.
_GET = """import sys, urllib.request as r
opener = r.build_opener(r.ProxyHandler({}))
sys.stdout.buffer.write(opener.open(sys.argv[1], timeout=10).read())"""
#: For what the taint waits: somebody who knows the node's addresses.
_UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"


class Node:
    """Guards one node of a control plane."""

    def __init__(
        self, control_plane: ControlPlane, programs: Mapping[str, Path], name: str = NODE
    ) -> None:
        self.name = name
        self.folder = control_plane.folder / name
        self.cgroup_root = cgroup_root(control_plane.folder, name)
        self._control_plane = control_plane
        self.programs = programs
        self._files = NodeFiles(self.folder)
        self.mounts = hierarchies()
        self.processes = Processes(control_plane.folder / "logs")
        self.port, self._health_port = free_ports(2)

    @property
    def kubepods(self) -> str:
        """The kubelet's tree below the mounts of the hierarchies."""
        return f"{self.cgroup_root}/kubepods"

    @property
    def nri_socket(self) -> Path:
        return self._files.nri_socket

    @property
    def pid(self) -> int:
        """The node's first process, as this machine counts: its namespaces are in /proc/PID/ns."""
        return child_of(self.processes.pid(_INIT))

    def open(self) -> None:
        """Returns when the node is Ready."""
        self._write_files()
        make_root(self.cgroup_root, self.mounts)
        self._start_namespaces()
        self._start_relay()
        self.start_containerd()
        self._import_own_images()
        self.start_kubelet()
        self._wait_registered()
        self._tell_address()
        self.await_ready()

    def start_containerd(self) -> None:
        program = str(self.programs[_CONTAINERD])
        command = [program, "--config", str(self._files.containerd_config)]
        self._start_inside(_CONTAINERD, command)
        self.processes.wait_until("containerd's socket", _CONTAINERD, self._runtime_answers)

    def start_kubelet(self) -> None:
        kubeconfig = self._control_plane.kubeconfig(*_user(self.name))
        arguments = kubelet_arguments(self._files, kubeconfig, self.name)
        self._start_inside(_KUBELET, [str(self.programs[_KUBELET]), *arguments])

    def restart_containerd(self) -> None:
        """Its containers go on."""
        self.end_program(_CONTAINERD)
        self.start_containerd()

    def stop_kubelet(self) -> None:
        """Its pods go on."""
        self.end_program(_KUBELET)

    def restart_kubelet(self) -> None:
        self.stop_kubelet()
        self.start_kubelet()
        self.processes.wait_until("the kubelet to be healthy", _KUBELET, self.is_healthy)

    def send(self, name: str, number: signal.Signals) -> None:
        """To the program: nsenter waits for what it started, and passes no signal on to it."""
        os.kill(child_of(self.processes.pid(name)), number)

    def end_program(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        """One that is paused is woken for it."""
        program = child_of(self.processes.pid(name))
        for each in (number, signal.SIGCONT):
            with suppress(ProcessLookupError):
                os.kill(program, each)
        self.processes.await_end(name)

    def is_healthy(self) -> bool:
        """By the kubelet's own word, which it gives before the API server has heard of it."""
        return answers(self._health_port, "/healthz", None)

    def await_ready(self) -> None:
        self.processes.wait_until(f"node {self.name} to be Ready", _KUBELET, self.is_ready)

    def is_ready(self) -> bool:
        found = self._control_plane.get("node", self.name)
        conditions = found["status"].get("conditions", [])
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def import_image(self, archive: Path) -> None:
        """A docker or OCI archive; pods use it with `imagePullPolicy: Never` or IfNotPresent."""
        self.run(*importing(archive))

    def run(self, *command: str) -> str:
        """Runs a command inside the node, in all its namespaces; what it said."""
        return self._run_inside(command, _NAMESPACES).decode(errors="replace")

    def get(self, url: str) -> bytes:
        """What a server answers that only the node's network reaches, a pod's for instance."""
        return self._run_inside([sys.executable, "-c", _GET, url], ("--net",))

    def cgroup(self, controller: str, path: str = "") -> Path:
        """A cgroup below the node's root, `kubepods/besteffort` for instance."""
        first = [mount for mount in self.mounts if controller in mount.options]
        second = [mount for mount in self.mounts if mount.kind == "cgroup2"]
        for mount in first or second:
            return Path(mount.point, self.cgroup_root, path)
        raise ClusterError(f"this machine has no {controller} cgroups")

    def close(self) -> None:
        """The namespaces' end is the end of all that runs in them; unshare is deaf to less."""
        for name in (_KUBELET, _CONTAINERD):
            if self.processes.is_running(name):
                self.end_program(name)
        if self.processes.is_running(_INIT):
            self._end_namespaces()
        self.processes.kill_all()
        remove_root(self.cgroup_root, self.mounts)

    def _write_files(self) -> None:
        files = self._files
        for folder in (files.folder, files.network, files.kubelet_config.parent):
            folder.mkdir(parents=True, exist_ok=True)
        shim = self.programs[_SHIM]
        files.containerd_config.write_text(containerd_config(files, shim))
        (files.network / "10-ptp.conflist").write_text(network_config(files))
        files.kubelet_config.write_text(
            kubelet_config(
                self._control_plane.authority.certificate,
                self.cgroup_root,
                self.port,
                self._health_port,
            )
        )

    def _start_namespaces(self) -> None:
        ready = self.folder / "initialized"
        ready.unlink(missing_ok=True)
        script = [str(INIT), str(self.folder), API_SERVICE_ADDRESS]
        unshare = ["unshare", *_NAMESPACES, "--fork", "--kill-child", "--mount-proc"]
        self.processes.start(_INIT, [*unshare, "sh", *script])
        self.processes.wait_until("the node's namespaces", _INIT, ready.exists)
        self._files.pid.write_text(str(self.pid))

    def _end_namespaces(self) -> None:
        """The kernel ends all processes in them before the first one is gone."""
        first = os.pidfd_open(self.pid)
        try:
            self.processes.kill(_INIT)
            select.select([first], [], [], STOP_SECONDS)
        finally:
            os.close(first)

    def _start_relay(self) -> None:
        """The kubelet calls the API server as we do; pods call it by its service address."""
        api_server = self._control_plane.ports.api_server
        rules = [
            f"in:{LOOPBACK}:{api_server}={api_server}",
            f"in:{API_SERVICE_ADDRESS}:443={api_server}",
            f"out:{self.port}={self.port}",
            f"out:{self._health_port}={self._health_port}",
        ]
        command = [sys.executable, "-m", "tools.cluster.relay", str(self.pid), *rules]
        self.processes.start(_RELAY, command)
        log = self.processes.log(_RELAY)
        self.processes.wait_until("the relay", _RELAY, lambda: "relaying" in log.read_text())

    def _entering(self, namespaces: Sequence[str] = _NAMESPACES) -> list[str]:
        return entering(self.pid, namespaces)

    def _run_inside(self, command: Sequence[str], namespaces: Sequence[str]) -> bytes:
        done = subprocess.run(
            [*self._entering(namespaces), *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            said = (done.stderr or done.stdout).decode(errors="replace").strip()
            raise ClusterError(f"{' '.join(command)} failed on node {self.name}: {said}")
        return done.stdout

    def _start_inside(self, name: str, command: list[str]) -> None:
        self.processes.start(name, [*self._entering(), *command])

    def _runtime_answers(self) -> bool:
        try:
            self.run("ctr", "version")
        except ClusterError:
            return False
        return True

    def _import_own_images(self) -> None:
        busybox = shutil.which("busybox")
        if busybox is None:
            raise ClusterError("busybox is missing: apt-get install busybox-static")
        for name in (PAUSE_IMAGE, BUSYBOX_IMAGE):
            archive = self.folder / "image.tar"
            image = busybox_image(name, Path(busybox).read_bytes(), ("sh", "-c", REST))
            archive.write_bytes(image)
            self.import_image(archive)

    def _wait_registered(self) -> None:
        self.processes.wait_until(f"node {self.name}", _KUBELET, self._is_registered)

    def _is_registered(self) -> bool:
        listed = self._control_plane.get("nodes")["items"]
        return self.name in [node["metadata"]["name"] for node in listed]

    def _tell_address(self) -> None:
        """As a cloud provider does it: the API server finds the kubelet on loopback."""
        address = {"type": "InternalIP", "address": LOOPBACK}
        status = {"status": {"addresses": [address]}}
        patch = ("--subresource=status", "--type=merge", "-p", json.dumps(status))
        self._control_plane.kubectl("patch", "node", self.name, *patch)
        self._control_plane.kubectl("taint", "node", self.name, f"{_UNINITIALIZED}-")


def entering(pid: int, namespaces: Sequence[str] = _NAMESPACES) -> list[str]:
    """What comes before a command that shall run inside the node whose first process that is."""
    return ["nsenter", "--target", str(pid), *namespaces, "--"]


def importing(archive: Path) -> list[str]:
    """The command, inside the node."""
    return ["ctr", "--namespace", "k8s.io", "images", "import", str(archive.absolute())]


def _user(node: str) -> tuple[str, str]:
    user = node_user(node)
    return user.name, user.group


def child_of(pid: int) -> int:
    """The only child of a process that waits for it."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    if len(children) != 1:
        raise ClusterError(f"process {pid} has {len(children)} children, not one")
    return int(children[0])
