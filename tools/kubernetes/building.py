"""One build: what the cache lacks is compiled, and appears there by one rename.

Owns the progress that a person sees and the lock against a second builder. Runs niced: whoever
waits for a build has other work going on beside it.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from tools.cache import publish, scratch_folder, sole_builder
from tools.children import Children
from tools.console import ProgressLine
from tools.kubernetes.programs import (
    ENVIRONMENT,
    MODULES,
    PROGRAMS,
    BuildError,
    Module,
    Toolchain,
    build_flags,
    compiled_name,
    find_toolchain,
    kept_program,
)

NICE = ("nice", "-n", "10")
# A log without a terminal gets a line per step, so few of them.
STEP_PERCENT = 10
# Of what Go says when it fails, the end tells why.
_LAST_LINES = 20


def build(
    children: Children, names: Sequence[str], cache: Path, ready_made: Path | None = None
) -> list[Path]:
    """The programs in the order of their names, compiled where the cache has none.

    What lies in the folder `ready_made` is taken from there."""
    found = {} if ready_made is None else {n: ready_made / n for n in names}
    found = {name: path for name, path in found.items() if path.exists()}
    if lacking := [name for name in names if name not in found]:
        toolchain = find_toolchain(children, cache)
        found |= {name: kept_program(cache, name, toolchain) for name in lacking}
        if not all(path.exists() for path in found.values()):
            with sole_builder(cache / "kubernetes"):
                compile_lacking(children, toolchain, list(found.values()), cache / "kubernetes")
    return [found[name] for name in names]


def compile_lacking(
    children: Children, toolchain: Toolchain, finals: Sequence[Path], folder: Path
) -> None:
    """Module by module. Another process may have built some while this one waited."""
    lacking = [final for final in finals if not final.exists()]
    for module in MODULES:
        mine = [final for final in lacking if PROGRAMS[final.name] is module]
        if mine:
            compile_programs(children, toolchain, module, mine, folder)


def compile_programs(
    children: Children, toolchain: Toolchain, module: Module, finals: Sequence[Path], folder: Path
) -> None:
    names = [final.name for final in finals]
    packages = [module.package(name) for name in names]
    flags = build_flags(module)
    place = ("-C", str(module.folder))  # Go wants it first
    shown = ProgressLine(f"kubernetes: building {', '.join(names)} {module.version}", sys.stderr)
    with scratch_folder(folder) as scratch, shown as line:
        line.tell("fetching its modules, looking at what is to be compiled")
        listed = ["list", *place, *flags, "-deps", "-f", "{{if .Stale}}stale{{end}}", *packages]
        stale = "".join(run_go(children, toolchain, listed, None)).count("stale")
        built = ["build", *place, *flags, "-v", "-o", f"{scratch}/", *packages]
        run_go(children, toolchain, built, Progress(line, stale))
        for final, package in zip(finals, packages, strict=True):
            publish(scratch / compiled_name(package), final)


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
    """Runs Go; BuildError with its last words if it fails."""
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
