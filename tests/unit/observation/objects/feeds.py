"""Informers by hand: what each shows is what a test puts there."""

from collections.abc import Mapping
from typing import Generic, TypeVar

import msgspec

from slackwater.contract.kubernetes import Node
from slackwater.contract.kubernetes_pod import Phase, Pod
from slackwater.contract.node_report import NodeStatusPatch
from slackwater.contract.pod_resources import PodResources
from slackwater.contract.volcano.colocation_config import ColocationConfig, read_config
from slackwater.kube.informer import InformerView
from slackwater.model.cgroup import Tier
from slackwater.model.gap import Gap
from slackwater.model.problem import ConfigurationProblem, DocumentName, Problem
from slackwater.model.units import Micros, MilliCpu
from slackwater.observation.objects.cluster import ClusterObjects
from slackwater.observation.objects.cluster_kinds import Feeds, SeenMap, SeenNode

_Item = TypeVar("_Item")
HERE = "here"
CONFIG = "ns/volcano-agent-configuration"
CONFIG_NAME = DocumentName("", "ConfigMap", *CONFIG.split("/"))
UNSTATED = Gap("not stated")


class Hand(Generic[_Item]):
    """An informer that shows what it is told to."""

    def __init__(self) -> None:
        self.shown: InformerView[_Item] = InformerView({})
        self.started = self.stopped = 0

    def put(self, items: Mapping[str, _Item], heard_at: int = 1) -> None:
        self.shown = InformerView(dict(items), synced=True, heard_at=Micros(heard_at))

    def alter(self, **said: object) -> None:
        self.shown = msgspec.structs.replace(self.shown, **said)

    def start(self) -> None:
        self.started += 1

    def stop(self) -> None:
        self.stopped += 1

    def view(self) -> InformerView[_Item]:
        return self.shown


#: Kinds of definitions that a cluster may not have.
CUSTOM = (
    "pod_configurations",
    "node_qos",
    "ensurance_policies",
    "actions",
    "pod_qos",
    "metrics",
    "predictions",
)


class Cluster:
    """All informers of an agent, and its objects."""

    def __init__(self) -> None:
        self.feeds = Feeds(*(Hand() for _ in Feeds.__struct_fields__))
        self.objects = ClusterObjects(self.feeds, HERE, Micros(0))

    def hand(self, name: str) -> Hand[object]:
        found: Hand[object] = getattr(self.feeds, name)
        return found

    def fill(self) -> "Cluster":
        """As a small cluster is heard: a Node, two pods, a configuration, and no CRD."""
        self.hand("pods").put({f"d/{name}": pod(name) for name in ("a", "b")})
        self.hand("node").put({HERE: SeenNode(node(), None)})
        self.hand("colocation").put({CONFIG: throttling(80)})
        self.hand("settings").put({})
        for name in CUSTOM:
            self.hand(name).alter(unknown_kind=True, problem="no such kind")
        return self


def pod(name: str, **fields: object) -> Pod:
    made = Pod(
        uid=f"uid-{name}",
        cgroup_uid=f"uid-{name}",
        name=name,
        namespace="d",
        labels={},
        annotations={},
        terminating=False,
        node_name=HERE,
        priority=0,
        phase=Phase.RUNNING,
        tier=Tier.BESTEFFORT,
        resources=PodResources(()),
    )
    return msgspec.structs.replace(made, **fields)


def node(cpu: int = 4000, **labels: str) -> Node:
    return Node(HERE, labels=labels, allocatable_cpu=MilliCpu(cpu))


def seen(cpu: int = 4000, status_patch: NodeStatusPatch | None = None) -> SeenNode:
    return SeenNode(node(cpu), status_patch)


def throttling(threshold: int) -> SeenMap[ColocationConfig]:
    section = {"enable": True, "cpuThrottlingThreshold": threshold}
    return SeenMap("uid-map", read_config({"cpuThrottlingConfig": section}, CONFIG_NAME))


def broken() -> SeenMap[ColocationConfig]:
    problem = Problem("", "'x'", "JSON", document=CONFIG_NAME)
    return SeenMap("uid-map", None, ConfigurationProblem("", (problem,), CONFIG_NAME))
