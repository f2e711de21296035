"""A rotation step by step: who goes when, what stops it, and what the workload says afterwards."""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.http.errors import UnreachableError
from slackwater.kube.api_time import format_time
from slackwater.model.gap import Gap
from slackwater.rebalancer.last_rotation import encode_last_rotation
from slackwater.rebalancer.observed import LastRotation, PodUsage, Unavailable
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.rotation import (
    LOOK_EVERY,
    RemovalOutcome,
    RotationResult,
    RotationTask,
    ready_pods,
    rotate,
)
from slackwater.settings.rebalancer import Removal
from tests.unit.rebalancer.rotating_world import World, pod, refused
from tests.unit.rebalancer.workloads import rotated

A, B = pod("A"), pod("B", usage=1.1)
E, F = pod("E", 0.4), pod("F", 0.3)
PAIRS = ((A, F), (B, E))
CLAIM = rotated("2026-11-17T12:00:00Z")
GONE = refused(404, "NotFound", "gone")
CONFLICT = refused(409, "Conflict", "the object has been modified")
BROKEN = refused(500, "InternalError", "two budgets")


def go(
    world: World,
    batches: tuple[tuple[PodUsage, ...], ...] = PAIRS,
    patience: float = 300.0,
    removal: Removal = Removal.EVICT,
) -> RotationResult:
    return rotate(RotationTask(world.observed(), batches, CLAIM, patience), world.context(removal))


def left(done: RotationResult) -> str:
    return " ".join(each.name for each in done.left)


def fates(done: RotationResult) -> dict[str, RemovalOutcome]:
    return {each.pod.name: each.outcome for each in done.attempts}


def test_batch_after_batch() -> None:
    world = World()
    done = go(world)
    assert world.calls == ["claim", "evict A", "evict F", "evict B", "evict E", "note"]
    assert done == RotationResult(tuple(world.attempts))
    assert [each.name for each in done.removed] == ["A", "F", "B", "E"]
    assert world.last() == CLAIM


def test_the_next_batch_waits_until_as_many_are_ready_as_before() -> None:
    world = World(ready_after=7.0)
    go(world)
    # Four looks of two seconds until 7 s have passed, for each of both batches.
    assert world.second == 4 * LOOK_EVERY * 2
    assert len(ready_pods(world.observed())) == 6


def test_by_deletion() -> None:
    world = World()
    world.budget = 0
    done = go(world, removal=Removal.DELETE)
    assert set(fates(done).values()) == {RemovalOutcome.DELETED}
    assert world.removed() == "A F B E"


def test_the_claim_comes_first() -> None:
    world = World()
    world.patch_refusals = [BROKEN]
    done = go(world)
    assert world.calls == ["claim"]
    assert done.stop is not None
    assert (done.stop.reason, done.stop.failed) == (Reason.KUBERNETES_ERROR, True)
    assert left(done) == "A F B E"


def test_a_claim_that_another_change_outran_is_made_again() -> None:
    """A Deployment's status changes all the time."""
    world = World()
    world.patch_refusals = [CONFLICT, CONFLICT]
    assert go(world).stop is None
    assert world.calls[:4] == ["claim", "claim", "claim", "evict A"]


def test_of_two_rebalancers_one_goes() -> None:
    """The other wrote between our look and our claim, in the very same second."""
    world = World()

    def claimed_by_another() -> None:
        world.annotation = encode_last_rotation(CLAIM, format_time)
        world.version += 1

    world.patch_refusals = [CONFLICT]
    world.on_look[3] = claimed_by_another
    done = go(world)
    assert world.removed() == ""
    assert done.stop is not None
    assert done.stop.reason is Reason.COOLDOWN
    assert "another rebalancer began to rotate Deployment shop/web" in done.stop.because
    assert world.last() == CLAIM, "it is theirs, and stays"


def test_a_workload_that_never_stands_still_is_left() -> None:
    world = World()
    world.patch_refusals = [CONFLICT] * 9
    done = go(world)
    assert done.stop is not None
    assert (done.stop.reason, done.stop.failed) == (Reason.COOLDOWN, False)
    assert world.calls == ["claim"] * 5


Change = Callable[[World], None]


def deleted_and_made_anew(world: World) -> None:
    world.uid = "uid-other"


