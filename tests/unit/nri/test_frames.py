"""Frames and calls: however the bytes are cut, the same messages come out."""

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.nri import frames
from slackwater.nri.frames import Call, FrameReader, Message, TtrpcResponse
from slackwater.nri.protobuf import WireError

MESSAGES = st.builds(
    Message,
    st.sampled_from((frames.PLUGIN, frames.RUNTIME)),
    st.integers(0, 2**32 - 1),
    st.integers(0, 255),
    st.binary(max_size=10_000),
)


@given(st.lists(MESSAGES, max_size=5), st.lists(st.integers(0, 60_000), max_size=8))
def test_messages_in_pieces(sent: list[Message], cuts: list[int]) -> None:
    data = b"".join(frames.encode_message(each) for each in sent)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    reader = FrameReader()
    found = [each for start, end in pairwise(places) for each in reader.feed(data[start:end])]
    assert found == sent


@given(MESSAGES)
def test_no_frame_is_longer_than_the_runtime_reads(message: Message) -> None:
    data, at = frames.encode_message(message), 0
    while at < len(data):
        connection, length = struct.unpack_from(">II", data, at)
        assert connection == message.connection
        assert length <= frames.LONGEST_SENT_FRAME
        at += 8 + length
    assert at == len(data)


@given(st.binary(max_size=100))
def test_any_bytes_are_messages_or_a_wire_error(data: bytes) -> None:
    try:
        for message in FrameReader().feed(data):
            frames.parse_call(message.payload)
            frames.parse_answer(message.payload)
    except WireError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (struct.pack(">II", 3, 0), "connection 3"),
        (struct.pack(">II", 1, 2**32 - 1), "longer than"),
        (struct.pack(">IIIIBB", 1, 10, 5 << 20, 1, 1, 0), "longer than"),
    ],
)
def test_what_no_runtime_sends(data: bytes, reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        list(FrameReader().feed(data))


@given(st.builds(Call, st.text(), st.text(), st.binary()))
def test_a_call(call: Call) -> None:
    assert frames.parse_call(frames.encode_call(call)) == call


@given(
    st.one_of(
        st.builds(TtrpcResponse, st.binary()),
        st.builds(TtrpcResponse, st.binary(), st.integers(1, 2**31 - 1), st.text()),
    )
)
def test_an_answer(answer: TtrpcResponse) -> None:
    assert frames.parse_answer(frames.encode_answer(answer)) == answer
