"""One prediction for every node, from the template; whose it is, when it goes, what is told."""

import msgspec
import pytest

from slackwater.kube.events import EventType
from slackwater.manager.cluster_view import ClusterView
from slackwater.manager.controllers import node_predictions
from slackwater.manager.controllers.controller import Reconciled, WriteVerb
from slackwater.manager.controllers.node_predictions import (
    NOT_OURS,
    TEMPLATE_INVALID,
    UNKNOWN_FIELDS,
    DefaultTemplate,
    reconcile,
)
from slackwater.manager.node_template import default_template, read_node_template
from slackwater.manager.prediction_object import MANAGED_BY, MANAGER
from tests.unit.manager.predictions import SEED_TEXT, owner, prediction, template, view

SPEC = read_node_template(SEED_TEXT, "x").spec_of("n1")
OURS = DefaultTemplate(default_template(), "slackwater-system")


def go(seen: ClusterView, default: DefaultTemplate | None = None) -> Reconciled:
    return reconcile(seen, default)


def test_every_node_gets_one_owned_by_it() -> None:
    done = go(view("n1", "n2", templates=(template(),)))
    assert [str(each) for each in done.writes] == [
        "TimeSeriesPrediction default/noderesource-n1",
        "TimeSeriesPrediction default/noderesource-n2",
    ]
    first = done.writes[0]
    assert (first.verb, first.is_current, first.uid) == (WriteVerb.APPLY, False, "")
    assert first.body["spec"] == SPEC
    assert first.body["metadata"] == {
        "labels": {MANAGED_BY: MANAGER},
        "ownerReferences": [owner("n1")],
    }
    assert done.notices == ()


def test_what_stands_there_is_current() -> None:
    there = prediction("noderesource-n1", SPEC, owners=(owner("n1"),))
    [write] = go(view("n1", templates=(template(),), predictions=(there,))).writes
    assert write.is_current


@pytest.mark.parametrize(
    "there",
    [
        prediction(
            "noderesource-n1",
            msgspec.structs.replace(SPEC, prediction_window_seconds=7200),
            owners=(owner("n1"),),
        ),
        prediction("noderesource-n1", SPEC),
        prediction("noderesource-n1", SPEC, managed=False, owners=(owner("n1"),)),
        prediction("noderesource-n1", SPEC, owners=(owner("another"),)),
    ],
    ids=["another spec", "no owner", "made by Crane's agent", "a node of the same name before"],
)
def test_ours_is_brought_into_line(there: object) -> None:
    [write] = go(view("n1", templates=(template(),), predictions=(there,))).writes  # type: ignore[arg-type]
    assert (write.verb, write.is_current, write.outcome) == (WriteVerb.APPLY, False, "changed")


@pytest.mark.parametrize("owners", [(), (owner("web", "Deployment"),)])
def test_somebody_elses_is_left_alone_and_told(owners: tuple[dict[str, object], ...]) -> None:
    there = prediction("noderesource-n1", SPEC, managed=False, owners=owners)
    done = go(view("n1", templates=(template(),), predictions=(there,)))
    assert done.writes == ()
    [notice] = done.notices
    assert notice.event is not None
    assert (notice.event.reason, notice.event.about.name) == (NOT_OURS, "noderesource-n1")


def test_ours_goes_with_its_node_and_nobody_elses_does() -> None:
    ours = prediction("noderesource-gone", SPEC)
    theirs = prediction("noderesource-gone-too", SPEC, managed=False)
    [write] = go(view(templates=(template(),), predictions=(ours, theirs))).writes
    assert (write.verb, write.name, write.uid) == (WriteVerb.DELETE, ours.name, ours.uid)
    assert write.because == "there is no such node"


def test_without_a_template_ours_go() -> None:
    ours = prediction("noderesource-n1", SPEC)
    [write] = go(view("n1", predictions=(ours,))).writes
    assert (write.verb, write.because) == (WriteVerb.DELETE, "there is no template any more")


def test_a_template_that_moves_takes_its_predictions_along() -> None:
    ours = prediction("noderesource-n1", SPEC, owners=(owner("n1"),))
    moved = view("n1", templates=(template(namespace="crane-system"),), predictions=(ours,))
    made, gone = go(moved).writes
    assert (made.verb, made.namespace) == (WriteVerb.APPLY, "crane-system")
    assert (gone.verb, gone.namespace) == (WriteVerb.DELETE, "default")


@pytest.mark.parametrize("text", [None, "a: [", SEED_TEXT.replace(".name}}", ".uid}}")])
def test_a_template_that_cannot_be_read_changes_nothing_and_is_told(text: str | None) -> None:
    ours = prediction("noderesource-n1", SPEC)
    done = go(view("n1", "n2", templates=(template(text),), predictions=(ours,)))
    assert done.writes == ()
    [notice] = done.notices
    assert notice.event is not None
    assert (notice.event.reason, notice.event.type) == (TEMPLATE_INVALID, EventType.WARNING)
    assert (notice.event.about.kind, notice.event.about.namespace) == ("ConfigMap", "default")
    assert notice.text.startswith("ConfigMap default/noderesource-tsp-template: spec")
    assert "\n" not in notice.text


def test_a_misspelt_field_is_told_and_the_template_counts() -> None:
    text = SEED_TEXT.replace("predictionWindowSeconds", "windowSeconds: 1\npredictionWindowSeconds")
    assert text != SEED_TEXT
    done = go(view("n1", templates=(template(text),)))
    assert len(done.writes) == 1
    [notice] = done.notices
    assert notice.event is not None
    assert (notice.event.reason, notice.event.type) == (UNKNOWN_FIELDS, EventType.WARNING)
    assert notice.text == (
        "ConfigMap default/noderesource-tsp-template: spec: windowSeconds is not known and has no "
        "effect"
    )


def test_of_two_templates_the_newer_place_counts() -> None:
    both = (template(), template(namespace="crane-system"), template(namespace="team-a"))
    done = go(view("n1", templates=both))
    [write] = done.writes
    assert write.namespace == "crane-system"
    [notice] = done.notices
    assert notice.text == "default/noderesource-tsp-template is ignored: crane-system has one too"
    assert notice.event is None


def test_a_template_in_any_other_namespace_is_nobodys() -> None:
    assert go(view("n1", templates=(template(namespace="team-a"),))) == Reconciled()


def test_ours_counts_only_where_there_is_none() -> None:
    [write] = go(view("n1"), OURS).writes
    assert (write.namespace, len(write.body["spec"].prediction_metrics)) == ("slackwater-system", 2)
    [write] = go(view("n1", templates=(template(),)), OURS).writes
    assert write.namespace == "default"


def test_it_needs_the_definition() -> None:
    made = node_predictions.controller(None)
    assert [str(each) for each in made.needs] == ["TimeSeriesPrediction"]
    assert made.reconcile(view("n1"), "now") == Reconciled()
