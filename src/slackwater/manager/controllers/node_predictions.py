"""The controller of nodes' predictions: one for every node, from the template.

It is owned by its Node, so that it goes with it, and labelled, so that we know our own. A
prediction of that name that somebody else made is left alone. Without a template ours are deleted;
with one that cannot be read they stay as they are.
"""

from collections.abc import Iterator

import msgspec

from slackwater.contract.crane.prediction import (
    TEMPLATE_KEY,
    TEMPLATE_NAME,
    TEMPLATE_NAMESPACES,
    TimeSeriesPredictionSpec,
    node_prediction_name,
)
from slackwater.contract.resources import CONFIG_MAPS, NODES, TIME_SERIES_PREDICTIONS
from slackwater.kube.events import EventType, KubeEvent, ObjectReference
from slackwater.manager.cluster_view import (
    NODE_KIND,
    PREDICTION_KIND,
    TEMPLATE_KIND,
    ClusterView,
)
from slackwater.manager.controllers.controller import (
    Controller,
    DesiredWrite,
    Notice,
    Reconciled,
    WriteVerb,
)
from slackwater.manager.node_template import NodeTemplate, read_node_template
from slackwater.manager.prediction_object import (
    MANAGED_BY,
    MANAGER,
    NodeOwner,
    PredictionObject,
    TemplateObject,
)
from slackwater.model.gap import Gap
from slackwater.model.problem import InvalidError
from slackwater.status.api_objects import ClusterNode

#: Reasons of events.
TEMPLATE_INVALID, NOT_OURS = "TemplateInvalid", "PredictionNotOurs"
UNKNOWN_FIELDS = "TemplateFieldsUnknown"


class TemplateChoice(msgspec.Struct, frozen=True):
    """The template in force: None where there is none, a Gap where it cannot be used. `namespace`
    is where the nodes' predictions are."""

    template: NodeTemplate | Gap | None
    namespace: str = ""
    source: TemplateObject | None = None


class DefaultTemplate(msgspec.Struct, frozen=True):
    """What counts where there is no ConfigMap."""

    template: NodeTemplate
    namespace: str


def choose_template(view: ClusterView, default: DefaultTemplate | None) -> TemplateChoice:
    """Crane's newer namespace before the older one; a ConfigMap before our own template."""
    there = {each.namespace: each for each in view.of(TEMPLATE_KIND).items.values()}
    for namespace in TEMPLATE_NAMESPACES:
        if (found := there.get(namespace)) is not None:
            return TemplateChoice(_read(found), namespace, found)
    if default is not None:
        return TemplateChoice(default.template, default.namespace)
    return TemplateChoice(None)


def _read(found: TemplateObject) -> NodeTemplate | Gap:
    source = f"ConfigMap {found.namespace}/{found.name}: {TEMPLATE_KEY}"
    if found.text is None:
        return Gap(f"{source} is missing, but must be a prediction's spec")
    try:
        return read_node_template(found.text, source)
    except InvalidError as error:
        return Gap(str(error))


def reconcile(view: ClusterView, default: DefaultTemplate | None) -> Reconciled:
    choice = choose_template(view, default)
    notices = tuple(_notices(view, choice))
    match choice.template:
        case Gap():
            return Reconciled(notices=notices)
        case None:
            return Reconciled(tuple(_deletions(view, choice)), notices)
        case template:
            wanted = _wanted(view, choice.namespace, template)
            return Reconciled((*wanted, *_deletions(view, choice)), notices)


def _wanted(view: ClusterView, namespace: str, template: NodeTemplate) -> Iterator[DesiredWrite]:
    there = view.of(PREDICTION_KIND).items
    for node in view.nodes.items.values():
        found = there.get(f"{namespace}/{node_prediction_name(node.name)}")
        if found is None or is_ours(found):
            yield _desire(node, namespace, template.spec_of(node.name), found)


def is_ours(found: PredictionObject) -> bool:
    """By our label, or because it is owned by a Node, as Crane's agent makes them."""
    owner = found.owner
    return found.managed or (owner is not None and owner.kind == NODES.kind)


