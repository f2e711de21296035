"""Recordings: what is encoded is decoded again, and what is no recording is one sentence."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater import __version__
from slackwater.model.cgroup import CgroupRef, Level
from slackwater.model.cpus import CpuSet
from slackwater.model.decision import TickReport
from slackwater.model.knob import KNOBS, KnobKey
from slackwater.model.plan import Change, CommandOutcome, Outcome, Result
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import UNLIMITED, Bandwidth, Micros
from slackwater.record.journal import TickRecord
from slackwater.record.recording import (
    RecordingError,
    TickLine,
    decode_recording,
    encode_lines,
    encode_recording,
    record_outcome,
)
from slackwater.settings.agent_settings import AgentSettings
from tests.unit.record.any_tick import command_outcomes, outcomes, snapshots, stories
from tests.unit.record.ticks import run, threshold

GOLDEN = Path(__file__).parents[1] / "agent/recordings/standalone.jsonl"
PATIENT = settings(deadline=None)
#: A whole snapshot is many draws; a busy machine is no reason to fail.
SLOW_TO_MAKE = settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def after(record: TickRecord) -> TickLine:
    [found] = decode_recording(encode_recording([record])).ticks
    return found.line


@SLOW_TO_MAKE
@given(snapshots)
def test_any_snapshot_is_decoded_again(snapshot: NodeSnapshot) -> None:
    record = msgspec.structs.replace(run([200])[0], snapshot=snapshot)
    assert after(record).snapshot == snapshot


@SLOW_TO_MAKE
@given(stories, st.lists(outcomes, max_size=2))
def test_any_story_is_decoded_again(story: TickReport, made: list[Outcome]) -> None:
    record = msgspec.structs.replace(run([200])[0], story=story, outcomes=tuple(made))
    line = after(record)
    assert (line.story, line.took) == (story, record.took)
    assert line.outcomes == tuple(record_outcome(each) for each in made)


@SLOW_TO_MAKE
@given(st.lists(command_outcomes, max_size=2).map(tuple))
def test_any_outcome_of_a_command_is_decoded_again(made: tuple[CommandOutcome, ...]) -> None:
    assert after(msgspec.structs.replace(run([200])[0], commands=made)).commands == made


def test_settings_and_memory_are_as_they_were() -> None:
    record = run([200, 300])[-1]
    found = decode_recording(encode_recording([record]))
    [tick] = found.ticks
    assert found.version == __version__
    assert bytes(tick.line.memory) == msgspec.json.encode(record.inputs.memory)
    assert msgspec.json.decode(tick.settings.agent, type=AgentSettings) == record.inputs.agent
    policies = {name: msgspec.json.decode(raw) for name, raw in tick.settings.policies.items()}
    assert policies == msgspec.to_builtins(record.inputs.policies)


@pytest.mark.parametrize(
    "value", [True, False, 1, 0, UNLIMITED, CpuSet.of([0, 130]), Bandwidth(UNLIMITED, Micros(5))]
)
def test_a_value_keeps_its_type(value: Any) -> None:
    """True is not 1, and a set of more than 64 CPUs is a set."""
    change = Change(CgroupRef("a", 1, Level.POD), KNOBS[0], value, value)
    record = msgspec.structs.replace(run([200])[0], outcomes=(Outcome(change, Result.APPLIED),))
    [outcome] = decode_recording(encode_recording([record])).ticks[0].line.outcomes
    assert (type(outcome.new), outcome.new, outcome.knob) == (type(value), value, "weight")


def kinds(data: bytes) -> list[str]:
    return [json.loads(line).get("line", "head") for line in data.splitlines()]


def test_settings_have_a_line_where_they_change() -> None:
    made = run([200, 300]) + run([200], settings=threshold(50)) + run([200, 1])
    assert kinds(b"".join(encode_lines(made))) == [
        "head", "settings", "tick", "tick", "settings", "tick", "settings", "tick", "tick",
    ]  # fmt: skip


def test_head_and_settings_and_any_run_of_ticks_are_a_recording() -> None:
    head, said, *ticks = encode_recording(run([100, 200, 300, 400])).splitlines(keepends=True)
    for start in range(4):
        for end in range(start + 1, 5):
            found = decode_recording(b"".join([head, said, *ticks[start:end]]))
            assert [t.line.snapshot.tick for t in found.ticks] == list(range(start + 1, end + 1))


def test_what_was_not_asked_for_takes_no_room() -> None:
    """60 ticks of tiers in well under 200 KiB, and no word of what nobody read."""
    real = GOLDEN.read_bytes()
    assert b"not asked for" not in real
    assert len(real) / len(decode_recording(real).ticks) * 60 < 170 * 1024


HEAD, SETTINGS, TICK = encode_recording(run([200])).splitlines()
LATER = encode_recording(run([200, 300])).splitlines()[-1]


def without(line: bytes, *path: str) -> bytes:
    return edited(line, path, lambda holder, key: holder.pop(key))


def with_value(line: bytes, value: object, *path: str) -> bytes:
    return edited(line, path, lambda holder, key: holder.update({key: value}))


def edited(line: bytes, path: tuple[str, ...], edit: Callable[[Any, str], None]) -> bytes:
    document = json.loads(line)
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    edit(holder, path[-1])
    return json.dumps(document).encode()


def joined(*parts: bytes) -> bytes:
    return b"\n".join(parts) + b"\n"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "line 1 is empty, but must be the head of a Recording"),
        (b"\n\n", "line 1 is empty, but must be the head of a Recording"),
        (b"kind: Pod\n", "line 1 is no JSON object: this is no Recording"),
        (b"[1]\n", "line 1 is no JSON object: this is no Recording"),
        (b"[" * 100_000, "line 1 is no JSON object: this is no Recording"),
        (b"\xff\xfe", "line 1 is no JSON object: this is no Recording"),
        (b'{"a":"\xff"}', "line 1 is no JSON object: this is no Recording"),
        (b"{}\n", "line 1: apiVersion is missing, but must be slackwater.io/v1"),
        (
            joined(with_value(HEAD, "AgentSettings", "kind"), SETTINGS, TICK),
            "line 1: kind is 'AgentSettings', but must be Recording",
        ),
        (
            joined(with_value(HEAD, 2, "schema"), SETTINGS, TICK),
            f"line 1: schema is 2 (recorded by slackwater {__version__}), but must be 1",
        ),
        (
            joined(without(HEAD, "schema"), SETTINGS, TICK),
            f"line 1: schema is missing (recorded by slackwater {__version__}), but must be 1",
        ),
        (
            joined(with_value(HEAD, "one", "schema"), SETTINGS, TICK),
            "line 1: schema: expected `int`, got `str`",
        ),
        (joined(HEAD), "there is no tick in it: nothing was recorded"),
        (joined(HEAD, SETTINGS), "there is no tick in it: nothing was recorded"),
        (joined(HEAD, TICK), "line 2 is a tick, but must be the settings of the ticks"),
        (joined(HEAD, SETTINGS, b"nothing"), "line 3 is no JSON: JSON is malformed: "),
        (joined(HEAD, SETTINGS, b"[]"), "line 3: expected `object`, got `array`"),
        (joined(HEAD, SETTINGS, b"{}"), "line 3: object missing required field `line`"),
        (joined(HEAD, SETTINGS, b'{"line":"tock"}'), "line 3: line: invalid value 'tock'"),
        (joined(HEAD, SETTINGS, TICK[:-9]), "line 3 is no JSON: Input data was truncated"),
        (joined(HEAD, SETTINGS, TICK) + TICK[:-9], "line 4 is cut off: its end is missing"),
        (joined(HEAD, SETTINGS, TICK) + b"{", "line 4 is cut off: its end is missing"),
        (
            joined(HEAD, SETTINGS, without(TICK, "snapshot", "at")),
            "line 3: snapshot: object missing required field `at`",
        ),
        (
            joined(HEAD, SETTINGS, without(TICK, "story")),
            "line 3: object missing required field `story`",
        ),
        (
            joined(HEAD, SETTINGS, with_value(TICK, "x", "snapshot", "at")),
            "line 3: snapshot.at: expected `int`, got `str`",
        ),
        (
            joined(HEAD, SETTINGS, with_value(TICK, [7], "snapshot", "off")),
            "line 3: snapshot.off[0]: expected `str`, a cgroup and its knob",
        ),
        (
            joined(HEAD, SETTINGS, with_value(TICK, {"upper": {}}, "snapshot", "tiers")),
            "line 3: a key of snapshot.tiers: invalid enum value 'upper'",
        ),
        (
            joined(HEAD, with_value(SETTINGS, [], "policies"), TICK),
            "line 2: policies: expected `object`, got `array`",
        ),
        (
            joined(HEAD, SETTINGS, LATER, TICK),
            "line 4: snapshot.at is 1000000, but must be at least 2000000, as in the tick before",
        ),
    ],
)  # fmt: skip
def test_what_is_no_recording_is_one_sentence(data: bytes, sentence: str) -> None:
    with pytest.raises(RecordingError) as caught:
        decode_recording(data)
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


def test_a_period_of_nothing_is_refused() -> None:
    """The kernel has none, and a quota could not be divided by it."""
    reading = ("snapshot", "readings", "2", "quota", "period")
    with pytest.raises(RecordingError, match=r"line 3: .*period: expected `int` >= 1"):
        decode_recording(joined(HEAD, SETTINGS, with_value(TICK, 0, *reading)))


def test_a_last_line_without_its_end_and_blank_lines_are_fine() -> None:
    assert decode_recording(joined(HEAD, b"", SETTINGS, b" ") + TICK) == decode_recording(
        joined(HEAD, SETTINGS, TICK)
    )


@PATIENT
@given(st.integers(0, len(joined(HEAD, SETTINGS, TICK, LATER))))
def test_any_cut_is_told_or_harmless(end: int) -> None:
    whole = joined(HEAD, SETTINGS, TICK, LATER)
    try:
        found = decode_recording(whole[:end])
    except RecordingError as error:
        assert str(error).startswith(("line ", "there is no tick"))
    else:
        assert found.ticks == decode_recording(whole).ticks[: len(found.ticks)]


@PATIENT
@given(st.data())
def test_damage_is_told_or_harmless(data: st.DataObject) -> None:
    damaged = bytearray(joined(HEAD, SETTINGS, TICK))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = decode_recording(bytes(damaged))
    except RecordingError as error:
        assert str(error)
    else:
        assert len(found.ticks) == 1


def test_knobs_that_cannot_be_written_are_texts_in_a_recording() -> None:
    """As in every recording so far."""
    off = frozenset({KnobKey(7, "quota")})
    record = run([200])[0]
    snapshot = msgspec.structs.replace(record.snapshot, off=off)
    data = encode_recording([msgspec.structs.replace(record, snapshot=snapshot)])
    assert b'"off":["7/quota"]' in data
    assert decode_recording(data).ticks[0].line.snapshot.off == off
    with pytest.raises(RecordingError, match=r"line 3: .*'quota' does not name a knob of a cgroup"):
        decode_recording(data.replace(b'["7/quota"]', b'["quota"]'))
