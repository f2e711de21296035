"""`slackwater replay`: a recording's file into a call, differences into text and an exit code."""

import sys
from typing import TYPE_CHECKING

import click

from slackwater.cli.output import (
    Failed,
    Output,
    WrongSettings,
    output_options,
    print_data,
    wants_colour,
)

if TYPE_CHECKING:
    from slackwater.agent.replay import Overlay

STDIN = "-"
#: Ten times the largest journal: 3600 ticks of tiers, or 6000 readings of containers.
LARGEST = 256 * 1024 * 1024


@click.command()
@click.argument("recording", metavar="RECORDING")
@click.option(
    "--settings",
    metavar="FILE",
    default="",
    help="What if: an AgentSettings document; what it says counts instead of what was recorded.",
)
@click.option("--exit-code", is_flag=True, help="Exit with 1 if there are differences.")
@output_options
def replay(recording: str, settings: str, exit_code: bool, output: Output, no_color: bool) -> None:
    """Recorded ticks under today's policies: what would be decided otherwise?

    RECORDING is a file of an agent's ticks, or - for standard input. Nothing is written, and no
    agent or cgroup is needed.

    \b
    Examples:
      curl -s 127.0.0.1:10480/v1/ticks > node.jsonl     record the last ticks of an agent
      slackwater replay node.jsonl                      the same with this version's policies?
      slackwater replay node.jsonl --settings new.yaml  what if it were set like this?
      slackwater replay node.jsonl -o json | jq .different

    \b
    Exit codes: 0 it ran, 1 the file cannot be read (or --exit-code and there are differences),
    2 wrong usage, no recording, or wrong settings.
    """
    from slackwater.agent.program import POLICIES
    from slackwater.agent.replay import as_recorded
    from slackwater.agent.replay import replay as run
    from slackwater.record.recording import RecordingError, decode

    overlay = _overlay(settings) if settings else as_recorded
    try:
        report = run(decode(contents(recording)), POLICIES, overlay)
    except RecordingError as error:
        name = "standard input" if recording == STDIN else recording
        raise WrongSettings(f"{name}: {error}") from None
    if output in (Output.JSON, Output.YAML):
        print_data(report, output)
    else:
        from slackwater.cli.replay_text import print_replayed

        print_replayed(report, wants_colour(no_color), wide=output is Output.WIDE)
    sys.exit(1 if exit_code and report.different else 0)


def contents(recording: str) -> bytes:
    """Also of a pipe, as the shell's <(...) makes them."""
    try:
        if recording == STDIN:
            data = sys.stdin.buffer.read(LARGEST + 1)
        else:
            with open(recording, "rb") as opened:
                data = opened.read(LARGEST + 1)
    except OSError as error:
        raise Failed(f"{recording} cannot be read: {error.strerror}") from None
    except ValueError:  # a NUL in the path
        raise Failed(f"{recording!r} cannot be read: no such path") from None
    if len(data) > LARGEST:
        raise WrongSettings(f"{recording} has over {LARGEST >> 20} MiB: that is no recording")
    return data


def _overlay(path: str) -> "Overlay":
    """What the file's AgentSettings say, over what was recorded; other documents in it are left
    out, as a standalone folder's file may have several."""
    from slackwater.contract.kubernetes import kind_of, objects_in
    from slackwater.model.problem import InvalidError
    from slackwater.observation.documents import documents_in, file_text
    from slackwater.settings.document import KIND, read_settings

    try:
        documents = [d for d in documents_in(file_text(path, path), path) if d is not None]
        objects = [each for document in documents for each in objects_in(document, path)]
        chosen = [each for each in objects if kind_of(each, path) == KIND]
        if len(chosen) != 1:
            raise WrongSettings(f"{path} has {len(chosen)} {KIND} documents, but must have one")
        read_settings(chosen[0], path)
    except InvalidError as error:
        raise WrongSettings(str(error)) from None
    return lambda recorded: read_settings(chosen[0], path, recorded)
