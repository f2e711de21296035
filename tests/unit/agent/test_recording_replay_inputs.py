"""Recorded settings and memory that today's types do not take: told, and never fatal."""

import json
from typing import Any

import msgspec
import pytest

from slackwater.agent.recording_replay import replay
from slackwater.model.gap import Gap
from slackwater.policies import best_effort_share
from slackwater.policies.catalog import POLICIES as TODAY
from slackwater.policies.policy import Policy
from slackwater.record.recording import (
    Recording,
    RecordingError,
    decode_recording,
    encode_recording,
)
from tests.unit.record.ticks import POLICIES, run

NAME = best_effort_share.NAME


@pytest.mark.parametrize("policy", TODAY, ids=lambda policy: policy.name)
def test_every_policy_can_be_recorded(policy: Policy) -> None:
    """Its section has its name and says whether it is on; its types read what they write."""
    section: Any = policy.settings()
    assert section.enabled in (True, False)
    for value in (section, policy.first_memory):
        kind: type[Any] = type(value)
        assert msgspec.json.decode(msgspec.json.encode(value), type=kind) == value


def edited(data: bytes, number: int, *path: str, value: object) -> Recording:
    lines = data.splitlines()
    document = json.loads(lines[number - 1])
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    lines[number - 1] = json.dumps(document).encode()
    return decode_recording(b"\n".join(lines))


@pytest.mark.parametrize(
    ("line", "path", "value", "problem", "differs"),
    [
        (2, ("policies", "gone"), {}, "the policy gone was on, and there is none", False),
        (
            2,
            ("policies", NAME, "threshold"),
            "high",
            f"the settings of {NAME} cannot be read, so it is off: Expected `int`, got `str`",
            True,
        ),
        (2, ("agent", "hold_for"), [], "the agent's settings cannot be read, so the", False),
        (2, ("agent",), 5, "the agent's settings cannot be read, so the defaults", False),
        # Without its memory the policy goes on from what is held, as after a restart.
        (3, ("memory",), 5, "the memory cannot be read, so all start anew", False),
        (3, ("memory", "policies", NAME), 5, f"the memory of {NAME} cannot be read", False),
        (
            3,
            ("memory", "policies", NAME, "memory"),
            {"last": "x"},
            f"the memory of {NAME} cannot be read, so it starts anew: Expected `int | null`",
            False,
        ),
    ],
)  # fmt: skip
def test_what_today_does_not_know_is_told_and_not_fatal(
    line: int, path: tuple[str, ...], value: object, problem: str, differs: bool
) -> None:
    data = encode_recording(run([700, 0, 0])[1:])
    report = replay(edited(data, line, *path, value=value), POLICIES)
    [told] = report.problems
    assert told.startswith(problem)
    assert bool(report.different) is differs
    assert report.ticks == 2


def test_a_lost_memory_tells_where_nothing_is_held() -> None:
    lines = encode_recording(run([700, 0, 0])[1:]).splitlines()
    document = json.loads(lines[2])
    document["memory"] = 5
    assert document["snapshot"].pop("held")
    lines[2] = json.dumps(document).encode()
    report = replay(decode_recording(b"\n".join(lines)), POLICIES)
    assert (report.ticks, report.different) == (2, 2)  # the second goes on from the first


def test_a_setting_that_is_no_more_is_left_out() -> None:
    data = encode_recording(run([200]))
    assert replay(edited(data, 2, "agent", "moods", value=3), POLICIES).problems == ()


def test_a_policy_that_is_gone_is_off_now() -> None:
    report = replay(decode_recording(encode_recording(run([200]))), ())
    assert report.problems == (f"the policy {NAME} was on, and there is none of this name now",)
    last = report.differences[-1]
    assert (last.what, last.then, last.now) == (NAME, "acted", "off")


def test_a_memory_that_no_agent_had_is_one_sentence() -> None:
    """A scale that is no ratio stands while the policy holds."""
    data = encode_recording(run([200, Gap("no usage")])[1:])
    state = ("memory", "policies", NAME, "intents")
    [intent] = json.loads(data.splitlines()[2])["memory"]["policies"][NAME]["intents"]
    broken = edited(data, 3, *state, value=[intent | {"verb": "scale"}])
    with pytest.raises(RecordingError, match=r"^tick 2 cannot be run: .*SCALE takes a ratio$"):
        replay(broken, POLICIES)


def test_a_recording_from_before_intents_named_knob_and_verb() -> None:
    """An intent about a quota was of the kind quota, any other of the kind setting."""
    data = encode_recording(run([200, Gap("no usage")])[1:])
    state = ("memory", "policies", NAME, "intents")
    [cap] = json.loads(data.splitlines()[2])["memory"]["policies"][NAME]["intents"]
    weight = {**cap, "type": "setting", "knob": "weight", "value": 7}
    del cap["knob"], weight["verb"]
    report = replay(edited(data, 3, *state, value=[{"type": "quota", **cap}, weight]), POLICIES)
    assert report.problems == ()
    [difference] = report.differences
    assert difference.what == "weight of kubepods/besteffort"
    assert (difference.then, difference.now) == ("nothing", "7")
