"""Makes the sample outputs of README and docs again: python -m tools.samples.

An HTML comment before a block of text names the command that printed it, and its inputs:

    <!-- sample: slackwater explain besteffort; agent: docs/samples/explain.yaml; width: 100 -->

The command runs in a folder that has only `examples` and `docs` of this source. `agent` is a
scenario: it is simulated to its end, and the agent's own endpoints answer from what it holds then.
A line `…` in the block stands for lines that are left out, `…` in a line for some characters.
Without `--check` blocks that differ are written anew; those with `…` are only told.
"""

import argparse
import difflib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from slackwater.agent.endpoint_server import respond_on_socket
from slackwater.model.gap import Gap
from slackwater.model.problem import InvalidError
from slackwater.model.units import Micros
from slackwater.record.journal import TickRecord
from slackwater.runtime.unix_server import UnixServer
from slackwater.simulation.scenario_file import read_scenario
from slackwater.simulation.simulation_run import Simulation, SimulationError
from tools.console import say

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = "slackwater"
LEFT_OUT = "…"
_PROMPT = "$ "
_MARK = re.compile(r"<!-- sample: (?P<command>[^;]*?)(?P<options>(?:; \w+: [^;]*?)*) -->")
_OPTION = re.compile(r"; (\w+): ([^;]*)")
_INDENT = "    "
_FENCE = "```"
#: What could reach a command from outside.
_FOREIGN = ("SLACKWATER_", "KUBE", "PROMETHEUS_", "POD_", "NO_COLOR", "COLUMNS", "HTTP")
#: How old a value is when the command asks is the machine's speed, not the code's; so is the time.
_AGE = re.compile(r"\b\d+ s ago\b|\bfor \d+ s\b|\b\d\d:\d\d:\d\d\b")


class SampleError(Exception):
    """One sentence about a comment that cannot be followed, or a command that failed."""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """`first` and `last` are the block's lines in the page, counted from 0, `last` excluded."""

    page: Path
    first: int
    last: int
    indent: str
    command: str
    agent: str = ""
    width: int = 100
    text: tuple[str, ...] = ()

    def place(self) -> str:
        return f"{self.page}:{self.first + 1}"


def pages() -> tuple[Path, ...]:
    """What people read, relative to the source's root."""
    found = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    return tuple(each.relative_to(ROOT) for each in found)


def samples_in(page: Path, content: str) -> Iterator[Sample]:
    lines = content.splitlines()
    for number, line in enumerate(lines):
        if mark := _MARK.fullmatch(line):
            yield _sample(page, lines, number, mark)


def _sample(page: Path, lines: Sequence[str], number: int, mark: re.Match[str]) -> Sample:
    options = dict(_OPTION.findall(mark["options"]))
    if unknown := options.keys() - {"agent", "width"}:
        raise SampleError(f"{page}:{number + 1}: {', '.join(sorted(unknown))} is no option")
    if mark["command"].split()[0] != PROGRAM:
        raise SampleError(f"{page}:{number + 1}: {mark['command']!r} is not a {PROGRAM} command")
    first = number + 1
    while first < len(lines) and not lines[first].strip():
        first += 1
    fenced = "".join(lines[first : first + 1]).startswith(_FENCE)
    indent = "" if fenced else _INDENT
    first += fenced
    last = _end_of_block(lines, first, indent)
    if last is None:
        raise SampleError(f"{page}:{number + 1}: the block has no end")
    if last == first:
        raise SampleError(f"{page}:{number + 1}: no block follows")
    return Sample(
        page=page,
        first=first,
        last=last,
        indent=indent,
        command=mark["command"],
        agent=options.get("agent", ""),
        width=int(options.get("width", "100")),
        text=tuple(line.removeprefix(indent).rstrip() for line in lines[first:last]),
    )


def _end_of_block(lines: Sequence[str], first: int, indent: str) -> int | None:
    if not indent:
        return next((n for n in range(first, len(lines)) if lines[n].startswith(_FENCE)), None)
    last = end = first
    while end < len(lines) and (not lines[end].strip() or lines[end].startswith(indent)):
        end += 1
        if lines[end - 1].strip():
            last = end
    return last


