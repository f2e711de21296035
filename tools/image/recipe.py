"""What the image says of itself, step by step: environment, user, folder, entry point.

Owns how each instruction changes that, and what makes two builds of a step the same. Touches no
file.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tools.image.dockerfile import Step, arguments, json_list, pairs, refusal
from tools.image.expansion import expand

#: What Debian's base image sets.
BASE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: How much of a hash is enough to tell apart a handful of builds of one user.
_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Recipe:
    """`arguments` are ARG's: seen by RUN and by expansion, not by the image's containers."""

    environment: Mapping[str, str] = field(default_factory=lambda: {"PATH": BASE_PATH})
    arguments: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = ""
    entry: tuple[str, ...] = ()
    command: tuple[str, ...] = ()

    def known(self) -> dict[str, str]:
        """ENV wins over ARG, as in an engine."""
        return {**self.arguments, **self.environment}

    def after(self, step: Step) -> "Recipe":
        """What is said after a step; RUN and COPY say nothing."""
        match step.word:
            case "ENV":
                said = self._pairs(step)
                return replace(self, environment={**self.environment, **said})
            case "ARG":
                return replace(self, arguments={**self.arguments, **self._argument(step)})
            case "LABEL":
                return replace(self, labels={**self.labels, **self._pairs(step)})
            case "WORKDIR":
                return replace(self, folder=self.place(expand(step.text, self.known())))
            case "USER":
                return replace(self, user=expand(step.text, self.known()))
            case "ENTRYPOINT":
                return replace(self, entry=_program(step), command=())
            case "CMD":
                return replace(self, command=_program(step))
        return self

    def place(self, path: str) -> str:
        """A path of the image, seen from its working folder."""
        return path if path.startswith("/") else f"{self.folder.rstrip('/')}/{path}"

    def copied(self, step: Step) -> tuple[list[str], str]:
        """COPY's sources and its target, which keeps its slash at the end."""
        words = [expand(word, self.known()) for word in arguments(step)]
        if len(words) < 2:
            raise refusal(step, "it needs a source and a target")
        *sources, target = words
        if any(mark in source for source in sources for mark in "*?["):
            raise refusal(step, "patterns are not understood")
        placed = self.place("" if target == "." else target.removeprefix("./"))
        is_folder = placed.endswith("/") or len(sources) > 1
        return sources, placed.rstrip("/") + "/" if is_folder else placed

    def _pairs(self, step: Step) -> dict[str, str]:
        known = self.known()
        return {key: expand(value, known) for key, value in pairs(step)}

    def _argument(self, step: Step) -> dict[str, str]:
        """Without a default it is what the person gives, and here nobody gives any."""
        if "=" not in step.text:
            raise refusal(step, f"{step.text} has no default")
        return self._pairs(step)


def _program(step: Step) -> tuple[str, ...]:
    """A shell between us and the program would take its signals."""
    words = json_list(step)
    if words is None:
        raise refusal(step, 'write it as a list: ["program", "argument"]')
    return tuple(words)


def key_of(*parts: str) -> str:
    """The same for the same texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:_DIGITS]
