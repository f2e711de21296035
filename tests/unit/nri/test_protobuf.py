"""The wire format: what is encoded is read again, and no bytes at all are a traceback."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.nri import protobuf
from slackwater.nri.protobuf import WireError

NUMBERS = st.integers(1, 2**29 - 1)
SIGNED = st.integers(-(2**63), 2**63 - 1)
FIELDS = st.one_of(
    st.tuples(NUMBERS, st.integers(0, 2**64 - 1)), st.tuples(NUMBERS, st.binary(max_size=300))
)


def encode(fields: list[tuple[int, int | bytes]]) -> bytes:
    return b"".join(
        protobuf.number_field(number, value)
        if isinstance(value, int)
        else protobuf.bytes_field(number, value)
        for number, value in fields
    )


@given(st.lists(FIELDS))
def test_fields_are_read_as_they_were_written(fields: list[tuple[int, int | bytes]]) -> None:
    data = encode(fields)
    found = list(protobuf.fields_of(data))
    assert [(each.number, each.value) for each in found] == fields
    assert b"".join(each.raw for each in found) == data


@given(NUMBERS, SIGNED)
def test_a_signed_number(number: int, value: int) -> None:
    assert protobuf.find_signed(protobuf.number_field(number, value), number) == value


@given(NUMBERS, st.dictionaries(st.text(), st.text()))
def test_a_map_of_texts(number: int, pairs: dict[str, str]) -> None:
    assert protobuf.find_texts(protobuf.texts_field(number, pairs), number) == pairs


@given(st.lists(FIELDS), NUMBERS, st.binary())
def test_what_is_not_replaced_stays(
    fields: list[tuple[int, int | bytes]], number: int, value: bytes
) -> None:
    replaced = protobuf.replace_field(encode(fields), number, protobuf.bytes_field(number, value))
    kept = [each for each in fields if each[0] != number]
    found = [(each.number, each.value) for each in protobuf.fields_of(replaced)]
    assert found == [*kept, (number, value)]


@given(st.binary(max_size=200))
def test_any_bytes_are_fields_or_a_wire_error(data: bytes) -> None:
    try:
        found = list(protobuf.fields_of(data))
    except WireError as error:
        assert str(error)
    else:
        assert b"".join(each.raw for each in found) == data


@given(st.lists(FIELDS, min_size=1), st.data())
def test_a_message_that_is_cut_off(
    fields: list[tuple[int, int | bytes]], data: st.DataObject
) -> None:
    whole = encode(fields)
    cut = data.draw(st.integers(0, len(whole) - 1))
    ends = {0}
    for each in protobuf.fields_of(whole):
        ends.add(max(ends) + len(each.raw))
    if cut in ends:
        assert len(list(protobuf.fields_of(whole[:cut]))) < len(fields)
    else:
        with pytest.raises(WireError):
            list(protobuf.fields_of(whole[:cut]))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x80", "a number is cut off"),
        (b"\x08" + b"\xff" * 10, "more than 64 bits"),
        (b"\x08" + b"\xff" * 9 + b"\x7f", "more than 64 bits"),
        (b"\x00\x01", "field number 0"),
        (b"\x0b", "wire type 3"),
        (b"\x0a\xff\xff\xff\xff\x0f", "is cut off"),
        (b"\x0d\x01", "is cut off"),
    ],
)
def test_bytes_that_are_no_message(data: bytes, reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        list(protobuf.fields_of(data))


def test_a_fixed_width_number_is_passed_over() -> None:
    data = b"\x09" + bytes(8) + b"\x15" + bytes(4) + protobuf.text_field(3, "x")
    assert protobuf.find_text(data, 3) == "x"


def test_a_field_of_another_type_is_refused() -> None:
    with pytest.raises(WireError, match="not a number"):
        protobuf.find_number(protobuf.text_field(1, "x"), 1)
    with pytest.raises(WireError, match="not a text"):
        protobuf.find_bytes(protobuf.number_field(1, 1), 1)
    with pytest.raises(WireError, match="not a text"):
        protobuf.find_message(protobuf.number_field(1, 1), 1)
    with pytest.raises(WireError, match="UTF-8"):
        protobuf.find_text(protobuf.bytes_field(1, b"\xff"), 1)


def test_missing_fields() -> None:
    assert protobuf.find_number(b"", 1) is None
    assert protobuf.find_signed(b"", 1) is None
    assert protobuf.find_bytes(b"", 1) is None
    assert protobuf.find_message(b"", 1) is None
    assert protobuf.find_text(b"", 1) == ""
    assert protobuf.find_texts(b"", 1) == {}


def test_parts_of_one_message_are_one() -> None:
    data = protobuf.bytes_field(2, protobuf.number_field(1, 7)) + protobuf.bytes_field(
        2, protobuf.number_field(2, 8)
    )
    inner = protobuf.find_message(data, 2)
    assert inner is not None
    assert (protobuf.find_number(inner, 1), protobuf.find_number(inner, 2)) == (7, 8)
