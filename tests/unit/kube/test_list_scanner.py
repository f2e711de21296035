"""A list's items are cut out of its answer, however it is divided into pieces."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slackwater.http.errors import AnswerTooLargeError, UnreachableError
from slackwater.kube import list_scanner
from slackwater.kube.list_scanner import ListMeta, ListScanner

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('a"\\{}[],: é\n')),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.sampled_from('a"\\{}[]')), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.lists(st.dictionaries(st.text(max_size=3), JSON_VALUES, max_size=3), max_size=4)


def scanned(body: bytes, size: int) -> tuple[list[Any], ListMeta]:
    scanner = ListScanner("GET /x")
    items = []
    for start in range(0, len(body), size):
        items += [msgspec.json.decode(raw) for raw in scanner.feed(body[start : start + size])]
    return items, scanner.finish()


@given(OBJECTS, st.integers(1, 60), st.booleans(), st.booleans())
@example([{"a": "}]{["}, {}, {"items": [{"items": []}]}], 1, True, True)
@example([{"a": '\\"'}], 1, True, True)
def test_items_come_out_as_they_went_in(
    items: list[Any], size: int, narrow: bool, items_first: bool
) -> None:
    """Custom resources have their items before the metadata."""
    metadata = {"metadata": {"resourceVersion": "7", "continue": "t"}}
    parts: list[dict[str, Any]] = [metadata, {"items": items}]
    parts = parts[::-1] if items_first else parts
    body = {"kind": '"items":[', **parts[0], **parts[1]}
    text = json.dumps(body, ensure_ascii=narrow, separators=(",", ":") if narrow else (", ", ": "))
    assert scanned(text.encode() + b"\n", size) == (items, ListMeta("7", "t"))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"metadata":{},"items":[{"a":1}', "it ends among its items"),
        (b'{"metadata":{},"items":[{"a":', "it ends among its items"),
        (b'{"metadata":{},"items":[{"a":1}]', "Input data was truncated"),
        (b'{"metadata":{},"items":[3]}', "an item is no object"),
        (b'{"metadata":{},"items":{}}', "Expected `array"),
        (b"<html>", "JSON is malformed"),
        (b"", "Input data was truncated"),
    ],
)
def test_what_is_no_list_is_told(body: bytes, said: str) -> None:
    for size in (1, 1000):
        with pytest.raises(UnreachableError, match=f"GET /x: the answer is not a list: {said}"):
            scanned(body, size)


def test_what_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_scanner, "LARGEST_OBJECT", 1 << 20)
    with pytest.raises(AnswerTooLargeError, match="GET /x: an object of more than 1 MiB"):
        scanned(b'{"items":[{"a":"' + b"x" * (2 << 20), 65_536)
    with pytest.raises(UnreachableError, match="too much is around its items"):
        scanned(b'{"metadata":"' + b"x" * (2 << 20), 65_536)
