"""What `slackwater status` says about CPU normalization: the model, and where Nodes differ from it.

Pods are not read for it, so a cut that the manager refuses shows as a Node that does not have the
ratio that it should; `slackwater normalize plan` reads them and has the numbers.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from slackwater.contract.koordinator.node_ratios import NodeRatios, decide_ratios
from slackwater.contract.koordinator.normalization import (
    ENABLED_LABEL,
    RATIO_ANNOTATION,
    CpuBasicInfo,
)
from slackwater.contract.koordinator.slo_config import SloConfig
from slackwater.model.gap import Gap
from slackwater.model.problem import quoted
from slackwater.status.api_objects import ClusterNode
from slackwater.status.normalization_plan import missing_topology

#: So many nodes are named, and the rest is counted.
MOST_NAMED = 10


class NormalizationFacts(msgspec.Struct, frozen=True):
    """What was fetched. `topologies` are by node; a Gap where they may not be read."""

    config: SloConfig
    topologies: Mapping[str, CpuBasicInfo | Gap] | Gap = {}


class NormalizationStatus(msgspec.Struct, frozen=True, rename="camel"):
    """`source` is the ConfigMap. `ratios` counts Nodes by the ratio in their annotation, whatever
    it is."""

    source: str
    ratios: Mapping[str, int] = {}
    problems: tuple[str, ...] = ()


def takes_part(node: ClusterNode) -> bool:
    return ENABLED_LABEL in node.labels or RATIO_ANNOTATION in node.annotations


def normalization_status(
    facts: NormalizationFacts | None, nodes: Sequence[ClusterNode]
) -> NormalizationStatus | None:
    """None where nothing is known, and where the cluster has neither the model nor a node with a
    label or a ratio."""
    if facts is None:
        return None
    config = facts.config
    if config.absent and not any(map(takes_part, nodes)):
        return None
    ratios = Counter(
        text for node in nodes if (text := node.annotations.get(RATIO_ANNOTATION)) is not None
    )
    by_model = () if isinstance(facts.topologies, Gap) else tuple(_problems(facts, nodes))
    told = (*config.problems.values(), *config.warnings, *by_model[:MOST_NAMED])
    more = len(by_model) - MOST_NAMED
    if more > 0:
        told = (*told, f"{more} more nodes do not have the ratio that they should")
    return NormalizationStatus(str(config.source), dict(sorted(ratios.items())), told)


def _problems(facts: NormalizationFacts, nodes: Sequence[ClusterNode]) -> Iterator[str]:
    known = {} if isinstance(facts.topologies, Gap) else facts.topologies
    for node in sorted(nodes, key=lambda each: each.name):
        info = known.get(node.name, missing_topology(node.name))
        wanted = decide_ratios(facts.config, node.facts(info), dict)
        if wanted.problem and wanted.problem not in facts.config.problems.values():
            yield f"node {node.name}: {wanted.problem}"
        elif differing := _differing(node, wanted):
            yield f"node {node.name}: {differing}; `slackwater normalize plan` says why"


def _differing(node: ClusterNode, wanted: NodeRatios) -> str:
    """Where the manager has not written what it should."""
    for key, text in wanted.annotations.items():
        stands = node.annotations.get(key)
        if stands != text:
            now = "is missing" if stands is None else f"is {quoted(stands)}"
            should = "should not be there" if text is None else f"should be {quoted(text)}"
            return f"its annotation {key} {now} and {should}"
    return ""
