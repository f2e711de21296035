"""Which pod is a node's agent, and one sentence for each way in which there is none."""

from collections.abc import Callable

import pytest

from slackwater.http.errors import RequestError
from slackwater.kube.api_status import HttpStatusError
from slackwater.remote.agent_pod import AgentPlace, RunningAgentPod, find_agent_pod
from slackwater.remote.errors import RemoteAgentError
from tests.unit.kube.byte_server import Request, Wire
from tests.unit.remote.exec_server import (
    NAMESPACE,
    NODE,
    POD,
    ExecServer,
    Object,
    agent_pod,
    exec_server,
)

ANYWHERE = AgentPlace(NODE, NAMESPACE, chosen=False)
THERE = AgentPlace(NODE, NAMESPACE, chosen=True)
Change = Callable[[ExecServer], None]


def find(change: Change, place: AgentPlace = ANYWHERE) -> RunningAgentPod:
    with exec_server(lambda _: None) as server:
        change(server)
        return find_agent_pod(server.client(), place)


def refusal(change: Change, place: AgentPlace = ANYWHERE) -> str:
    with pytest.raises(RemoteAgentError) as caught:
        find(change, place)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def standing(*pods: Object) -> Change:
    def change(server: ExecServer) -> None:
        server.pods = {}
        for each in pods:
            metadata = each["metadata"]
            assert isinstance(metadata, dict)
            server.pods.setdefault(metadata["namespace"], []).append(each)

    return change


def test_the_agent_of_the_node() -> None:
    others = agent_pod("other", node="node-b")
    assert find(standing(others, agent_pod())) == RunningAgentPod(NAMESPACE, POD, ready=True)


def test_what_is_asked() -> None:
    with exec_server(lambda _: None) as server:
        find_agent_pod(server.client(), THERE)
        [asked] = server.server.requests
    assert asked.path == f"/api/v1/namespaces/{NAMESPACE}/pods"
    assert asked.query["labelSelector"] == (
        "app.kubernetes.io/name=slackwater,app.kubernetes.io/component=agent"
    )
    assert asked.query["fieldSelector"] == f"spec.nodeName={NODE}"


def test_another_namespace_is_found_unless_one_is_chosen() -> None:
    elsewhere = standing(agent_pod(namespace="qos"))
    assert find(elsewhere).namespace == "qos"
    assert find(elsewhere, AgentPlace(NODE, "qos", chosen=True)).namespace == "qos"
    assert refusal(elsewhere, THERE) == (
        "no agent's pod is on the node node-a in the namespace slackwater-system; is Slackwater "
        "installed there (-n names its namespace), and does the chart's agent.nodeSelector take "
        "the node in?"
    )


def test_an_agent_that_is_not_ready_can_still_say_why() -> None:
    assert find(standing(agent_pod(ready=False))) == RunningAgentPod(NAMESPACE, POD, ready=False)


@pytest.mark.parametrize(
    "others",
    [
        [agent_pod("a-old", deleted="2026-11-19T12:00:00Z")],
        [agent_pod("a-broken", state={"waiting": {"reason": "CrashLoopBackOff"}})],
        [agent_pod("a-new", ready=False)],
    ],
)
def test_of_several_the_one_that_works(others: list[Object]) -> None:
    assert find(standing(*others, agent_pod())).name == POD
    assert find(standing(agent_pod(), *others)).name == POD


@pytest.mark.parametrize(
    ("pod", "why"),
    [
        (agent_pod(state={"waiting": {"reason": "ImagePullBackOff"}}), "is ImagePullBackOff"),
        (agent_pod(state={"terminated": {"reason": "OOMKilled"}}), "is OOMKilled"),
        (agent_pod(state={"waiting": {}}, phase="Pending"), "is Pending"),
        (agent_pod(state={}, phase="Pending"), "is Pending"),
        (agent_pod(state={}, phase=""), "is of an unknown state"),
        (agent_pod(deleted="2026-11-19T12:00:00Z"), "is being deleted"),
    ],
)
def test_an_agent_that_is_not_running(pod: Object, why: str) -> None:
    assert refusal(standing(pod)) == (
        f"the agent on the node node-a is not running: its pod slackwater-system/{POD} {why}; "
        f"`kubectl -n slackwater-system describe pod {POD}` says more"
    )


def test_two_installations_are_not_guessed_between() -> None:
    two = standing(agent_pod("one", "qos-a"), agent_pod("two", "qos-b"))
    assert refusal(two) == (
        "the node node-a has agents in several namespaces: qos-a/one, qos-b/two; name one with -n"
    )


def forbidding(*rights: str, pods: Change) -> Change:
    def change(server: ExecServer) -> None:
        pods(server)
        server.forbidden |= set(rights)

    return change


NO_POD = "no agent's pod is on a node node-a in the namespace slackwater-system or in any other"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: setattr(s, "nodes", []), "there is no node node-a; `kubectl get nodes` lists"),
        (lambda _: None, "no agent's pod is on the node node-a in the namespace slackwater-system"),
        (lambda s: s.forbidden.add("get nodes"), f"{NO_POD} that you may look into, and you may"),
        (lambda s: s.forbidden.add("list pods *"), "no agent's pod is on the node node-a"),
    ],
)
def test_no_agent_there(change: Change, said: str) -> None:
    def whole(server: ExecServer) -> None:
        server.pods = {}
        change(server)

    assert said in refusal(whole)


def test_no_right_to_list_pods_anywhere() -> None:
    told = refusal(forbidding("list pods", pods=standing(agent_pod())))
    assert told == (
        "user jane may not list pods in the namespace slackwater-system; whoever administers the "
        "cluster can allow it: docs/reference/remote.md has the Role"
    )


def test_every_missing_right_is_told_at_once() -> None:
    told = refusal(
        forbidding("list pods", "get pods/exec", "create pods/exec", pods=standing()), THERE
    )
    assert "may not list pods and get pods/exec and create pods/exec in the namespace" in told


def test_the_namespace_is_closed_and_another_has_it() -> None:
    change = forbidding(f"list pods {NAMESPACE}", pods=standing(agent_pod(namespace="qos")))
    assert find(change).namespace == "qos"
    assert "user jane may not list pods" in refusal(change, THERE)


@pytest.mark.parametrize("place", [ANYWHERE, THERE])
def test_other_refusals_are_the_callers(place: AgentPlace) -> None:
    with exec_server(lambda _: None) as server:
        server.server.answer = lambda _, wire: wire.json({"message": "too much"}, 500)
        with pytest.raises(HttpStatusError, match="500 InternalError: too much"):
            find_agent_pod(server.client(), place)


@pytest.mark.parametrize("first", ["pods", "nodes"])
def test_a_server_that_goes_while_it_is_asked(first: str) -> None:
    with exec_server(lambda _: None) as server:
        server.pods = {}
        answer = server.server.answer

        def leave(request: Request, wire: Wire) -> None:
            if f"/{first}" in request.path:
                wire.reset()
            answer(request, wire)

        server.server.answer = leave
        with pytest.raises(RequestError):
            find_agent_pod(server.client(), ANYWHERE)
