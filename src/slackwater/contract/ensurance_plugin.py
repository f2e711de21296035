"""What a plug-in says of itself when it is loaded, checked as everything that is read.

The agent does not import plug-ins: a process of their own does, and says this.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from slackwater.contract.decoding import read_struct
from slackwater.contract.document import Field
from slackwater.contract.schema import BOUND, key_of, struct_type
from slackwater.model.metric import Sample
from slackwater.model.problem import InvalidError, Problem, quoted

PLUGIN = "Plugin"
PLUGIN_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
PluginName = Annotated[
    str,
    Meta(
        max_length=63,
        pattern=rf"^{PLUGIN_NAME.pattern}\Z",
        extra={BOUND: "a plug-in's name: at most 63 letters, digits, '-', '_' and '.'"},
    ),
]
_METRIC = "a metric's name such as example.com/queue-depth or cpu_total_usage"


class PluginAttributes(msgspec.Struct, frozen=True):
    """The attributes of a metric, as model.ensurance_plugin describes them. `measures`: whether it
    has a function `samples`."""

    name: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=128,
            pattern=r"^[A-Za-z_:][-A-Za-z0-9_:./]*\Z",
            extra={BOUND: _METRIC},
        ),
    ]
    action_priority: Annotated[int, Meta(ge=0, le=10)]
    sortable: bool
    throttleable: bool
    throttle_quantified: bool
    evictable: bool
    evict_quantified: bool
    measures: bool = False


class LoadedPlugin(msgspec.Struct, frozen=True, omit_defaults=True):
    """The first line of a plug-in's process. `attributes` are what it says, unchecked."""

    attributes: dict[str, Any] = {}
    problem: str = ""


class PluginAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """About one node. Places and amounts are by the pods' uids; `problems` are by function."""

    samples: tuple[Sample, ...] = ()
    places: dict[str, int] = {}
    throttle_releases: dict[str, float] = {}
    evict_releases: dict[str, float] = {}
    problems: dict[str, str] = {}


class PluginState(msgspec.Struct, frozen=True, omit_defaults=True):
    """A plug-in that the settings switch on. Without attributes it is not in use, and `problem`
    says why; it may have a problem and be in use."""

    name: str
    attributes: PluginAttributes | None = None
    problem: str = ""

    def title(self) -> str:
        """The name of a source of metrics too."""
        return f"{PLUGIN}/{self.name}"


#: Documents spell keys otherwise than Python does.
_KEYS = {each.name: key_of(each) for each in struct_type(PluginAttributes).fields}


def read_plugin_attributes(attributes: Mapping[str, object], name: str) -> PluginAttributes:
    """By the names that they have in Python. Raises InvalidError."""
    said = {key: attributes.get(field) for field, key in _KEYS.items()}
    field = Field(f"the plug-in {name}", "", said)
    try:
        found = read_struct(field, PluginAttributes)
    except InvalidError as error:
        names = {key: field for field, key in _KEYS.items()}
        raise InvalidError(
            *(
                msgspec.structs.replace(each, path=names.get(each.path, each.path))
                for each in error.problems
            )
        ) from None
    problems = [msgspec.structs.replace(each, document=field.document) for each in _flaws(found)]
    if problems:
        raise InvalidError(*problems)
    return found


def _flaws(found: PluginAttributes) -> Iterator[Problem]:
    if found.measures and "/" not in found.name:
        yield Problem(
            "name", quoted(found.name), "one with a '/', as it measures the metric itself"
        )
    if not found.measures and "/" in found.name:
        wanted = "one without a '/', as it has no function samples that measures it"
        yield Problem("name", quoted(found.name), wanted)
    if found.throttle_quantified and not found.throttleable:
        yield Problem("throttle_quantified", "true", "false where throttleable is")
    if found.evict_quantified and not found.evictable:
        yield Problem("evict_quantified", "true", "false where evictable is")
