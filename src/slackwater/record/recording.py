"""Recordings: whole ticks as lines of JSON, to look at, to keep and to replay.

The format is described in docs/reference/replay.md. The policies' types are unknown here: settings
and memory stay as they were recorded, for the replay to decode.
"""

import re
from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from slackwater import __version__
from slackwater.model.cgroup import CgroupRef
from slackwater.model.decision import TickReport
from slackwater.model.knob import KnobKey, KnobValue
from slackwater.model.plan import CommandOutcome, Outcome, Result
from slackwater.model.problem import Problem, quoted
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Micros
from slackwater.record.journal import TickRecord

API_VERSION = "slackwater.io/v1"
KIND = "Recording"
#: Incremented when older recordings cannot be read any more, or would mean something else.
SCHEMA = 1
CONTENT_TYPE = "application/jsonl"

_Read = TypeVar("_Read")
#: How msgspec ends a sentence about one field.
_AT_FIELD = re.compile(r"(?P<what>.*) - at (?P<key>`key` in )?`\$\.?(?P<path>.*)`", re.DOTALL)


class RecordingError(ValueError):
    """What is wrong with a recording; str() is one sentence with the line and the field."""


class RecordingHeader(msgspec.Struct, frozen=True, rename="camel"):
    """The first line. `version` is the slackwater that recorded."""

    api_version: str = API_VERSION
    kind: str = KIND
    version: str = __version__
    schema: int = SCHEMA


class RecordedSettings(msgspec.Struct, frozen=True, tag_field="line", tag="settings"):
    """In force from here on: of the policies that are on, by name, and the agent's own. As JSON:
    the types are today's, the data is not."""

    agent: msgspec.Raw
    policies: dict[str, msgspec.Raw]


class RecordedOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one change; the knob by its name."""

    ref: CgroupRef
    knob: str
    old: KnobValue
    new: KnobValue
    result: Result
    detail: str = ""
    took: Micros = Micros(0)


class TickLine(msgspec.Struct, frozen=True, tag_field="line", tag="tick"):
    """One whole tick. `memory` is what the tick had before it, as JSON like the settings."""

    snapshot: NodeSnapshot
    memory: msgspec.Raw
    story: TickReport
    outcomes: tuple[RecordedOutcome, ...]
    took: Micros
    commands: tuple[CommandOutcome, ...] = ()


class RecordedTick(msgspec.Struct, frozen=True):
    """A tick, and the settings that were in force."""

    line: TickLine
    settings: RecordedSettings


class Recording(msgspec.Struct, frozen=True):
    """`version` is the slackwater that recorded; ticks in the order of time, at least one."""

    version: str
    ticks: tuple[RecordedTick, ...]


def encode_key(value: object) -> object:
    """A KnobKey as a text."""
    if isinstance(value, KnobKey):
        return str(value)
    raise NotImplementedError(f"a {type(value).__name__} cannot be recorded")


def decode_key(kind: type, value: object) -> object:
    """The KnobKey of a text. Raises ValueError, which msgspec tells with the place."""
    if kind is KnobKey:
        if not isinstance(value, str):
            raise ValueError("expected `str`, a cgroup and its knob")
        return KnobKey.parse(value)
    raise NotImplementedError(f"a {kind.__name__} cannot be recorded")


_HEADER = msgspec.json.Decoder(RecordingHeader)
_LINE: msgspec.json.Decoder[RecordedSettings | TickLine] = msgspec.json.Decoder(
    RecordedSettings | TickLine, dec_hook=decode_key
)


def encode_recording(records: Iterable[TickRecord]) -> bytes:
    return b"".join(encode_lines(records))


def encode_lines(records: Iterable[TickRecord]) -> Iterator[bytes]:
    """Line by line, so that a long recording need not be in memory twice. Settings have a line of
    their own whenever they change: header, settings and any run of ticks are a recording again."""
    encoder = msgspec.json.Encoder(enc_hook=encode_key)
    yield encoder.encode(RecordingHeader()) + b"\n"
    before: tuple[object, object] | None = None
    for record in records:
        inputs = record.inputs
        if (inputs.agent, inputs.policies) != before:
            before = inputs.agent, inputs.policies
            said = {"line": "settings", "agent": inputs.agent, "policies": inputs.policies}
            yield encoder.encode(said) + b"\n"
        tick = {
            "line": "tick",
            "snapshot": record.snapshot,
            "memory": inputs.memory,
            "story": record.story,
            "outcomes": [record_outcome(outcome) for outcome in record.outcomes],
            "took": record.took,
        }
        if record.commands:
            tick["commands"] = record.commands
        yield encoder.encode(tick) + b"\n"


def record_outcome(outcome: Outcome) -> RecordedOutcome:
    change = outcome.change
    return RecordedOutcome(
        change.ref,
        change.knob.name,
        change.old,
        change.new,
        outcome.result,
        outcome.detail,
        outcome.took,
    )


def decode_recording(data: bytes) -> Recording:
    """Raises RecordingError. The last line may lack its line feed."""
    first, *rest = data.split(b"\n")
    header = _decode_header(first)
    ticks: list[RecordedTick] = []
    settings: RecordedSettings | None = None
    for number, text in enumerate(rest, start=2):
        if not text.strip():
            continue
        line = _decode_line(text, number, cut=number == len(rest) + 1)
        if isinstance(line, RecordedSettings):
            settings = line
            continue
        if settings is None:
            raise RecordingError(f"line {number} is a tick, but must be the settings of the ticks")
        ticks.append(RecordedTick(line, settings))
        _check_order(ticks[-2:], number)
    if not ticks:
        raise RecordingError("there is no tick in it: nothing was recorded")
    return Recording(header.version, tuple(ticks))


def _check_order(ticks: list[RecordedTick], number: int) -> None:
    """Two recordings in one file are two recordings."""
    before, at = ticks[0].line.snapshot.at, ticks[-1].line.snapshot.at
    if at < before:
        wanted = f"at least {quoted(before)}, as in the tick before"
        where = f"line {number}: snapshot.at"
        raise RecordingError(Problem(where, quoted(at), wanted).sentence())


def _decode_header(line: bytes) -> RecordingHeader:
    if not line.strip():
        raise RecordingError(f"line 1 is empty, but must be the head of a {KIND}")
    try:
        said = msgspec.json.decode(line, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise RecordingError(f"line 1 is no JSON object: this is no {KIND}") from None
    for field, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        if said.get(field) != wanted:
            problem = Problem(f"line 1: {field}", quoted(said.get(field)), wanted)
            raise RecordingError(problem.sentence())
    header = _decode(line, _HEADER, 1)
    if "schema" not in said or header.schema != SCHEMA:
        seen = f"{quoted(said.get('schema'))} (recorded by slackwater {header.version})"
        raise RecordingError(Problem("line 1: schema", seen, str(SCHEMA)).sentence())
    return header


def _decode_line(line: bytes, number: int, *, cut: bool) -> RecordedSettings | TickLine:
    try:
        return _decode(line, _LINE, number)
    except RecordingError:
        if cut and not _is_json(line):
            raise RecordingError(f"line {number} is cut off: its end is missing") from None
        raise


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _decode(line: bytes, decoder: msgspec.json.Decoder[_Read], number: int) -> _Read:
    try:
        return decoder.decode(line)
    except msgspec.ValidationError as error:
        raise RecordingError(f"line {number}: {_name_field(str(error))}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RecordingError(f"line {number} is no JSON: {error}") from None
    except RecursionError:
        raise RecordingError(f"line {number} is nested too deeply") from None


def _name_field(message: str) -> str:
    """msgspec's sentence with the field in front: "snapshot.at: expected `int`, got `str`"."""
    found = _AT_FIELD.fullmatch(message)
    if found is None:
        return message[:1].lower() + message[1:]
    what, path = found["what"], found["path"] or "the line"
    key = "a key of " if found["key"] else ""
    return f"{key}{path}: {what[:1].lower()}{what[1:]}"
