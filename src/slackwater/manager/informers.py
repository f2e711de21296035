"""The manager's informers: on Nodes, and on each kind of policy object.

A kind that the cluster does not know, because its CRD is not installed, is reported as such; its
informer tries again, and the others go on.
"""

import random
from collections.abc import Callable

from slackwater.contract.resources import ENSURANCE_KINDS, NODES
from slackwater.kube.client import Client
from slackwater.kube.informer import Informer, WatchPace
from slackwater.manager.controllers.controller import ClusterView
from slackwater.manager.policy_object import reader_of
from slackwater.model.units import Micros
from slackwater.status.api_objects import read_node


class Informers:
    """Guards the informers."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Callable[[], Micros],
        changed: Callable[[], None],
        jitter: random.Random,
    ) -> None:
        self._changed = changed
        self._nodes_listed = False
        self._nodes = Informer(
            client, NODES, read_node, clock=clock, changed=self._call_until_listed, jitter=jitter
        )
        self._kinds = {
            resource: Informer(
                client,
                resource,
                reader_of(resource),
                clock=clock,
                changed=changed,
                jitter=jitter,
                # Definitions are installed while it runs, and there are only two replicas.
                pace=WatchPace(unknown_wait=30.0),
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

    def _call_until_listed(self) -> None:
        """Of a thousand nodes one changes every second, but hardly ever its labels: once they are
        listed, the next round comes soon enough by itself."""
        if not self._nodes_listed:
            self._nodes_listed = self._nodes.view().synced
            self._changed()

    def look(self) -> ClusterView:
        return ClusterView(
            self._nodes.view(),
            {resource: informer.view() for resource, informer in self._kinds.items()},
        )
