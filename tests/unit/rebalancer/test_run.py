"""A whole round: what is done, what is told, what is sent, and the exit code."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.http.errors import UnreachableError
from slackwater.kube.api_time import format_time
from slackwater.kube.events import EventType
from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.rebalancer.last_rotation import encode_last_rotation
from slackwater.rebalancer.observed import Lag, LastRotation, Unavailable
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.results import (
    FAILED,
    IMPOSSIBLE,
    REBALANCED,
    ROTATED,
    RoundResult,
    describe_realised,
)
from slackwater.rebalancer.run import RoundMemory, run_once
from slackwater.settings.rebalancer import KafkaSettings, MoveSettings, Removal, RunSettings
from tests.unit.rebalancer.rotating_world import RUN, SETTINGS, World, refused
from tests.unit.rebalancer.workloads import NOON, rotated

TWO_BUDGETS = refused(500, "InternalError", "This pod has more than one PodDisruptionBudget")


def go(world: World, settings: RunSettings = RUN, memory: RoundMemory | None = None) -> RoundResult:
    return run_once(world.dependencies(settings.removal), settings, memory)


def only(result: RoundResult) -> tuple[Reason, str]:
    [one] = result.results
    return one.reason, one.because


def test_the_seeds_example() -> None:
    world = World()
    result = go(world)
    assert only(result) == (Reason.ROTATED, "Improvement 34.8% exceeds minimum 10.0%")
    assert world.removed() == "A F B E"
    assert (result.exit_code, result.errors) == (0, {})
    assert result.took == world.second > 0


def test_its_entries() -> None:
    world = World()
    go(world)
    *pods, workload = world.told
    assert [(each.what, each.before, each.result) for each in pods] == [
        ("Pod shop/A", "1.2 cores", "evicted"),
        ("Pod shop/F", "0.3 cores", "evicted"),
        ("Pod shop/B", "1.1 cores", "evicted"),
        ("Pod shop/E", "0.4 cores", "evicted"),
    ]
    assert pods[0].because == "most busy of Deployment shop/web"
    assert pods[1].because == "least busy of Deployment shop/web"
    assert (workload.what, workload.after, workload.result) == (
        "Deployment shop/web", "A, F, B, E", "rotated",
    )  # fmt: skip
    assert {each.tick for each in world.told} == {1}


def test_its_events() -> None:
    world = World()
    go(world)
    *pods, workload = world.sent
    assert [each.about.name for each in pods] == ["A", "F", "B", "E"]
    first = pods[0]
    assert (first.about.kind, first.about.namespace, first.about.uid) == ("Pod", "shop", "uid-A")
    assert (first.reason, first.type) == (ROTATED, EventType.NORMAL)
    assert first.message == (
        "evicted as one of the most busy pods of Deployment shop/web: it used 1.2 cores, the HPA's "
        "target is 0.7; the hot pods' average should fall from 1.15 to 0.75 cores (34.8 %)"
    )
    assert (workload.reason, workload.type) == (REBALANCED, EventType.NORMAL)
    assert workload.about == msgspec.structs.replace(
        workload.about, api_version="apps/v1", kind="Deployment", name="web", uid="uid-web"
    )
    assert workload.message == "rotated A, F, B, E: Improvement 34.8% exceeds minimum 10.0%"


def test_its_note_says_what_was_expected() -> None:
    world = World()
    go(world)
    last = world.last()
    assert isinstance(last, LastRotation)
    assert (last.at, last.pods, last.hot, last.judged) == (NOON, 4, 2, False)
    assert last.top == pytest.approx(1.15)
    assert last.improvement == pytest.approx(34.78, abs=0.01)


def test_a_second_round_cools_down() -> None:
    world = World()
    go(world)
    world.second += 60
    world.pods = World().pods  # as hot as before
    reason, because = only(go(world))
    assert reason is Reason.COOLDOWN
    assert "the pause is 10m" in because
    assert world.removed() == "A F B E"


def test_by_deletion() -> None:
    world = World()
    go(world, msgspec.structs.replace(RUN, removal=Removal.DELETE))
    assert [call.split()[0] for call in world.calls] == ["claim", *["delete"] * 4, "note"]
    assert world.sent[0].message.startswith("deleted as one of the most busy")
    assert world.told[0].result == "deleted"


def test_a_dry_run_changes_nothing() -> None:
    world = World()
    world.annotation = encode_last_rotation(rotated(), format_time)  # there is something to judge
    parts = msgspec.structs.replace(world.dependencies(), writer=None)
    result = run_once(parts, RUN)
    reason, because = only(result)
    assert (reason, because) == (Reason.DRY_RUN, "Improvement 34.8% exceeds minimum 10.0%")
    assert (world.calls, world.sent, world.second) == ([], [], 0)
    *pods, entry = world.told
    assert (entry.after, entry.result) == ("A, F, B, E", "dry_run")
    assert [(each.what, each.before, each.because, each.result) for each in pods] == [
        ("Pod shop/A", "1.2 cores", "most busy of Deployment shop/web", "dry_run"),
        ("Pod shop/F", "0.3 cores", "least busy of Deployment shop/web", "dry_run"),
        ("Pod shop/B", "1.1 cores", "most busy of Deployment shop/web", "dry_run"),
        ("Pod shop/E", "0.4 cores", "least busy of Deployment shop/web", "dry_run"),
    ]
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("blocked", "reason", "because", "exit_code"),
    [
        (1, Reason.ROTATED, "1 of 4 pods went: a disruption budget holds it", 0),
        (0, Reason.PDB_BLOCKED, "0 of 4 pods went: a disruption budget holds it", 0),
    ],
)
def test_a_budget(blocked: int, reason: Reason, because: str, exit_code: int) -> None:
    """Acceptance row 19."""
    world = World()
    world.budget = blocked
    result = go(world)
    found, said = only(result)
    assert (found, result.exit_code) == (reason, exit_code)
    assert said.startswith(because)
    fates = [each.result for each in world.told if each.what.startswith("Pod")]
    assert fates == ["evicted"] * blocked + ["pdb_blocked"] * (4 - blocked)


def test_an_eviction_that_fails() -> None:
    world = World()
    world.refusals["A"] = TWO_BUDGETS
    result = go(world)
    reason, because = only(result)
    assert (reason, result.exit_code) == (Reason.KUBERNETES_ERROR, 1)
    assert "more than one PodDisruptionBudget" in because
    assert result.errors == {"kubernetes": 1}
    [event] = world.sent
    assert (event.reason, event.type) == (FAILED, EventType.WARNING)
    assert world.last() is None


def test_lost_answers_cost_one_batch_for_each_cool_down() -> None:
    """The pods that really went are replaced by others as hot, round after round."""
    world = World()
    world.refusals = dict.fromkeys("ABCDEF", UnreachableError("there was no answer in time"))
    said = []
    for _ in range(5):
        said.append(only(go(world)))
        world.second += 60
    assert said[0][0] is Reason.KUBERNETES_ERROR
    assert said[0][1].startswith("0 of 4 pods went, and whether A goes is not known: ")
    assert [reason for reason, _ in said[1:]] == [Reason.COOLDOWN] * 4
    assert world.removed() == "A"


def test_an_eviction_that_fails_after_others_went() -> None:
    world = World()
    world.refusals["B"] = TWO_BUDGETS
    result = go(world)
    reason, because = only(result)
    assert (reason, result.exit_code) == (Reason.ROTATED, 1)
    assert because.startswith("2 of 4 pods went: ")
    assert [event.reason for event in world.sent] == [ROTATED, ROTATED, FAILED]
    assert [each.result for each in world.told] == ["evicted", "evicted", "failed", "failed"]


def test_new_pods_that_do_not_come() -> None:
    world = World(ready_after=1e9)
    result = go(world)
    reason, because = only(result)
    assert (reason, result.exit_code) == (Reason.ROTATED, 1)
    assert because == "2 of 4 pods went: 4 of 6 pods are Ready, 300 s after the last pod went"
    assert result.errors == {}, "nobody failed to answer"
    last = world.told[-1]
    assert (last.after, last.result) == ("A, F", "failed"), "no line says that all went well"


def test_what_was_read_too_long_ago_is_left_to_the_next_round() -> None:
    """The first one's pods take longer than the window that the numbers are about."""
    world = World(ready_after=301.0)
    patient = msgspec.structs.replace(RUN, ready_timeout=Micros(600_000_000))
    other = msgspec.structs.replace(SETTINGS, name="other", container="web")
    result = go(world, msgspec.structs.replace(patient, workloads=(SETTINGS, other)))
    first, second = result.results
    assert (first.reason, second.reason) == (Reason.ROTATED, Reason.STOPPED)
    assert second.because == (
        "0 of 4 pods went: its numbers are 604 s old by now; the next round looks again"
    )
    assert result.exit_code == 0
    assert world.removed() == "A F B E"


