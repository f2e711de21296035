"""A node's agent, asked through the API server: one `slackwater relay` in its pod for as long as
there are questions.
"""

import msgspec

from slackwater.agent.endpoint_client import LARGEST_ANSWER, AgentAnswer
from slackwater.agent.relay import AnswerHead
from slackwater.http.errors import DeadlineExceededError, RequestError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import Client
from slackwater.remote.agent_pod import CONTAINER, AgentPlace, RunningAgentPod, find_agent_pod
from slackwater.remote.errors import RemoteAgentError
from slackwater.remote.exec_stream import ContainerPlace, ExecStream
from slackwater.remote.rights import describe_refusal

RELAY = ("slackwater", "relay")
#: What the way there may add to the agent's own time: a container runtime starts a program.
_WAY_SECONDS = 20.0
_LONGEST_HEAD = 1 << 10
#: An exit code of click for wrong usage: this agent has no such command.
_WRONG_USAGE = 2
_FORBIDDEN, _NOT_FOUND = 403, 404


class NodeAgent:
    """Guards the running command, which is started by the first question and, after a failure, by
    the next one: the agent's pod may be another by then. One thread uses it at a time."""

    def __init__(self, client: Client, place: AgentPlace) -> None:
        self._client = client
        self._place = place
        self._pod: RunningAgentPod | None = None
        self._stream: ExecStream | None = None
        self._read = bytearray()

    @property
    def pod(self) -> RunningAgentPod | None:
        """The one that was asked last."""
        return self._pod

    def get(self, target: str, patience: float) -> AgentAnswer:
        """The agent's answer, whatever its status. Raises RemoteAgentError."""
        try:
            return self._ask(target, patience + _WAY_SECONDS)
        except HttpStatusError as refused:
            self.close()
            raise RemoteAgentError(self._describe_refusal(refused)) from None
        except RequestError as error:
            silent = self._stream is not None and isinstance(error, DeadlineExceededError)
            self.close()
            if silent:
                raise RemoteAgentError(
                    f"{self._who()} gave no answer in {patience + _WAY_SECONDS:g} s; is the node "
                    f"up? `kubectl get node {self._place.node}` says"
                ) from None
            raise RemoteAgentError(
                f"{error}; does the API server answer? `kubectl get --raw /readyz` says"
            ) from None
        except RemoteAgentError:
            self.close()
            raise

    def close(self) -> None:
        stream, self._stream = self._stream, None
        self._read.clear()
        if stream is not None:
            stream.close()

    def _ask(self, target: str, seconds: float) -> AgentAnswer:
        stream = self._stream or self._start()
        stream.send(target.encode("ascii") + b"\n")
        head = self._read_head(stream, seconds)
        if head.length > LARGEST_ANSWER:
            raise RemoteAgentError(f"{self._who()} answers with more than {LARGEST_ANSWER} bytes")
        while len(self._read) < head.length:
            self._read += self._receive(stream, seconds)
        body = bytes(self._read[: head.length])
        del self._read[: head.length]
        return AgentAnswer(head.status, body)

    def _start(self) -> ExecStream:
        self._pod = found = find_agent_pod(self._client, self._place)
        place = ContainerPlace(found.namespace, found.name, CONTAINER)
        self._stream = ExecStream(self._client, place, RELAY)
        return self._stream

    def _read_head(self, stream: ExecStream, seconds: float) -> AnswerHead:
        while b"\n" not in self._read:
            if len(self._read) > _LONGEST_HEAD:
                break
            self._read += self._receive(stream, seconds)
        line, _, rest = bytes(self._read).partition(b"\n")
        self._read[:] = rest
        try:
            return msgspec.json.decode(line, type=AnswerHead)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise RemoteAgentError(
                f"{self._who()} answers what this slackwater cannot read: {error}; is it of "
                "another version?"
            ) from None

    def _receive(self, stream: ExecStream, seconds: float) -> bytes:
        data = stream.receive(seconds)
        if not data:
            raise RemoteAgentError(self._describe_end(stream))
        return data

    def _describe_end(self, stream: ExecStream) -> str:
        """Why the relay ended although it was asked something."""
        end = stream.end
        said = stream.stderr[-300:]
        if end is None:
            return f"the connection to {self._who()} ended: API server or node went; ask again"
        if end.code == _WRONG_USAGE and "No such command" in said:
            return (
                f"{self._who()} is older than this slackwater and cannot be asked from outside; "
                "upgrade the release, or run the command in its pod: "
                f"kubectl -n {self._namespace()} exec {self._name()} -c {CONTAINER} -- slackwater …"
            )
        if end.code is None:
            return (
                f"no command can run beside {self._who()}: {end.message}; is the node up? "
                f"`kubectl get node {self._place.node}` says"
            )
        said = said or "it says nothing"
        return f"the command beside {self._who()} ended with {end.code}: {said}; ask again"

    def _describe_refusal(self, refused: HttpStatusError) -> str:
        namespace = self._namespace()
        if refused.status == _FORBIDDEN:
            return describe_refusal(self._client, refused, namespace)
        if refused.status == _NOT_FOUND and self._pod is not None:
            return f"the pod {self._pod} of the agent has just gone; ask again"
        return f"{refused}; is the node up? `kubectl get node {self._place.node}` says"

    def _who(self) -> str:
        return f"the agent on the node {self._place.node}"

    def _namespace(self) -> str:
        return self._pod.namespace if self._pod else self._place.namespace

    def _name(self) -> str:
        return self._pod.name if self._pod else "POD"
