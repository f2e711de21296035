"""The agent's connection to its cluster: informers, the Node's status and topology, events.
Import it late.

Owns the informers, the writer, and the memory of sent events. The loop calls `report` after each
round and never waits for any of it.
"""

import random
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import msgspec

from slackwater import __version__
from slackwater.agent.shared_state import SharedState, view_of
from slackwater.contract.crane.prediction import node_prediction_name
from slackwater.contract.koordinator.topology import SeenTopology, read_seen_topology, zone_ratio
from slackwater.contract.kubernetes import Node, ObjectHeader
from slackwater.contract.resources import (
    AVOIDANCE_ACTIONS,
    COLOCATION_CONFIGURATIONS,
    CONFIG_MAPS,
    ENSURANCE_METRICS,
    NODE_QOS,
    NODE_QOS_ENSURANCE_POLICIES,
    NODE_TOPOLOGIES,
    NODES,
    POD_QOS,
    PODS,
    TIME_SERIES_PREDICTIONS,
    ObjectSelector,
    Resource,
)
from slackwater.contract.volcano.colocation_config import CONFIG_MAP
from slackwater.execution.api_commands import ApiCommands
from slackwater.execution.commands import CommandQueue
from slackwater.execution.node_patch import FIELD_MANAGER, NodeWriter
from slackwater.execution.topology_writer import TopologyOrder, TopologyState, TopologyWriter
from slackwater.kube.access import Access
from slackwater.kube.client import Client
from slackwater.kube.events import EventRecorder
from slackwater.kube.informer import Informer
from slackwater.model.cpus import Topology
from slackwater.model.units import Micros
from slackwater.observation.host import Roots
from slackwater.observation.node_topology import TopologyReader
from slackwater.observation.objects import cluster_kinds as readers
from slackwater.observation.objects.cluster import ClusterObjects
from slackwater.observation.objects.cluster_kinds import Feed, Feeds
from slackwater.observation.objects.object_set import SETTINGS_MAP, SavedObjects
from slackwater.policies.catalog import SETTINGS
from slackwater.record.agent_view import AgentView, ClusterLink
from slackwater.record.node_events import EventContext, SentState, due_events
from slackwater.record.node_status import (
    final_status_patch,
    is_settling,
    node_status_patch,
    usage_step,
)
from slackwater.settings.agent_document import SettingsSchema
from slackwater.settings.agent_settings import TopologyReporting

_Item = TypeVar("_Item")
_MACHINE = Roots()
#: Seconds for a write that is on its way when the agent ends.
_LAST_WRITE_SECONDS = 2.0


def _nothing() -> None:
    """No callback."""


class ClusterOptions(msgspec.Struct, frozen=True):
    """How to reach the API server, which node this is, and the namespaces of its configuration:
    ours, and Volcano's."""

    access: Access
    node: str
    namespace: str
    volcano_namespace: str


class TopologyConnection(msgspec.Struct, frozen=True):
    """The writer of the node's topology, and the informer that it compares with."""

    informer: Feed[SeenTopology]
    writer: TopologyWriter

    def start(self) -> None:
        self.informer.start()
        self.writer.start()


class ClusterConnection:
    """Guards the informers and the writer."""

    def __init__(
        self,
        objects: ClusterObjects,
        writer: NodeWriter,
        commands: CommandQueue,
        node: str,
        topology: TopologyConnection,
    ) -> None:
        self.objects = objects
        self.commands = commands
        self._writer = writer
        self._topology = topology
        self._node = node
        self._sent = SentState()
        self._reports = False

    def start_informers(self) -> None:
        self.objects.start()

    def start_writer(self) -> None:
        """Not in a dry run, which then reports nothing."""
        self._reports = True
        self._writer.start()
        self._topology.start()
        self.commands.start()

    def report_release(self, state: SharedState, at: Micros, left: int) -> None:
        """Before the end of an agent that restored everything but `left` values: the Node says so.
        An agent that keeps its values reports nothing: its next run goes on with them."""
        if self._reports:
            self._topology.writer.leave()
            self._writer.leave(
                final_status_patch(view_of(state, at), left), self.objects.status_patch()
            )

    def stop(self) -> None:
        """Informer threads are daemons and are not joined."""
        self.commands.stop(_LAST_WRITE_SECONDS)
        self._topology.writer.stop(_LAST_WRITE_SECONDS)
        self._writer.stop(_LAST_WRITE_SECONDS)

    def link(self, at: Micros) -> ClusterLink:
        """From any thread."""
        tried = self._writer.tried()
        unsent, lost = self._writer.unsent()
        topology = self._topology.writer.state()
        return ClusterLink(
            self.objects.freshness(at),
            tried.attempts,
            tried.problem,
            unsent,
            lost,
            topology.attempts,
            topology.problem,
            self._left_there(topology),
        )

    def _left_there(self, topology: TopologyState) -> str:
        parts = {
            "its taint, condition or extended resources": not self.commands.is_released(),
            "its NodeResourceTopology": topology.is_left,
        }
        return " and ".join(name for name, is_left in parts.items() if is_left)

    def report(self, state: SharedState, at: Micros) -> None:
        """After a round: what the Node should show, and what happened."""
        if not self._reports:
            return
        view = view_of(state, at)
        grain = usage_step(view)
        node = self.objects.node()
        if node is not None:
            self._topology.writer.offer(topology_order(node, view))
            if view.paused:  # what is left is told by this order, not by the one before
                view = msgspec.structs.replace(view, link=self.link(at))
        if not is_settling(view):
            self._writer.offer(node_status_patch(view), self.objects.status_patch(), grain)
        context = EventContext(self._node, at, grain, self.objects.uid_of)
        due, self._sent = due_events(view, self._sent, context)
        for each in due:
            self._writer.send(each)