def test_where_new_pods_do_not_come_no_other_workload_is_rotated() -> None:
    """A full cluster has no room for theirs either."""
    world = World(ready_after=1e9)
    other = msgspec.structs.replace(SETTINGS, name="other", container="web")
    impatient = msgspec.structs.replace(RUN, ready_timeout=Micros(20_000_000))
    result = go(world, msgspec.structs.replace(impatient, workloads=(SETTINGS, other)))
    first, second = result.results
    assert (first.reason, second.reason) == (Reason.ROTATED, Reason.STOPPED)
    assert second.because == (
        "0 of 4 pods went: the new pods of Deployment shop/web do not come "
        "(4 of 6 pods are Ready, 20 s after the last pod went)"
    )
    assert world.removed() == "A F"
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("spared", "reason", "because"),
    [
        ({"terminating": True}, Reason.NO_PODS_ABOVE_TOLERANCE, "A: it was gone already; F: it"),
        ({"held_back": "says so"}, Reason.OPTED_OUT, "A: says so; F: says so"),
    ],
)
def test_all_are_gone_or_held_back_by_now(
    spared: dict[str, object], reason: Reason, because: str
) -> None:
    world = World()

    def change() -> None:
        for name in "ABEF":
            world.change(name, **spared)

    world.on_look[2] = change
    result = go(world)
    found, said = only(result)
    assert (found, result.exit_code) == (reason, 0)
    assert said.startswith(f"0 of 4 pods went: {because}")
    assert world.last() is None


