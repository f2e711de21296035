"""Which nodes the webhook has to look at again, and what is told of the others."""

import json

import msgspec

from slackwater.contract.koordinator.amplification import RECORD_ANNOTATION
from slackwater.contract.koordinator.normalization import (
    AMPLIFICATION_ANNOTATION,
    RAW_ALLOCATABLE_ANNOTATION,
)
from slackwater.kube.informer import InformerView
from slackwater.manager.cluster_view import NODE_KIND, ClusterView
from slackwater.manager.controllers.controller import Reconciled, WriteVerb
from slackwater.manager.controllers.node_amplification import CONTROLLER, INVALID
from slackwater.status.api_objects import read_node

RATIO = '{"cpu":1.50}'
SETTLED = {
    AMPLIFICATION_ANNOTATION: RATIO,
    RAW_ALLOCATABLE_ANNOTATION: '{"cpu":"8"}',
    RECORD_ANNOTATION: json.dumps(
        {"ratio": RATIO, "cpu": {"stored": "12", "raw": "8"}}, separators=(",", ":")
    ),
}


def reconcile(cpu: str, annotations: dict[str, str]) -> Reconciled:
    node = {
        "metadata": {"name": "n1", "uid": "u1", "annotations": annotations},
        "status": {"capacity": {"cpu": "8"}, "allocatable": {"cpu": cpu, "pods": "110"}},
    }
    seen = read_node(msgspec.json.encode(node))
    return CONTROLLER.reconcile(
        ClusterView({NODE_KIND: InformerView({"n1": seen}, synced=True)}), ""
    )


def test_a_node_that_takes_no_part_is_not_looked_at() -> None:
    assert reconcile("8", {"slackwater.io/report": "{}"}) == Reconciled()


def test_a_node_with_a_new_ratio_is_touched() -> None:
    [write] = reconcile("8", {AMPLIFICATION_ANNOTATION: RATIO}).writes
    assert (write.verb, write.is_current, write.outcome) == (
        WriteVerb.TOUCH,
        False,
        "allocatable cpu 12",
    )
    assert (write.key, str(write)) == ("amounts u1", "amounts of Node n1")


def test_a_node_as_it_should_be_is_not() -> None:
    [write] = reconcile("12", SETTLED).writes
    assert write.is_current


def test_an_amount_that_was_stated_while_nobody_looked_is_seen() -> None:
    [write] = reconcile("6", SETTLED).writes
    assert (write.is_current, write.outcome) == (False, "allocatable cpu 9")


def test_a_ratio_that_went_is_seen() -> None:
    left = {name: text for name, text in SETTLED.items() if name != AMPLIFICATION_ANNOTATION}
    [write] = reconcile("12", left).writes
    assert (write.is_current, write.outcome) == (False, "allocatable cpu 8")


def test_a_ratio_that_cannot_be_read_is_an_event_on_the_node() -> None:
    found = reconcile("12", {**SETTLED, AMPLIFICATION_ANNOTATION: "{]"})
    [notice] = found.notices
    assert notice.event is not None
    assert (notice.event.reason, notice.event.about.uid) == (INVALID, "n1")
    assert "is '{]', but must be a JSON mapping" in notice.text
    assert found.writes[0].is_current
