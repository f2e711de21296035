"""The agent's side towards its cluster: a round becomes a face and events."""

import json
import random
import threading
from typing import Any

import msgspec
import pytest

from slackwater.agent.cluster_connection import (
    ClusterConnection,
    ClusterOptions,
    TopologyConnection,
    open_cluster,
    topology_order,
)
from slackwater.agent.shared_state import SharedState
from slackwater.contract.koordinator.normalization import RATIO_ANNOTATION, CpuBasicInfo
from slackwater.contract.koordinator.topology import SeenTopology, TopologyFacts, ZoneFacts
from slackwater.contract.node_report import AgentCondition, NodeReport, NodeStatusPatch
from slackwater.contract.resources import NODE_TOPOLOGIES, Resource
from slackwater.execution.commands import CommandQueue, NobodyCarriesOut
from slackwater.execution.node_patch import STARTUP_DELAY, STARTUP_SPREAD, NodeWriter
from slackwater.execution.topology_writer import TopologyWriter
from slackwater.http.endpoint import Identity, Server, Trust
from slackwater.kube.access import Access, FixedCredentials
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.events import KubeEvent
from slackwater.kube.informer import InformerView
from slackwater.model.decision import PolicyAction
from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.record.agent_view import AgentView, RoundState
from slackwater.record.journal import Journal
from slackwater.record.metrics import TickCounters
from slackwater.settings.agent_settings import AgentSettings, TopologyReporting
from tests.unit.kube.byte_server import HangUp, Request, Wire, serving
from tests.unit.kube.byte_server import eventually as wait_until
from tests.unit.observation.objects.feeds import CONFIG, HERE, Cluster, broken, seen
from tests.unit.policies.nodes import BESTEFFORT, FREE, held, node
from tests.unit.record.tick_records import OURS, record, told

NOW = Micros(STARTUP_DELAY + STARTUP_SPREAD)


class Recipient:
    """A client and a sender that keep what they get."""

    def __init__(self) -> None:
        self.applied: list[object] = []
        self.sent: list[KubeEvent] = []
        self.wrote = threading.Event()

    def apply(self, resource: Resource, name: str, body: object, **said: str) -> bytes:
        assert (resource.plural, name, said["subresource"]) == ("nodes", HERE, "status")
        self.applied.append(body)
        self.wrote.set()
        return b""

    def start(self) -> None: ...

    def stop(self, patience: float = 2.0) -> None: ...

    def send(self, event: KubeEvent) -> None:
        self.sent.append(event)

    def problem(self) -> str:
        return ""

    def dropped(self) -> int:
        return 0


FACTS = TopologyFacts(CpuBasicInfo("Fake 2000"), (ZoneFacts(0, 4),))


class ShownTopology:
    """An API server with the node's topology, and an informer that always knows it."""

    def __init__(self) -> None:
        self.stored: dict[str, Any] | None = None

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def view(self) -> InformerView[SeenTopology]:
        return InformerView({HERE: SeenTopology(self.stored)} if self.stored else {}, synced=True)

    def get(self, resource: Resource, name: str, _namespace: str = "") -> bytes:
        if self.stored is None:
            raise HttpStatusError(f"GET {resource.path(name=name)}", 404, "NotFound", "none")
        return msgspec.json.encode(self.stored)

    def create(self, resource: Resource, body: Any, _namespace: str = "") -> bytes:
        assert resource == NODE_TOPOLOGIES
        self.stored = body
        return b"{}"

    def replace(self, resource: Resource, name: str, body: Any, **_: str) -> bytes:
        assert (resource, name) == (NODE_TOPOLOGIES, HERE)
        self.stored = body
        return b"{}"

    def delete(
        self,
        resource: Resource,
        name: str,
        _namespace: str = "",
        *,
        uid: str = "",
        grace_seconds: int | None = None,
    ) -> None:
        assert (uid, grace_seconds) == ("", None)
        assert (resource, name) == (NODE_TOPOLOGIES, HERE)
        self.stored = None

    @property
    def cpu(self) -> str:
        assert self.stored is not None
        return str(self.stored["zones"][0]["resources"][0]["allocatable"])


class Side:
    """A connection by hand: informers, writer and shared state."""

    def __init__(self) -> None:
        self.now = Micros(0)
        self.cluster = Cluster().fill()
        self.there = Recipient()
        chance = random.Random(1)  # noqa: S311
        writer = NodeWriter(self.there, self.there, HERE, clock=lambda: self.now, jitter=chance)
        commands = CommandQueue(NobodyCarriesOut(), clock=lambda: self.now, jitter=chance)
        self.topology = ShownTopology()
        topology = TopologyWriter(
            self.topology,
            lambda: FACTS,
            self.topology.view,
            clock=lambda: self.now,
            jitter=chance,
        )
        connection = TopologyConnection(self.topology, topology)
        self.side = ClusterConnection(self.cluster.objects, writer, commands, HERE, connection)
        self.shared = SharedState(Journal(5), TickCounters(), lambda: None, link=self.side.link)
        self.now = NOW

    def round(self, condition: RoundState | None = None) -> None:
        kept = (held(BESTEFFORT, FREE, OURS),)
        self.shared.add_tick(record(node(quota=OURS, kept=kept), lines=(told(claim=600),)))
        self.shared.end_round(condition or RoundState())
        self.side.report(self.shared, self.now)


