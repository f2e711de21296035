"""A node's agent by way of the API server: the real relay, a real socket, a fake kubelet."""

import threading

import pytest

from slackwater.agent.endpoint_client import AgentAnswer
from slackwater.remote import node_agent
from slackwater.remote.agent_pod import AgentPlace
from slackwater.remote.errors import RemoteAgentError
from slackwater.remote.exec_stream import STDOUT
from slackwater.remote.node_agent import NodeAgent
from tests.unit.cli.served import always, served_agent
from tests.unit.kube.fake_api import status
from tests.unit.remote.exec_server import (
    NAMESPACE,
    NODE,
    POD,
    ExecServer,
    ExecSession,
    Run,
    agent_pod,
    exec_server,
    relay_to,
)

PLACE = AgentPlace(NODE, NAMESPACE, chosen=False)


def why(server: ExecServer, target: str = "/v1/top", patience: float = 30.0) -> str:
    agent = NodeAgent(server.client(), PLACE)
    with pytest.raises(RemoteAgentError) as caught:
        agent.get(target, patience)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_one_relay_answers_many_questions() -> None:
    with served_agent(lambda path: (200, path.encode() * 1000)) as real:
        with exec_server(relay_to(real.address)) as server:
            agent = NodeAgent(server.client(), PLACE)
            assert agent.pod is None
            for target in ("/v1/top", "/v1/explain?target=a%2Fb+c", "/v1/top"):
                assert agent.get(target, 30.0) == AgentAnswer(200, target.encode() * 1000)
            agent.close()
            assert server.ended.acquire()
        [command] = server.commands
    assert [value for key, value in command if key == "command"] == ["slackwater", "relay"]
    assert str(agent.pod) == f"{NAMESPACE}/{POD}"


def test_an_answer_that_is_no_ok_is_the_callers() -> None:
    refused = always({"error": "there is no such pod"}, 404)
    with served_agent(refused) as real, exec_server(relay_to(real.address)) as server:
        answer = NodeAgent(server.client(), PLACE).get("/v1/explain?target=x", 30.0)
    assert answer == AgentAnswer(404, b'{"error":"there is no such pod"}')


def test_an_answer_in_small_pieces() -> None:
    def run(session: ExecSession) -> None:
        session.readline(100)
        for byte in b'{"status":200,"length":5}\nhello{"status":204,"length":0}\n':
            session.send(STDOUT, bytes((byte,)))
        session.readline(100)

    with exec_server(run) as server:
        agent = NodeAgent(server.client(), PLACE)
        assert agent.get("/a", 30.0) == AgentAnswer(200, b"hello")
        assert agent.get("/b", 30.0) == AgentAnswer(204, b"")
        agent.close()


def test_after_a_failure_the_pod_is_looked_for_again() -> None:
    """As during a rolling update, while `top` is shown."""
    first = threading.Event()

    def run(session: ExecSession) -> None:
        session.readline(100)
        if not first.is_set():
            first.set()
            session.write(b'{"status":2')
            session.fail(137)
        else:
            session.write(b'{"status":200,"length":2}\nok')
            session.readline(100)

    with exec_server(run) as server:
        agent = NodeAgent(server.client(), PLACE)
        with pytest.raises(RemoteAgentError, match="ended with 137: it says nothing; ask again"):
            agent.get("/v1/top", 30.0)
        server.pods[NAMESPACE] = [agent_pod("slackwater-agent-new")]
        assert agent.get("/v1/top", 30.0) == AgentAnswer(200, b"ok")
        assert agent.pod is not None
        assert agent.pod.name == "slackwater-agent-new"
        agent.close()


def ends(code: int, stderr: str = "") -> Run:
    def run(session: ExecSession) -> None:
        session.readline(100)
        session.complain(stderr)
        session.fail(code)

    return run


def breaks(message: str) -> Run:
    told = {"status": "Failure", "message": message, "reason": "InternalError"}
    return lambda session: session.end(told)


def hangs_up(session: ExecSession) -> None:
    """Only where everything was read is a connection closed in order; else it is reset."""
    session.readline(100)


def answers(text: bytes) -> Run:
    def run(session: ExecSession) -> None:
        session.readline(100)
        session.write(text)
        session.readline(100)

    return run


