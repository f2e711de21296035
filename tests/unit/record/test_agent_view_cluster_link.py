"""The ties to the cluster in words: for healthz, explain and top."""

import pytest

from slackwater.model.snapshot import Freshness
from slackwater.model.units import Micros
from slackwater.record.agent_view import NO_LINK, TOLERATED_SILENCE, ClusterLink

SECOND = 1_000_000


def fresh(seconds: float, problem: str = "") -> Freshness:
    return Freshness(Micros(int(seconds * SECOND)), problem)


def test_all_is_well_is_nothing_to_say() -> None:
    link = ClusterLink({"pods": fresh(50), "node": fresh(3)}, {"written": 2})
    assert link.remarks() == ()
    assert link.lost_touch() == ()
    assert NO_LINK.remarks() == ()


def test_each_thing_that_is_wrong_is_one_sentence() -> None:
    link = ClusterLink(
        {"pods": fresh(150, "refused"), "node": fresh(3)}, unwritten="403", unsent="no answer"
    )
    assert link.remarks() == (
        "nothing was heard of pods for 2 min: refused",
        "the Node's report cannot be written: 403",
        "events cannot be sent: no answer",
    )


@pytest.mark.parametrize(
    ("age", "problem", "lost"),
    [
        (TOLERATED_SILENCE, "refused", ("pods",)),
        (TOLERATED_SILENCE - 1, "refused", ()),
        (TOLERATED_SILENCE * 9, "", ()),
    ],
)
def test_a_stream_that_is_opened_again_at_once_is_no_news(
    age: int, problem: str, lost: tuple[str, ...]
) -> None:
    assert ClusterLink({"pods": Freshness(Micros(age), problem)}).lost_touch() == lost
