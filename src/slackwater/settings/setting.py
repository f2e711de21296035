"""One setting as a row: how it is called, and what its annotations say of it.

Everything that lists settings goes by these rows: flags and variables, --help, the tables in docs
and the chart's schema. Also what stands around `spec` in our files.
"""

import enum
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec
from msgspec import inspect

from slackwater.contract.decoding import check_struct, check_text
from slackwater.contract.document import Field
from slackwater.contract.schema import (
    Annotation,
    SettingsStruct,
    annotation_of,
    describe_bound,
    inline_struct,
    key_of,
    struct_type,
)
from slackwater.model.problem import DocumentName, Problem

#: A key of Meta(extra=...): the default in words, where it follows from something else.
DEFAULT = "default"
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|\.")


class Setting(msgspec.Struct, frozen=True):
    """`key` is dotted, as in the file. `path` is where the value stands in the plain form of its
    Struct, which is nested deeper where Structs are inline."""

    key: str
    path: tuple[str, ...]
    flag: str
    variable: str
    type: inspect.Type
    default_value: Any

    @property
    def annotation(self) -> Annotation:
        return annotation_of(self.type)

    @property
    def description(self) -> str:
        return self.annotation.description

    @property
    def summary(self) -> str:
        """The first sentence of the description, for --help."""
        return f"{self.description.partition('. ')[0].rstrip('.')}."

    @property
    def bound(self) -> str:
        return describe_bound(self.type)

    @property
    def default(self) -> str:
        """For people."""
        if DEFAULT in self.annotation.extra:
            return str(self.annotation.extra[DEFAULT])
        match self.default_value:
            case bool() as switch:
                return str(switch).lower()
            case int() | float() as number:
                return self.annotation.show_number(number)
            case enum.Enum() as word:
                return str(word.value)
            case value:
                return str(value or "none")

    @property
    def unit(self) -> str:
        """What stands in a table's column, and for the value in --help."""
        if self.annotation.unit is not None:
            return self.annotation.unit.value
        return "name" if isinstance(self.annotation.type, inspect.StrType) else "word"

    @property
    def option(self) -> str:
        """As click calls the flag's value."""
        return self.flag.removeprefix("--").replace("-", "_")


class Names(msgspec.Struct, frozen=True):
    """How the settings of one Struct are called. `key` is the dotted key above them; `said` is
    what flags and variables put before their own words; `variable` begins every variable."""

    variable: str
    key: str = ""
    said: str = ""

    def below(self, name: str) -> "Names":
        return Names(self.variable, _join(self.key, name), _join(self.said, name))


def _join(above: str, name: str) -> str:
    return f"{above}.{name}" if above else name


def split_words(name: str) -> list[str]:
    """minimumPodAge as minimum, pod, age."""
    return [word.lower() for word in _HUMP.split(name)]


def settings_of(kind: type[msgspec.Struct], names: Names) -> tuple[Setting, ...]:
    """Every setting of a Struct, in the order of its fields."""
    return tuple(_settings(struct_type(kind), names, ()))


def _settings(kind: inspect.StructType, names: Names, path: tuple[str, ...]) -> Iterator[Setting]:
    for each in kind.fields:
        here = (*path, each.encode_name)
        inner = annotation_of(each.type).type
        if inline := inline_struct(each.type):
            yield from _settings(inline, names, here)
        elif isinstance(inner, inspect.StructType):
            yield from _settings(inner, names.below(key_of(each)), here)
        elif annotation_of(each.type).description:
            own = names.below(key_of(each))
            words = split_words(own.said)
            flag, variable = "--" + "-".join(words), own.variable + "_".join(words).upper()
            yield Setting(own.key, here, flag, variable, each.type, each.default)


class StatedText(msgspec.Struct, frozen=True):
    """What a flag or a variable says. `where` is its name."""

    where: str
    text: str


def check_texts(
    settings: Iterable[Setting], texts: Mapping[str, StatedText], problems: list[Problem]
) -> dict[str, Any]:
    """The plain values that flags or variables state, by the settings' keys, as `texts` are."""
    by_key = {each.key: each for each in settings}
    checked = {
        key: check_text(by_key[key].type, said.text, said.where, problems)
        for key, said in texts.items()
    }
    return {key: value for key, value in checked.items() if value is not msgspec.UNSET}


def nest(settings: Iterable[Setting], stated: Mapping[str, Any]) -> dict[str, Any]:
    """Those plain values that are of these settings, in the shape of the settings' Struct."""
    found: dict[str, Any] = {}
    for setting in settings:
        if setting.key in stated:
            inner = found
            for name in setting.path[:-1]:
                inner = inner.setdefault(name, {})
            inner[setting.path[-1]] = stated[setting.key]
    return found


API_VERSION = "slackwater.io/v1"


def check_file(
    document: object,
    source: str | DocumentName,
    kind: str,
    spec: type[msgspec.Struct],
    problems: list[Problem],
) -> dict[str, Any]:
    """What a file states under `spec`. `kind` is what it must say it is, `source` is its name.
    Its metadata are anybody's."""
    required = any(each.required for each in struct_type(spec).fields)
    file = msgspec.defstruct(
        f"{kind}File",
        [
            ("apiVersion", Literal[API_VERSION]),
            ("kind", Literal[kind]),
            ("metadata", Any, None),
            ("spec", spec, msgspec.NODEFAULT if required else None),
        ],
        bases=(SettingsStruct,),
        frozen=True,
        kw_only=True,
    )
    found = check_struct(Field(source, "", document), file, problems)
    stated: dict[str, Any] = found.get("spec", {})
    return stated
