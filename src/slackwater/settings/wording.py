"""Settings that are texts: a name, an address, a list of them, or pairs such as HTTP headers.

Owns their check against a shape. Refuses line breaks and control characters everywhere: these
texts end up in HTTP headers, queries and lines of a log.
"""

import re

import msgspec

from slackwater.model.problem import InvalidError, Problem, quoted

_LONGEST = 4096
_NOT_SHOWN = "a text that is not shown"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Shape(msgspec.Struct, frozen=True):
    """What a text has to look like: a regular expression for us, and words for people. A refused
    text with `hidden` in it may be a secret, and is not shown; every text has "" in it."""

    pattern: str
    wanted: str
    hidden: str = "\0"

    def seen(self, value: object) -> str:
        return _NOT_SHOWN if isinstance(value, str) and self.hidden in value else quoted(value)

    def fits(self, text: str) -> bool:
        if len(text) > _LONGEST or _CONTROL.search(text):
            return False
        return re.fullmatch(self.pattern, text, re.ASCII) is not None


class Wording(msgspec.Struct, frozen=True):
    """One text. `nothing` is a word that stands for the empty text, where a variable cannot be
    empty."""

    name: str
    default: str
    shape: Shape
    prose: str
    nothing: str | None = None

    def span(self) -> str:
        return self.shape.wanted


class Listing(msgspec.Struct, frozen=True):
    """Several texts: a list in a file, with commas between them in a flag or a variable."""

    name: str
    shape: Shape
    prose: str
    default: tuple[str, ...] = ()

    def span(self) -> str:
        return f"a list of {self.shape.wanted}"


class Pairs(msgspec.Struct, frozen=True):
    """Names with values: a mapping in a file, NAME=VALUE with commas in a flag or a variable.
    `most`: of pairs; None: as many as somebody writes."""

    name: str
    key: Shape
    value: Shape
    prose: str
    default: tuple[tuple[str, str], ...] = ()
    most: int | None = None

    def span(self) -> str:
        bound = "" if self.most is None else f"at most {self.most} "
        return f"{bound}pairs of {self.key.wanted} and {self.value.wanted}"


def check_wording(wording: Wording, value: object, where: str) -> str:
    """The same for files, flags and variables."""
    if isinstance(value, str):
        if wording.nothing is not None and value == wording.nothing:
            return ""
        if wording.shape.fits(value):
            return value
    raise InvalidError(Problem(where, wording.shape.seen(value), wording.span()))


def check_listing(listing: Listing, value: object, where: str) -> tuple[str, ...]:
    """A list out of a file."""
    if not isinstance(value, list):
        raise InvalidError(Problem(where, quoted(value), listing.span()))
    for place, each in enumerate(value):
        if not isinstance(each, str) or not listing.shape.fits(each):
            raise InvalidError(Problem(f"{where}[{place}]", quoted(each), listing.shape.wanted))
    return tuple(value)


def check_listing_text(listing: Listing, text: str, where: str) -> tuple[str, ...]:
    found = tuple(each.strip() for each in text.split(",")) if text.strip() else ()
    for each in found:
        if not listing.shape.fits(each):
            raise InvalidError(Problem(where, quoted(text), f"{listing.span()}, with commas"))
    return found


def check_pairs(pairs: Pairs, value: object, where: str) -> tuple[tuple[str, str], ...]:
    """A mapping out of a file."""
    if not isinstance(value, dict):
        raise InvalidError(Problem(where, quoted(value), f"a mapping, {pairs.span()}"))
    for key, each in value.items():
        if not isinstance(key, str) or not pairs.key.fits(key):
            raise InvalidError(Problem(f"a key of {where}", quoted(key), pairs.key.wanted))
        if not isinstance(each, str) or not pairs.value.fits(each):
            seen = pairs.value.seen(each)
            raise InvalidError(Problem(f"{where}.{key}", seen, pairs.value.wanted))
    return _few(pairs, tuple(value.items()), where)


def check_pairs_text(pairs: Pairs, text: str, where: str) -> tuple[tuple[str, str], ...]:
    split = [each.partition("=") for each in text.split(",")] if text.strip() else []
    found = tuple((key.strip(), value.strip()) for key, _, value in split)
    good = all(equals for _, equals, _ in split) and all(
        pairs.key.fits(key) and pairs.value.fits(value) for key, value in found
    )
    if not good:
        wanted = f"{pairs.span()}, as NAME=VALUE with commas between them"
        raise InvalidError(Problem(where, pairs.value.seen(text), wanted))
    return _few(pairs, found, where)


def _few(
    pairs: Pairs, found: tuple[tuple[str, str], ...], where: str
) -> tuple[tuple[str, str], ...]:
    if pairs.most is not None and len(found) > pairs.most:
        raise InvalidError(Problem(where, f"{len(found)} pairs", pairs.span()))
    return found


def shown_default(setting: Wording | Listing | Pairs) -> str:
    """For the documents."""
    return setting.default if isinstance(setting, Wording) and setting.default else "none"
