"""Sentences that must be short, cut where a word ends."""

_MORE = "..."
#: A word longer than this part of the room is cut, too: it may be all that there is.
_HALF = 2


def clipped(sentence: str, most: int) -> str:
    """At most so many characters; what was cut ends with "...\"."""
    if len(sentence) <= most:
        return sentence
    room = most - len(_MORE)
    end = sentence.rfind(" ", 0, room + 1)
    return f"{sentence[: end if end > room // _HALF else room].rstrip()}{_MORE}"
