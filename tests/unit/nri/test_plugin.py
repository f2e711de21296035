"""A conversation with a runtime, without a socket."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.nri import frames, messages, protobuf
from slackwater.nri.messages import Configuration, ContainerRequest, CpuRequest, Sandbox
from slackwater.nri.plugin import PluginSession, RefusedError, SessionPhase
from slackwater.nri.protobuf import WireError
from tests.unit.nri import runtime_side
from tests.unit.nri.runtime_side import adjusted_quota, answers_in, encode_call

ASKED = ContainerRequest(Sandbox(uid="u"), "c" * 64, "main", CpuRequest(quota=200_000))


class Conversation:
    """A session whose answers are those given."""

    def __init__(self, quota: int | None = None) -> None:
        self.asked: list[ContainerRequest] = []
        self.garbage: list[str] = []
        self.quota = quota
        self.session = PluginSession(self._answer, self._answer, self.garbage.append)

    def _answer(self, request: ContainerRequest) -> int | None:
        self.asked.append(request)
        return self.quota

    def call(self, method: str, payload: bytes = b"", stream: int = 1) -> frames.TtrpcResponse:
        data = encode_call(method, payload, stream)
        [answer] = answers_in(self.session.feed(data))
        return answer

    def begin(self) -> None:
        self.call("Configure", runtime_side.encode_configuration("containerd", "2.2.9", 2000))
        assert list(self.session.feed(runtime_side.encode_registered())) == []
        self.call("Synchronize", stream=3)


def test_the_first_bytes_register() -> None:
    [message] = frames.FrameReader().feed(Conversation().session.register("slackwater", "95"))
    assert (message.connection, message.stream, message.kind) == (frames.RUNTIME, 1, frames.REQUEST)
    call = frames.parse_call(message.payload)
    assert (call.service, call.method) == (messages.RUNTIME_SERVICE, "RegisterPlugin")
    assert protobuf.find_text(call.payload, 1) == "slackwater"
    assert protobuf.find_text(call.payload, 2) == "95"


def test_it_is_active_once_what_runs_was_listed() -> None:
    made = Conversation()
    phases = [made.session.phase]
    answer = made.call("Configure", runtime_side.encode_configuration("containerd", "2.2.9", 2000))
    assert protobuf.find_number(answer.payload, 2) == 0b10001000
    assert made.session.configuration == Configuration("containerd", "2.2.9", 2000)
    phases.append(made.session.phase)
    for method in ("Synchronize", "Shutdown"):
        assert made.call(method).payload == b""
        phases.append(made.session.phase)
    assert phases == list(SessionPhase)


def test_a_creation_is_adjusted() -> None:
    made = Conversation(83_334)
    made.begin()
    answer = made.call("CreateContainer", runtime_side.encode_creation(ASKED), 5)
    assert adjusted_quota(answer) == 83_334
    assert made.asked == [ASKED]


def test_the_answer_has_the_stream_of_its_call() -> None:
    made = Conversation()
    calls = [encode_call("CreateContainer", b"", stream) for stream in (1, 3, 99)]
    found = list(made.session.feed(b"".join(calls)))
    reader = frames.FrameReader()
    answers = [message for each in found for message in reader.feed(each)]
    assert [each.stream for each in answers] == [1, 3, 99]
    assert {(each.connection, each.kind) for each in answers} == {(frames.PLUGIN, frames.RESPONSE)}


def test_an_update_is_answered_with_its_id() -> None:
    made = Conversation(125_000)
    made.begin()
    cpu = CpuRequest(1024, 150_000, 100_000)
    request = ContainerRequest(id="a1", cpu=cpu, resources=runtime_side.encode_resources(cpu))
    answer = made.call("UpdateContainer", runtime_side.encode_update(request))
    update = runtime_side.find_path(answer.payload, 1)
    assert update is not None
    assert protobuf.find_text(update, 1) == "a1"


@pytest.mark.parametrize("method", ["CreateContainer", "UpdateContainer"])
def test_nothing_to_change_is_an_empty_answer(method: str) -> None:
    made = Conversation(None)
    assert made.call(method, runtime_side.encode_creation(ASKED)) == frames.TtrpcResponse()


@pytest.mark.parametrize(
    "method", ["CreateContainer", "UpdateContainer", "Configure", "Synchronize"]
)
def test_a_question_that_cannot_be_read_changes_nothing(method: str) -> None:
    made = Conversation(1)
    assert made.call(method, b"\xff") == frames.TtrpcResponse()
    assert made.garbage == ["a number is cut off"]
    assert made.asked == []


@pytest.mark.parametrize("method", ["StateChange", "ValidateContainerAdjustment", "Later", ""])
def test_other_calls_are_answered_by_nothing(method: str) -> None:
    assert Conversation(1).call(method, b"\x08\x01") == frames.TtrpcResponse()


def test_a_refused_registration_ends_it() -> None:
    made = Conversation()
    with pytest.raises(RefusedError, match="invalid plugin index"):
        list(made.session.feed(runtime_side.encode_registered(3, "invalid plugin index")))
    with pytest.raises(RefusedError, match="code 2"):
        list(made.session.feed(runtime_side.encode_registered(2)))


@given(st.binary(max_size=300))
def test_any_bytes_end_in_answers_or_a_wire_error(data: bytes) -> None:
    made = Conversation(5)
    try:
        answers = answers_in(made.session.feed(data))
    except (WireError, RefusedError):
        return
    assert all(each.code == frames.OK for each in answers)
