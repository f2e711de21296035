"""Grants against readings: differences, releases, and the peace with other writers."""

from typing import Any

import msgspec
import pytest

from slackwater.model.cgroup import CgroupReading, CgroupRef, CgroupVersion, Level, Tier
from slackwater.model.decision import Grant, NoteKind
from slackwater.model.gap import Gap
from slackwater.model.knob import (
    BURST,
    CPU_QOS_LEVEL,
    IDLE,
    MEMORY_MAX,
    QUOTA,
    WEIGHT,
    Knob,
    KnobKey,
)
from slackwater.model.snapshot import Held, NodeSnapshot, WritePrecision
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, MilliCpu
from slackwater.resolution.planning import Drift, PlannedChanges, plan_changes
from slackwater.settings.agent_settings import AgentSettings
from tests.unit.policies.nodes import BESTEFFORT, FREE, SECOND, held, node

OURS = Bandwidth(Micros(60_000))
THEIRS = Bandwidth(Micros(33_000))
SETTINGS = AgentSettings()


def grant(milli: int) -> Grant:
    return Grant(BESTEFFORT, QUOTA.name, MilliCpu(milli), ())


def planned(
    snapshot: NodeSnapshot, *grants: Grant, drift: dict[KnobKey, Drift] | None = None
) -> PlannedChanges:
    return plan_changes(snapshot, grants, drift or {}, SETTINGS)


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
    tier = msgspec.structs.replace(BESTEFFORT, path="kubepods.slice/kubepods-besteffort.slice")
    wanted = [Grant(tier, QUOTA.name, MilliCpu(597), ())]
    seen = node(quota=OURS)
    [change] = plan_changes(seen, wanted, {}, SETTINGS).changes
    assert change.new == Bandwidth(Micros(59_700))
    by_unit = WritePrecision(unit_knobs=frozenset({QUOTA.name}))
    seen = msgspec.structs.replace(seen, precision=by_unit)
    assert plan_changes(seen, wanted, {}, SETTINGS).changes == ()
    assert len(plan_changes(seen, [grant(597)], {}, SETTINGS).changes) == 1  # not a unit's cgroup


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
    assert planned(snapshot, grant(600)).drift == {
        KnobKey(BESTEFFORT.id, "quota"): Drift(1, snapshot.at)
    }


def test_drift_is_repaired_and_told() -> None:
    snapshot = node(quota=THEIRS, kept=(held(BESTEFFORT, FREE, OURS),))
    found = planned(snapshot, grant(600))
    assert [change.new for change in found.changes] == [OURS]
    [note] = found.notes
    assert note.text == "somebody else wrote it since we did; written again"
    assert found.drift == {KnobKey(BESTEFFORT.id, "quota"): Drift(1, snapshot.at)}


def fight(ticks: int, every: int) -> list[PlannedChanges]:
    """Somebody writes THEIRS every so many seconds."""
    drift: dict[KnobKey, Drift] = {}
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
    drift = {KnobKey(BESTEFFORT.id, "quota"): Drift(yielded_until=Micros(10 * SECOND))}
    for tick, changes in ((9, 0), (11, 1)):
        snapshot = node(tick=tick, quota=THEIRS, kept=(held(BESTEFFORT, FREE, OURS),))
        assert len(planned(snapshot, grant(600), drift=drift).changes) == changes


def test_the_kubelets_minute_is_repaired_for_ever() -> None:
    assert all(len(found.changes) == 1 for found in fight(100, every=60))


POD = CgroupRef("kubepods/besteffort/pod1", 10, Level.POD, Tier.BESTEFFORT, "1")


def seen(version: CgroupVersion = CgroupVersion.V1, **of_pod: Any) -> NodeSnapshot:
    """A tier at 2 CPUs, and a pod below it that reads so."""
    two = Bandwidth(Micros(200_000))
    pod = CgroupReading(POD, Micros(0), **of_pod)
    base = node(quota=two, kept=(held(BESTEFFORT, FREE, two),))
    return msgspec.structs.replace(base, readings=base.readings | {POD.id: pod}, version=version)


