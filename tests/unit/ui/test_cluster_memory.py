"""The cluster's status: made anew when something changed, or when time could tell otherwise."""

import datetime as dt

import msgspec
import pytest

from slackwater.model.gap import Gap
from slackwater.model.units import MilliCpu
from slackwater.status.api_objects import ClusterNode
from slackwater.status.cluster_status import ClusterFacts, NodeState
from slackwater.status.cluster_watch import WatchedFacts
from slackwater.ui.cluster_memory import ClusterMemory
from slackwater.ui.sources import NotAvailableError

NOW = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
NODE = ClusterNode("n1", {}, MilliCpu(4000))
FACTS = ClusterFacts("https://test", (NODE,))
UNKNOWN = Gap("pods may not be listed")


class Cluster:
    """What is found, and when."""

    def __init__(self) -> None:
        self.found, self.now = WatchedFacts(FACTS), NOW
        self.memory = ClusterMemory(lambda: self.found, lambda: self.now)


def test_the_same_objects_are_the_same_snapshot() -> None:
    cluster = Cluster()
    first = cluster.memory.look()
    cluster.found = WatchedFacts(msgspec.structs.replace(FACTS, nodes=(NODE,)))
    assert cluster.memory.look() is first


def test_a_changed_object_is_another_version() -> None:
    cluster = Cluster()
    first = cluster.memory.look()
    other = msgspec.structs.replace(NODE, allocatable=MilliCpu(8000))
    cluster.found = WatchedFacts(msgspec.structs.replace(FACTS, nodes=(other,)))
    second = cluster.memory.look()
    assert (first.version, second.version) == (1, 2)
    assert second.status.nodes[0].allocatable == 8000


def test_an_equal_object_is_no_new_version() -> None:
    cluster = Cluster()
    first = cluster.memory.look()
    again = msgspec.structs.replace(NODE)
    cluster.found = WatchedFacts(msgspec.structs.replace(FACTS, nodes=(again,)))
    assert cluster.memory.look() is first


def test_a_report_grows_stale_without_any_change() -> None:
    report = '{"version": "0.1.0", "holding": 1, "policies": {}}'
    node = msgspec.structs.replace(NODE, report=report, heard="2026-01-01T12:00:00Z")
    cluster = Cluster()
    cluster.found = WatchedFacts(msgspec.structs.replace(FACTS, nodes=(node,), pods=UNKNOWN))
    assert cluster.memory.look().status.nodes[0].state is NodeState.WELL
    cluster.now = NOW + dt.timedelta(minutes=16)
    assert cluster.memory.look().status.nodes[0].state is NodeState.STALE


def test_a_lost_cluster_keeps_its_nodes_and_says_why() -> None:
    cluster = Cluster()
    cluster.memory.look()
    cluster.found = WatchedFacts(FACTS, "connection refused")
    lost = cluster.memory.look()
    assert (lost.lost, len(lost.status.nodes), lost.version) == ("connection refused", 1, 2)
    cluster.found = WatchedFacts(FACTS)
    assert cluster.memory.look().lost == ""


@pytest.mark.parametrize(
    ("lost", "sentence"), [("", "the cluster's nodes are being listed"), ("forbidden", "forbidden")]
)
def test_before_the_first_list(lost: str, sentence: str) -> None:
    cluster = Cluster()
    cluster.found = WatchedFacts(None, lost)
    with pytest.raises(NotAvailableError, match=sentence):
        cluster.memory.look()
