"""Makes bad inputs of good ones: by structure where the input is an object, by spans where it is
text or bytes. Every choice is the given Random's, so a seed gives the same input again."""

import datetime as dt
import json
import math
import random
import re
from typing import Any

#: Of one input; a reader's work is bounded by its input.
LARGEST_INPUT = 64 * 1024
_MOST_CHANGES = 4
#: JSON that arrived as an object is nested less than Python's own limit.
_DEPTHS = (2, 20, 200, 900)
_ODD_NUMBERS: tuple[object, ...] = (
    0, -1, 1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**400, -0.0, 0.1, 1e308, 5e-324,
    math.nan, math.inf, -math.inf, True, False,
)  # fmt: skip
_ODD_TEXTS = (
    "", " ", "\0", "\n", "a\nb", "null", "true", "NaN", "-1", "1e9", "1e400", "0x10", "1_0", "٣",
    "½", "\ud800", "\udfff\ud800", "\u202e", "\ufeff", "é", "𝟙", "a" * 300, "9" * 50, "1" * 5000,
    "../..", "{{", "}}", "%s%n", "*", "-", "=", ",", "/", "max", "100%", "1Ki", "10E", "1e-99",
    "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59", "2026-02-30T00:00:00Z", "<script>",
    "x" * 20_000,
)  # fmt: skip
#: What YAML makes of !!binary, of dates and of null.
_ODD_OTHERS: tuple[object, ...] = (
    None, [], {}, [None], {"": None}, [[]], b"\xff\0", dt.date(1, 1, 1),
    dt.datetime(9999, 12, 31, 23, 59, 59),  # noqa: DTZ001 - as YAML has it
)  # fmt: skip
_ODD_KEYS: tuple[object, ...] = ("", "\ud800", "a b", "x" * 400, 1, None, True, 1.5, "Spec", "\0")
_ODD_SPANS = (
    "\0", "\n", "\n\n", "\r\n", "\t", " ", "-", "=", ":", ",", '"', '\\"', "'", "\\", "{", "}", "[",
    "]", "{}", "[]", "null", "NaN", "-1", "9" * 25, "9" * 5000, "1e400", "\\ud800", "\\u0000",
    "\xff", "\xff\xff\xff\xff", "\x80", "\xc3\x28", "\0" * 16, "&a [*a]", "!!binary x", "? ", "#",
    "<<: *a", "--- ", "[" * 2000, '{"a":' * 2000, " " * 5000, "a" * 5000,
)  # fmt: skip
_DIGITS = re.compile(r"[0-9]+")
_PLACES = re.compile(r'"[^"]*"|[0-9.]+')


