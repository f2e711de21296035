"""What the manager sees: informers on Nodes and on each kind of policy, and one picture of them.

Owns the informers. A kind that the cluster does not know, because its CRD is not installed, is
told as such; its informer looks again, and the others go on.
"""

import random
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from slackwater.contract.crane_ensurance import AvoidanceAction
from slackwater.kube.client import Client
from slackwater.kube.informer import Informer, Pace, View
from slackwater.kube.resource import AVOIDANCE_ACTIONS, ENSURANCE_KINDS, NODES, Resource
from slackwater.manager.policy_object import PolicyObject, reader_of
from slackwater.manager.policy_status import World
from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.status.api_objects import ClusterNode, read_node

_NOT_INSTALLED = "the cluster does not know this kind: its definition is not installed"


class Sight(msgspec.Struct, frozen=True):
    """One picture of the cluster, and what is known of each kind."""

    nodes: View[ClusterNode]
    kinds: Mapping[Resource, View[PolicyObject]]

    def views(self) -> Mapping[Resource, View[Any]]:
        return {NODES: self.nodes, **self.kinds}

    def waits_for(self) -> tuple[str, ...]:
        """Kinds that were never listed though the cluster has them, each with the reason: nothing
        can be judged yet."""
        return tuple(
            f"{resource.kind}: {view.problem or 'not listed yet'}"
            for resource, view in self.views().items()
            if not view.synced and not view.unknown_kind
        )

    def problems(self) -> Mapping[str, str]:
        """What cannot be heard now, by kind; empty for a kind that can."""
        return {resource.kind: _problem(view) for resource, view in self.views().items()}

    def policies(self) -> tuple[PolicyObject, ...]:
        return tuple(each for view in self.kinds.values() for each in view.items.values())

    def world(self) -> World:
        actions = self.kinds[AVOIDANCE_ACTIONS]
        found = {each.name: each.value for each in actions.items.values()}
        return World(
            nodes={node.name: node.labels for node in self.nodes.items.values()},
            actions=Gap("the cluster does not know the kind AvoidanceAction")
            if actions.unknown_kind
            else {name: each for name, each in found.items() if isinstance(each, AvoidanceAction)},
            broken_actions={
                name: each.reason for name, each in found.items() if isinstance(each, Gap)
            },
        )


def _problem(view: View[Any]) -> str:
    return _NOT_INSTALLED if view.unknown_kind else view.problem


class Watches:
    """Guards the informers."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Callable[[], Micros],
        changed: Callable[[], None],
        jitter: random.Random,
    ) -> None:
        self._rings = changed
        self._nodes_seen = False
        self._nodes = Informer(
            client, NODES, read_node, clock=clock, changed=self._ring_at_first, jitter=jitter
        )
        self._kinds = {
            resource: Informer(
                client,
                resource,
                reader_of(resource),
                clock=clock,
                changed=changed,
                jitter=jitter,
                # People install definitions while it runs, and there are only two of us.
                pace=Pace(unknown_wait=30.0),
            )
            for resource in ENSURANCE_KINDS
        }

    def start(self) -> None:
        self._nodes.start()
        for informer in self._kinds.values():
            informer.start()

    def stop(self) -> None:
        self._nodes.stop()
        for informer in self._kinds.values():
            informer.stop()

    def _ring_at_first(self) -> None:
        """A thousand nodes change somewhere each second, their labels hardly ever: once they are
        listed the next round, which comes anyway, is soon enough."""
        if not self._nodes_seen:
            self._nodes_seen = self._nodes.view().synced
            self._rings()

    def look(self) -> Sight:
        return Sight(
            self._nodes.view(),
            {resource: informer.view() for resource, informer in self._kinds.items()},
        )