def _desire(
    node: ClusterNode,
    namespace: str,
    spec: TimeSeriesPredictionSpec,
    found: PredictionObject | None,
) -> DesiredWrite:
    owner = NodeOwner(NODES.api_version, NODES.kind, node.name, node.uid, controller=True)
    body = {
        "metadata": {
            "labels": {MANAGED_BY: MANAGER},
            "ownerReferences": [msgspec.to_builtins(owner)],
        },
        "spec": spec,
    }
    current = found is not None and found.managed and found.owner == owner and found.spec == spec
    return DesiredWrite(
        WriteVerb.APPLY,
        TIME_SERIES_PREDICTIONS,
        node_prediction_name(node.name),
        body,
        (node.uid, spec),
        current,
        namespace,
        outcome="made" if found is None else "changed",
        because=f"the template of {namespace}/{TEMPLATE_NAME}",
    )


def _deletions(view: ClusterView, choice: TemplateChoice) -> Iterator[DesiredWrite]:
    """Ours that no node has, or that are where the template was before."""
    wanted = {
        f"{choice.namespace}/{node_prediction_name(node)}"
        for node in (*view.nodes.items, *view.nodes.unreadable)
        if choice.template is not None
    }
    for key, found in view.of(PREDICTION_KIND).items.items():
        if found.managed and key not in wanted:
            why = "there is no such node" if choice.template else "there is no template any more"
            yield DesiredWrite(
                WriteVerb.DELETE,
                TIME_SERIES_PREDICTIONS,
                found.name,
                None,
                found.uid,
                is_current=False,
                namespace=found.namespace,
                uid=found.uid,
                outcome="deleted",
                because=why,
            )


def _notices(view: ClusterView, choice: TemplateChoice) -> Iterator[Notice]:
    if choice.source is not None:
        yield from _template_notices(view, choice, choice.source)
    if isinstance(choice.template, NodeTemplate):
        for node in view.nodes.items.values():
            key = f"{choice.namespace}/{node_prediction_name(node.name)}"
            found = view.of(PREDICTION_KIND).items.get(key)
            if found is not None and not is_ours(found):
                yield _not_ours(found)


def _template_notices(
    view: ClusterView, choice: TemplateChoice, chosen: TemplateObject
) -> Iterator[Notice]:
    about = ObjectReference(
        CONFIG_MAPS.api_version, CONFIG_MAPS.kind, chosen.name, chosen.namespace, chosen.uid
    )
    match choice.template:
        case Gap(reason):
            event = KubeEvent(about, TEMPLATE_INVALID, reason, EventType.WARNING)
            yield Notice("template", reason, event)
        case NodeTemplate(warnings=(_, *_) as warnings):
            told = "; ".join(warnings)
            event = KubeEvent(about, UNKNOWN_FIELDS, told, EventType.WARNING)
            yield Notice("template", told, event)
    for other in view.of(TEMPLATE_KIND).items.values():
        if other.namespace != chosen.namespace and other.namespace in TEMPLATE_NAMESPACES:
            text = f"{other.namespace}/{other.name} is ignored: {chosen.namespace} has one too"
            yield Notice(f"template in {other.namespace}", text)


def _not_ours(found: PredictionObject) -> Notice:
    about = ObjectReference(
        TIME_SERIES_PREDICTIONS.api_version,
        TIME_SERIES_PREDICTIONS.kind,
        found.name,
        found.namespace,
        found.uid,
    )
    text = (
        f"the template does not change it: it is neither labelled {MANAGED_BY}={MANAGER} nor "
        "owned by a Node"
    )
    return Notice(str(found), text, KubeEvent(about, NOT_OURS, text))


def controller(default: DefaultTemplate | None) -> Controller:
    return Controller(
        "node_predictions",
        (NODE_KIND, TEMPLATE_KIND, PREDICTION_KIND),
        lambda view, _now: reconcile(view, default),
        needs=(PREDICTION_KIND,),
    )
