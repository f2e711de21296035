"""One setting as a row: how it is called, and what its annotations say of it.

Everything that lists settings goes by these rows: flags and variables, --help, the tables in docs
and the chart's schema. Also what stands around `spec` in our files, and the texts among settings:
line breaks and control characters are refused, because they end up in HTTP headers and logs.
"""

import enum
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, inspect

from slackwater.contract.decoding import check_struct, check_text
from slackwater.contract.document import Field
from slackwater.contract.label_selector import is_selector
from slackwater.contract.schema import (
    BOUND,
    CHECK,
    HIDDEN,
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


#: A key of Meta(extra=...): the text is the path of a file that will be read.
FILE = "file"
_LONGEST = 4096
_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_SUBDOMAIN = rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*"
_PORT = r"(?:6553[0-5]|655[0-2]\d|65[0-4]\d\d|6[0-4]\d{3}|[1-5]\d{4}|[1-9]\d{0,3})"
_HOST = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])"
_URL = rf"https?://{_HOST}(?::{_PORT})?(?:/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*)?"


def _text(pattern: str, bound: str, **extra: Any) -> Meta:  # noqa: ANN401  as Meta takes it
    whole = rf"^(?![\s\S]*[\x00-\x1f\x7f])(?a:{pattern})\Z"
    return Meta(max_length=_LONGEST, pattern=whole, extra={BOUND: bound, **extra})


Namespace = Annotated[str, _text(_LABEL, "a namespace's name such as default")]
ObjectName = Annotated[str, _text(_SUBDOMAIN, "an object's name such as web")]
WorkloadKind = Annotated[
    str,
    _text("(?:Deployment|StatefulSet|ReplicaSet)?", "Deployment, StatefulSet, ReplicaSet or empty"),
]
ContainerName = Annotated[
    str, _text(rf"(?:{_LABEL}|\*)?", "a container's name, * for all of a pod's, or empty")
]
SelectorText = Annotated[
    str, _text(r".*", "a label selector such as app=web, or empty", **{CHECK: is_selector})
]
HpaPrefix = Annotated[
    str,
    _text(r"(?:[a-z0-9][-a-z0-9.]{0,252})?", "the start of a name such as keda-hpa-, or none"),
]
HpaMetric = Annotated[str, _text("cpu", "cpu, since CPU usage is compared with its target")]
Url = Annotated[
    str,
    _text(_URL, "an address such as http://prometheus:9090, without a user in it", **{HIDDEN: "@"}),
]
OptionalUrl = Annotated[
    str,
    _text(
        rf"(?:{_URL}(?:\?[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?)?",
        "an address such as http://pushgateway:9091, without a user in it, or empty",
        **{HIDDEN: "@"},
    ),
]
FilePath = Annotated[str, _text(r".*", "a file's path, or empty", **{FILE: True})]
PlainText = Annotated[str, _text(r"[\x20-\x7e]*", "plain ASCII text, or empty")]
HeaderName = Annotated[str, _text(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", "a header's name")]
HeaderValue = Annotated[str, _text(r"[\x20-\x7e]*", "its value in plain ASCII", **{HIDDEN: ""})]
MetricLabel = Annotated[
    str, _text(r"[A-Za-z_][A-Za-z0-9_]*", "a label's name such as pod or exported_pod")
]
#: A metric's name is a label too, and each query has its own.
MatcherLabel = Annotated[
    str, _text(r"(?!__name__\Z)[A-Za-z_][A-Za-z0-9_]*", "a label's name such as cluster")
]
MatcherValue = Annotated[str, _text(r".*", "its value in one line")]
ConsumerGroup = Annotated[str, _text(r"[\x20-\x7e]{0,255}", "a consumer group's name, or empty")]
TopicName = Annotated[str, _text(r"[A-Za-z0-9._-]{0,249}", "a topic's name, or empty")]
PromqlQuery = Annotated[str, _text(r".*", "a query in PromQL in one line, or empty")]
Broker = Annotated[str, _text(rf"{_HOST}:{_PORT}", "brokers such as kafka-0:9092")]
