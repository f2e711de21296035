"""One view of the cluster: which kinds are not listed yet, and which cannot be watched."""

from typing import Any

import pytest

from slackwater.kube.informer import View
from slackwater.kube.resource import NODES, POD_QOS
from slackwater.manager.controllers.policy_status import CONTROLLER
from tests.unit.manager.objects import view_of


@pytest.mark.parametrize(
    ("view", "waits"),
    [
        (View({}, synced=True), ()),
        (View({}, synced=True, problem="the watch broke"), ()),
        (View({}, unknown_kind=True, problem="404"), ()),
        (View({}), ("PodQOS: not listed yet",)),
        (View({}, problem="forbidden"), ("PodQOS: forbidden",)),
    ],
)
def test_what_is_waited_for(view: View[Any], waits: tuple[str, ...]) -> None:
    assert view_of(PodQOS=view).unsynced(CONTROLLER.watches) == waits
    assert view_of(PodQOS=view).unsynced([POD_QOS]) == waits
    assert view_of(PodQOS=view).unsynced([NODES]) == ()


def test_problems_by_kind() -> None:
    seen = view_of(
        View({}, problem="no nodes"),
        PodQOS=View({}, unknown_kind=True, problem="GET /x: 404"),
        NodeQOS=View({}, synced=True, problem="the watch broke"),
    )
    assert seen.problems() == {
        "Node": "no nodes",
        "AvoidanceAction": "",
        "NodeQOS": "the watch broke",
        "NodeQOSEnsurancePolicy": "",
        "PodQOS": "the cluster does not know this kind: its definition is not installed",
    }
