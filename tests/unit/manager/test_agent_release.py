"""Who is waited for when every agent is asked to release everything, and for how long."""

import json
from typing import Any

import msgspec
import pytest

from slackwater.contract.node_report import ANNOTATION
from slackwater.contract.resources import CONFIG_MAPS, NODES, PODS, Resource
from slackwater.http.errors import UnreachableError
from slackwater.kube.api_status import HttpStatusError
from slackwater.manager.agent_release import (
    NotInstalledError,
    ReleasedNodes,
    release_every_node,
    resume_every_node,
)


class Cluster:
    """An API server by hand: nodes, agents' pods, the ConfigMap; and a clock for sleeping."""

    def __init__(self, **reports: dict[str, Any] | None) -> None:
        self.reports = reports
        self.agents = [*reports]
        self.not_ready: set[str] = set()
        self.data: dict[str, str] | None = {"release": ""}
        self.answering: set[str] = set()
        self.now, self.looks, self.silent_looks = 0.0, 0, 0

    def get(self, _resource: Resource, name: str, _namespace: str) -> bytes:
        if self.data is None:
            raise HttpStatusError("GET", 404, "NotFound", f"no {name}")
        return json.dumps({"data": self.data}).encode()

    def patch(self, resource: Resource, name: str, body: Any, **_how: Any) -> bytes:
        assert (resource, name) == (CONFIG_MAPS, "slackwater-agent")
        if self.data is None:
            raise HttpStatusError("GET", 404, "NotFound", f"no {name}")
        self.data |= body["data"]
        return b""

    def _nodes(self) -> list[dict[str, Any]]:
        self.looks += 1
        assert self.data is not None
        for name in self.answering:
            self.reports[name] = {"released": self.data["release"]}
        return [self._node(name, report) for name, report in self.reports.items()]

    def _node(self, name: str, report: dict[str, Any] | None) -> dict[str, Any]:
        annotations = {} if report is None else {ANNOTATION: json.dumps(report)}
        ready = {"type": "Ready", "status": "Unknown" if name in self.not_ready else "True"}
        return {
            "metadata": {"name": name, "annotations": annotations},
            "status": {"conditions": [ready]},
        }

    def _pods(self) -> list[dict[str, Any]]:
        return [{"spec": {"nodeName": name}} for name in self.agents] + [{"spec": {}}]

    def list(self, resource: Resource, read: Any, **_how: Any) -> Any:
        if self.silent_looks:
            self.silent_looks -= 1
            raise UnreachableError("away")
        shown = {NODES: self._nodes, PODS: self._pods}[resource]()
        raw = [read(msgspec.Raw(json.dumps(each).encode())) for each in shown]
        return type("Listed", (), {"items": raw})

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def release(self, patience: float = 60.0) -> ReleasedNodes:
        return release_every_node(
            self,  # type: ignore[arg-type]
            "ours",
            patience,
            lambda: self.now,
            self.sleep,
        )


def test_it_ends_once_every_agent_has_answered() -> None:
    cluster = Cluster(a={}, b=None)
    cluster.answering = {"a", "b"}
    assert cluster.release() == ReleasedNodes(("a", "b"))
    assert cluster.now == 0


def test_a_node_that_is_down_is_named_when_the_time_is_over() -> None:
    cluster = Cluster(a={}, b={"holding": 3, "problems": ["systemd is silent"]})
    cluster.answering, cluster.not_ready = {"a"}, {"b"}
    found = cluster.release(60)
    assert (found.released, cluster.now) == (("a",), 60)
    assert found.silent == {
        "b": "the node is not Ready; its agent has not answered; it last held 3 values; "
        "systemd is silent"
    }


def test_an_answer_to_an_earlier_request_is_none_to_this_one() -> None:
    cluster = Cluster(a={"released": "of-the-last-uninstallation"})
    assert cluster.release(5).silent == {"a": "its agent has not answered"}


def test_a_request_that_stands_is_repeated_with_its_word() -> None:
    """The Job's second attempt: who has answered the first need not answer again."""
    cluster = Cluster(a={"released": "w1"})
    cluster.data = {"release": "w1"}
    assert cluster.release() == ReleasedNodes(("a",))


def test_words_differ() -> None:
    words = set()
    for _ in range(20):
        cluster = Cluster()
        cluster.release()
        assert cluster.data
        words.add(cluster.data["release"])
    assert len(words) == 20


def test_nodes_without_an_agent_are_told_and_not_waited_for() -> None:
    cluster = Cluster(a={"holding": 2}, b={"holding": 0}, c=None)
    cluster.agents = []
    assert cluster.release() == ReleasedNodes(unattended=("a",))
    assert cluster.now == 0


def test_an_api_server_that_is_away_for_a_moment_is_waited_for() -> None:
    cluster = Cluster(a={})
    cluster.answering, cluster.silent_looks = {"a"}, 3
    assert cluster.release().released == ("a",)
    cluster.silent_looks = 1000
    with pytest.raises(UnreachableError):
        cluster.release(10)


def test_where_nothing_is_installed_that_is_said() -> None:
    cluster = Cluster()
    cluster.data = None
    with pytest.raises(NotInstalledError, match="no ConfigMap slackwater-agent in the namespace"):
        cluster.release()
    with pytest.raises(NotInstalledError):
        resume_every_node(cluster, "ours")  # type: ignore[arg-type]


def test_it_is_taken_back_by_an_empty_word() -> None:
    cluster = Cluster()
    cluster.data = {"release": "w1"}
    resume_every_node(cluster, "ours")  # type: ignore[arg-type]
    assert cluster.data == {"release": ""}