def test_a_round_becomes_a_face_and_an_event() -> None:
    made = Side()
    made.side.start_writer()
    made.round()
    assert made.there.wrote.wait()
    assert '\\"holding\\":1' in json.dumps(made.there.applied)
    assert [each.reason for each in made.there.sent] == ["NodeCPUThrottle"]
    made.round()
    made.side.stop()
    assert len(made.there.applied) == len(made.there.sent) == 1


@pytest.mark.parametrize(("left", "status"), [(0, "False"), (2, "True")])
def test_who_put_everything_back_says_so_at_the_end(left: int, status: str) -> None:
    made = Side()
    made.side.start_writer()
    made.round()
    assert made.there.wrote.wait()
    made.side.report_release(made.shared, made.now, left)
    made.side.stop()
    assert len(made.there.applied) == 2
    body = msgspec.convert(made.there.applied[-1], dict)
    condition = body["status"]["conditions"][0]
    assert (condition["status"], condition["reason"]) == (status, "Released")
    report = json.loads(body["metadata"]["annotations"]["slackwater.io/report"])
    assert report["holding"] == left
    assert "bestEffort" not in report


def test_a_policys_first_look_is_not_told_as_a_hold() -> None:
    """It was read only once so far: what it decides a moment later is told."""
    made = Side()
    made.side.start_writer()
    first = msgspec.structs.replace(told(PolicyAction.HELD), since=Micros(1_000_000))
    made.shared.add_tick(record(node(), lines=(first,)))
    made.side.report(made.shared, made.now)
    made.round()
    assert made.there.wrote.wait()
    made.side.stop()
    [body] = (msgspec.convert(each, dict) for each in made.there.applied)
    assert body["status"]["conditions"][0]["reason"] == "Acting"


def test_a_dry_run_tells_nobody() -> None:
    made = Side()
    made.round()
    made.side.report_release(made.shared, made.now, 0)
    made.side.stop()
    assert (made.there.applied, made.there.sent) == ([], [])


def test_a_bad_config_map_is_told_on_the_object_with_its_uid() -> None:
    made = Side()
    made.cluster.objects.read()
    made.cluster.hand("colocation").put({CONFIG: broken()})
    found = made.cluster.objects.read()
    assert not isinstance(found, Gap)
    made.side.start_writer()
    made.round(RoundState(problems=found.problems))
    made.side.stop()
    uids = {each.about.kind: each.about.uid for each in made.there.sent}
    assert uids == {"Node": HERE, "ConfigMap": "uid-map"}


def test_the_link_tells_ages_and_how_writes_fare() -> None:
    made = Side()
    made.cluster.hand("pods").alter(problem="refused")
    made.side.start_writer()
    made.round()
    assert made.there.wrote.wait()
    made.side.stop()
    link = made.shared.link(Micros(NOW + 1_000_000))
    assert link.sources["pods"].problem == "refused"
    assert link.sources["node"].age == NOW + 1_000_000 - 1
    assert "pod_configurations" not in link.sources
    assert link.writes == {"written": 1}


def access(port: int) -> Access:
    return Access(Server("127.0.0.1", port, "http"), Trust(), FixedCredentials(Identity()))


def options(port: int) -> ClusterOptions:
    return ClusterOptions(access(port), HERE, "ours", "volcano")


def test_what_is_asked_of_the_server_and_no_more() -> None:
    """Only this node's pods, its Node, two ConfigMaps by name, and one kind of CRD."""

    def answer(_request: Request, _wire: Wire) -> None:
        raise HangUp

    with serving(answer) as server:
        side = open_cluster(options(server.port), lambda: Micros(1))
        assert server.requests == []
        side.start_informers()
        wait_until("all eleven", lambda: len({one.path for one in server.requests}) >= 11)
        side.objects.stop()
        asked = {(one.path, one.query.get("fieldSelector", "")) for one in list(server.requests)}
    assert asked == {
        ("/api/v1/pods", "spec.nodeName=here"),
        ("/api/v1/nodes", "metadata.name=here"),
        ("/api/v1/namespaces/volcano/configmaps", "metadata.name=volcano-agent-configuration"),
        ("/api/v1/namespaces/ours/configmaps", "metadata.name=slackwater-agent"),
        ("/apis/config.volcano.sh/v1alpha1/colocationconfigurations", ""),
        ("/apis/ensurance.crane.io/v1alpha1/avoidanceactions", ""),
        ("/apis/ensurance.crane.io/v1alpha1/nodeqosensurancepolicies", ""),
        ("/apis/ensurance.crane.io/v1alpha1/nodeqoss", ""),
        ("/apis/ensurance.crane.io/v1alpha1/podqoss", ""),
        ("/apis/slackwater.io/v1alpha1/ensurancemetrics", ""),
        (
            "/apis/prediction.crane.io/v1alpha1/timeseriespredictions",
            "metadata.name=noderesource-here",
        ),
    }
    assert {one.method for one in server.requests} == {"GET"}
    found = side.objects.read()
    assert isinstance(found, Gap)


