"""What a foreign configuration says of a section of our own settings."""

from collections.abc import Mapping

import msgspec


class ForeignSection(msgspec.Struct, frozen=True):
    """`title` is where it stands in the foreign configuration, for messages.

    `switched_on` is what our section reads if the foreign configuration switches it on, else None,
    and `why_off` says why it does not. `values` fill what our own settings leave open where those
    switch the section on. `wanted` is whether it would be switched on, if labels and flags let it.
    """

    title: str
    switched_on: Mapping[str, object] | None = None
    values: Mapping[str, object] = {}
    why_off: str = ""
    wanted: bool = False
