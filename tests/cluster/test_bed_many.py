"""The bed's played nodes: many, Ready, and pods on them that seem to run."""

from collections.abc import Callable

from tools.cluster.control_plane import ControlPlane
from tools.cluster.many_nodes import ManyNodes
from tools.cluster.processes import wait_for

COUNT = 30


def test_played_nodes_are_ready_and_run_pods(
    make_control_plane: Callable[[], ControlPlane],
    play_nodes: Callable[[ControlPlane, int], ManyNodes],
) -> None:
    plane = make_control_plane()
    played = play_nodes(plane, COUNT)
    found = {node["metadata"]["name"] for node in plane.get("nodes")["items"]}
    assert found == set(played.names)
    assert len(found) == COUNT
    container = {"name": "main", "image": "nobody/pulls:this"}
    plane.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {"containers": [container], "nodeName": played.names[-1]},
        }
    )
    wait_for("the pod", lambda: plane.get("pod", "p")["status"]["phase"] == "Running")
