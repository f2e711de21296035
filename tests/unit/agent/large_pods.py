"""An agent's process in cluster mode, and an API server that has as much as tenants may write.

The server answers as a real one does with resourceVersion=0: all pods in one answer, whatever the
limit is. Afterwards each pod changes, the watch is forgotten (410), everything is listed again and
changes again. Only then the process' peak is read, so that it is the same on a slow machine.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.unit.doctor.host_tree import group, host, put
from tests.unit.kube.byte_server import Request, Wire, serving

#: Watches of the pods until the peak is read, and each has a list before it.
WATCHES = 2
NODE = "here"
_EXPIRED = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}


def pod_text(number: int, version: int, size: int) -> bytes:
    """One pod of so many bytes, each tenth in another way."""
    filler = "x" * size
    labels: dict[str, str] = {"app": "web"}
    annotations, env, more = {"volcano.sh/qos-level": "BE"}, "", ""
    match number % 10:
        case 0:
            annotations["a-tenants/own"] = filler
        case 1:
            annotations["volcano.sh/colocation-config"] = filler
        case 2:
            labels |= {f"l{n}": "" for n in range(size // 12)}
        case 3:
            more = ",".join(['{"f:metadata":{"f:labels":{".":{},"f:a":{}}}}'] * (size // 45))
        case 4:
            env = "\\u003c" * (size // 6)
        case _:
            env = filler
    meta = {
        "name": f"web-{number}",
        "namespace": "shop",
        "uid": f"11111111-2222-4333-8444-{number:012d}",
        "resourceVersion": str(version),
        "labels": labels,
        "annotations": annotations,
    }
    metadata = json.dumps(meta)[:-1] + f',"managedFields":[{more}]' + "}"
    boxes = f'[{{"name":"c","env":[{{"name":"E","value":"{env}"}}]}}]'
    spec = f'{{"nodeName":"{NODE}","containers":{boxes}}}'
    status = '{"phase":"Running","qosClass":"BestEffort"}'
    return f'{{"metadata":{metadata},"spec":{spec},"status":{status}}}'.encode()


class LargePods:
    """Answers for one agent; `read` is set when it has read all of it."""

    def __init__(self, pods: int, size: int) -> None:
        self.requests: list[Request] = []
        self.read = threading.Event()
        self._pods = pods
        self._size = size
        self._lock = threading.Lock()
        self._version = 10
        self._watches = 0

    def lists(self) -> list[Request]:
        found = [one for one in list(self.requests) if one.method == "GET"]
        return [one for one in found if "limit" in one.query or "resourceVersion" in one.query
                if not one.query.get("watch")]  # fmt: skip

    def watches(self) -> list[Request]:
        return [one for one in list(self.requests) if one.query.get("watch")]

    def answer(self, request: Request, wire: Wire) -> None:
        self.requests.append(request)
        if request.method != "GET":
            wire.json({})
        elif request.path == "/api/v1/pods":
            self._answer_pods(request, wire)
        elif request.query.get("watch"):
            wire.begin_chunks()
            wire.closing.wait()
        else:
            node = {"metadata": {"name": NODE}, "status": {"allocatable": {"cpu": "4"}}}
            items = [node] if request.path == "/api/v1/nodes" else []
            wire.json({"kind": "List", "metadata": {"resourceVersion": "5"}, "items": items})

    def _answer_pods(self, request: Request, wire: Wire) -> None:
        wire.begin_chunks()
        if not request.query.get("watch"):
            wire.chunk(b'{"kind":"PodList","metadata":{"resourceVersion":"%d"},' % self._version)
            wire.chunk(b'"items":[')
            for number in range(self._pods):
                wire.chunk((b"," if number else b"") + self._pod(number))
            wire.chunk(b"]}\n")
            wire.end_chunks()
            return
        self._watches += 1
        if self._watches > WATCHES:
            self.read.set()
            wire.closing.wait()
            return
        for number in range(self._pods):
            wire.chunk(b'{"type":"MODIFIED","object":' + self._pod(number) + b"}\n")
        wire.event("ERROR", _EXPIRED)
        wire.end_chunks()

    def _pod(self, number: int) -> bytes:
        self._version += 1
        return pod_text(number, self._version, self._size)


@contextlib.contextmanager
def running_agent(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """On a machine of files, of a server that asks for no credentials."""
    config = folder / "kubeconfig"
    config.write_text(
        json.dumps(
            {
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    with agent_on_files(folder, config, NODE) as process:
        yield process


@contextlib.contextmanager
def agent_on_files(
    folder: Path, kubeconfig: Path, node: str, *arguments: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A whole agent of a cluster, whose kernel is files in the folder."""
    roots = host(folder)
    put(Path(roots.proc) / "sys/kernel/random/boot_id", "this-boot\n")
    for path in ("kubepods", "kubepods/besteffort"):
        group(roots, path)
    words = ("SLACKWATER_", "CGROUP_", "KUBE", "NODE_NAME", "POD_")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(words)}
    place = ["--cgroup-root", roots.cgroup, "--proc-root", roots.proc, "--sys-root", roots.sys,
             "--host-root", roots.host, "--state", f"{folder}/state"]  # fmt: skip
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "slackwater", "agent", *place, "--kubeconfig", str(kubeconfig),
             "--node", node, "--listen", "127.0.0.1:0", *arguments],
            stdout=output,
            stderr=output,
            cwd=folder,
            env=clean | {"SLACKWATER_CGROUP_VERSION": "v2", "HOME": str(folder)},
        )  # fmt: skip
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


class AgentEndedError(Exception):
    """str() is what it wrote."""


def peak_memory(folder: Path, pods: int, size: int) -> float:
    """In MiB, of the whole process."""
    api = LargePods(pods, size)
    with serving(api.answer) as server, running_agent(folder, server.port) as agent:
        while not api.read.wait(0.2):
            if agent.poll() is not None:
                raise AgentEndedError((folder / "output").read_text())
        [line] = [
            line
            for line in Path(f"/proc/{agent.pid}/status").read_text().splitlines()
            if line.startswith("VmHWM:")
        ]
        return int(line.split()[1]) / 1024