def printed(sample: Sample) -> tuple[str, ...]:
    """What the sample's command prints now, without empty lines at the end."""
    with ExitStack() as open_now:
        folder = Path(open_now.enter_context(tempfile.TemporaryDirectory()))
        for name in ("examples", "docs"):
            (folder / name).symlink_to(ROOT / name)
        words = sample.command.split()[1:]
        if sample.agent:
            state = folder / "state"
            state.mkdir()
            open_now.enter_context(answering_agent(ROOT / sample.agent, state))
            words += ["--state", str(state)]
        done = subprocess.run(
            [sys.executable, "-m", PROGRAM, *words],
            cwd=folder,
            env=clean_environment(str(sample.width)),
            capture_output=True,
            text=True,
            check=False,
        )
    if not done.stdout:
        said = done.stderr.strip() or "nothing"
        raise SampleError(f"{sample.place()}: `{sample.command}` printed no result: {said}")
    return tuple(line.rstrip() for line in done.stdout.rstrip().splitlines())


def clean_environment(columns: str) -> dict[str, str]:
    """Without what of this machine would change an output."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(_FOREIGN)}
    return {**kept, "COLUMNS": columns, "NO_COLOR": "1", "PYTHONUTF8": "1"}


@contextmanager
def answering_agent(scenario: Path, state: Path) -> Iterator[None]:
    """Simulates the scenario to its end; then its agent answers at the socket in `state`."""
    ledger = state / "ledger"
    ledger.mkdir()
    try:
        simulation = Simulation(read_scenario(str(scenario)), str(ledger))
    except (InvalidError, SimulationError) as error:
        raise SampleError(str(error)) from None
    shared = simulation.shared

    def read_pods_too(at: Micros, _done: TickRecord | Gap) -> None:
        shared.request_detail(at)

    server = UnixServer(
        str(state / "agent.sock"),
        lambda request: respond_on_socket(shared, request, simulation.kernel.now),
        lambda _sentence: None,
    )
    try:
        simulation.run(read_pods_too)
        server.start()
        yield
    finally:
        server.close()
        simulation.close()


def difference(sample: Sample, now: Sequence[str]) -> str:
    """Empty where the block shows what is printed now."""
    shown = sample.text[1:] if sample.text[0].startswith(_PROMPT) else sample.text
    pattern = "\n".join(map(_line_pattern, shown))
    if re.fullmatch(pattern, "\n".join(map(without_age, now))):
        return ""
    return "\n".join(
        difflib.unified_diff(
            shown, now, sample.place(), f"printed by {sample.command}", lineterm=""
        )
    )


def _line_pattern(line: str) -> str:
    if line.strip() == LEFT_OUT:
        return r"(?:.*\n)*?.*"
    return ".*".join(map(re.escape, without_age(line).split(LEFT_OUT)))


def without_age(line: str) -> str:
    return _AGE.sub("a while", line)


def rewritten(content: str, sample: Sample, now: Sequence[str]) -> str:
    """The page with this block as it is printed now."""
    lines = content.splitlines()
    kept = sample.text[:1] if sample.text[0].startswith(_PROMPT) else ()
    block = [f"{sample.indent}{line}".rstrip() for line in (*kept, *now)]
    return "\n".join([*lines[: sample.first], *block, *lines[sample.last :]]) + "\n"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.samples", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, show what differs")
    chosen = parser.parse_args(arguments)
    left = 0
    for page in pages():
        content = (ROOT / page).read_text(encoding="utf-8")
        # From the last one on, so that the lines of those before stay where they are.
        for sample in reversed(list(samples_in(page, content))):
            now = printed(sample)
            if not (told := difference(sample, now)):
                continue
            if chosen.check or LEFT_OUT in {line.strip() for line in sample.text}:
                say(told)
                left += 1
                continue
            content = rewritten(content, sample, now)
            (ROOT / page).write_text(content, encoding="utf-8")
            say(f"samples: wrote {sample.place()}", sys.stderr)
    return 1 if left else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except SampleError as error:
        say(f"samples: {error}", sys.stderr)
        sys.exit(1)