def prediction_in(namespace: str) -> dict[str, object]:
    algorithm = {"algorithmType": "adaptive"}
    metric = {"resourceIdentifier": "cpu", "type": "ResourceQuery", "resourceQuery": "cpu"}
    return {
        "metadata": {"name": f"noderesource-{HERE}", "namespace": namespace},
        "spec": {
            "targetRef": {"kind": "Node", "name": HERE},
            "predictionWindowSeconds": 3600,
            "predictionMetrics": [{**metric, "algorithm": algorithm}],
        },
    }


def test_a_real_informer_brings_real_objects() -> None:
    """List answers of an API server, over a socket, to the agent's objects."""
    items = {
        "pods": [{"metadata": {"name": "w", "namespace": "d", "uid": "u1"}, "spec": {}}],
        "nodes": [{"metadata": {"name": HERE}, "status": {"allocatable": {"cpu": "2"}}}],
        # Of the manager's own template, in our own namespace; and a tenant's.
        "timeseriespredictions": [prediction_in("ours"), prediction_in("tenant")],
    }

    def answer(request: Request, wire: Wire) -> None:
        if request.query.get("watch"):
            wire.begin_chunks()
            wire.closing.wait()
            return
        if "colocationconfigurations" in request.path:
            wire.json({"kind": "Status", "code": 404, "reason": "NotFound"}, 404)
            return
        plural = request.path.rpartition("/")[2]
        listed = items.get(plural, [])
        wire.json({"kind": "List", "metadata": {"resourceVersion": "5"}, "items": listed})

    with serving(answer) as server:
        side = open_cluster(options(server.port), lambda: Micros(1))
        side.start_informers()
        wait_until("the objects", lambda: not isinstance(side.objects.read(), Gap))
        found = side.objects.read()
        threading.Thread(target=side.objects.stop, daemon=True).start()
    assert not isinstance(found, Gap)
    assert [each.name for each in found.pods] == ["w"]
    assert found.nodes[0].allocatable_cpu == 2000
    [prediction] = found.predictions
    assert prediction.title == f"TimeSeriesPrediction ours/noderesource-{HERE}"


@pytest.mark.parametrize("status", ["True", "False"])
def test_the_face_that_the_node_shows_is_what_it_is_compared_with(status: str) -> None:
    """A transition is a transition from what the Node shows."""
    made = Side()
    made.side.start_writer()
    made.round()
    assert made.there.wrote.wait()
    status_patch = made.side.objects.status_patch()
    assert status_patch is None
    shown = NodeStatusPatch(
        NodeReport(), AgentCondition(status, "Acting", "m", "2020-01-01T00:00:00Z")
    )
    made.cluster.hand("node").put({HERE: seen(status_patch=shown)})
    made.there.wrote.clear()
    made.now = Micros(NOW + 61_000_000)
    made.round()
    assert made.there.wrote.wait()
    made.side.stop()
    body = msgspec.convert(made.there.applied[-1], dict)
    since = body["status"]["conditions"][0]["lastTransitionTime"]
    assert (since == "2020-01-01T00:00:00Z") is (status == "True")


def shown_node(ratio: str) -> object:
    kept = seen()
    node = msgspec.structs.replace(kept.node, annotations={RATIO_ANNOTATION: ratio})
    return msgspec.structs.replace(kept, node=node)


def test_the_topology_follows_the_node_and_goes_with_a_release() -> None:
    made = Side()
    made.cluster.hand("node").put({HERE: shown_node("1.50")})
    made.side.start_writer()
    made.round()
    wait_until("the object", lambda: made.topology.stored is not None)
    assert made.topology.cpu == "6"
    made.cluster.hand("node").put({HERE: shown_node("1.00")})
    made.round()
    wait_until("the raw number", lambda: made.topology.cpu == "4")
    assert made.shared.link(NOW).topology == {"written": 2}
    made.round(RoundState(paused="released manually"))
    wait_until("its end", lambda: made.topology.stored is None)
    made.round()
    wait_until("the next one", lambda: made.topology.stored is not None)
    made.side.report_release(made.shared, made.now, 0)
    made.side.stop()
    assert made.topology.stored is None


@pytest.mark.parametrize(
    ("reporting", "wanted", "may_take_over"),
    [
        (TopologyReporting.OWN, True, False),
        (TopologyReporting.TAKE_OVER, True, True),
        (TopologyReporting.NONE, False, False),
    ],
)
def test_a_setting_says_whether_it_is_kept(
    reporting: TopologyReporting, wanted: bool, may_take_over: bool
) -> None:
    made = Side()
    agent = AgentSettings(topology_report=reporting)
    view = AgentView(settings=agent)
    found = made.cluster.objects.node()
    assert found is not None
    order = topology_order(found, view)
    assert (order.wanted, order.may_take_over) == (wanted, may_take_over)
    assert (order.node.name, order.ratio, order.cpus) == (HERE, 100, None)
