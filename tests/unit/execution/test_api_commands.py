"""Faults of the API server: lost answers, refusals, a Node that others change. What a healthy one
does is in tests/cluster."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from slackwater.contract.kubernetes_pod import MIRROR
from slackwater.contract.node_interference import NO_INTERFERENCE, NodeInterference
from slackwater.contract.resources import NODES, PODS, Resource
from slackwater.execution.api_commands import ApiCommands
from slackwater.execution.node_states import CommandAttempt
from slackwater.http.errors import CredentialsError, RequestError, UnreachableError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import PatchKind
from slackwater.model.plan import CommandState
from tests.unit.execution.command_desk import BECAUSE, evict

DONE, QUEUED = CommandState.DONE, CommandState.QUEUED
REFUSED = CommandState.REFUSED
NODE: dict[str, Any] = {"metadata": {"name": "here", "uid": "n", "resourceVersion": "7"}}
LOST = UnreachableError("no answer in time")


def refusal(
    status: int, reason: str = "", *causes: str, after: float | None = None
) -> RequestError:
    return HttpStatusError("POST", status, reason, "the server's words", after, causes)


def living(**spec: Any) -> dict[str, Any]:
    metadata = {"uid": "uid-job", **spec.pop("metadata", {})}
    return {"metadata": metadata, "spec": {"nodeName": "here", **spec}}


class FaultyServer:
    """Answers each request with the next of what it was told, and keeps what it was asked."""

    def __init__(self, *answers: dict[str, Any] | RequestError | bytes) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, Any]] = []

    def get(self, resource: Resource, name: str, namespace: str = "") -> bytes:
        assert (resource, name, namespace) in ((PODS, "job", "batch"), (NODES, "here", ""))
        return self._answer("get", resource.plural)

    def evict(
        self,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        grace_seconds: int | None = None,
        dry_run: bool = False,
    ) -> None:
        assert not dry_run
        self._answer("evict", (namespace, name, uid, grace_seconds))

    def patch(
        self,
        resource: Resource,
        name: str,
        body: object,
        *,
        kind: PatchKind,
        namespace: str = "",
        subresource: str = "",
    ) -> bytes:
        assert (resource, name, namespace) == (NODES, "here", "")
        return self._answer(f"patch {subresource}".strip(), (kind, body))

    def _answer(self, verb: str, what: object) -> bytes:
        self.asked.append((verb, what))
        answer = self.answers.pop(0)
        if isinstance(answer, RequestError):
            raise answer
        return answer if isinstance(answer, bytes) else msgspec.json.encode(answer)


def commands(server: FaultyServer) -> ApiCommands:
    return ApiCommands(server, "here", lambda: None, lambda: None, lambda: 1_800_000_000.0)


def try_evicting(*answers: dict[str, Any] | RequestError | bytes) -> CommandAttempt:
    return commands(FaultyServer(*answers)).evict(evict(), None)


def test_an_eviction_has_the_uid_and_the_grace_period() -> None:
    server = FaultyServer(living(), {})
    assert commands(server).evict(evict(grace_seconds=7), None) == CommandAttempt(DONE)
    assert server.asked[1] == ("evict", ("batch", "job", "uid-job", 7))


EVICTIONS: dict[str, tuple[CommandAttempt, Callable[[], CommandAttempt]]] = {
    "no pod": (
        CommandAttempt(DONE, "it was gone already", gone=True),
        lambda: try_evicting(refusal(404)),
    ),
    "another pod of the name": (
        CommandAttempt(DONE, "it was gone already", gone=True),
        lambda: try_evicting(living(metadata={"uid": "another"})),
    ),
    "replaced between the look and the request": (
        CommandAttempt(DONE, "it was gone already", gone=True),
        lambda: try_evicting(living(), refusal(409), living(metadata={"uid": "another"})),
    ),
    "gone between the look and the request": (
        CommandAttempt(DONE, "it was gone already", gone=True),
        lambda: try_evicting(living(), refusal(404)),
    ),
    "terminating already": (
        CommandAttempt(DONE, "the pod is terminating"),
        lambda: try_evicting(living(metadata={"deletionTimestamp": "2026-11-18T04:00:00Z"})),
    ),
    "on another node": (
        CommandAttempt(REFUSED, "the pod is on node 'there', not on 'here'"),
        lambda: try_evicting(living(nodeName="there")),
    ),
    "a static pod's copy": (
        CommandAttempt(REFUSED, "the pod is protected: static"),
        lambda: try_evicting(living(metadata={"annotations": {MIRROR: "a"}})),
    ),
    "critical": (
        CommandAttempt(REFUSED, "the pod is protected: critical"),
        lambda: try_evicting(living(priority=2_000_000_000)),
    ),
    "static by its owner": (
        CommandAttempt(REFUSED, "the pod is protected: static"),
        lambda: try_evicting(living(metadata={"ownerReferences": [{"kind": "Node"}]})),
    ),
    "a DaemonSet's": (
        CommandAttempt(REFUSED, "the pod is protected: a DaemonSet makes it again, on this node"),
        lambda: try_evicting(living(metadata={"ownerReferences": [{"kind": "DaemonSet"}]})),
    ),
    "in kube-system": (
        CommandAttempt(REFUSED, "the pod is protected: it is in kube-system"),
        lambda: try_evicting(living(metadata={"namespace": "kube-system"})),
    ),
    "a disruption budget": (
        CommandAttempt(
            REFUSED, "a disruption budget holds it: the server's words", again_after=10.0
        ),
        lambda: try_evicting(
            living(), refusal(429, "TooManyRequests", "DisruptionBudget", after=10.0)
        ),
    ),
    "a lost answer": (
        CommandAttempt(QUEUED, "no answer in time"),
        lambda: try_evicting(living(), LOST),
    ),
    "a lost answer to the look": (
        CommandAttempt(QUEUED, "no answer in time"),
        lambda: try_evicting(LOST),
    ),
    "no credentials": (
        CommandAttempt(REFUSED, "no token"),
        lambda: try_evicting(living(), CredentialsError("no token")),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", EVICTIONS)
def test_how_an_eviction_ends(what: str) -> None:
    wanted, run = EVICTIONS[what]
    assert run() == wanted


def test_an_answer_that_is_no_pod_is_no_answer() -> None:
    assert try_evicting(b"<html>").state is QUEUED
    assert try_evicting({"metadata": {}}).state is QUEUED


@pytest.mark.parametrize(
    ("status", "state"), [(429, REFUSED), (500, REFUSED), (503, REFUSED), (502, QUEUED),
                          (504, QUEUED), (422, REFUSED)]
)  # fmt: skip
def test_other_refusals_are_not_released_and_a_gateways_word_is_no_answer(
    status: int, state: CommandState
) -> None:
    attempt = try_evicting(living(), refusal(status, "Reason"))
    assert attempt.state is state
    assert "the server's words" in attempt.detail


@pytest.mark.parametrize(
    ("answers", "right"),
    [((refusal(403),), "get pods"), ((living(), refusal(403)), "create pods/eviction")],
)
def test_a_missing_right_is_named(answers: tuple[Any, ...], right: str) -> None:
    attempt = try_evicting(*answers)
    assert attempt.state is REFUSED
    assert attempt.detail.startswith(f"the agent lacks the right to {right}: ")


# --- taint and condition

TAINTED = NodeInterference("NoSchedule")
BOTH = NodeInterference("NoSchedule", "True")
OTHERS: list[dict[str, Any]] = [
    {"key": "a", "effect": "NoExecute", "value": "x", "timeAdded": "2026-11-18T04:00:00Z"},
    {"key": "a", "effect": "NoSchedule", "unheard": 1},
]


def node(*taints: dict[str, Any], owned: str = "", **status: Any) -> dict[str, Any]:
    annotations = {"slackwater.io/interference": owned} if owned else {}
    metadata = {**NODE["metadata"], "annotations": annotations}
    return {"metadata": metadata, "spec": {"taints": list(taints)}, "status": status}


def test_other_taints_are_sent_as_they_were_read() -> None:
    server = FaultyServer(node(*OTHERS), {})
    assert commands(server).mark_node(TAINTED, BECAUSE) == CommandAttempt(DONE)
    [_, (verb, (kind, body))] = server.asked
    assert (verb, kind) == ("patch", PatchKind.MERGE)
    ours = {"key": "interference.crane.io", "effect": "NoSchedule"}
    assert body == {
        "metadata": {
            "uid": "n",
            "resourceVersion": "7",
            "annotations": {"slackwater.io/interference": "taint"},
        },
        "spec": {"taints": [*OTHERS, ours]},
    }


def test_a_conflict_starts_from_a_fresh_read() -> None:
    later = {"key": "b", "effect": "NoSchedule"}
    server = FaultyServer(node(), refusal(409), node(later), {})
    assert commands(server).mark_node(TAINTED, BECAUSE).state is DONE
    assert server.asked[-1][1][1]["spec"]["taints"][0] == later


def test_a_node_that_others_keep_changing_is_left_for_later() -> None:
    conflicts: list[Any] = [node(), refusal(409)] * 5
    server = FaultyServer(*conflicts)
    attempt = commands(server).mark_node(TAINTED, BECAUSE)
    assert attempt.state is REFUSED
    assert attempt.detail.startswith("others keep changing the Node")


def test_taint_and_condition_are_removed_and_the_note_with_the_last() -> None:
    ours = {"key": "interference.crane.io", "effect": "NoSchedule"}
    told = [{"type": "interference-identified", "status": "True"}]
    server = FaultyServer(node(ours, owned="taint,condition", conditions=told), {}, {})
    assert commands(server).mark_node(NO_INTERFERENCE, BECAUSE).state is DONE
    [_, (_, (_, spec)), (verb, (kind, status))] = server.asked
    assert spec["spec"] == {"taints": None}
    assert spec["metadata"]["annotations"] == {"slackwater.io/interference": "condition"}
    assert (verb, kind) == ("patch status", PatchKind.STRATEGIC)
    assert status == {
        "metadata": {"annotations": {"slackwater.io/interference": None}},
        "status": {"conditions": [{"type": "interference-identified", "$patch": "delete"}]},
    }


def test_the_condition_says_why_and_since_when() -> None:
    server = FaultyServer(node(), {}, {})
    assert commands(server).mark_node(BOTH, BECAUSE).state is DONE
    [told] = server.asked[-1][1][1]["status"]["conditions"]
    assert told == {
        "type": "interference-identified",
        "status": "True",
        "reason": "Triggered",
        "message": "cpu_total_usage 6500 6000",
        "lastHeartbeatTime": "2027-01-15T08:00:00Z",
        "lastTransitionTime": "2027-01-15T08:00:00Z",
    }


def test_a_node_as_wanted_is_only_read() -> None:
    server = FaultyServer(node())
    assert commands(server).mark_node(NO_INTERFERENCE, BECAUSE).state is DONE
    assert len(server.asked) == 1


MARKS: dict[str, tuple[CommandState, str, tuple[Any, ...]]] = {
    "a lost answer": (QUEUED, "no answer in time", (node(), LOST)),
    "no right": (REFUSED, "lacks the right to patch nodes", (node(), refusal(403))),
    "no Node": (REFUSED, "404", (refusal(404),)),
    "not a Node": (QUEUED, "", (b"<html>",)),
    "a Node without a version": (QUEUED, "resourceVersion", ({"metadata": {"uid": "n"}},)),
    "busy": (REFUSED, "503", (node(), refusal(503))),
    "no credentials": (REFUSED, "no token", (CredentialsError("no token"),)),
}


@pytest.mark.parametrize("what", MARKS)
def test_how_an_attempt_to_taint_ends(what: str) -> None:
    state, words, answers = MARKS[what]
    attempt = commands(FaultyServer(*answers)).mark_node(TAINTED, BECAUSE)
    assert attempt.state is state
    assert words in attempt.detail
