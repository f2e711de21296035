"""Replays: the same code finds no difference, other code or settings find the right ones."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.agent.recording_replay import Aspect, Difference, Replayed, replay
from slackwater.agent.tick import TickMemory
from slackwater.model.decision import Act, Because, Decision, Hold, Intent, Verb
from slackwater.model.gap import Gap
from slackwater.model.snapshot import NodeSnapshot, WritePrecision
from slackwater.model.units import Bandwidth, Micros, MilliCpu
from slackwater.policies import best_effort_share
from slackwater.policies.catalog import POLICIES as TODAY
from slackwater.policies.policy import Policy
from slackwater.record.journal import TickRecord
from slackwater.record.recording import Recording, decode_recording, encode_recording
from slackwater.settings.agent_document import Settings
from tests.unit.policies.nodes import BESTEFFORT, FREE, KUBEPODS, held, node
from tests.unit.record.ticks import ON, POLICIES, one, run, threshold

GOLDEN = Path(__file__).parent / "recordings/standalone.jsonl"
NAME = best_effort_share.NAME
PATIENT = settings(deadline=None)
QUOTA_ROW = "quota of kubepods/besteffort"
usages = st.lists(
    st.one_of(st.integers(0, 1200), st.just(Gap("no usage"))), min_size=1, max_size=12
)


def recording(records: list[TickRecord]) -> Recording:
    return decode_recording(encode_recording(records))


def rows(report: Replayed) -> list[tuple[int, str, str, str, str]]:
    return [(d.tick, d.aspect.value, d.what, d.then, d.now) for d in report.differences]


def to_threshold(percent: int) -> Any:
    def overlay(settings: Settings) -> Settings:
        share = msgspec.structs.replace(settings.policies["best_effort_share"], threshold=percent)
        policies = {**settings.policies, NAME: share}
        return msgspec.structs.replace(settings, policies=policies)

    return overlay


def deciding(decide: Any) -> tuple[Policy, ...]:
    return (msgspec.structs.replace(best_effort_share.POLICY, decide=decide),)


def test_a_real_agents_ticks_are_decided_the_same_today() -> None:
    """Ten ticks of an agent on real cgroups: holds, cuts and raises."""
    report = replay(decode_recording(GOLDEN.read_bytes()), TODAY)
    assert (report.differences, report.problems) == ((), ())
    assert (report.ticks, report.same, report.different) == (10, 10, 0)


def test_a_real_agents_ticks_with_another_threshold() -> None:
    then = decode_recording(GOLDEN.read_bytes())
    report = replay(then, TODAY, to_threshold(60))
    assert (report.same, report.different) == (1, 9)  # the first tick holds either way
    [path] = {d.what for d in report.differences if d.aspect is Aspect.GRANT}
    assert path.startswith("quota of ")
    assert path.endswith("/kubepods/besteffort")
    assert all("2400m allowed" in d.because for d in report.differences)
    lower = [int(d.now.removesuffix("m")) < int(d.then.removesuffix("m"))
             for d in report.differences if d.aspect is Aspect.GRANT]  # fmt: skip
    assert lower
    assert all(lower)


@PATIENT
@given(usages, st.integers(1, 100))
def test_the_same_code_finds_no_difference(seen: list[int | Gap], percent: int) -> None:
    report = replay(recording(run(seen, settings=threshold(percent))), POLICIES)
    assert (report.differences, report.problems, report.same) == ((), (), len(seen))


@PATIENT
@given(usages, st.data())
def test_nor_does_it_in_any_part_of_a_recording(seen: list[int | Gap], data: st.DataObject) -> None:
    """Each tick has the memory that it began with."""
    start = data.draw(st.integers(0, len(seen) - 1))
    report = replay(recording(run(seen)[start:]), POLICIES)
    assert (report.differences, report.problems) == ((), ())


@PATIENT
@given(usages)
def test_every_tick_is_the_same_or_different(seen: list[int | Gap]) -> None:
    report = replay(recording(run(seen)), POLICIES, to_threshold(50))
    assert report.same + report.different == report.ticks == len(seen)
    assert report.different == len({d.tick for d in report.differences})


def test_todays_own_memory_is_carried() -> None:
    """At 50 % the budget of tick 1 is 100m; from there today's claim climbs by its own ramp, and
    not from what the recording claimed."""
    report = replay(recording(run([400, 0, 0])), POLICIES, to_threshold(50))
    assert rows(report) == [
        (1, "grant", QUOTA_ROW, "400m", "100m"),
        (2, "grant", QUOTA_ROW, "440m", "125m"),
        (3, "grant", QUOTA_ROW, "484m", "137m"),
    ]
    last = report.differences[-1]
    assert last.at == 2_000_000
    assert last.because == f"{NAME}: used by all but best effort 0m, 500m allowed"


def hold(_snapshot: NodeSnapshot, memory: object, _settings: object) -> Decision:
    return Hold("today it holds", memory)


def fails(_snapshot: NodeSnapshot, _memory: object, _settings: object) -> Decision:
    raise ZeroDivisionError("a bug")


def other_words(snapshot: NodeSnapshot, memory: Any, settings: Any) -> Decision:
    done = best_effort_share.decide(snapshot, memory, settings)
    assert isinstance(done, Act)
    because = Because("in use", "200m", "800m")
    intents = tuple(msgspec.structs.replace(i, because=because) for i in done.intents)
    return msgspec.structs.replace(done, intents=intents)


def with_floor(snapshot: NodeSnapshot, memory: Any, settings: Any) -> Decision:
    """The same amount, with one contribution more."""
    done = best_effort_share.decide(snapshot, memory, settings)
    assert isinstance(done, Act)
    floor = Intent(BESTEFFORT, "quota", Verb.FLOOR, MilliCpu(5), Because("a", "b", "c"), NAME)
    return msgspec.structs.replace(done, intents=(*done.intents, floor))


def releases(_snapshot: NodeSnapshot, memory: object, _settings: object) -> Decision:
    return Act((), memory)


@pytest.mark.parametrize(
    ("decide", "found"),
    [
        (
            hold,
            [
                (1, "grant", QUOTA_ROW, "600m", "nothing"),
                (1, "course", NAME, "acted", "held"),
            ],
        ),
        (
            fails,
            [
                (1, "grant", QUOTA_ROW, "600m", "nothing"),
                (1, "course", NAME, "acted", "held"),
            ],
        ),
        (releases, [(1, "grant", QUOTA_ROW, "600m", "nothing")]),
        (
            other_words,
            [
                (
                    1,
                    "course",
                    NAME,
                    "used by all but best effort 200m, 800m allowed",
                    "in use 200m, 800m",
                )
            ],
        ),
        (
            with_floor,
            [
                (
                    1,
                    "grant",
                    QUOTA_ROW,
                    f"600m: {NAME} cap 600m",
                    f"600m: {NAME} cap 600m, {NAME} floor 5m",
                )
            ],
        ),
    ],
)
def test_what_another_policy_does_otherwise(decide: Any, found: list[Any]) -> None:
    assert rows(replay(recording(run([200])), deciding(decide))) == found


def test_another_reason_to_hold_is_a_difference() -> None:
    [found] = replay(recording(run([Gap("no usage")])), deciding(hold)).differences
    assert (found.then, found.now, found.because) == (
        "no usage", "today it holds", "it held both times",
    )  # fmt: skip


def test_a_policy_that_is_new_acts_where_it_was_off() -> None:
    def switch_on(settings: Settings) -> Settings:
        return msgspec.structs.replace(settings, policies={**settings.policies, **ON})

    report = replay(recording(run([200], settings={})), POLICIES, switch_on)
    assert rows(report) == [
        (1, "grant", QUOTA_ROW, "nothing", "600m"),
        (1, "course", NAME, "off", "acted"),
    ]


def test_only_the_change_differs() -> None:
    """The grant is the same, but what was written then is not what is planned now."""
    [record] = run([200])
    [outcome] = record.outcomes
    change = msgspec.structs.replace(outcome.change, new=Bandwidth(Micros(70_000)))
    changed = msgspec.structs.replace(record, outcomes=(msgspec.structs.replace(
        outcome, change=change),))  # fmt: skip
    assert rows(replay(recording([changed]), POLICIES)) == [
        (1, "change", QUOTA_ROW, "700m", "600m")
    ]
    silent = msgspec.structs.replace(record, outcomes=())
    [found] = replay(recording([silent]), POLICIES).differences
    assert found == Difference(
        1, Micros(0), Aspect.CHANGE, QUOTA_ROW, "nothing", "600m",
        f"{NAME}: used by all but best effort 200m, 800m allowed",
    )  # fmt: skip


def test_a_release_then_and_none_now() -> None:
    """Switched off, the tier was released; the recording has the outcome of that."""
    ours = Bandwidth(Micros(60_000))
    snapshot = node(usage=200, quota=ours, kept=(held(BESTEFFORT, FREE, ours),))
    record, _ = one(snapshot, TickMemory(), {})
    assert record.outcomes == ()  # the release's outcome is not in it
    assert rows(replay(recording([record]), POLICIES)) == [
        (1, "change", QUOTA_ROW, "nothing", "released")
    ]


def test_an_agent_that_was_started_again_remembers_nothing() -> None:
    """Its second run claims the whole budget at once; the first one's claim is no ramp for it."""
    again = [
        msgspec.structs.replace(
            record,
            snapshot=msgspec.structs.replace(
                record.snapshot, tick=number, at=Micros(number * 1_000_000)
            ),
        )
        for number, record in enumerate(run([700]) + run([0, 100]), start=1)
    ]
    report = replay(recording(again), POLICIES)
    assert (report.differences, report.ticks) == ((), 3)


KUBEPODS_SLICE = msgspec.structs.replace(KUBEPODS, path="kubepods.slice")
TIER_SLICE = msgspec.structs.replace(BESTEFFORT, path="kubepods.slice/kubepods-besteffort.slice")
BY_UNIT = WritePrecision(unit_knobs=frozenset({"quota"}))


@pytest.mark.parametrize("noted", [True, False])
@pytest.mark.parametrize("precision", [BY_UNIT, WritePrecision()])
def test_what_systemd_wrote_is_planned_in_whole_percents(
    precision: WritePrecision, noted: bool
) -> None:
    """Older recordings do not say how exactly values were written: it is inferred from them."""
    records = run([201, 303, 55, 404], tier=TIER_SLICE, precision=precision)
    made = [
        msgspec.structs.replace(
            record,
            snapshot=msgspec.structs.replace(
                record.snapshot,
                kubepods=KUBEPODS_SLICE,
                precision=record.snapshot.precision if noted else None,
            ),
        )
        for record in records
    ]
    assert replay(recording(made), POLICIES).differences == ()
