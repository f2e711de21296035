"""The writer of the node's topology: what it does to which object, how often, and what it tells."""

import copy
import random
from typing import Any

import msgspec
import pytest

from slackwater.contract.koordinator.normalization import CpuBasicInfo, Hundredths
from slackwater.contract.koordinator.topology import (
    SeenTopology,
    TopologyFacts,
    ZoneFacts,
    topology_object,
)
from slackwater.contract.kubernetes import ObjectHeader
from slackwater.contract.resources import NODE_TOPOLOGIES, Resource
from slackwater.execution.topology_writer import (
    LOOK_EVERY,
    TopologyOrder,
    TopologyWriter,
    remove_own,
)
from slackwater.http.errors import RequestError, UnreachableError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.informer import InformerView
from slackwater.model.gap import Gap
from slackwater.model.units import Bytes, Micros

NODE = ObjectHeader("here", uid="u-1")
FACTS = TopologyFacts(CpuBasicInfo("Fake 2000"), (ZoneFacts(0, 8, Bytes(1 << 34)),))
ORDER = TopologyOrder(NODE)
SECOND = 1_000_000
KOORDINATOR = "Koordinator"
LABEL = "app.kubernetes.io/managed-by"


class Server:
    """The API server with one object, a machine, and a clock that a test moves. The writer's
    informer sees the object as it is."""

    def __init__(self) -> None:
        self.now = Micros(100 * SECOND)
        self.stored: dict[str, Any] | None = None
        self.asked: list[str] = []
        self.error: RequestError | None = None
        self.facts: TopologyFacts | Gap = FACTS
        self.view: InformerView[SeenTopology] = InformerView({}, synced=True)
        self.reads = 0
        self.writer = TopologyWriter(
            self,
            self.read_facts,
            self.seen,
            clock=lambda: self.now,
            jitter=random.Random(1),  # noqa: S311
        )

    def read_facts(self) -> TopologyFacts | Gap:
        self.reads += 1
        return self.facts

    def seen(self) -> InformerView[SeenTopology]:
        found = {"here": SeenTopology(copy.deepcopy(self.stored))} if self.stored else {}
        view: InformerView[SeenTopology] = msgspec.structs.replace(self.view, items=found)
        return view

    def get(self, resource: Resource, name: str, _namespace: str = "") -> bytes:
        assert (resource, name) == (NODE_TOPOLOGIES, "here")
        if self.stored is None:
            raise HttpStatusError("GET", 404, "NotFound", "there is none")
        return msgspec.json.encode(self.stored)

    def create(self, resource: Resource, body: object, _namespace: str = "") -> bytes:
        return self._store("create", resource, body)

    def replace(
        self,
        resource: Resource,
        name: str,
        body: object,
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> bytes:
        assert (name, namespace, subresource) == ("here", "", "")
        return self._store("replace", resource, body)

    def delete(
        self,
        resource: Resource,
        name: str,
        _namespace: str = "",
        *,
        uid: str = "",
        grace_seconds: int | None = None,
    ) -> None:
        assert (name, uid, grace_seconds) == ("here", "t-1", None)
        self._store("delete", resource, None)

    def _store(self, verb: str, resource: Resource, body: Any) -> bytes:
        assert resource == NODE_TOPOLOGIES
        self.asked.append(verb)
        if self.error is not None:
            raise self.error
        self.stored = copy.deepcopy(body)
        if self.stored is not None:
            self.stored["metadata"]["uid"] = "t-1"
        return b"{}"

    def look(self, seconds: float = 0) -> list[str]:
        """What was asked for in a look, so many seconds later."""
        self.now = Micros(self.now + int(seconds * SECOND))
        before = len(self.asked)
        self.writer.look()
        return self.asked[before:]

    def cpu(self) -> str:
        assert self.stored is not None
        row = next(e for e in self.stored["zones"][0]["resources"] if e["name"] == "cpu")
        return str(row["allocatable"])

    def spoil(self) -> None:
        assert self.stored is not None
        self.stored["zones"] = []


@pytest.fixture
def server() -> Server:
    return Server()


def others(managed_by: str = KOORDINATOR) -> dict[str, Any]:
    made = topology_object(NODE, FACTS, Hundredths(100))
    made["metadata"] |= {"labels": {LABEL: managed_by} if managed_by else {}, "uid": "t-1"}
    made["zones"][0]["resources"][0] |= {"allocatable": "3"}
    return made


def test_it_is_made_once_and_then_left(server: Server) -> None:
    server.writer.offer(ORDER)
    assert server.look() == ["create"]
    for _ in range(5):
        assert server.look(100) == []
    assert server.writer.state().attempts == {"written": 1}
    assert server.writer.state().problem == ""


def test_nothing_is_done_before_it_is_asked_for_and_listed(server: Server) -> None:
    assert server.look() == []
    server.view = InformerView({}, problem="forbidden", forbidden=True)
    server.writer.offer(ORDER)
    assert server.look() == []
    assert server.writer.state().problem == "forbidden"
    server.view = InformerView({}, problem="the server does not know this kind", unknown_kind=True)
    assert server.look() == []
    assert server.writer.state().problem == ""
    assert server.reads == 0
    server.view = InformerView({}, synced=True)
    assert server.look() == ["create"]
    assert server.look(6) == []
    assert server.writer.state().problem == ""


def test_the_ratio_is_followed_at_once(server: Server) -> None:
    server.writer.offer(ORDER)
    server.look()
    for ratio, cpu in ((120, "9600m"), (121, "9680m"), (100, "8")):
        server.writer.offer(TopologyOrder(NODE, Hundredths(ratio)))
        assert server.look() == ["replace"]
        assert server.cpu() == cpu
    # One that cannot be read changes nothing, also not for an agent that has just been started.
    server.writer.offer(TopologyOrder(NODE, Hundredths(150)))
    server.look()
    server.writer.offer(TopologyOrder(NODE, Gap("odd")))
    assert server.look(60) == []
    assert server.cpu() == "12"


def test_the_machine_is_read_again_each_minute_and_when_its_cpus_change(server: Server) -> None:
    server.writer.offer(ORDER)
    server.look()
    server.look(1)
    assert server.reads == 1
    server.facts = TopologyFacts(CpuBasicInfo("Fake 2000", turbo_enabled=True), FACTS.zones)
    assert server.look(LOOK_EVERY / SECOND) == ["replace"]
    assert server.reads == 2
    server.facts = TopologyFacts(FACTS.info, (ZoneFacts(0, 7, Bytes(1 << 34)),))
    server.writer.offer(msgspec.structs.replace(ORDER, cpus="0-6"))
    assert server.look() == ["replace"]
    assert server.cpu() == "7"


def test_what_somebody_changed_is_put_right_less_and_less_often(server: Server) -> None:
    server.writer.offer(ORDER)
    server.look()
    server.spoil()
    assert server.look(6) == ["replace"]
    assert server.cpu() == "8"
    repairs = 1
    for _ in range(600):
        server.spoil()
        repairs += len(server.look(1))
    assert 4 <= repairs <= 12
    assert server.writer.state().attempts == {"written": 1, "repaired": repairs}
    server.stored = None
    server.writer.offer(TopologyOrder(NODE, Hundredths(200)))
    assert server.look() == ["create"]


def test_rivals_are_told(server: Server) -> None:
    server.writer.offer(ORDER)
    server.look()
    for _ in range(4):
        server.spoil()
        server.look(301)
    server.look()
    assert (
        server.writer.state().problem == "others keep changing NodeResourceTopology here: 4 times"
    )
    server.look(700)
    assert server.writer.state().problem == ""


@pytest.mark.parametrize("manager", [KOORDINATOR, "NFD", ""])
def test_an_object_of_others_is_left_alone_and_told(server: Server, manager: str) -> None:
    server.stored = others(manager)
    server.writer.offer(ORDER)
    assert server.look() == []
    assert server.writer.state().problem == (
        f"NodeResourceTopology here is managed by {manager or 'another program'} and left alone; "
        "with agent.topologyReport: takeOver it becomes ours"
    )
    server.writer.offer(msgspec.structs.replace(ORDER, wanted=False))
    assert server.look(60) == []


def test_it_is_taken_over_if_a_setting_says_so(server: Server) -> None:
    server.stored = others()
    server.writer.offer(msgspec.structs.replace(ORDER, may_take_over=True))
    assert server.look() == ["replace"]
    assert server.stored is not None
    assert server.stored["metadata"]["labels"] == {LABEL: "Slackwater"}
    assert server.cpu() == "8"
    server.writer.offer(ORDER)
    assert server.look() == []


def test_what_is_not_wanted_any_more_goes(server: Server) -> None:
    server.writer.offer(ORDER)
    server.look()
    server.writer.offer(msgspec.structs.replace(ORDER, wanted=False))
    assert server.look() == ["delete"]
    assert server.look(100) == []
    assert server.stored is None


def test_a_machine_that_cannot_be_read_changes_nothing(server: Server) -> None:
    server.facts = Gap("no CPUs")
    server.writer.offer(ORDER)
    assert server.look() == []
    assert server.writer.state().problem == "NodeResourceTopology here cannot be made: no CPUs"


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (HttpStatusError("POST", 403, "Forbidden", "no right"), "refused"),
        (UnreachableError("no server"), "unreachable"),
    ],
)
def test_a_failure_is_told_and_tried_again_with_a_pause(
    server: Server, error: RequestError, result: str
) -> None:
    server.error = error
    server.writer.offer(ORDER)
    tried = sum(len(server.look(1)) for _ in range(300))
    assert 4 <= tried <= 10
    assert server.writer.state().problem == str(error)
    assert server.writer.state().attempts == {result: tried}
    server.error = None
    assert server.look(300) == ["create"]
    assert server.writer.state().problem == ""


