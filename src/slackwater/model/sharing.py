"""Values of two ticks that are equal, held once. Pure.

Ticks are kept, and most of what one says the one before said too: hundreds of grants that did not
move. Owns no memory itself; refuses to look deeper than one row of values.
"""

from typing import TypeVar

_Value = TypeVar("_Value")


def shared(before: tuple[_Value, ...], now: tuple[_Value, ...]) -> tuple[_Value, ...]:
    """`now`, with the objects of `before` where they are equal, place by place."""
    if len(before) != len(now):
        return now
    if before == now:
        return before
    return tuple(old if old == new else new for old, new in zip(before, now, strict=True))
