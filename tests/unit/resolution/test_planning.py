"""Grants against readings: differences, releases, and the peace with other writers."""

import pytest

from slackwater.model.cgroup import CgroupRef
from slackwater.model.decision import Grant
from slackwater.model.gap import Gap
from slackwater.model.knob import QUOTA, Knob, KnobValue
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.story import NoteKind
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, MilliCpu
from slackwater.resolution.planning import Drift, Planned, plan
from slackwater.settings.agent import AgentSettings
from tests.unit.policies.nodes import BESTEFFORT, FREE, SECOND, held, node

OURS = Bandwidth(Micros(60_000))
THEIRS = Bandwidth(Micros(33_000))
SETTINGS = AgentSettings()


def exact(_: CgroupRef, __: Knob, value: KnobValue) -> KnobValue:
    return value


def grant(milli: int) -> Grant:
    return Grant(BESTEFFORT, QUOTA.name, MilliCpu(milli), ())


def planned(
    snapshot: NodeSnapshot, *grants: Grant, drift: dict[str, Drift] | None = None
) -> Planned:
    return plan(snapshot, grants, drift or {}, SETTINGS, exact)


def test_a_difference_is_a_change_in_the_groups_own_period() -> None:
    short = Bandwidth(UNLIMITED, Micros(10_000))
    [change] = planned(node(quota=short), grant(600)).changes
    assert (change.old, change.new) == (short, Bandwidth(Micros(6_000), Micros(10_000)))


def test_what_already_stands_there_is_no_change() -> None:
    assert planned(node(quota=OURS), grant(600)).changes == ()


def test_an_unread_quota_is_left_alone() -> None:
    assert planned(node(quota=Gap("gone")), grant(600)).changes == ()


def test_a_value_settles_before_it_is_compared() -> None:
    """systemd keeps whole percents: what is read back must not be written again."""

    def percents(_: CgroupRef, __: Knob, value: KnobValue) -> KnobValue:
        assert isinstance(value, Bandwidth)
        return OURS

    assert plan(node(quota=OURS), [grant(597)], {}, SETTINGS, percents).changes == ()


@pytest.mark.parametrize(
    ("standing", "granted", "changes"),
    [
        (100_000, 1000, 0),
        (100_000, 1001, 1),  # at the deadband of 1 ‰
        (200_000, 2001, 0),  # a raise by half of it
        (200_000, 1999, 1),  # cuts always are written
        (200_000, 2002, 1),
    ],
)
def test_slight_raises_are_not_worth_a_write(standing: int, granted: int, changes: int) -> None:
    quota = Bandwidth(Micros(standing))
    kept = (held(BESTEFFORT, FREE, quota),)
    assert len(planned(node(quota=quota, kept=kept), grant(granted)).changes) == changes


def test_a_slight_raise_over_somebody_elses_value_is_a_repair() -> None:
    kept = (held(BESTEFFORT, FREE, Bandwidth(Micros(200_100))),)
    found = planned(node(quota=Bandwidth(Micros(200_000)), kept=kept), grant(2001))
    assert (len(found.changes), len(found.notes)) == (1, 1)


def test_what_nobody_wants_any_more_is_released() -> None:
    kept = held(BESTEFFORT, FREE, OURS)
    assert planned(node(quota=OURS, kept=(kept,))).releases == (kept,)
    assert planned(node(quota=OURS, kept=(kept,)), grant(600)).releases == ()


def test_our_own_value_is_no_drift() -> None:
    snapshot = node(quota=OURS, kept=(held(BESTEFFORT, FREE, OURS),))
    found = planned(snapshot, grant(500))
    assert len(found.changes) == 1
    assert (found.notes, found.drift) == ((), {})


@pytest.mark.parametrize("standing", [THEIRS, FREE])
def test_a_baseline_put_back_is_drift_like_any_other_value(standing: Bandwidth) -> None:
    """The executor takes a drifted value for the new baseline: a fight must show all the same."""
    snapshot = node(quota=standing, kept=(held(BESTEFFORT, standing, OURS),))
    assert planned(snapshot, grant(600)).drift == {f"{BESTEFFORT.id}/quota": Drift(1, snapshot.at)}


def test_drift_is_repaired_and_told() -> None:
    snapshot = node(quota=THEIRS, kept=(held(BESTEFFORT, FREE, OURS),))
    found = planned(snapshot, grant(600))
    assert [change.new for change in found.changes] == [OURS]
    [note] = found.notes
    assert note.text == "somebody else wrote it since we did; written again"
    assert found.drift == {f"{BESTEFFORT.id}/quota": Drift(1, snapshot.at)}


def fight(ticks: int, every: int) -> list[Planned]:
    """Somebody writes THEIRS every so many seconds."""
    drift: dict[str, Drift] = {}
    story = []
    for tick in range(1, ticks * every + 1, every):
        snapshot = node(tick=tick, quota=THEIRS, kept=(held(BESTEFFORT, FREE, OURS),))
        found = planned(snapshot, grant(600), drift=drift)
        drift = found.drift
        story.append(found)
    return story


def test_a_fight_is_yielded_once_and_said() -> None:
    story = fight(20, every=1)
    assert [len(found.changes) for found in story] == [1] * 4 + [0] * 16
    told = [note.text for found in story for note in found.notes]
    assert len(told) == SETTINGS.yield_after == 5
    assert told[-1].startswith("yielded for 600 s: somebody else wrote it 5 times in a row")
    kinds = [note.kind for found in story for note in found.notes]
    assert kinds == [NoteKind.REPAIR] * 4 + [NoteKind.YIELD]
    assert [len(found.yielded) for found in story] == [0] * 4 + [1] * 16
    assert story[-1].yielded[0].until == (5 + 600) * SECOND


def test_after_the_truce_it_tries_again() -> None:
    drift = {f"{BESTEFFORT.id}/quota": Drift(yielded_until=Micros(10 * SECOND))}
    for tick, changes in ((9, 0), (11, 1)):
        snapshot = node(tick=tick, quota=THEIRS, kept=(held(BESTEFFORT, FREE, OURS),))
        assert len(planned(snapshot, grant(600), drift=drift).changes) == changes


def test_the_kubelets_minute_is_repaired_for_ever() -> None:
    assert all(len(found.changes) == 1 for found in fight(100, every=60))
