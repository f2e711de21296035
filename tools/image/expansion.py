"""Variables in a Dockerfile's instructions: $NAME, ${NAME}, ${NAME:-otherwise}, \\$ for a dollar.

Owns the expansion. Refuses a name that nobody set: an engine would make it empty, and `COPY src
/$PLACE` would then go somewhere else.
"""

import re
from collections.abc import Mapping

from tools.image.failure import ImageError

_VARIABLE = re.compile(
    r"\\\$|\$(?:(?P<bare>[A-Za-z_][A-Za-z0-9_]*)"
    r"|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<otherwise>[^}$]*))?\})"
)


def expand(text: str, known: Mapping[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        if found[0] == "\\$":
            return "$"
        name = found["bare"] or found["name"]
        given = known.get(name, "")
        if not given and found["otherwise"] is not None:
            return found["otherwise"]
        if name not in known:
            raise ImageError(f"the Dockerfile uses ${name}, which nothing in it sets")
        return given

    return _VARIABLE.sub(value, text)