def of_pod(knob: Knob, value: int | bool) -> Grant:
    return Grant(POD, knob.name, value, ())


@pytest.mark.parametrize(
    ("version", "tier", "pod", "written"),
    [
        # The tier's raise is not worth a write, and its quota binds the pod as it is.
        (CgroupVersion.V1, 2001, 2001, None),
        (CgroupVersion.V2, 2001, 2001, 200_100),
        (CgroupVersion.V1, 2100, 2100, 210_000),
        (CgroupVersion.V1, 2001, 1000, 100_000),
    ],
)
def test_on_v1_a_quota_stays_below_one_that_stays(
    version: CgroupVersion, tier: int, pod: int, written: int | None
) -> None:
    found = planned(seen(version, quota=FREE), grant(tier), of_pod(QUOTA, pod))
    of = {change.ref.id: change.new for change in found.changes}
    assert of.get(POD.id) == (None if written is None else Bandwidth(Micros(written)))


def test_a_burst_stays_within_a_quota_that_is_lowered_for_one_that_stays() -> None:
    """The pod's quota is raised to the tier's that stays, and not to its own."""
    lower = Bandwidth(Micros(150_000))
    grants = grant(2001), of_pod(QUOTA, 2001), of_pod(BURST, 200_100)
    found = planned(seen(quota=lower, burst=Micros(0)), *grants)
    made = {change.knob: change.new for change in found.changes if change.ref == POD}
    assert made == {QUOTA: Bandwidth(Micros(200_000)), BURST: 200_000}


def test_a_quota_below_one_that_is_yielded() -> None:
    drift = {KnobKey(BESTEFFORT.id, "quota"): Drift(yielded_until=Micros(10 * SECOND))}
    theirs = Bandwidth(Micros(50_000))
    found = planned(seen(quota=theirs), grant(3000), of_pod(QUOTA, 2500), drift=drift)
    assert [change.new for change in found.changes] == [Bandwidth(Micros(200_000))]
    full = Bandwidth(Micros(200_000))
    assert planned(seen(quota=full), grant(3000), of_pod(QUOTA, 2500), drift=drift).changes == ()


def test_a_burst_stays_within_a_quota_that_stays() -> None:
    quota = Bandwidth(Micros(200_000))
    found = planned(seen(quota=quota, burst=Micros(0)), of_pod(QUOTA, 2001), of_pod(BURST, 200_100))
    assert [(change.knob, change.new) for change in found.changes] == [(BURST, 200_000)]


def test_a_weight_that_idle_hides_is_neither_written_nor_suspected_nor_let_go() -> None:
    ours = (Held(POD, "weight", 17, 20, Micros(0)), Held(POD, "idle", False, True, Micros(0)))
    hidden = msgspec.structs.replace(seen(weight=0, idle=True), held=ours)
    wanted = planned(hidden, of_pod(IDLE, True), of_pod(WEIGHT, 20))
    assert (wanted.changes, wanted.notes, wanted.releases) == ((), (), ())
    unwanted = planned(hidden, of_pod(IDLE, True))
    assert (unwanted.changes, unwanted.releases) == ((), ())
    assert planned(hidden, of_pod(WEIGHT, 20)).releases == ours[1:]
    assert planned(hidden).releases == ours


@pytest.mark.parametrize("value", [64, 4096 + 17])
def test_any_other_knob_is_compared_as_it_is(value: int) -> None:
    snapshot = seen(others={"memory-max": 4096})
    snapshot = msgspec.structs.replace(snapshot, precision=WritePrecision(page_size=1))
    found = planned(snapshot, of_pod(MEMORY_MAX, value))
    assert [(change.old, change.new) for change in found.changes] == [(4096, value)]
    assert planned(snapshot, of_pod(MEMORY_MAX, 4096)).changes == ()
    assert planned(snapshot, of_pod(CPU_QOS_LEVEL, -1)).changes == ()  # no such file
