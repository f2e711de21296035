"""`slackwater replay`: replays a recording and prints what would be decided differently."""

import sys
from collections.abc import Iterable

import click
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from slackwater.agent.recording_replay import Difference, Overlay, Replayed, as_recorded
from slackwater.agent.recording_replay import replay as run
from slackwater.cli.output import (
    Failed,
    Output,
    WrongSettings,
    output_options,
    print_data,
    wants_colour,
)
from slackwater.cli.terminal import TableColumn, make_table, print_blocks
from slackwater.contract.kubernetes import kind_of, objects_in
from slackwater.model.problem import InvalidError
from slackwater.observation.objects.documents import documents_in, file_text
from slackwater.policies.catalog import POLICIES, SETTINGS
from slackwater.record.recording import RecordingError, decode_recording
from slackwater.settings.agent_document import KIND

STDIN = "-"
#: Ten times the largest journal: 3600 ticks of tiers, or 6000 readings of containers.
LARGEST = 256 * 1024 * 1024
#: A screen; the rest is counted.
_ROWS = 20
_OPEN_LOOP = (
    "The snapshots show what was written then: from the first difference on, today's policies "
    "might have seen another node."
)


@click.command(short_help="Run today's policies on recorded ticks; show differences.")
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
    """Run today's policies on recorded ticks and show what they decide differently.

    RECORDING is a file of an agent's ticks, or - for standard input. Nothing is written, and no
    agent or cgroup is needed.

    \b
    Examples:
      slackwater record > node.jsonl                    the last ticks of this node's agent
      slackwater replay node.jsonl                      does this version decide the same?
      slackwater replay node.jsonl --settings new.yaml  what if it were set like this?
      slackwater replay node.jsonl -o json | jq .different

    \b
    Exit codes: 0 it ran, 1 the file cannot be read (or --exit-code and there are differences),
    2 wrong usage, no recording, or wrong settings.
    """
    overlay = _overlay(settings) if settings else as_recorded
    try:
        report = run(decode_recording(contents(recording)), POLICIES, overlay)
    except RecordingError as error:
        name = "standard input" if recording == STDIN else recording
        raise WrongSettings(f"{name}: {error}") from None
    if output in (Output.JSON, Output.YAML):
        print_data(report, output)
    else:
        print_replayed(report, wants_colour(no_color), wide=output is Output.WIDE)
    sys.exit(1 if exit_code and report.different else 0)


def contents(recording: str) -> bytes:
    """Of a file, standard input, or a pipe such as the shell's <(...)."""
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
        raise WrongSettings(f"{recording} has over {LARGEST >> 20} MiB: not a recording")
    return data


def _overlay(path: str) -> Overlay:
    """Applies the file's AgentSettings to what was recorded. Other documents are ignored: a file of
    a standalone folder may have several."""
    try:
        documents = [d for d in documents_in(file_text(path, path), path) if d is not None]
        objects = [each for document in documents for each in objects_in(document, path)]
        chosen = [each for each in objects if kind_of(each, path) == KIND]
        if len(chosen) != 1:
            raise WrongSettings(f"{path} has {len(chosen)} {KIND} documents, but must have one")
        SETTINGS.read_file(chosen[0], path)
    except InvalidError as error:
        raise WrongSettings(str(error)) from None
    return lambda recorded: SETTINGS.read_file(chosen[0], path, recorded)


def print_replayed(report: Replayed, colour: bool, wide: bool) -> None:
    """`wide` shows every difference."""
    shown = report.differences if wide else report.differences[:_ROWS]
    print_blocks(_result_blocks(report, shown), colour)


def _result_blocks(report: Replayed, shown: tuple[Difference, ...]) -> Iterable[RenderableType]:
    yield Text(_summary(report), style="bold" if report.different else "green")
    for problem in report.problems:
        yield Text(f"Note: {problem}", style="yellow")
    if not shown:
        return
    yield Text()
    yield _difference_table(shown)
    left = len(report.differences) - len(shown)
    if left:
        yield Text(f"... and {left} more; -o wide shows all of them")
    yield Text(f"\n{_OPEN_LOOP}", style="dim")


def _summary(report: Replayed) -> str:
    ticks = "1 tick" if report.ticks == 1 else f"{report.ticks} ticks"
    head = f"{ticks}, recorded by slackwater {report.recorded_by}"
    if not report.different:
        return f"{head}: all the same today"
    return f"{head}: {report.same} the same today, {report.different} different"


def _difference_table(shown: tuple[Difference, ...]) -> Table:
    headers = ("what", "then", "now", "because")
    columns = [
        TableColumn("time", right=True),
        *(TableColumn(header, wrap=True) for header in headers),
    ]
    rows = (
        (_format_offset(each.at), each.what, each.then, each.now, each.because) for each in shown
    )
    return make_table(columns, rows)


def _format_offset(at: int) -> str:
    """Seconds since the first tick, in tenths."""
    tenths = at // 100_000
    return f"+{tenths // 10}.{tenths % 10}s"