class Mutator:
    """Makes inputs of seeds. Guards a source of chance."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def document(self, seed: object) -> object:
        """Plain values with one to four things wrong."""
        top: list[Any] = [_copied(seed)]
        for _ in range(self._chance.randint(1, _MOST_CHANGES)):
            self._change_one(top)
        return top[0]

    def encoded(self, seed: object) -> bytes:
        """The same as JSON, one in four with bytes changed too."""
        try:
            text = json.dumps(self.document(seed), default=str, skipkeys=True)
        except RecursionError:  # several were nested in each other: deeper than any reader looks
            text = _replaced(json.dumps(seed), _PLACES, self._chance, "[" * 2000)
        data = text.encode("utf-8", "surrogatepass")[:LARGEST_INPUT]
        return self.data(data) if self._chance.random() < 0.25 else data

    def lines(self, seed: list[object]) -> bytes:
        """Objects as lines of JSON, with something wrong in one of them, or with one of them."""
        found = self.document(seed)
        try:
            lines = [json.dumps(each, default=str, skipkeys=True) for each in _listed(found)]
        except RecursionError:
            lines = ["[" * 2000]
        return "\n".join(lines).encode("utf-8", "surrogatepass")[:LARGEST_INPUT]

    def data(self, seed: bytes) -> bytes:
        return self._spans(seed.decode("latin-1")).encode("latin-1")

    def text(self, seed: str) -> str:
        """May hold lone surrogates, as texts of JSON and YAML may."""
        found = self._spans(seed)
        if self._chance.random() < 0.2:
            at = self._chance.randint(0, len(found))
            found = found[:at] + self._chance.choice(_ODD_TEXTS) + found[at:]
        return found[:LARGEST_INPUT]

    def _change_one(self, top: list[Any]) -> None:
        chance = self._chance
        holder, key = chance.choice(list(_slots(top)))
        value = holder[key]
        match chance.randrange(8):
            case 0 if isinstance(holder, dict):
                del holder[key]
            case 0 | 1 if isinstance(holder, list) and holder is not top:
                holder.insert(key, _copied(value))
            case 2:
                other, place = chance.choice(list(_slots(top)))
                holder[key] = _copied(other[place])
            case 3:
                holder[key] = self._nested(value)
            case 4 if isinstance(holder, dict):
                del holder[key]
                holder[chance.choice(_ODD_KEYS) if chance.random() < 0.7 else f"{key}x"] = value
            case 5 if isinstance(value, str):
                holder[key] = self.text(value)
            case 6 if isinstance(value, list | dict):
                holder[key] = list(value.values()) if isinstance(value, dict) else {"": value}
            case _:
                holder[key] = self._odd(value)

    def _odd(self, value: object) -> object:
        same = _ODD_TEXTS if isinstance(value, str) else _ODD_NUMBERS
        every = (*_ODD_NUMBERS, *_ODD_TEXTS, *_ODD_OTHERS)
        return _copied(self._chance.choice(same if self._chance.random() < 0.5 else every))

    def _nested(self, value: object) -> object:
        as_list = self._chance.random() < 0.5
        for _ in range(self._chance.choice(_DEPTHS)):
            value = [value] if as_list else {"a": value}
        return value

    def _spans(self, text: str) -> str:
        for _ in range(self._chance.randint(1, _MOST_CHANGES)):
            text = self._with_one_change(text)[:LARGEST_INPUT]
        return text

    def _with_one_change(self, text: str) -> str:
        chance = self._chance
        start = chance.randint(0, len(text))
        end = min(len(text), start + int(chance.expovariate(0.1)))
        match chance.randrange(9):
            case 0:
                return text[:start] + text[end:]
            case 1:
                return text[:end] + text[start:]
            case 2:
                return text[:start]
            case 3:
                return text[:start] + chance.choice(_ODD_SPANS) + text[start:]
            case 4:
                return text[:start] + chr(chance.randrange(256)) + text[start + 1 :]
            case 5:
                odd = str(chance.choice((0, -1, 2**31, 2**63, 2**64, "9" * 40, "1.5", "1e5", "")))
                return _replaced(text, _DIGITS, chance, odd)
            case 6:
                return _replaced(text, _PLACES, chance, chance.choice(_ODD_SPANS))
            case 7:
                return text[:start] + text[start:end] * chance.choice((2, 10, 1000)) + text[end:]
            case _:
                return self._with_moved_line(text)

    def _with_moved_line(self, text: str) -> str:
        lines = text.split("\n")
        moved = lines.pop(self._chance.randrange(len(lines)))
        for _ in range(self._chance.randint(0, 2)):
            lines.insert(self._chance.randint(0, len(lines)), moved)
        return "\n".join(lines)


def size_of(value: object) -> int:
    """What an input amounts to: bytes, characters, and places of an object."""
    size, waiting = 0, [value]
    while waiting:
        each = waiting.pop()
        size += len(each) if isinstance(each, str | bytes) else 1
        if isinstance(each, dict):
            waiting += (*each, *each.values())
        elif isinstance(each, list):
            waiting += each
    return size


def _slots(top: list[Any]) -> Any:  # noqa: ANN401 - a holder is a list or a mapping
    waiting: list[Any] = [top]
    while waiting:
        holder = waiting.pop()
        for key in holder if isinstance(holder, dict) else range(len(holder)):
            yield holder, key
            if isinstance(holder[key], list | dict):
                waiting.append(holder[key])


def _copied(value: Any) -> Any:  # noqa: ANN401 - plain values
    """Without recursion: some are nested deeper than Python calls."""
    top = [value]
    waiting: list[Any] = [top]
    while waiting:
        holder = waiting.pop()
        for key in holder if isinstance(holder, dict) else range(len(holder)):
            if isinstance(holder[key], list | dict):
                holder[key] = holder[key].copy()
                waiting.append(holder[key])
    return top[0]


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _replaced(text: str, places: re.Pattern[str], chance: random.Random, by: str) -> str:
    found = list(places.finditer(text))
    if not found:
        return text + by
    place = chance.choice(found)
    return text[: place.start()] + by + text[place.end() :]
