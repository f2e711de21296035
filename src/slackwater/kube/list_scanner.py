"""Cuts a list's answer into its items while it comes, so that only one of them is in memory.

A server that answers from its own memory (resourceVersion=0) ignores `limit`: the pods of one node
can be some hundred MB in one answer. What is cut out is still to be decoded by its reader; what is
around the items (kind, metadata) is kept and decoded at the end, because it comes after the items
where the kind is a custom resource.
"""

import re
from collections.abc import Iterator

import msgspec

from slackwater.http.errors import AnswerTooLargeError, UnreachableError

#: etcd limits an object to 1.5 MiB; as JSON it can be six times as large, where Go writes each <
#: of a text as \u003c.
LARGEST_OBJECT = 16 << 20
#: A list without its items.
_LARGEST_ENVELOPE = 1 << 20
# Possessive: nothing is tried twice, so that a tenant's texts cannot make it slow.
_TEXT = rb'[^"\\]*+(?:\\.[^"\\]*+)*+'
_REST_OF_TEXT = re.compile(_TEXT, re.DOTALL)
_TO_BRACE = re.compile(rb'(?:[^"{}]++|"' + _TEXT + rb'")*+', re.DOTALL)
_TO_BRACKET = re.compile(rb'(?:[^"{}\[\]]++|"' + _TEXT + rb'")*+', re.DOTALL)
_BETWEEN_ITEMS = re.compile(rb"[\s,]*+")
_ITEMS_KEY = re.compile(rb'(?<!\\)"items"\s*:\s*\[\Z')
#: As much of the envelope as that key needs.
_KEY_LENGTH = 64
_DEPTH_OF_ITEMS = 2


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    """metav1.ListMeta, as far as it is read."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _Envelope(msgspec.Struct, frozen=True):
    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


_ENVELOPES = msgspec.json.Decoder(_Envelope)


class ListScanner:
    """Guards what is not cut yet of one answer. `asked` is for its sentences."""

    def __init__(self, asked: str) -> None:
        self._asked = asked
        self._envelope = bytearray()
        self._buffer = bytearray()
        #: Up to here the buffer was looked at; so deep, and within a text, that place is.
        self._at = 0
        self._depth = 0
        self._in_text = False
        self._among_items = False

    def feed(self, piece: bytes) -> Iterator[msgspec.Raw]:
        """The items that are whole with this piece."""
        self._buffer += piece
        while True:
            if not self._among_items:
                if not self._finds_items():
                    return
            elif not self._begins_item():
                if self._among_items:
                    return
            elif self._ends_item():
                yield msgspec.Raw(self._cut())
            else:
                return

    def finish(self) -> ListMeta:
        """What the list says of itself, when all of it was fed."""
        self._envelope += self._buffer
        try:
            if self._among_items:
                raise msgspec.DecodeError("it ends among its items")
            found = _ENVELOPES.decode(self._envelope)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise self._no_list(str(error)) from None
        return found.metadata

    def _finds_items(self) -> bool:
        """Whether the items begin in what is there of the envelope."""
        while (bracket := self._next(_TO_BRACKET)) is not None:
            self._depth += 1 if bracket in b"{[" else -1
            if bracket == ord("[") and self._depth == _DEPTH_OF_ITEMS:
                before = self._buffer[max(self._at - _KEY_LENGTH, 0) : self._at]
                if _ITEMS_KEY.search(before):
                    self._envelope += self._cut()
                    self._among_items, self._depth = True, 0
                    return True
        if len(self._envelope) + len(self._buffer) > _LARGEST_ENVELOPE:
            raise self._no_list("too much is around its items")
        return False

    def _begins_item(self) -> bool:
        """Whether the buffer begins with a piece of an item. Ends the items at their bracket."""
        if self._at:
            return True
        between = _BETWEEN_ITEMS.match(self._buffer)
        del self._buffer[: between.end() if between else 0]
        if self._buffer.startswith(b"]"):
            self._among_items, self._depth = False, _DEPTH_OF_ITEMS
        elif self._buffer and not self._buffer.startswith(b"{"):
            raise self._no_list("an item is no object")
        return self._among_items and bool(self._buffer)

    def _ends_item(self) -> bool:
        while (brace := self._next(_TO_BRACE)) is not None:
            self._depth += 1 if brace == ord("{") else -1
            if not self._depth:
                return True
        if len(self._buffer) > LARGEST_OBJECT:
            size = f"{LARGEST_OBJECT >> 20} MiB"
            raise AnswerTooLargeError(f"{self._asked}: an object of more than {size}")
        return False

    def _next(self, skipped: re.Pattern[bytes]) -> int | None:
        """The next bracket, and looks past it; None where it has not come yet."""
        while True:
            found = (_REST_OF_TEXT if self._in_text else skipped).match(self._buffer, self._at)
            self._at = found.end() if found else self._at
            if self._at == len(self._buffer):
                return None
            sign = self._buffer[self._at]
            if sign == ord("\\"):  # what it escapes has not come yet
                return None
            self._at += 1
            if sign != ord('"'):
                return sign
            # A text begins that is not whole yet, or such a text ends.
            self._in_text = not self._in_text

    def _cut(self) -> bytes:
        cut = bytes(memoryview(self._buffer)[: self._at])
        del self._buffer[: self._at]
        self._at = 0
        return cut

    def _no_list(self, why: str) -> UnreachableError:
        return UnreachableError(f"{self._asked}: the answer is not a list: {why}")
