"""Half a minute of chaos on a real node: agent, manager, API server, kubelet and containerd are
killed, paused and restarted, while what is wanted of the node changes. Always the same seed;
`python -m tools.chaos --minutes 60 --seed N` goes on for longer, with any other one.

The tests of this file are one story, told in their order.
"""

from collections.abc import Iterator

import pytest

from tests.cluster.chaos_stage import ChaosStage
from tools.chaos.schedule import steps_within
from tools.cluster.control_plane import ControlPlane
from tools.cluster.node import Node

SEED, SECONDS = 18, 30.0


@pytest.fixture(scope="module")
def stage(control_plane: ControlPlane, node: Node) -> Iterator[ChaosStage]:
    made = ChaosStage(control_plane, node)
    try:
        made.open()
        yield made
    finally:
        made.close()


def test_before_it_everything_is_as_wanted(stage: ChaosStage) -> None:
    stage.await_wanted()
    assert stage.left(), "otherwise a release has nothing to do"


def test_after_it_everything_is_as_wanted(stage: ChaosStage) -> None:
    for step in steps_within(SEED, SECONDS):
        print(step.words())
        stage.play(step)
    stage.await_wanted()
    stage.want_everything()
    stage.await_wanted()


def test_after_a_release_everything_is_as_it_was(stage: ChaosStage) -> None:
    stage.release()