OLD = "Usage: slackwater [OPTIONS] COMMAND\n\nError: No such command 'relay'.\n"
NO_DIAL = "error dialing backend: dial tcp 10.0.0.7:10250: connect: connection refused"


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (
            ends(2, OLD),
            (
                "the agent on the node node-a is older than this slackwater and cannot be asked "
                "from outside; upgrade the release, or run the command in its pod: kubectl -n "
                f"slackwater-system exec {POD} -c agent -- slackwater …"
            ),
        ),
        (ends(137, "Killed"), "the command beside the agent on the node node-a ended with 137: Ki"),
        (ends(2, "Error: what"), "node-a ended with 2: Error: what; ask again"),
        (
            breaks(NO_DIAL),
            (
                f"no command can run beside the agent on the node node-a: {NO_DIAL}; is the node "
                "up? `kubectl get node node-a` says"
            ),
        ),
        (
            hangs_up,
            "the connection to the agent on the node node-a ended: API server",
        ),
        (answers(b"Welcome!\n"), "node-a answers what this slackwater cannot read"),
        (answers(b"x" * 2000), "cannot read: "),
        (answers(b'{"status":200}\n'), "`length`; is it of another version?"),
        (answers(b'{"status":200,"length":99999999999}\n'), "answers with more than 67108864"),
    ],
)
def test_a_command_that_does_not_answer(run: Run, said: str) -> None:
    with exec_server(run) as server:
        assert said in why(server)


def test_silence_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_agent, "_WAY_SECONDS", 0.0)

    def run(session: ExecSession) -> None:
        session.readline(100)
        session.readline(100)

    with exec_server(run) as server:
        assert why(server, patience=0.05) == (
            "the agent on the node node-a gave no answer in 0.05 s; is the node up? "
            "`kubectl get node node-a` says"
        )


@pytest.mark.parametrize(
    ("rights", "missing"),
    [
        (["get pods/exec"], "get pods/exec"),
        (["create pods/exec"], "create pods/exec"),
        (["get pods/exec", "create pods/exec"], "get pods/exec and create pods/exec"),
    ],
)
def test_the_missing_right_is_named(rights: list[str], missing: str) -> None:
    with exec_server(lambda _: None) as server:
        server.forbidden |= set(rights)
        assert why(server) == (
            f"user jane may not {missing} in the namespace slackwater-system; whoever administers "
            "the cluster can allow it: docs/reference/remote.md has the Role"
        )


def test_an_admission_rule_speaks_for_itself() -> None:
    """Every right is there, says the API server; its own words are best."""
    with exec_server(lambda _: None) as server:
        told = status(403, "Forbidden", "pods is forbidden: no exec into system pods\non Fridays")
        server.instead = lambda wire: wire.json(told, 403)
        said = why(server)
    assert "no exec into system pods on Fridays; every right is there, so an admission" in said


def test_a_review_that_fails_hides_nothing() -> None:
    with exec_server(lambda _: None) as server:
        before = server.server.answer
        told = status(403, "Forbidden", 'User "jane" cannot get resource "pods/exec"')
        server.instead = lambda wire: wire.json(told, 403)
        server.server.answer = lambda request, wire: (
            wire.json({"message": "broken"}, 500)
            if request.path.endswith("reviews")
            else before(request, wire)
        )
        assert 'User "jane" cannot get resource "pods/exec"' in why(server)


@pytest.mark.parametrize(
    ("code", "body", "said"),
    [
        (
            404,
            status(404, "NotFound", "no pod"),
            f"the pod {NAMESPACE}/{POD} of the agent has",
        ),
        (502, status(502, "BadGateway", "no route"), "no route; is the node up? `kubectl get node"),
        (200, {"kind": "Login"}, "200 instead of another protocol; does a proxy in between not"),
    ],
)
def test_an_exec_that_is_refused(code: int, body: object, said: str) -> None:
    with exec_server(lambda _: None) as server:
        server.instead = lambda wire: wire.json(body, code)
        assert said in why(server)


def test_no_agent_there_is_the_finders_sentence() -> None:
    with exec_server(lambda _: None) as server:
        server.nodes, server.pods = [], {}
        assert why(server) == "there is no node node-a; `kubectl get nodes` lists them"


def test_an_api_server_that_goes_while_it_is_asked() -> None:
    ready = threading.Event()

    def run(session: ExecSession) -> None:
        session.readline(100)
        ready.set()
        session.readline(100)

    with exec_server(run) as server:

        def die() -> None:
            ready.wait()
            server.server.hang_up()

        thread = threading.Thread(target=die)
        thread.start()
        assert "the connection to the agent on the node node-a ended" in why(server)
        thread.join()
        port = server.server.port
    told = why(server)
    assert f"http://127.0.0.1:{port}: Connection refused; does the API server answer?" in told
