"""One build: what the cache lacks is compiled, and appears there by one rename.

Owns the progress that a person sees and the lock against a second builder. Runs niced: whoever
waits for a build has other work going on beside it.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from tools.children import Children
from tools.console import ProgressLine
from tools.kubernetes.failure import BuildError
from tools.kubernetes.programs import PROGRAMS, VERSION, build_flags, kept_program, key
from tools.kubernetes.toolchain import ENVIRONMENT, Toolchain, find_toolchain
from tools.vm.cache import publish, scratch_folder, sole_builder

NICE = ("nice", "-n", "10")
# A log without a terminal gets a line per step, so few of them.
STEP_PERCENT = 10
# Of what Go says when it fails, the end tells why.
_LAST_LINES = 20


def build(children: Children, names: Sequence[str], cache: Path) -> list[Path]:
    """The programs in the order of their names, compiled where the cache has none."""
    toolchain = find_toolchain(children, cache)
    found = key(toolchain)
    kept = [kept_program(cache, name, found) for name in names]
    if not all(path.exists() for path in kept):
        with sole_builder(cache / "kubernetes"):
            # Another process may have built them while this one waited.
            lacking = [path for path in kept if not path.exists()]
            if lacking:
                compile_programs(children, toolchain, lacking, cache / "kubernetes")
    return kept


def compile_programs(
    children: Children, toolchain: Toolchain, finals: Sequence[Path], folder: Path
) -> None:
    names = [final.name for final in finals]
    packages = [PROGRAMS[name] for name in names]
    shown = ProgressLine(f"kubernetes: building {', '.join(names)} {VERSION}", sys.stderr)
    with scratch_folder(folder) as scratch, shown as line:
        line.tell("fetching its modules, looking at what is to be compiled")
        listed = ["list", *build_flags(), "-deps", "-f", "{{if .Stale}}stale{{end}}", *packages]
        stale = "".join(run_go(children, toolchain, listed, None)).count("stale")
        flags = [*build_flags(), "-v", "-o", f"{scratch}/"]
        run_go(children, toolchain, ["build", *flags, *packages], Progress(line, stale))
        for final in finals:
            publish(scratch / final.name, final)


class Progress:
    """Counts what Go has compiled; guards the one line that tells it."""

    def __init__(self, line: ProgressLine, whole: int) -> None:
        self._line = line
        self._whole = max(whole, 1)
        self._done = 0

    def hear(self, row: str) -> None:
        """Each row of `go build -v` names a package, but for what goes wrong."""
        if row.strip() and " " not in row.strip():
            self._done += 1
            percent = min(100 * self._done // self._whole, 100)
            self._line.tell(f"{percent // STEP_PERCENT * STEP_PERCENT} % compiled")


def run_go(
    children: Children, toolchain: Toolchain, arguments: Sequence[str], progress: Progress | None
) -> list[str]:
    """Runs Go where the children run, in our module; BuildError with its last words if it fails."""
    reading, writing = os.pipe()
    with open(reading, errors="replace") as news:
        try:
            command = [*NICE, str(toolchain.program), *arguments]
            child = children.start(command, ENVIRONMENT, writing)
        finally:
            os.close(writing)
        rows = follow(news, progress)
    if children.wait(child) != 0:
        words = "".join(rows[-_LAST_LINES:]).strip() or "it said nothing"
        raise BuildError(f"go {arguments[0]} failed:\n{words}")
    return rows


def follow(news: IO[str], progress: Progress | None) -> list[str]:
    rows = []
    for row in news:
        rows.append(row)
        if progress:
            progress.hear(row)
    return rows
