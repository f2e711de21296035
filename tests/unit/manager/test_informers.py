"""Which kinds are watched, and which changes are worth a round."""

import random
from collections.abc import Callable
from typing import Any, cast

import pytest

from slackwater.contract.koordinator.slo_config import SloConfigName
from slackwater.contract.resources import (
    AVOIDANCE_ACTIONS,
    CONFIG_MAPS,
    ENSURANCE_KINDS,
    NODE_QOS,
    NODE_TOPOLOGIES,
    NODES,
    POD_QOS,
    PODS,
    TIME_SERIES_PREDICTIONS,
    Resource,
)
from slackwater.kube.client import Client
from slackwater.kube.informer import InformerView
from slackwater.manager import informers as module
from slackwater.manager.cluster_view import NODE_KIND, watched_kinds
from slackwater.manager.informers import Informers
from slackwater.model.units import Micros


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

    def view(self) -> InformerView[Any]:
        return InformerView({}, synced=self.synced)


@pytest.fixture
def informers(monkeypatch: pytest.MonkeyPatch) -> dict[Resource, FakeInformer]:
    FakeInformer.made = {}
    monkeypatch.setattr(module, "Informer", FakeInformer)
    return FakeInformer.made


def watched(rings: list[str]) -> Informers:
    return Informers(
        cast("Client", None),
        watched_kinds(SloConfigName()),
        clock=lambda: Micros(0),
        changed=lambda: rings.append("ring"),
        jitter=random.Random(1),  # noqa: S311
    )


def test_every_kind_is_watched(informers: dict[Resource, FakeInformer]) -> None:
    made = watched([])
    assert set(informers) == {
        NODES,
        NODE_TOPOLOGIES,
        PODS,
        CONFIG_MAPS,
        TIME_SERIES_PREDICTIONS,
        *ENSURANCE_KINDS,
    }
    made.start()
    assert {each.life for each in informers.values()} == {"started"}
    assert made.look().unsynced([NODE_KIND])[0] == "Node: not listed yet"
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
