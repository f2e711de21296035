"""A real kubelet's pods as the agent is told of them, their cgroups, and waiting for changes."""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.kubelet.node import PATIENCE_SECONDS, Node
from tests.kubelet.watch import SAMPLE_SECONDS


def as_of_api_server(
    pod: Mapping[str, Any], priority: int, annotations: Mapping[str, str]
) -> dict[str, Any]:
    """The kubelet's own object, without what makes it static and critical."""
    metadata = {key: pod["metadata"][key] for key in ("name", "namespace", "uid")}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "annotations": annotations},
        "spec": {**pod["spec"], "priority": priority, "priorityClassName": ""},
        "status": pod["status"],
    }


def groups_below(top: Path) -> list[Path]:
    """Those of a pod that goes meanwhile are left out; rglob would raise."""
    return [Path(folder) for folder, _, _ in os.walk(top)]


def pod_group(node: Node, pod: Mapping[str, Any]) -> Path:
    uid = pod["metadata"]["uid"]
    endings = (f"pod{uid}", f"pod{uid.replace('-', '_')}.slice")
    groups = groups_below(node.best_effort.parent)
    [found] = [each for each in groups if each.name.endswith(endings)]
    return found


def container_group(group: Path, pod: Mapping[str, Any], name: str) -> Path:
    listed = pod["status"]["containerStatuses"]
    [identity] = [each["containerID"] for each in listed if each["name"] == name]
    [found] = group.glob(f"*{identity.partition('//')[2]}*")
    return found


def until(is_so: Callable[[], bool], what: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, what()
        time.sleep(SAMPLE_SECONDS)