def test_it_is_asked_to_end_before_it_begins() -> None:
    world = World()
    world.on_look[1] = lambda: setattr(world, "halt", "asked to end")
    result = go(world)
    reason, _ = only(result)
    assert (reason, world.calls, result.exit_code) == (Reason.STOPPED, [], 0)


@pytest.mark.parametrize(
    ("reason", "warned"),
    [
        (Reason.PROMETHEUS_ERROR, True),
        (Reason.NO_USAGE_DATA, True),
        (Reason.STOPPED, False),
    ],
)
def test_a_problem_is_a_warning_on_the_workload(reason: Reason, warned: bool) -> None:
    world = World()
    world.usage_problem = Unavailable(reason, "it is down")
    result = go(world)
    assert only(result) == (reason, "it is down")
    assert result.exit_code == (1 if warned else 0)
    told = [(event.reason, event.message, event.type) for event in world.sent]
    expected = (IMPOSSIBLE, f"{reason.value}: it is down", EventType.WARNING)
    assert told == ([expected] if warned else [])


def test_a_workload_that_cannot_be_read_has_no_event() -> None:
    """There is no object that it could be about."""
    world = World()
    world.problem = Unavailable(Reason.WORKLOAD_MISSING, "not there")
    result = go(world)
    assert (only(result)[0], result.exit_code) == (Reason.WORKLOAD_MISSING, 1)
    assert world.sent == []
    assert world.told[0].what == "workload shop/web"


@pytest.mark.parametrize(
    ("lag", "reason", "exit_code"),
    [
        (Lag(1001, "x"), Reason.KAFKA_LAG_HIGH, 0),
        (Gap("no such group"), Reason.KAFKA_LAG_UNKNOWN, 1),
    ],
)
def test_the_lag_gate(lag: Lag | Gap, reason: Reason, exit_code: int) -> None:
    world = World()
    world.lag = lag
    gated = msgspec.structs.replace(SETTINGS, kafka=KafkaSettings(enabled=True))
    result = go(world, RunSettings(workloads=(gated,)))
    assert (only(result)[0], result.exit_code, world.calls) == (reason, exit_code, [])


def test_one_workloads_failure_does_not_stop_the_others() -> None:
    """The same pods under two names: the second finds the first's claim."""
    world = World()
    world.refusals["A"] = TWO_BUDGETS
    other = msgspec.structs.replace(SETTINGS, name="other", container="web")
    result = go(world, RunSettings(workloads=(SETTINGS, other)))
    assert len(result.results) == 2
    assert world.calls.count("evict A") == 2
    assert result.exit_code == 1
    assert result.errors == {"kubernetes": 2}


def test_no_workload_is_rightly_nothing_to_do() -> None:
    result = go(World(), RunSettings())
    assert (result.results, result.exit_code) == ((), 0)


# --- what the last rotation brought


