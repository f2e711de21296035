"""The controller of CPU normalization: two annotations on every Node that takes part.

    node.koordinator.sh/cpu-normalization-ratio        how much a CPU of the node is worth
    node.koordinator.sh/resource-amplification-ratio   by how much its allocatable is multiplied

Both are written together, in one patch, so that nobody sees one without the other. A Node that
never took part is not touched. What holds a ratio back is told in the log and as an event, about
the ConfigMap and about the Node, and stands on the Node as a condition until it has ended.
"""

import functools
from collections.abc import Callable, Iterator, Mapping

import msgspec

from slackwater.contract.koordinator.node_ratios import (
    HELD_CONDITION,
    Amounts,
    NodeRatios,
    decide_ratios,
)
from slackwater.contract.koordinator.normalization import (
    AMPLIFICATION_ANNOTATION,
    AMPLIFICATION_KEY,
    ENABLED_LABEL,
    NORMALIZATION_KEY,
    RATIO_ANNOTATION,
)
from slackwater.contract.koordinator.slo_config import SloConfig, SloConfigName
from slackwater.contract.kubernetes import ConditionState
from slackwater.contract.resources import CONFIG_MAPS, NODES
from slackwater.kube.events import EventType, KubeEvent, ObjectReference
from slackwater.manager.cluster_view import (
    NODE_KIND,
    POD_KIND,
    TOPOLOGY_KIND,
    ClusterView,
    slo_config_kind,
)
from slackwater.manager.controllers.controller import (
    Controller,
    DesiredWrite,
    Notice,
    Reconciled,
    WriteVerb,
)
from slackwater.manager.scheduled_pod import sum_requests
from slackwater.manager.slo_config_memory import GONE_AFTER, SloConfigObject, SloConfigState
from slackwater.model.gap import Gap
from slackwater.model.problem import shorten
from slackwater.status.api_objects import ClusterNode

#: Reasons of events about the ConfigMap, by key; the first is Koordinator's own.
CONFIG_INVALID = {
    NORMALIZATION_KEY: "CPUNormalizationCfgUnmarshalFailed",
    AMPLIFICATION_KEY: "ResourceAmplificationCfgUnmarshalFailed",
}
CONFIG_IGNORED = "SloConfigEntryIgnored"
#: Of events about Nodes.
RATIO_HELD, CUT_REFUSED = "NormalizationHeld", "NormalizationCutRefused"
#: So many nodes are told of by themselves, and the rest is counted: one mistake in the ConfigMap
#: can concern thousands.
MOST_TOLD = 50
#: Characters of a condition's message; the admission policy allows no more.
LONGEST_MESSAGE = 1024
_LAST_GOOD = "the last good configuration stays in force"


class _Held(msgspec.Struct, frozen=True):
    """Why the ratios of a node stay as they are; empty where nothing holds them. `shown` is the
    same for its condition: empty also on a node that never took part where only the model is at
    fault, which then does not say whether the node should."""

    node: ClusterNode
    reason: str
    text: str
    shown: str


def reconcile(view: ClusterView, source: SloConfigName, now: str) -> Reconciled:
    """`now` is RFC 3339."""
    state = view.slo_config
    if state.config is None:
        return Reconciled()
    decided = tuple(_decide(view, state.config))
    held = tuple(_held(state, node, ratios) for node, ratios in decided)
    writes = (
        *(_desire(node, ratios) for node, ratios in decided if _is_anything_left(node, ratios)),
        *(_desire_condition(each, now) for each in held if each.shown or each.node.held),
    )
    notices = (*_config_notices(state, state.config, source), *_node_notices(held))
    return Reconciled(writes, notices)


def _decide(view: ClusterView, config: SloConfig) -> Iterator[tuple[ClusterNode, NodeRatios]]:
    topologies = view.of(TOPOLOGY_KIND).items

    @functools.cache
    def requested() -> Mapping[str, Amounts]:
        return sum_requests(view.of(POD_KIND).items.values())

    for node in view.nodes.items.values():
        found = topologies.get(node.name)
        info = Gap(f"there is no NodeResourceTopology {node.name}") if found is None else found.info
        by_pods = functools.partial(_requested_on, node.name, requested)
        yield node, decide_ratios(config, node.facts(info), by_pods)


def _requested_on(node: str, requested: Callable[[], Mapping[str, Amounts]]) -> Amounts:
    return requested().get(node, {})


def _differing(node: ClusterNode, ratios: NodeRatios) -> dict[str, str | None]:
    return {
        key: text for key, text in ratios.annotations.items() if node.annotations.get(key) != text
    }


