"""Whatever is lost, refused or killed on the way: in the end the Node shows what is asked for, and
what others set there is untouched."""

import enum
import random
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.contract.node_interference import CONDITION, TAINT, read_interference
from slackwater.contract.node_offer import read_seen_offer
from slackwater.contract.resources import Resource
from slackwater.execution.api_commands import ApiCommands
from slackwater.execution.commands import CommandQueue
from slackwater.http.errors import UnreachableError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import PatchKind
from slackwater.model.decision import Command
from slackwater.model.units import Micros
from tests.unit.execution.command_desk import SECOND, condition, taint

THEIRS = {"key": "a", "value": "x", "effect": "NoExecute", "timeAdded": "2026-11-18T04:00:00Z"}
READY = {"type": "Ready", "status": "True"}


class Fault(enum.Enum):
    NONE = "none"
    LOST_BEFORE = "the request does not arrive"
    LOST_AFTER = "its answer does not"
    KILLED_BEFORE = "the agent is killed before the request"
    KILLED_AFTER = "and after it"
    BUSY = "503"
    RIVAL = "another program changes the Node just before"


class _KilledError(BaseException):
    """Nothing of the agent runs on after it, whatever it would catch."""


class NodeServer:
    """One Node, changed by patches as the API server would."""

    def __init__(self) -> None:
        self.version = 1
        self.rivals = 0
        self.node: dict[str, Any] = {
            "metadata": {"name": "here", "uid": "n", "annotations": {"theirs": "yes"}},
            "spec": {"taints": [THEIRS]},
            "status": {"conditions": [READY]},
        }
        self.faults: list[Fault] = []

    def get(self, _resource: Resource, _name: str, _namespace: str = "") -> bytes:
        return self._meet(self._read)

    def patch(
        self,
        _resource: Resource,
        _name: str,
        body: Any,
        *,
        kind: PatchKind,
        namespace: str = "",
        subresource: str = "",
    ) -> bytes:
        assert namespace == ""
        if kind is PatchKind.MERGE:
            return self._meet(lambda: self._replace_taints(body))
        assert subresource == "status"
        return self._meet(lambda: self._merge_conditions(body))

    def evict(
        self,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        grace_seconds: int | None = None,
        dry_run: bool = False,
    ) -> None:
        raise AssertionError(namespace, name, uid, grace_seconds, dry_run)

    def _meet(self, work: Any) -> bytes:
        fault = self.faults.pop(0) if self.faults else Fault.NONE
        if fault is Fault.KILLED_BEFORE:
            raise _KilledError
        if fault is Fault.LOST_BEFORE:
            raise UnreachableError("lost")
        if fault is Fault.BUSY:
            raise HttpStatusError("PATCH", 503, "ServiceUnavailable", "busy")
        if fault is Fault.RIVAL:
            self._change_by_others()
        answer: bytes = work()
        if fault is Fault.KILLED_AFTER:
            raise _KilledError
        if fault is Fault.LOST_AFTER:
            raise UnreachableError("lost")
        return answer

    def _change_by_others(self) -> None:
        self.rivals += 1
        self.version += 1
        taints = [each for each in self.taints() if each["key"] != "rival"]
        rival = {"key": "rival", "value": str(self.rivals), "effect": "NoSchedule"}
        self.node["spec"]["taints"] = [*taints, rival]

    def _read(self) -> bytes:
        self.node["metadata"]["resourceVersion"] = str(self.version)
        return msgspec.json.encode(self.node)

    def _replace_taints(self, body: dict[str, Any]) -> bytes:
        if body["metadata"]["resourceVersion"] != str(self.version):
            raise HttpStatusError("PATCH", 409, "Conflict", "changed")
        self._annotate(body)
        self.node["spec"]["taints"] = body["spec"]["taints"] or []
        return b"{}"

    def _merge_conditions(self, body: dict[str, Any]) -> bytes:
        self._annotate(body)
        kept = [each for each in self.conditions() if each["type"] != CONDITION]
        for each in body["status"]["conditions"]:
            kept += [] if each.get("$patch") == "delete" else [each]
        self.node["status"]["conditions"] = kept
        return b"{}"

    def _annotate(self, body: dict[str, Any]) -> None:
        self.version += 1
        annotations = self.node["metadata"]["annotations"] | body["metadata"]["annotations"]
        self.node["metadata"]["annotations"] = {k: v for k, v in annotations.items() if v}

    def taints(self) -> list[dict[str, str]]:
        return list(self.node["spec"]["taints"])

    def conditions(self) -> list[dict[str, str]]:
        return list(self.node["status"]["conditions"])


class Life:
    """Agents one after the other on one Node, each until it is killed."""

    def __init__(self) -> None:
        self.now = Micros(0)
        self.server = NodeServer()
        self.queue = self._born()

    def _born(self) -> CommandQueue:
        seen = lambda: read_interference(self.server.node)  # noqa: E731
        offer = lambda: read_seen_offer(self.server.node)  # noqa: E731
        runner = ApiCommands(self.server, "here", seen, offer, lambda: 1_800_000_000.0)
        return CommandQueue(runner, clock=lambda: self.now, jitter=random.Random(1))  # noqa: S311

    def round(self, commands: tuple[Command, ...], *, decided: bool = True) -> None:
        self.now = Micros(self.now + 120 * SECOND)
        try:
            self.queue.offer(commands, self.now, decided=decided)
            self.queue.run_due()
        except _KilledError:
            self.queue = self._born()
            self.queue.offer((), self.now, decided=False)


WANTED = st.sampled_from(
    [(), (taint(),), (condition(),), (taint(), condition()), (taint("NoSchedule"), condition())]
)
STEPS = st.lists(st.tuples(WANTED, st.lists(st.sampled_from(Fault), max_size=6)), max_size=8)


@settings(max_examples=300, deadline=None)
@given(STEPS, WANTED)
def test_the_node_ends_as_wanted_and_others_keep_what_is_theirs(
    steps: list[tuple[tuple[Command, ...], list[Fault]]], last: tuple[Command, ...]
) -> None:
    life = Life()
    for wanted, faults in steps:
        life.server.faults = list(faults)
        life.round(wanted)
    life.server.faults = []
    for _ in range(3):
        life.round(last)
    server = life.server
    asked = {each.target: each.value for each in last}
    ours = [each["effect"] for each in server.taints() if each["key"] == TAINT]
    assert ours == ([asked[TAINT] or "PreferNoSchedule"] if TAINT in asked else [])
    told = [each["status"] for each in server.conditions() if each["type"] == CONDITION]
    assert told == (["True"] if CONDITION in asked else [])
    others = [each for each in server.taints() if each["key"] not in (TAINT, "rival")]
    assert others == [THEIRS]
    rivals = [each["value"] for each in server.taints() if each["key"] == "rival"]
    assert rivals == ([str(server.rivals)] if server.rivals else [])
    assert READY in server.conditions()
    assert server.node["metadata"]["annotations"]["theirs"] == "yes"
    assert ("slackwater.io/interference" in server.node["metadata"]["annotations"]) is bool(last)
    assert life.queue.progress() == ()
