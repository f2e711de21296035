"""A key of slo-controller-config: one strategy for the cluster, and others for some of its nodes.

A nodeConfig is what it states over the cluster's strategy, for the nodes that its nodeSelector
matches; the first that matches counts. Of two mappings the keys of both count, and of one key the
value that lies above, whole. Keys are read in any case and unknown ones are ignored, as Go does.
"""

from collections.abc import Mapping
from typing import Generic, TypeVar

import msgspec

from slackwater.contract.decoding import read_struct
from slackwater.contract.document import Field, Spelling, elements, member, parse_json, text
from slackwater.contract.kubernetes import ConfigMap
from slackwater.contract.label_selector import LabelSelector, flaw, read_selector
from slackwater.model.problem import DocumentName, InvalidError, Problem, quoted

CONFIG_MAP = "slo-controller-config"
NAMESPACE = "koordinator-system"
_CLUSTER = "the cluster's strategy"

S = TypeVar("S", bound=msgspec.Struct)


class NodeStrategy(msgspec.Struct, Generic[S], frozen=True):
    """A nodeConfig over the cluster's strategy. Without a usable selector it is for no node."""

    selector: LabelSelector | None
    strategy: S
    #: Where it stands, for people.
    title: str


class ClusterStrategy(msgspec.Struct, Generic[S], frozen=True):
    """What one key says, for all nodes. `warnings` are about entries that are for no node."""

    strategy: S
    nodes: tuple[NodeStrategy[S], ...] = ()
    warnings: tuple[str, ...] = ()

    def for_node(self, labels: Mapping[str, str]) -> tuple[S, str]:
        """The strategy of a node with these labels, and where it stands."""
        for each in self.nodes:
            if each.selector is not None and each.selector.selects(labels):
                return each.strategy, each.title
        return self.strategy, _CLUSTER


def read_strategies(config_map: ConfigMap, key: str, default: S) -> ClusterStrategy[S]:
    """What the ConfigMap says under this key; the default where it has no such key. Raises
    InvalidError with all that is wrong."""
    if key not in config_map.data:
        return ClusterStrategy(default)
    source = DocumentName("", "ConfigMap", config_map.namespace, config_map.name)
    path = f"data[{key}]"
    stated = parse_json(config_map.data[key], source, path)
    top = Field(source, path, stated, Spelling.ANY_CASE)
    problems: list[Problem] = []
    warnings: list[str] = []
    cluster = _read_over(top, default, problems)
    listed = () if problems else _entries(top, problems)
    nodes = tuple(_node_strategy(each, cluster, problems, warnings) for each in listed)
    if problems:
        raise InvalidError(*problems)
    return ClusterStrategy(cluster, nodes, tuple(warnings))


def lay_over(under: S, over: S) -> S:
    """What `over` states over `under`: a field of None, or an empty mapping, states nothing."""
    stated: dict[str, object] = {}
    for each in msgspec.structs.fields(over):
        below, above = getattr(under, each.name), getattr(over, each.name)
        if isinstance(above, dict):
            stated[each.name] = {**below, **above}
        elif above is not None:
            stated[each.name] = above
    return msgspec.structs.replace(under, **stated)


def _read_over(field: Field, base: S, problems: list[Problem]) -> S:
    try:
        return lay_over(base, read_struct(field, type(base)))
    except InvalidError as error:
        problems += error.problems
        return base


def _entries(top: Field, problems: list[Problem]) -> tuple[Field, ...]:
    listed = member(top, "nodeConfigs")
    try:
        return () if listed is None else elements(listed)
    except InvalidError as error:
        problems += error.problems
        return ()


def _node_strategy(
    entry: Field, cluster: S, problems: list[Problem], warnings: list[str]
) -> NodeStrategy[S]:
    strategy = _read_over(entry, cluster, problems)
    try:
        name = member(entry, "name")
        title = entry.path if name is None else f"{entry.path} {quoted(text(name))}"
        written = member(entry, "nodeSelector")
        selector = None if written is None else read_selector(written)
    except InvalidError as error:
        problems += [each for each in error.problems if each not in problems]
        return NodeStrategy(None, strategy, entry.path)
    if selector is None:
        warnings.append(f"{entry.where()} has no nodeSelector and is for no node")
    elif bad := flaw(selector):
        # The flaw names the document and its path itself.
        warnings.append(f"{bad.sentence()}: the entry is for no node")
        selector = None
    return NodeStrategy(selector, strategy, title)
