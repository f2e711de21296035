"""One picture of the cluster, and which changes are worth a round."""

import random
from collections.abc import Callable
from typing import Any, cast

import pytest

from slackwater.kube.client import Client
from slackwater.kube.informer import View
from slackwater.kube.resource import (
    AVOIDANCE_ACTIONS,
    ENSURANCE_KINDS,
    NODE_QOS,
    NODES,
    POD_QOS,
    Resource,
)
from slackwater.manager import watches as module
from slackwater.manager.watches import Sight, Watches
from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.status.api_objects import ClusterNode
from tests.unit.manager.objects import action, policy, value_of


def sight(nodes: View[ClusterNode] | None = None, **said: Any) -> Sight:
    """Everything is listed and empty, but for what is said of a kind."""
    kinds = {
        resource: said.get(resource.kind, View({}, synced=True)) for resource in ENSURANCE_KINDS
    }
    return Sight(nodes or View({}, synced=True), kinds)


def test_a_world_of_nodes_and_actions() -> None:
    good, bad = action("good"), action("bad", step=300)
    actions = View({"good": good, "bad": bad}, synced=True)
    nodes = View({"n1": ClusterNode("n1", {"pool": "web"})}, synced=True)
    world = sight(nodes, AvoidanceAction=actions).world()
    assert world.nodes == {"n1": {"pool": "web"}}
    assert world.actions == {"good": value_of(good)}
    assert list(world.broken_actions) == ["bad"]
    assert "stepCPURatio is 300" in world.broken_actions["bad"]


def test_without_the_kind_there_are_no_actions_to_know() -> None:
    world = sight(AvoidanceAction=View({}, unknown_kind=True)).world()
    assert world.actions == Gap("the cluster does not know the kind AvoidanceAction")


@pytest.mark.parametrize(
    ("view", "waits"),
    [
        (View({}, synced=True), ()),
        (View({}, synced=True, problem="the watch broke"), ()),
        (View({}, unknown_kind=True, problem="404"), ()),
        (View({}), ("PodQOS: not listed yet",)),
        (View({}, problem="forbidden"), ("PodQOS: forbidden",)),
    ],
)
def test_what_is_waited_for(view: View[Any], waits: tuple[str, ...]) -> None:
    assert sight(PodQOS=view).waits_for() == waits


def test_problems_by_kind() -> None:
    seen = sight(
        View({}, problem="no nodes"),
        PodQOS=View({}, unknown_kind=True, problem="GET /x: 404"),
        NodeQOS=View({}, synced=True, problem="the watch broke"),
    )
    assert seen.problems() == {
        "Node": "no nodes",
        "AvoidanceAction": "",
        "NodeQOS": "the watch broke",
        "NodeQOSEnsurancePolicy": "",
        "PodQOS": "the cluster does not know this kind: its definition is not installed",
    }


def test_policies_of_all_kinds() -> None:
    one, other = action(), policy()
    seen = sight(
        AvoidanceAction=View({"throttle": one}, synced=True),
        NodeQOS=View({"waterline": other}, synced=True),
    )
    assert seen.policies() == (one, other)


class FakeInformer:
    """Of one kind; what it was made with, and what became of it."""

    made: dict[Resource, "FakeInformer"]

    def __init__(
        self, _client: Any, resource: Resource, _read: Any, *, changed: Callable[[], None], **_: Any
    ) -> None:
        self.made[resource] = self
        self.changed = changed
        self.synced = False
        self.life = "new"

    def start(self) -> None:
        self.life = "started"

    def stop(self) -> None:
        self.life = "stopped"

    def view(self) -> View[Any]:
        return View({}, synced=self.synced)


@pytest.fixture
def informers(monkeypatch: pytest.MonkeyPatch) -> dict[Resource, FakeInformer]:
    FakeInformer.made = {}
    monkeypatch.setattr(module, "Informer", FakeInformer)
    return FakeInformer.made


def watched(rings: list[str]) -> Watches:
    return Watches(
        cast("Client", None),
        clock=lambda: Micros(0),
        changed=lambda: rings.append("ring"),
        jitter=random.Random(1),  # noqa: S311
    )


def test_every_kind_is_watched(informers: dict[Resource, FakeInformer]) -> None:
    made = watched([])
    assert set(informers) == {NODES, *ENSURANCE_KINDS}
    made.start()
    assert {each.life for each in informers.values()} == {"started"}
    assert made.look().waits_for()[0] == "Node: not listed yet"
    made.stop()
    assert {each.life for each in informers.values()} == {"stopped"}


def test_policies_ring_and_nodes_only_until_they_are_listed(
    informers: dict[Resource, FakeInformer],
) -> None:
    rings: list[str] = []
    made = watched(rings)
    informers[NODES].changed()  # a problem
    informers[NODES].synced = True
    informers[NODES].changed()  # the list
    assert len(rings) == 2
    for _ in range(1000):
        informers[NODES].changed()
    assert len(rings) == 2
    for resource in (AVOIDANCE_ACTIONS, NODE_QOS, POD_QOS):
        informers[resource].changed()
    assert len(rings) == 5
    assert made.look().nodes.synced
