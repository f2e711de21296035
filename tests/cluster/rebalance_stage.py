"""A stage for rotations: a control plane, nodes on paper that run pods, and a real Prometheus.

Each scene is a namespace with a Deployment `web`, its autoscalers, and pods that use as much CPU as
the scene says: the series are those of the very pods that the controller made, which are known only
then, so all scenes are set before Prometheus starts. The pods of a scene are called A, B, C... in
the order of its `usage`.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from tests.cluster.prometheus_bed import Backfill, prometheus_with, request, usage
from tools.cluster.control_plane import ControlPlane
from tools.cluster.many_nodes import ManyNodes
from tools.cluster.processes import wait_for

Object = dict[str, Any]
WORKLOAD = "web"
#: Fresh pods would all be too young to judge.
ANY_AGE = ("--minimum-pod-age", "0s")
_USER_AGENT = "slackwater-rebalancer/"
_READING = ("get", "list", "watch")
_BUDGET = "PodDisruptionBudget"
_NODES = 5
#: Of one call of the command line: a rotation waits for new pods.
_PATIENCE = 300.0


class Scene(msgspec.Struct, frozen=True):
    """`name` is the namespace's. `usage` in cores, pod by pod. `targets`: name and target of
    each autoscaler, in percent or as a quantity of cores. `available`: of a disruption budget."""

    name: str
    usage: tuple[float, ...]
    targets: tuple[tuple[str, int | str], ...] = ((WORKLOAD, 70),)
    available: int | None = None
    kind: str = "Deployment"

    def objects(self) -> list[Object]:
        made = [_workload(self), *(_autoscaler(self, *each) for each in self.targets)]
        return made if self.available is None else [*made, _budget(self, self.available)]


class Told(msgspec.Struct, frozen=True):
    """What the command line said."""

    code: int
    out: str
    err: str

    @property
    def plan(self) -> Object:
        read: Object = json.loads(self.out)
        return read


class Stage:
    """Guards nothing by itself: what it uses belongs to `set_up`."""

    def __init__(self, plane: ControlPlane, scenes: Iterable[Scene]) -> None:
        self.plane = plane
        self.scenes = {each.name: each for each in scenes}
        self.names: dict[str, dict[str, str]] = {}
        self.endpoint = ""

    def cli(
        self, *words: str, user: str = "admin", environ: Mapping[str, str] | None = None
    ) -> Told:
        """`slackwater rebalance` with these words, as a process of its own."""
        known = {key: value for key, value in os.environ.items() if key in ("PATH", "HOME")}
        kubeconfig = {"KUBECONFIG": str(self.plane.kubeconfig(user)), "NO_COLOR": "1"}
        done = subprocess.run(
            [sys.executable, "-m", "slackwater", "rebalance", *words],
            env={**known, **kubeconfig, **(environ or {})},
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
        return Told(done.returncode, done.stdout, done.stderr)

    def ask(self, command: str, scene: str, *flags: str, user: str = "admin") -> Told:
        """`plan` or `run` of the scene's workload, of pods of any age."""
        where = ("-n", scene, "--prometheus-endpoint", self.endpoint)
        return self.cli(command, WORKLOAD, *where, *ANY_AGE, *flags, user=user)

    def plan(self, scene: str, *flags: str, user: str = "admin") -> Told:
        return self.ask("plan", scene, "-o", "json", *flags, user=user)

    def letters(self, scene: str, names: Sequence[str]) -> str:
        """Pods as they are called in the scene; "?" for one that came later."""
        known = {name: letter for letter, name in self.names[scene].items()}
        return "".join(known.get(name, "?") for name in names)

    def pods(self, scene: str) -> list[Object]:
        found: list[Object] = self.plane.get("pods", "-n", scene)["items"]
        return found

    def stayed(self, scene: str) -> str:
        """Who is still there, and not about to go."""
        there = [pod for pod in self.pods(scene) if "deletionTimestamp" not in pod["metadata"]]
        found = self.letters(scene, [pod["metadata"]["name"] for pod in there])
        return "".join(sorted(found.replace("?", "")))

    def await_ready(self, scene: str, count: int) -> None:
        """That many Ready pods and no other."""

        def look() -> bool:
            found = self.pods(scene)
            return len(found) == count and all(map(_is_ready, found))

        wait_for(f"{count} Ready pods in {scene}", look)

    def grant(self, user: str, verbs: str, *resources: str) -> None:
        """Everywhere."""
        name = f"{user}-{verbs.replace(',', '-')}"
        rule = (f"--verb={verbs}", f"--resource={','.join(resources)}")
        self.plane.kubectl("create", "clusterrole", name, *rule)
        to = (f"--clusterrole={name}", f"--user={user}")
        self.plane.kubectl("create", "clusterrolebinding", name, *to)

    def writes(self, scene: str) -> list[str]:
        """What the rebalancer changed there, but for events, by the server's own account."""
        return [each for each in self.requests(scene) if each.split()[1] != "events"]

    def requests(self, scene: str) -> list[str]:
        """All that it asked for there to be changed: verb and resource."""
        found = []
        for line in self.plane.audit():
            ours = line.get("userAgent", "").startswith(_USER_AGENT)
            about = line.get("objectRef", {})
            if ours and about.get("namespace") == scene and line["verb"] not in _READING:
                parts = filter(None, (about["resource"], about.get("subresource")))
                found.append(f"{line['verb']} {'/'.join(parts)}")
        return found

    def annotate(self, what: str, scene: str, *annotations: str) -> None:
        self.plane.kubectl("annotate", "--overwrite", what, "-n", scene, *annotations)