def _is_anything_left(node: ClusterNode, ratios: NodeRatios) -> bool:
    """Whether one of the annotations stands there, or should."""
    return any(
        text is not None or key in node.annotations for key, text in ratios.annotations.items()
    )


def _desire(node: ClusterNode, ratios: NodeRatios) -> DesiredWrite:
    differing = _differing(node, ratios)
    shown = ", ".join(
        f"{key} {'removed' if text is None else text}" for key, text in differing.items()
    )
    return DesiredWrite(
        WriteVerb.ANNOTATE,
        NODES,
        node.name,
        differing,
        tuple(ratios.annotations.items()),
        is_current=not differing,
        uid=node.uid,
        outcome=shown,
        because=ratios.source,
    )


def _desire_condition(held: _Held, now: str) -> DesiredWrite:
    """There while something is held back. A patch without the time of the transition leaves the one
    that stands there."""
    node, stands = held.node, held.node.held
    wanted = None
    body = {"type": HELD_CONDITION, "$patch": "delete"}
    if held.shown:
        wanted = ConditionState("True", held.reason, shorten(held.shown, LONGEST_MESSAGE))
        body = {"type": HELD_CONDITION, **msgspec.to_builtins(wanted), "lastHeartbeatTime": now}
        if stands is None or stands.status != wanted.status:
            body["lastTransitionTime"] = now
    return DesiredWrite(
        WriteVerb.CONDITION,
        NODES,
        node.name,
        body,
        wanted,
        is_current=wanted == stands,
        uid=node.uid,
        outcome=f"{HELD_CONDITION} {'True' if wanted else 'removed'}",
        because=held.shown,
    )


def _config_notices(
    state: SloConfigState, config: SloConfig, source: SloConfigName
) -> Iterator[Notice]:
    if state.found is None:
        if not config.absent:
            seconds = GONE_AFTER // 1_000_000
            yield Notice(
                "normalization",
                f"there is no {source} any more: ratios go to 1.00 once it has been away for "
                f"{seconds} s",
            )
        return
    about = _reference(state.found)
    for key, problem in config.problems.items():
        text = f"{problem}; {_LAST_GOOD}"
        event = KubeEvent(about, CONFIG_INVALID[key], text, EventType.WARNING)
        yield Notice(f"{source}: {key}", text, event)
    for place, warning in enumerate(config.warnings):
        event = KubeEvent(about, CONFIG_IGNORED, warning, EventType.WARNING, str(place))
        yield Notice(f"{source}: warning {place}", warning, event)


def _reference(found: SloConfigObject) -> ObjectReference:
    return ObjectReference(
        CONFIG_MAPS.api_version, CONFIG_MAPS.kind, found.name, found.namespace, found.uid
    )


def _held(state: SloConfigState, node: ClusterNode, ratios: NodeRatios) -> _Held:
    broken = "; ".join(state.config.problems.values()) if state.config and state.found else ""
    text = ratios.problem
    if broken and _takes_part(node, ratios) and broken not in text:
        text = "; ".join(filter(None, (text, f"{broken}; {_LAST_GOOD}")))
    is_shown = ratios.problem not in broken or _took_part(node) or ratios.enabled
    reason = CUT_REFUSED if ratios.refused else RATIO_HELD
    return _Held(node, reason, text, text if is_shown else "")


def _node_notices(found: tuple[_Held, ...]) -> Iterator[Notice]:
    held = [each for each in found if each.text]
    yield from map(_node_notice, held[:MOST_TOLD])
    if len(held) > MOST_TOLD:
        more = len(held) - MOST_TOLD
        yield Notice("normalization of further nodes", f"{more} more nodes have such a problem")


def _takes_part(node: ClusterNode, ratios: NodeRatios) -> bool:
    return ratios.takes_part or _took_part(node)


def _took_part(node: ClusterNode) -> bool:
    ours = (RATIO_ANNOTATION, AMPLIFICATION_ANNOTATION)
    return ENABLED_LABEL in node.labels or any(each in node.annotations for each in ours)


def _node_notice(held: _Held) -> Notice:
    """`kubectl describe node` looks for events by the node's name as the uid."""
    name = held.node.name
    about = ObjectReference(NODES.api_version, NODES.kind, name, uid=name)
    event = KubeEvent(about, held.reason, held.text, EventType.WARNING)
    return Notice(f"normalization of Node {name}", held.text, event)


def controller(source: SloConfigName) -> Controller:
    return Controller(
        "normalization",
        (NODE_KIND, slo_config_kind(source), TOPOLOGY_KIND, POD_KIND),
        lambda view, now: reconcile(view, source, now),
    )