def test_what_the_last_rotation_brought_is_noted_and_told() -> None:
    world = World({"A": 0.9, "B": 0.8, "C": 0.7, "D": 0.7, "E": 0.7, "F": 0.6})
    world.annotation = encode_last_rotation(rotated(), format_time)
    result = go(world)
    assert world.calls == ["claim"]
    last = world.last()
    assert isinstance(last, LastRotation)
    assert last.judged
    told = world.told[0]
    assert told.because == "the last rotation brought 26.1 %; 34.8 % were predicted"
    assert told.result == "judged"
    [one] = result.results
    assert one.last == last


@pytest.mark.parametrize(
    ("realised", "told"), [(-0.04, "0.0 %"), (-0.06, "-0.1 %"), (0.04, "0.0 %"), (26.14, "26.1 %")]
)
def test_nothing_is_not_a_negative_nothing(realised: float, told: str) -> None:
    sentence = describe_realised(rotated(realised=realised))
    assert sentence == f"the last rotation brought {told}; 34.8 % were predicted"


def test_it_is_judged_again_where_the_note_was_outrun() -> None:
    world = World({"A": 0.9, "B": 0.8, "C": 0.7, "D": 0.7, "E": 0.7, "F": 0.6})
    world.annotation = encode_last_rotation(rotated(), format_time)
    world.patch_refusals = [refused(409, "Conflict", "modified")]
    go(world)
    assert [each.what for each in world.told] == ["Deployment shop/web"]
    go(world)
    last = world.last()
    assert isinstance(last, LastRotation)
    assert last.judged


def test_a_note_that_fails_is_told_and_counted() -> None:
    world = World({"A": 0.9, "B": 0.8, "C": 0.7, "D": 0.7, "E": 0.7, "F": 0.6})
    world.annotation = encode_last_rotation(rotated(), format_time)
    world.patch_refusals = [refused(403, "Forbidden", "cannot patch resource")]
    result = go(world)
    assert "cannot patch resource" in world.told[0].because
    assert world.told[0].result == "failed"
    assert result.errors == {"kubernetes": 1}


def test_a_judged_rotation_and_a_new_one_in_one_round() -> None:
    world = World()
    world.annotation = encode_last_rotation(rotated(), format_time)
    assert only(go(world))[0] is Reason.ROTATED
    last = world.last()
    assert isinstance(last, LastRotation)
    assert (last.at, last.misses, last.judged) == (NOON, 1, False)
    assert world.calls[:2] == ["claim", "evict A"], "a write of its own would look like a rollout"
    assert world.told[0].because == "the last rotation brought 0.0 %; 34.8 % were predicted"


# --- a loop does not repeat itself


def test_a_loop_tells_what_changed() -> None:
    world, memory = World(), RoundMemory()
    world.usage_problem = Unavailable(Reason.PROMETHEUS_ERROR, "it is down")
    for _ in range(3):
        go(world, memory=memory)
    assert [(each.tick, each.result) for each in world.told] == [(1, "prometheus_error")]
    world.usage_problem = None
    go(world, memory=memory)
    assert [each.tick for each in world.told[1:]] == [4] * 5
    go(world, memory=memory)
    assert (world.told[-1].tick, world.told[-1].result) == (5, "no_pods_above_tolerance")
    assert memory.rounds == 5


# --- laws


@given(
    usages=st.lists(st.floats(0.0, 3.0), min_size=1, max_size=12),
    top_k=st.integers(1, 4),
    minimum_pods=st.integers(1, 6),
    budget=st.none() | st.integers(0, 4),
    ready_after=st.sampled_from([0.0, 4.0, 1e9]),
)
def test_whatever_the_load_a_round_keeps_its_promises(
    usages: list[float], top_k: int, minimum_pods: int, budget: int | None, ready_after: float
) -> None:
    """Nobody goes twice, nobody who was not there, never below the minimum, never past the budget;
    and the workload has its note exactly where somebody went."""
    there = {f"p{number}": usage for number, usage in enumerate(usages)}
    world = World(there, ready_after)
    world.budget = budget
    moves = MoveSettings(top_k=top_k, minimum_pods=minimum_pods)
    settings = RunSettings(workloads=(msgspec.structs.replace(SETTINGS, moves=moves),))
    result = go(world, settings)
    [one] = result.results
    gone = [pod.name for pod in one.pods]
    assert len(gone) == len(set(gone))
    assert {*gone} <= {*there}
    assert len(gone) <= min(2 * top_k, len(there) if budget is None else budget)
    assert world.least_ready >= min(minimum_pods, len(there))
    assert (world.last() is not None) == bool(gone)
    assert bool(gone) == (one.reason is Reason.ROTATED)
    assert len(world.pods) == len(there)
