"""A Dockerfile as stages of steps.

Owns the reading of its text. Refuses what the builder beside it does not do exactly as an engine
would: other instructions, other flags, here-documents, parser directives.
"""

import hashlib
import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace


class ImageError(Exception):
    """One sentence for the person: what is wrong and, where something helps, what to do."""


#: What is understood, and the flags that each may have.
INSTRUCTIONS: Mapping[str, frozenset[str]] = {
    "FROM": frozenset(),
    "ARG": frozenset(),
    "RUN": frozenset(),
    "COPY": frozenset({"from"}),
    "ENV": frozenset(),
    "WORKDIR": frozenset(),
    "USER": frozenset(),
    "ENTRYPOINT": frozenset(),
    "CMD": frozenset(),
    "LABEL": frozenset(),
}
_DIRECTIVE = re.compile(r"#\s*(escape|syntax|check)\s*=", re.IGNORECASE)
_FLAG = re.compile(r"--([a-z]+)=(\S+)\s*")
_PAIR = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*=")
_FROM = re.compile(r"(\S+)(?:\s+AS\s+([a-z][a-z0-9_.-]*))?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction: its first line's number, its word, its flags, and what follows them."""

    line: int
    word: str
    text: str
    flags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stage:
    """From one FROM to the next. `name` is its number where it has none."""

    name: str
    base: str
    steps: tuple[Step, ...]


def read_stages(text: str) -> tuple[Stage, ...]:
    """The stages in their order; the last one is the image."""
    steps = read_steps(text)
    starts = [number for number, step in enumerate(steps) if step.word == "FROM"]
    if not starts or starts[0] != 0:
        raise ImageError("the Dockerfile must begin with FROM")
    ends = [*starts[1:], len(steps)]
    return tuple(
        _stage(number, steps[start], steps[start + 1 : end])
        for number, (start, end) in enumerate(zip(starts, ends, strict=True))
    )


def read_steps(text: str) -> tuple[Step, ...]:
    return tuple(_step(line, joined) for line, joined in _logical_lines(text))


def arguments(step: Step) -> list[str]:
    """The words of a list in brackets, or of plain text."""
    listed = json_list(step)
    return step.text.split() if listed is None else listed


def json_list(step: Step) -> list[str] | None:
    """The exec form; None is the shell form."""
    if not step.text.startswith("["):
        return None
    try:
        words = json.loads(step.text)
    except ValueError:
        words = None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise refusal(step, "its list is no list of texts")
    return words


def pairs(step: Step) -> list[tuple[str, str]]:
    """KEY=VALUE, several in a line; a quoted value may hold spaces."""
    try:
        words = shlex.split(step.text)
    except ValueError as error:
        raise refusal(step, f"it cannot be read: {error}") from None
    for word in words:
        if not _PAIR.match(word):
            raise refusal(step, f"{word!r} is not KEY=VALUE")
    return [(key, value) for key, _, value in (word.partition("=") for word in words)]


def refusal(step: Step, why: str) -> ImageError:
    return ImageError(f"Dockerfile line {step.line}, {step.word}: {why}")


def _stage(number: int, begin: Step, steps: tuple[Step, ...]) -> Stage:
    found = _FROM.fullmatch(begin.text)
    if found is None:
        raise refusal(begin, f"{begin.text!r} is not IMAGE or IMAGE AS NAME")
    return Stage(found[2] or str(number), found[1], steps)


def _step(line: int, joined: str) -> Step:
    word, _, rest = joined.partition(" ")
    word, rest = word.upper(), rest.strip()
    step = Step(line, word, rest)
    if word not in INSTRUCTIONS:
        raise refusal(step, f"this instruction is not understood; {', '.join(INSTRUCTIONS)} are")
    if "<<" in rest:
        raise refusal(step, "here-documents are not understood")
    flags: dict[str, str] = {}
    while rest.startswith("--"):
        found = _FLAG.match(rest)
        if found is None or found[1] not in INSTRUCTIONS[word]:
            raise refusal(step, f"the flag {rest.split()[0]} is not understood")
        flags[found[1]] = found[2]
        rest = rest[found.end() :]
    if not rest:
        raise refusal(step, "nothing follows it")
    return Step(line, word, rest, flags)


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Lines joined at a backslash; comments go, also in the middle of an instruction."""
    found: list[tuple[int, str]] = []
    begun, parts = 0, list[str]()
    for number, row in enumerate(text.splitlines(), start=1):
        bare = row.strip()
        if bare.startswith("#") or not bare:
            if not found and not parts and _DIRECTIVE.match(bare):
                raise ImageError(f"Dockerfile line {number}: parser directives are not understood")
            continue
        begun = begun if parts else number
        parts.append(bare.removesuffix("\\").rstrip())
        if not bare.endswith("\\"):
            found.append((begun, " ".join(part for part in parts if part)))
            parts = []
    if parts:
        raise ImageError(f"Dockerfile line {begun}: the last line goes on with a backslash")
    return found


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