@contextmanager
def set_up(
    plane: ControlPlane, kwok: Path, folder: Path, scenes: Sequence[Scene]
) -> Iterator[Stage]:
    """All scenes at once, at rest."""
    nodes = ManyNodes(plane, kwok)
    stage = Stage(plane, scenes)
    try:
        nodes.open(_NODES)
        _create(stage)
        with prometheus_with(folder, list(_series(stage, time.time()))) as bed:
            stage.endpoint = bed.endpoint
            yield stage
    finally:
        nodes.close()


def _create(stage: Stage) -> None:
    plane, scenes = stage.plane, stage.scenes.values()
    names = {each.name for each in scenes}
    plane.create(
        *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": each}} for each in names)
    )
    wait_for("service accounts", lambda: _namespaces_of(plane) >= names)
    plane.create(*(each for scene in scenes for each in scene.objects()))
    wait_for("all pods, and their controllers", lambda: not _unsettled(stage))
    for pod in plane.get("pods", "-A", "--sort-by=.metadata.name")["items"]:
        meta = pod["metadata"]
        known = stage.names.setdefault(meta["namespace"], {})
        known[chr(ord("A") + len(known))] = meta["name"]


def _namespaces_of(plane: ControlPlane) -> set[str]:
    found = plane.get("serviceaccounts", "-A")["items"]
    return {each["metadata"]["namespace"] for each in found}


def _unsettled(stage: Stage) -> set[str]:
    """Scenes whose controllers have something left to do."""
    waiting = {(each.name, each.kind) for each in stage.scenes.values()}
    waiting |= {(each.name, _BUDGET) for each in stage.scenes.values() if each.available}
    kinds = ("-A", f"deployments,statefulsets,{_BUDGET}")
    for each in stage.plane.get(*kinds)["items"]:
        scene, status = stage.scenes[each["metadata"]["namespace"]], each.get("status", {})
        if each["kind"] == _BUDGET:
            settled = status.get("currentHealthy") == len(scene.usage)
        else:
            settled = status.get("availableReplicas") == len(scene.usage)
        if settled:
            waiting.discard((scene.name, each["kind"]))
    return {scene for scene, _ in waiting}


def _series(stage: Stage, now: float) -> Iterator[Backfill]:
    """With what a real Prometheus has as well: all of it twice, as two replicas scrape; a pod that
    ended two minutes ago; and one that was never the workload's."""
    for scene in stage.scenes.values():
        where = scene.name
        for name, cores in zip(stage.names[where].values(), scene.usage, strict=True):
            for replica in ({"replica": "one"}, {"replica": "two"}):
                yield usage(where, name, cores, now=now, container=WORKLOAD, more=replica)
                yield request(where, name, 1.0, now=now, container=WORKLOAD, more=replica)
        yield usage(where, "gone", 9.0, now=now, container=WORKLOAD, ended=120.0)
        yield usage(where, "stranger", 0.01, now=now, container=WORKLOAD)


def _is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def _meta(scene: Scene, name: str = WORKLOAD) -> Object:
    return {"name": name, "namespace": scene.name}


def _workload(scene: Scene) -> Object:
    labels = {"app": WORKLOAD}
    container = {
        "name": WORKLOAD,
        "image": "localhost/busybox:1",
        "resources": {"requests": {"cpu": "1"}},
    }
    spec: Object = {
        "replicas": len(scene.usage),
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }
    if scene.kind == "StatefulSet":
        spec |= {"serviceName": WORKLOAD, "podManagementPolicy": "Parallel"}
    return {"apiVersion": "apps/v1", "kind": scene.kind, "metadata": _meta(scene), "spec": spec}


def _autoscaler(scene: Scene, name: str, wanted: int | str) -> Object:
    target: Object = {"type": "Utilization", "averageUtilization": wanted}
    if isinstance(wanted, str):
        target = {"type": "AverageValue", "averageValue": wanted}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": _meta(scene, name),
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": scene.kind, "name": WORKLOAD},
            "minReplicas": 1,
            "maxReplicas": 20,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }


def _budget(scene: Scene, available: int) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": _BUDGET,
        "metadata": _meta(scene),
        "spec": {"minAvailable": available, "selector": {"matchLabels": {"app": WORKLOAD}}},
    }