def topology_order(node: Node, view: AgentView) -> TopologyOrder:
    """A released agent takes its object away, as it does with its values."""
    reporting = view.settings.topology_report
    seen = view.latest.snapshot.topology if view.latest else None
    return TopologyOrder(
        ObjectHeader(node.name, uid=node.uid),
        zone_ratio(node.annotations, node.name),
        wanted=reporting is not TopologyReporting.NONE and not view.paused,
        may_take_over=reporting is TopologyReporting.TAKE_OVER,
        cpus=seen.all() if isinstance(seen, Topology) else None,
    )


class _Informers:
    """Makes the informers of one client."""

    def __init__(self, client: Client, clock: Callable[[], Micros], jitter: random.Random) -> None:
        self._client = client
        self._clock = clock
        self._jitter = jitter

    def make(
        self,
        resource: Resource,
        read: Callable[[msgspec.Raw], _Item],
        fields: str = "",
        namespace: str = "",
        changed: Callable[[], None] = _nothing,
    ) -> Informer[_Item]:
        return Informer(
            self._client,
            resource,
            read,
            clock=self._clock,
            namespace=namespace,
            selector=ObjectSelector(fields=fields),
            changed=changed,
            jitter=self._jitter,
        )


def _make_feeds(informers: _Informers, options: ClusterOptions, schema: SettingsSchema) -> Feeds:
    make = informers.make
    return Feeds(
        pods=make(PODS, readers.pod_of, f"spec.nodeName={options.node}"),
        node=make(NODES, readers.node_of, f"metadata.name={options.node}"),
        colocation=make(
            CONFIG_MAPS,
            readers.colocation_of,
            f"metadata.name={CONFIG_MAP}",
            options.volcano_namespace,
        ),
        settings=make(
            CONFIG_MAPS,
            partial(readers.settings_of, schema=schema),
            f"metadata.name={SETTINGS_MAP}",
            options.namespace,
        ),
        pod_configurations=make(COLOCATION_CONFIGURATIONS, readers.pod_configuration_of),
        node_qos=make(NODE_QOS, readers.node_qos_of),
        ensurance_policies=make(NODE_QOS_ENSURANCE_POLICIES, readers.ensurance_policy_of),
        actions=make(AVOIDANCE_ACTIONS, readers.action_of),
        pod_qos=make(POD_QOS, readers.pod_qos_of),
        metrics=make(ENSURANCE_METRICS, readers.metric_of),
        predictions=make(
            TIME_SERIES_PREDICTIONS,
            partial(readers.prediction_of, namespace=options.namespace),
            f"metadata.name={node_prediction_name(options.node)}",
        ),
    )


def open_cluster(
    options: ClusterOptions,
    clock: Callable[[], Micros],
    schema: SettingsSchema = SETTINGS,
    roots: Roots = _MACHINE,
    saved: SavedObjects | None = None,
) -> ClusterConnection:
    """Sends no request before it is started. `saved` are an earlier run's objects."""
    jitter = random.Random()  # noqa: S311 - it spreads requests, it hides nothing
    client = Client(options.access, f"{FIELD_MANAGER}/{__version__}")
    informers = _Informers(client, clock, jitter)
    feeds = _make_feeds(informers, options, schema)
    objects = ClusterObjects(feeds, options.node, clock(), saved)
    sender = EventRecorder(client, FIELD_MANAGER, options.node)
    writer = NodeWriter(client, sender, options.node, clock=clock, jitter=jitter)
    runner = ApiCommands(client, options.node, objects.interference, objects.offer)
    commands = CommandQueue(runner, clock=clock, jitter=jitter)

    def wake() -> None:
        topology.writer.wake()

    name = f"metadata.name={options.node}"
    shown = informers.make(NODE_TOPOLOGIES, read_seen_topology, name, changed=wake)
    topology = TopologyConnection(
        shown,
        TopologyWriter(client, TopologyReader(roots).read, shown.view, clock=clock, jitter=jitter),
    )
    return ClusterConnection(objects, writer, commands, options.node, topology)