def test_an_object_that_others_made_meanwhile_is_seen_before_it_is_written(server: Server) -> None:
    """The informer shows none, or ours, while there is another's already."""
    server.writer.offer(ORDER)
    late = server.seen()
    server.stored = others()
    server.seen = lambda: late  # type: ignore[method-assign]
    server.writer._seen = server.seen
    assert server.look() == []
    assert "managed by Koordinator" in server.writer.state().problem


def test_its_thread_writes_and_takes_the_object_away_at_the_end(server: Server) -> None:
    server.writer.start()
    server.writer.offer(ORDER)
    while server.stored is None:
        server.writer.wake()
    server.writer.leave()
    server.writer.stop(60)
    assert server.stored is None


def test_an_end_without_a_release_keeps_the_object(server: Server) -> None:
    server.writer.start()
    server.writer.offer(ORDER)
    while server.stored is None:
        server.writer.wake()
    server.writer.stop(60)
    assert server.asked == ["create"]


@pytest.mark.parametrize(("manager", "asked"), [("Slackwater", ["delete"]), (KOORDINATOR, [])])
def test_for_an_agent_that_is_gone_its_own_object_is_removed(
    server: Server, manager: str, asked: list[str]
) -> None:
    remove_own(server, "here")
    server.stored = others(manager)
    remove_own(server, "here")
    assert server.asked == asked


def test_whether_ours_is_left_is_known_while_none_is_wanted(server: Server) -> None:
    server.writer.offer(ORDER)
    server.look()
    assert not server.writer.state().is_left, "it is wanted"
    gone = msgspec.structs.replace(ORDER, wanted=False)
    server.writer.offer(gone)
    assert server.writer.state().is_left
    server.look()
    assert not server.writer.state().is_left
    server.stored = {"metadata": {"labels": {LABEL: KOORDINATOR}}}
    assert not server.writer.state().is_left, "it is theirs"
    server.stored = None
    server.view = InformerView({}, problem="forbidden")
    assert server.writer.state().is_left, "nobody knows"
    server.view = InformerView({}, problem="no such kind", unknown_kind=True)
    assert not server.writer.state().is_left
