"""Plain values as Structs: what is taken, and what is said of what is not."""

import enum
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, field

from slackwater.contract.decoding import read_struct
from slackwater.contract.document import Field
from slackwater.contract.schema import BOUND
from slackwater.model.problem import InvalidError
from tests.unit.contract.documents import ANYTHING


class Colour(enum.Enum):
    RED = "Red"
    BLUE = "Blue"


class Part(msgspec.Struct, frozen=True, rename="camel"):
    part_name: Annotated[str, Meta(min_length=1, max_length=5)]
    count: Annotated[int, Meta(ge=1, le=9)] = 1


class Thing(msgspec.Struct, frozen=True):
    parts: Annotated[tuple[Part, ...], Meta(max_length=2)] = ()
    colour: Colour | None = None
    on: bool = False
    size: int | Annotated[str, Meta(pattern=r"^[0-9]+k\Z")] = 0
    code: Annotated[str, Meta(pattern=r"^x\Z", extra={BOUND: "an x"})] = "x"
    sizes: dict[Annotated[str, Meta(max_length=3)], Annotated[int, Meta(ge=0)]] = {}
    inner: Part | None = field(default=None, name="innerPart")
    least: Annotated[int, Meta(ge=5)] = 5
    most: Annotated[int, Meta(le=5)] = 5
    some: Annotated[tuple[str, ...], Meta(min_length=1)] = ("a",)
    few: Annotated[dict[str, str], Meta(max_length=1)] = {}


_FIELDS = msgspec.structs.fields(Thing)


def read(document: object) -> Thing:
    return read_struct(Field("file", "at", document), Thing)


@pytest.mark.parametrize(
    ("document", "thing"),
    [
        ({}, Thing()),
        ({"unknown": 1, "colour": None, "parts": None}, Thing()),
        ({"colour": "Blue", "on": True, "size": "4k"}, Thing((), Colour.BLUE, True, "4k")),
        ({"parts": [{"partName": "a", "count": None}]}, Thing((Part("a"),))),
        ({"sizes": {"a": 1, "b": None}}, Thing(sizes={"a": 1})),
        ({"innerPart": {"partName": "b", "count": 9}}, Thing(inner=Part("b", 9))),
    ],
)
def test_what_is_taken(document: object, thing: Thing) -> None:
    assert read(document) == thing


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ([], "file: at is a list, but must be a mapping"),
        ("x", "file: at is 'x', but must be a mapping"),
        ({"parts": {}}, "file: at.parts is a mapping, but must be a list of at most 2 elements"),
        ({"parts": [None]}, "file: at.parts[0] is missing, but must be a mapping"),
        (
            {"parts": [{"partName": "a"}] * 3},
            "file: at.parts is a list of 3, but must be a list of at most 2 elements",
        ),
        (
            {"parts": [{}]},
            "file: at.parts[0].partName is missing, but must be a text of 1 to 5 characters",
        ),
        (
            {"parts": [{"partName": "abcdef"}]},
            "file: at.parts[0].partName is 'abcdef', but must be a text of 1 to 5 characters",
        ),
        (
            {"innerPart": {"partName": "a", "count": 0}},
            "file: at.innerPart.count is 0, but must be a whole number, 1 to 9",
        ),
        (
            {"innerPart": {"partName": "a", "count": True}},
            "file: at.innerPart.count is true, but must be a whole number, 1 to 9",
        ),
        (
            {"innerPart": {"partName": "a", "count": 2**70}},
            (
                "file: at.innerPart.count is 1180591620717411303424, but must be a whole number, "
                "1 to 9"
            ),
        ),
        ({"colour": "red"}, "file: at.colour is 'red', but must be one of Red, Blue"),
        ({"colour": ["Red"]}, "file: at.colour is a list, but must be one of Red, Blue"),
        ({"on": 1}, "file: at.on is 1, but must be true or false"),
        ({"size": "4M"}, "file: at.size is '4M', but must be a whole number or a text"),
        ({"size": 4.0}, "file: at.size is 4.0, but must be a whole number or a text"),
        ({"code": "x\n"}, "file: at.code is 'x\\n', but must be an x"),
        ({"code": 1}, "file: at.code is 1, but must be an x"),
        ({"sizes": {"a": -1}}, "file: at.sizes.a is -1, but must be a whole number, at least 0"),
        (
            {"sizes": {"a b": 1, "long": 1}},
            "a key of file: at.sizes is 'long', but must be a text of at most 3 characters",
        ),
        (
            {"sizes": {1: 1}},
            "a key of file: at.sizes is 1, but must be a text of at most 3 character",
        ),
        ({"least": 4}, "file: at.least is 4, but must be a whole number, at least 5"),
        ({"most": 6}, "file: at.most is 6, but must be a whole number, at most 5"),
        ({"some": []}, "file: at.some is a list of 0, but must be a list of at least 1 elements"),
        (
            {"few": {"a": "", "b": ""}},
            "file: at.few is a mapping of 2, but must be a mapping of at most 1 keys",
        ),
        ({"on": 1, "colour": 2}, "file: at.colour is 2, but must be one of Red, Blue; file: at.on"),
    ],
)
def test_what_is_said(document: object, told: str) -> None:
    with pytest.raises(InvalidError) as caught:
        read(document)
    assert str(caught.value).startswith(told)


def test_a_type_without_a_description() -> None:
    """None of ours is one; whoever adds one describes it."""

    class Odd(msgspec.Struct):
        when: bytes

    with pytest.raises(TypeError, match="no description of"):
        read_struct(Field("file", "", {"when": "x"}), Odd)


@given(st.dictionaries(st.sampled_from([each.encode_name for each in _FIELDS]), ANYTHING))
def test_taken_or_told(document: dict[str, Any]) -> None:
    """Every refusal of msgspec's has a sentence with a path in it."""
    try:
        thing = read(document)
    except InvalidError as error:
        assert "at" in str(error)
        assert "Expected" not in str(error)
    else:
        assert read(msgspec.to_builtins(thing)) == thing
