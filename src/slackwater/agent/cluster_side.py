"""The agent's side towards its cluster: what it hears, and what it tells. Imported only there.

Owns the informers and the writer, and what was told as events. Builds them; the loop calls
`report` after each round and never waits for any of it.
"""

import random
from collections.abc import Callable
from typing import TypeVar

import msgspec

from slackwater import __version__
from slackwater.agent.shared_state import SharedState, view_of
from slackwater.contract.volcano_document import CONFIG_MAP
from slackwater.execution.node_patch import FIELD_MANAGER, NodeWriter
from slackwater.kube.access import Access
from slackwater.kube.client import Client
from slackwater.kube.events import EventRecorder
from slackwater.kube.informer import Informer
from slackwater.kube.resource import (
    COLOCATION_CONFIGURATIONS,
    CONFIG_MAPS,
    NODES,
    PODS,
    Resource,
    Selector,
)
from slackwater.model.units import Micros
from slackwater.observation.objects import cluster as readers
from slackwater.observation.objects.cluster import ClusterObjects, Feeds
from slackwater.observation.objects.object_set import SETTINGS_MAP
from slackwater.record.cluster_link import ClusterLink
from slackwater.record.node_events import EventContext, SentState, due_events
from slackwater.record.node_status import farewell, grain_of, is_settling, node_status_patch

_Item = TypeVar("_Item")
#: Seconds for a write that is on its way when the agent ends.
_LAST_WORDS = 2.0


class Whereabouts(msgspec.Struct, frozen=True):
    """Which node this is, and where its configuration stands: ours, and Volcano's."""

    node: str
    namespace: str
    volcano_namespace: str


class ClusterJob(msgspec.Struct, frozen=True):
    """How the API server is reached, and what is looked for there."""

    access: Access
    where: Whereabouts


class ClusterSide:
    """Guards what goes between this agent and its cluster."""

    def __init__(self, objects: ClusterObjects, writer: NodeWriter, node: str) -> None:
        self.objects = objects
        self._writer = writer
        self._node = node
        self._said = SentState()
        self._speaks = False

    def listen(self) -> None:
        self.objects.start()

    def speak(self) -> None:
        """A dry run never does."""
        self._speaks = True
        self._writer.start()

    def tell_release(self, board: SharedState, at: Micros, left: int) -> None:
        """Before the end, by who put everything back, all but `left` values: the Node says so. Who
        keeps what is set says nothing: its next run goes on with it."""
        if self._speaks:
            self._writer.leave(farewell(view_of(board, at), left), self.objects.status_patch())

    def stop(self) -> None:
        """Who listens is not waited for: those threads end with the process."""
        self._writer.stop(_LAST_WORDS)

    def link(self, at: Micros) -> ClusterLink:
        """From any thread."""
        tried = self._writer.tried()
        unsent, lost = self._writer.unsent()
        return ClusterLink(self.objects.freshness(at), tried.attempts, tried.problem, unsent, lost)

    def report(self, board: SharedState, at: Micros) -> None:
        """After a round: what the Node shall show, and what happened."""
        if not self._speaks:
            return
        view = view_of(board, at)
        grain = grain_of(view)
        if not is_settling(view):
            self._writer.offer(node_status_patch(view), self.objects.status_patch(), grain)
        telling = EventContext(self._node, at, grain, self.objects.uid_of)
        told, self._said = due_events(view, self._said, telling)
        for each in told:
            self._writer.send(each)


def open_cluster(job: ClusterJob, clock: Callable[[], Micros]) -> ClusterSide:
    """Nothing is asked before it is started."""
    access, where = job.access, job.where
    jitter = random.Random()  # noqa: S311 - it spreads requests, it hides nothing
    client = Client(access, f"{FIELD_MANAGER}/{__version__}")

    def feed(
        resource: Resource,
        read: Callable[[msgspec.Raw], _Item],
        fields: str = "",
        namespace: str = "",
    ) -> Informer[_Item]:
        return Informer(
            client,
            resource,
            read,
            clock=clock,
            namespace=namespace,
            selector=Selector(fields=fields),
            jitter=jitter,
        )

    feeds = Feeds(
        pods=feed(PODS, readers.pod_of, f"spec.nodeName={where.node}"),
        node=feed(NODES, readers.node_of, f"metadata.name={where.node}"),
        colocation=feed(
            CONFIG_MAPS,
            readers.colocation_of,
            f"metadata.name={CONFIG_MAP}",
            where.volcano_namespace,
        ),
        settings=feed(
            CONFIG_MAPS, readers.settings_of, f"metadata.name={SETTINGS_MAP}", where.namespace
        ),
        pod_configurations=feed(COLOCATION_CONFIGURATIONS, readers.pod_configuration_of),
    )
    objects = ClusterObjects(feeds, where.node, clock())
    sender = EventRecorder(client, FIELD_MANAGER, where.node)
    writer = NodeWriter(client, sender, where.node, clock=clock, jitter=jitter)
    return ClusterSide(objects, writer, where.node)