CHANGES: dict[str, tuple[Change, Reason, str]] = {
    "opted out": (
        lambda world: setattr(world, "opted_out", "annotation says so"),
        Reason.OPTED_OUT,
        "annotation says so",
    ),
    "scaled down": (
        lambda world: setattr(world, "desired", 4),
        Reason.HPA_SCALING,
        "the HPA now wants 4 pods instead of 6",
    ),
    "another workload": (
        deleted_and_made_anew,
        Reason.WORKLOAD_MISSING,
        "Deployment shop/web was deleted, and another has its name",
    ),
    "rotated by another": (
        lambda world: setattr(
            world,
            "annotation",
            encode_last_rotation(rotated("2026-11-17T11:59:59Z"), format_time),
        ),
        Reason.COOLDOWN,
        "another rebalancer began to rotate Deployment shop/web meanwhile",
    ),
    "an unreadable note": (
        lambda world: setattr(world, "annotation", "{"),
        Reason.COOLDOWN,
        "another rebalancer began",
    ),
    "a rollout": (
        lambda world: setattr(world, "rollout", "2 of 6 pods are updated"),
        Reason.ROLLOUT_IN_PROGRESS,
        "2 of 6 pods are updated",
    ),
    "asked to end": (
        lambda world: setattr(world, "halt", "asked to end"),
        Reason.STOPPED,
        "asked to end",
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_changed_since_the_decision_forbids_it(what: str) -> None:
    change, reason, because = CHANGES[what]
    world = World()
    task = RotationTask(world.observed(), PAIRS, CLAIM, 300.0)
    change(world)
    done = rotate(task, world.context())
    assert done.stop is not None
    assert done.stop.reason is reason
    assert because in done.stop.because
    assert (world.calls, left(done), done.removed) == ([], "A F B E", ())


@pytest.mark.parametrize("what", [name for name in CHANGES if name != "a rollout"])
def test_what_changes_between_batches_stops_it(what: str) -> None:
    """A rollout is looked at once the new pods are Ready: their start looks like one."""
    change, reason, because = CHANGES[what]
    world = World()
    world.on_look[4] = lambda: change(world)
    done = go(world)
    assert done.stop is not None
    assert done.stop.reason is reason
    assert because in done.stop.because
    assert (world.removed(), left(done)) == ("A F", "B E")
    assert not done.stop.failed


def test_more_pods_are_no_obstacle() -> None:
    world = World()
    world.desired = 8
    assert go(world).stop is None


def test_new_pods_that_do_not_come_stop_it() -> None:
    world = World(ready_after=1e9)
    done = go(world, patience=60.0)
    assert done.stop is not None
    assert done.stop.failed
    assert done.stop.because == "4 of 6 pods are Ready, 60 s after the last pod went"
    assert (world.removed(), left(done), world.second) == ("A F", "B E", 60.0)


def test_a_rollout_that_does_not_end_stops_it() -> None:
    world = World()
    world.on_look[3] = lambda: setattr(world, "rollout", "3 of 6 pods are updated")
    done = go(world, patience=30.0)
    assert done.stop is not None
    assert done.stop.because == "3 of 6 pods are updated, 30 s after the last pod went"


def test_a_server_that_is_away_for_a_while_is_waited_for() -> None:
    world = World()
    away = Unavailable(Reason.KUBERNETES_ERROR, "nobody answers")
    world.on_look = {
        4: lambda: setattr(world, "problem", away),
        9: lambda: setattr(world, "problem", None),
    }
    assert go(world).stop is None
    assert world.removed() == "A F B E"


def test_a_server_that_stays_away_stops_it() -> None:
    world = World()
    away = Unavailable(Reason.KUBERNETES_ERROR, "nobody answers")
    world.on_look[4] = lambda: setattr(world, "problem", away)
    done = go(world, patience=20.0)
    assert done.stop is not None
    assert done.stop.because == "nobody answers, 20 s after the last pod went"
    assert left(done) == "B E"


def test_a_server_that_is_away_from_the_start() -> None:
    world = World()
    task = RotationTask(world.observed(), PAIRS, CLAIM, 300.0)
    world.problem = Unavailable(Reason.KUBERNETES_ERROR, "nobody answers")
    done = rotate(task, world.context())
    assert done.stop is not None
    assert (done.stop.reason, done.stop.failed) == (Reason.KUBERNETES_ERROR, True)


def test_a_pod_that_vanished_is_skipped() -> None:
    world = World()
    task = RotationTask(world.observed(), PAIRS, CLAIM, 300.0)
    del world.pods["uid-A"]
    world.change("E", terminating=True)
    world.refusals["F"] = GONE
    done = rotate(task, world.context())
    vanished = RemovalOutcome.VANISHED
    assert fates(done) == {"A": vanished, "F": vanished, "B": RemovalOutcome.EVICTED, "E": vanished}
    assert world.removed() == "F B", "who is known to be gone is not asked for"
    assert done.stop is None


def test_a_pod_of_that_name_that_came_since_stays() -> None:
    """A StatefulSet's."""
    world = World()
    task = RotationTask(world.observed(), ((A,),), CLAIM, 300.0)
    world.pods["uid-A"] = msgspec.structs.replace(world.pods["uid-A"], uid="uid-new")
    done = rotate(task, world.context())
    assert fates(done) == {"A": RemovalOutcome.VANISHED}


def test_a_pod_that_opts_out_meanwhile_stays() -> None:
    world = World()
    world.on_look[4] = lambda: world.change("B", held_back="annotation says so")
    done = go(world)
    [kept] = [each for each in done.attempts if each.outcome is RemovalOutcome.HELD_BACK]
    assert (kept.pod.name, kept.because) == ("B", "annotation says so")
    assert world.removed() == "A F E"


def test_a_budget_ends_it_without_asking_for_the_others() -> None:
    """Acceptance row 19: it allows one; the budget is free again once A is replaced, but a hot pod
    without a cold one is not what was planned."""
    world = World()
    world.budget = 1
    done = go(world)
    blocked = RemovalOutcome.PDB_BLOCKED
    assert fates(done) == {"A": RemovalOutcome.EVICTED, "F": blocked, "B": blocked, "E": blocked}
    assert done.attempts[-1].because == "not tried, since a disruption budget holds F"
    assert (world.calls, left(done)) == (["claim", "evict A"], "")
    assert done.attempts == tuple(world.attempts)
    assert done.stop is not None
    assert (done.stop.reason, done.stop.failed) == (Reason.PDB_BLOCKED, False)
    assert "disruption budget" in done.stop.because


@pytest.mark.parametrize("error", [BROKEN, UnreachableError("nobody answers")])
def test_an_eviction_that_fails_ends_it(error: Exception) -> None:
    world = World()
    world.refusals["F"] = error  # type: ignore[assignment]
    done = go(world)
    assert done.stop is not None
    assert (done.stop.reason, done.stop.failed) == (Reason.KUBERNETES_ERROR, True)
    assert (world.removed(), left(done)) == ("A F", "B E")


LOST = UnreachableError("there was no whole answer in time")


def test_a_pod_that_goes_was_evicted_though_the_answer_was_lost() -> None:
    world = World()
    world.lost_answer = LOST
    done = go(world)
    assert set(fates(done).values()) == {RemovalOutcome.EVICTED}
    assert done.stop is None
    assert world.last() == CLAIM


def test_the_cool_down_stays_where_nobody_knows_whether_a_pod_goes() -> None:
    """Reviews: without it, one pod went in each round for ever."""
    world = World()
    world.refusals["A"] = LOST
    done = go(world)
    assert fates(done) == {"A": RemovalOutcome.UNKNOWN}
    assert done.stop is not None
    assert (done.stop.reason, done.stop.failed) == (Reason.KUBERNETES_ERROR, True)
    assert [each.name for each in done.unknown] == ["A"]
    # Never judged: what it brought would not be its own work.
    assert world.last() == msgspec.structs.replace(CLAIM, judged=True)


def test_the_cool_down_stays_while_the_api_server_is_away() -> None:
    world = World()
    world.lost_answer = LOST
    away = Unavailable(Reason.KUBERNETES_ERROR, "nobody answers")
    world.on_look[3] = lambda: setattr(world, "problem", away)
    done = go(world)
    assert fates(done) == {"A": RemovalOutcome.UNKNOWN}
    world.problem = None
    assert world.last() == msgspec.structs.replace(CLAIM, judged=True)


def test_the_end_is_heard_between_two_evictions() -> None:
    world = World()
    context = world.context()

    def told(_: object) -> None:
        world.halt = "asked to end"

    done = rotate(
        RotationTask(world.observed(), PAIRS, CLAIM, 300.0),
        msgspec.structs.replace(context, on_attempt=told),
    )
    assert world.removed() == "A"
    assert done.stop is not None
    assert (done.stop.reason, done.stop.failed, left(done)) == (Reason.STOPPED, False, "F B E")


def test_the_end_is_heard_while_it_waits() -> None:
    world = World(ready_after=1e9)
    world.on_look[5] = lambda: setattr(world, "halt", "asked to end")
    done = go(world)
    assert done.stop is not None
    assert done.stop.reason is Reason.STOPPED
    assert world.second <= 3 * LOOK_EVERY


# --- what the workload says afterwards


@pytest.mark.parametrize("before", [None, rotated(judged=True)], ids=["first", "again"])
def test_where_nobody_went_the_claim_is_taken_back(before: LastRotation | None) -> None:
    world = World()
    world.annotation = None if before is None else encode_last_rotation(before, format_time)
    world.budget = 0
    done = go(world)
    assert done.removed == ()
    assert world.calls == ["claim", "note"]
    assert world.last() == before


def test_a_rotation_that_was_not_completed_is_not_judged() -> None:
    world = World()
    world.budget = 1
    go(world)
    last = world.last()
    assert isinstance(last, LastRotation)
    assert (last.at, last.judged) == (CLAIM.at, True)


def test_who_is_killed_in_the_middle_leaves_a_rotation_that_is_not_judged() -> None:
    """By kill -9 nothing can be written any more: half a rotation would count as a miss."""
    world = World()
    notes = []
    context = world.context()
    rotate(
        RotationTask(world.observed(), PAIRS, CLAIM, 300.0),
        msgspec.structs.replace(context, on_attempt=lambda _: notes.append(world.last())),
    )
    assert notes == [msgspec.structs.replace(CLAIM, judged=True)] * 4
    assert world.last() == CLAIM, "at its end it is to be judged"


def test_a_correction_that_fails_is_told() -> None:
    world = World()
    world.budget = 0
    world.on_look[2] = lambda: None
    context = world.context()

    def told(_: object) -> None:
        world.patch_refusals = [BROKEN]

    done = rotate(
        RotationTask(world.observed(), PAIRS, CLAIM, 300.0),
        msgspec.structs.replace(context, on_attempt=told),
    )
    assert len(done.remarks) == 1
    assert "cannot be noted" in done.remarks[0]


def test_an_unreadable_note_is_not_written_back() -> None:
    world = World()
    world.annotation = "{"
    task = RotationTask(world.observed(), PAIRS, CLAIM, 300.0)
    assert isinstance(task.observed.last, Gap)
    world.budget = 0
    rotate(task, world.context())
    assert world.annotation is None


# --- laws


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    broken=st.sets(st.sampled_from("ABCDEF")),
    budget=st.none() | st.integers(0, 6),
    ready_after=st.sampled_from([0.0, 3.0, 1e9]),
    ends_at=st.none() | st.integers(2, 12),
)
def test_everybody_is_accounted_for(
    sizes: list[int], broken: set[str], budget: int | None, ready_after: float, ends_at: int | None
) -> None:
    """Each pod is tried at most once, tried or left, and never more are away than one batch."""
    pods = [pod(name) for name in "ABCDEF"]
    batches: list[tuple[PodUsage, ...]] = []
    for size in sizes:
        batches.append(tuple(pods[:size]))
        pods = pods[size:]
    world = World(ready_after=ready_after)
    world.budget = budget
    world.refusals = dict.fromkeys(broken, BROKEN)
    if ends_at is not None:
        world.on_look[ends_at] = lambda: setattr(world, "halt", "asked to end")
    task = RotationTask(world.observed(), tuple(filter(None, batches)), CLAIM, 60.0)
    done = rotate(task, world.context())
    tried = [each.pod.name for each in done.attempts]
    wanted = [each.name for batch in task.batches for each in batch]
    assert sorted(tried + [each.name for each in done.left]) == sorted(wanted)
    assert tried == wanted[: len(tried)]
    assert len(world.pods) == 6
    away = 6 - len(ready_pods(world.observed()))
    assert away <= max(map(len, task.batches), default=0)
    if done.stop is None:
        assert not done.left
    assert world.second <= 60.0 * len(task.batches) + LOOK_EVERY
