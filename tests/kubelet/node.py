"""A real node without a cluster: containerd, and a kubelet that runs static pods.

Owns those two programs and their files for the length of a test session. Everything they write
is in the virtual machine's memory and ends with it. Writes no cgroup: that is what others are
watched at.
"""

import http.client
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.kubelet import node_files
from tools.kubernetes.image import busybox_image

#: From power-on to running pods: a minute on a quiet host, three on a busy one.
PATIENCE_SECONDS = 900.0
_POLL_SECONDS = 0.5
_LAST_LINES = 30
#: The kubelet tells of each update of the tiers only at this verbosity of this one file.
_VERBOSITY = "qos_container_manager_linux=4"
#: klog: severity, month and day, time of day, process, file and line, message.
_TIERS_UPDATED = re.compile(
    r'^I\d{4} (\d\d):(\d\d):(\d\d\.\d+) .*"Updated QoS cgroup configuration"$', re.MULTILINE
)
_DAY_SECONDS = 86_400
#: The kubelet writes its tiers every 60 s (periodicQOSCgroupUpdateInterval), pods or not.
KUBELET_TICK_SECONDS = 60.0


class Node:
    """Guards a containerd and a kubelet, each with its log."""

    def __init__(self, driver: str, programs: Mapping[str, Path]) -> None:
        self.driver = driver
        self._programs = programs
        self._log_begin = 0
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        for folder in (node_files.FOLDER, node_files.MANIFESTS):
            folder.mkdir(parents=True)
        config = node_files.containerd_config(driver, programs["containerd-shim-runc-v2"])
        node_files.CONTAINERD_CONFIG.write_text(config)
        node_files.KUBELET_CONFIG.write_text(node_files.kubelet_config(driver))

    @property
    def best_effort(self) -> Path:
        """The tier's cgroup."""
        names = {
            "cgroupfs": "kubepods/besteffort",
            "systemd": "kubepods.slice/kubepods-besteffort.slice",
        }
        return Path("/sys/fs/cgroup") / names[self.driver]

    @property
    def kubepods(self) -> str:
        return self.best_effort.parent.name

    def start(self) -> None:
        """Both programs, and every pod of the list running."""
        config = str(node_files.CONTAINERD_CONFIG)
        self._start("containerd", str(self._programs["containerd"]), "--config", config)
        self._import_images()
        for name, pod in node_files.PODS.items():
            self.add_pod(name, pod)
        self.start_kubelet()
        self.await_pods(node_files.PODS)

    def start_kubelet(self) -> None:
        log = self.log("kubelet")
        self._log_begin = log.stat().st_size if log.exists() else 0
        self._start(
            "kubelet",
            str(self._programs["kubelet"]),
            f"--config={node_files.KUBELET_CONFIG}",
            f"--root-dir={node_files.FOLDER}/kubelet",
            f"--cert-dir={node_files.FOLDER}/certificates",
            "--hostname-override=node",
            f"--vmodule={_VERBOSITY}",
        )

    def restart_kubelet(self) -> None:
        """As a service manager does it; pods go on meanwhile."""
        self.stop_kubelet()
        self.start_kubelet()

    def stop_kubelet(self) -> None:
        self._stop("kubelet")

    def add_pod(self, name: str, pod: Mapping[str, Any]) -> None:
        """Under another name first: the kubelet reads a file as soon as it is there."""
        unfinished = node_files.FOLDER / f"{name}.unfinished"
        unfinished.write_text(json.dumps(pod))
        unfinished.rename(node_files.MANIFESTS / f"{name}.json")

    def end_pods(self, *names: str) -> None:
        for name in names:
            (node_files.MANIFESTS / f"{name}.json").unlink()
        gone = {f"{name}-node" for name in names}
        self._await(f"pods {sorted(gone)} to end", lambda: not gone & self.running_pods().keys())

    def end_added_pods(self) -> None:
        """What one test leaves would take the CPU that another's pods request."""
        there = {manifest.stem for manifest in node_files.MANIFESTS.glob("*.json")}
        self.end_pods(*sorted(there - node_files.PODS.keys()))

    def await_pods(self, names: Mapping[str, object]) -> None:
        wanted = {f"{name}-node" for name in names}
        self._await(f"pods {sorted(wanted)} to run", lambda: wanted <= self.running_pods().keys())

    def running_pods(self) -> dict[str, dict[str, Any]]:
        """By name, as the kubelet tells them; none while it does not answer."""
        try:
            found = json.loads(_get(node_files.KUBELET_PORT, "/pods"))
        except (OSError, http.client.HTTPException, ValueError):
            return {}
        pods = found.get("items") or []
        return {p["metadata"]["name"]: p for p in pods if p["status"]["phase"] == "Running"}

    def is_healthy(self) -> bool:
        try:
            return _get(node_files.HEALTH_PORT, "/healthz") == b"ok"
        except (OSError, http.client.HTTPException):
            return False

    def await_health(self) -> None:
        self._await("the kubelet to be healthy", self.is_healthy)

    def kubelet_ticks(self) -> int:
        """How many of its 60 s ticks the kubelet has told of since it was last started."""
        with self.log("kubelet").open(errors="replace") as log:
            log.seek(self._log_begin)
            return full_periods(update_times(log.read()), KUBELET_TICK_SECONDS)

    def log(self, name: str) -> Path:
        return node_files.FOLDER / f"{name}.log"

    def close(self) -> None:
        """Containers end with the machine; whoever looks for a failure finds the logs outside."""
        for name in tuple(self._running):
            self._stop(name)
        out = os.environ.get("SLACKWATER_VM_OUT")
        for log in node_files.FOLDER.glob("*.log") if out else ():
            shutil.copy(log, str(out))

    def _import_images(self) -> None:
        self._await("containerd's socket", lambda: self._ctr("version") == 0)
        busybox = Path(shutil.which("busybox") or "busybox").read_bytes()
        archive = node_files.FOLDER / "image.tar"
        for name in (node_files.PAUSE_IMAGE, node_files.BUSYBOX_IMAGE):
            archive.write_bytes(busybox_image(name, busybox, ("sh", "-c", node_files.REST)))
            assert self._ctr("images", "import", str(archive)) == 0, self._words("ctr")

    def _ctr(self, *arguments: str) -> int:
        place = ("--address", str(node_files.CONTAINERD_SOCKET), "--namespace", "k8s.io")
        with self.log("ctr").open("ab") as words:
            return subprocess.run(
                ["ctr", *place, *arguments], stdout=words, stderr=words, check=False
            ).returncode

    def _start(self, name: str, *command: str) -> None:
        with self.log(name).open("ab") as words:
            self._running[name] = subprocess.Popen(command, stdout=words, stderr=words)

    def _stop(self, name: str) -> None:
        process = self._running.pop(name)
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _await(self, what: str, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_so():
            ended = [name for name, each in self._running.items() if each.poll() is not None]
            assert not ended, f"{ended[0]} ended by itself:\n{self._words(ended[0])}"
            late = time.monotonic() > deadline
            assert not late, f"waited in vain for {what}:\n{self._words([*self._running][-1])}"
            time.sleep(_POLL_SECONDS)

    def _words(self, name: str) -> str:
        lines = self.log(name).read_text(errors="replace").splitlines()
        return "\n".join(lines[-_LAST_LINES:])


def update_times(log: str) -> list[float]:
    """When the kubelet wrote its tiers, in seconds of the day."""
    found = _TIERS_UPDATED.findall(log)
    return [int(hour) * 3600 + int(minute) * 60 + float(second) for hour, minute, second in found]


def full_periods(times: Sequence[float], period: float) -> int:
    """How many times a whole period has passed from one to a later one. The first is the start's
    own; a new pod brings further ones, which move no period."""
    ticks = 0
    for time_of_day in times:
        # Half a second is a timer's freedom in an emulated machine.
        if (time_of_day - times[0]) % _DAY_SECONDS >= (ticks + 1) * period - 0.5:
            ticks += 1
    return ticks


def _get(port: int, path: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    try:
        connection.request("GET", path)
        return connection.getresponse().read()
    finally:
        connection.close()
