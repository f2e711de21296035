"""One view of the cluster: which kinds are not listed yet, and which cannot be watched."""

from typing import Any

import pytest

from slackwater.contract.resources import POD_QOS
from slackwater.kube.informer import InformerView
from slackwater.manager.cluster_view import NODE_KIND, POLICY_KINDS
from slackwater.manager.controllers.policy_status import CONTROLLER
from tests.unit.manager.objects import view_of


@pytest.mark.parametrize(
    ("view", "waits"),
    [
        (InformerView({}, synced=True), ()),
        (InformerView({}, synced=True, problem="the watch broke"), ()),
        (InformerView({}, unknown_kind=True, problem="404"), ()),
        (InformerView({}), ("PodQOS: not listed yet",)),
        (InformerView({}, problem="forbidden"), ("PodQOS: forbidden",)),
    ],
)
def test_what_is_waited_for(view: InformerView[Any], waits: tuple[str, ...]) -> None:
    assert view_of(PodQOS=view).unsynced(CONTROLLER.watches) == waits
    assert view_of(PodQOS=view).unsynced([POLICY_KINDS[POD_QOS]]) == waits
    assert view_of(PodQOS=view).unsynced([NODE_KIND]) == ()


def test_problems_by_kind() -> None:
    seen = view_of(
        InformerView({}, problem="no nodes"),
        PodQOS=InformerView({}, unknown_kind=True, problem="GET /x: 404"),
        NodeQOS=InformerView({}, synced=True, problem="the watch broke"),
    )
    assert seen.problems() == {
        "Node": "no nodes",
        "AvoidanceAction": "",
        "NodeQOS": "the watch broke",
        "NodeQOSEnsurancePolicy": "",
        "PodQOS": "the cluster does not know this kind: its definition is not installed",
        "EnsuranceMetric": "",
        "ConfigMap/noderesource-tsp-template": "",
        "TimeSeriesPrediction": "",
        "ConfigMap/slo-controller-config": "",
        "NodeResourceTopology": "",
        "Pod": "",
    }
