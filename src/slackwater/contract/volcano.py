"""Volcano's ColocationConfig for one node: merged and validated.

Owns the merge: defaults, then globalConfig, then the last entry of nodesConfig whose selector
matches, key by key. A value outside its bound is a problem that names where it was said, and
all of them are told at once. The schema is in volcano_sections, the document in
volcano_document, what labels and flags say in volcano_node.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from slackwater.contract.volcano_document import GLOBAL, ColocationConfig, Said
from slackwater.contract.volcano_node import node_label
from slackwater.contract.volcano_sections import (
    ORDERS,
    OVER_SUBSCRIPTION_TYPES,
    RANGES,
    Colocation,
)
from slackwater.model.problem import InvalidError, Problem, quoted

_TYPES_WANTED = f"a list of {' and '.join(OVER_SUBSCRIPTION_TYPES)}, separated by commas alone"


def for_node(config: ColocationConfig, labels: Mapping[str, str]) -> Colocation:
    """The configuration that counts on a node with these labels."""
    said = merged(config, labels)
    infos = msgspec.structs.fields(Colocation)
    sections = {info.name: info.type(**_values(said, info.name)) for info in infos}
    colocation = Colocation(**{**sections, "node_label": node_label(labels)})
    problems = tuple(_problems(colocation, said, config.source))
    if problems:
        raise InvalidError(*problems)
    return colocation


def _values(said: Said, section: str) -> dict[str, Any]:
    return {attribute: each.value for (name, attribute), each in said.items() if name == section}


def merged(config: ColocationConfig, labels: Mapping[str, str]) -> Said:
    """What was said for this node: globally, and by the last entry that selects it."""
    chosen: Said = {}
    for entry in config.nodes:
        if entry.selector is not None and entry.selector.selects(labels):
            chosen = entry.said
    return {**config.everywhere, **chosen}


def render(colocation: Colocation) -> dict[str, object]:
    """The document that reads as this configuration on every node; the defaults by default."""
    return {GLOBAL: msgspec.to_builtins(colocation)}


def _problems(colocation: Colocation, said: Said, source: str) -> Iterator[Problem]:
    for each in RANGES:
        value = _value(colocation, each.section, each.attribute)
        if not each.holds(value):
            where = _where(said, each.section, each.attribute, source)
            yield Problem(where, quoted(value), each.words())
    for order in ORDERS:
        low = _value(colocation, order.section, order.low)
        high = _value(colocation, order.section, order.high)
        if low > high:
            bound = f"at most {_where(said, order.section, order.high, source)}, which is {high}"
            yield Problem(_where(said, order.section, order.low, source), quoted(low), bound)
    yield from _type_problems(colocation, said, source)


def _type_problems(colocation: Colocation, said: Said, source: str) -> Iterator[Problem]:
    """Each part is exactly cpu or memory; an empty text is none of them."""
    types = colocation.over_subscription.types
    if types and any(part not in OVER_SUBSCRIPTION_TYPES for part in types.split(",")):
        where = _where(said, "over_subscription", "types", source)
        yield Problem(where, quoted(types), _TYPES_WANTED)


def _value(colocation: Colocation, section: str, attribute: str) -> Any:  # noqa: ANN401
    return getattr(getattr(colocation, section), attribute)


def _where(said: Said, section: str, attribute: str, source: str) -> str:
    """Where a value was said; a default has no place of its own, but a name."""
    if (section, attribute) in said:
        return said[section, attribute].where()
    return f"{source}: the default of {_file_key(section, attribute)}"


def _file_key(section: str, attribute: str) -> str:
    outer = {info.name: info for info in msgspec.structs.fields(Colocation)}[section]
    inner = {info.name: info for info in msgspec.structs.fields(outer.type)}[attribute]
    return f"{outer.encode_name}.{inner.encode_name}"
