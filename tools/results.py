"""What a test run proved: counts from pytest's own report, the table, the exit code.

A report that is missing, empty or at odds with the exit code is a failure, and what did not run is
never counted as passed.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from xml.etree import ElementTree as ET

from tools.console import Colour, elapsed_text, paint

# tools.vm's exit code for a machine that crashed or hung before its command ended.
VM_CRASHED = 125


class Strictness(Enum):
    """A person can see what was left out; a CI must not leave anything out."""

    LOCAL = "local"
    CI = "ci"


@dataclass(frozen=True, slots=True)
class Skip:
    test: str
    reason: str


@dataclass(frozen=True, slots=True)
class Verdict:
    passed: int
    failed: int
    skips: tuple[Skip, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Finished:
    stage: str
    verdict: Verdict
    seconds: float


@dataclass(frozen=True, slots=True)
class NotRun:
    stage: str
    reason: str


@dataclass(frozen=True, slots=True)
class Run:
    finished: tuple[Finished, ...]
    left: tuple[NotRun, ...]


@dataclass(frozen=True, slots=True)
class Total:
    passed: int
    failed: int

    @property
    def line(self) -> str:
        return f"{self.passed} passed, {self.failed} failed"

    @property
    def exit_code(self) -> int:
        return 1 if self.failed or not self.passed else 0


def strictness(environ: Mapping[str, str]) -> Strictness:
    return Strictness.CI if environ.get("CI", "").lower() in ("true", "1") else Strictness.LOCAL


def count(report: str) -> Verdict:
    """Counts a junit report; an error in a fixture is a failure like any other."""
    passed, failed, skips = 0, 0, []
    for case in ET.fromstring(report).iter("testcase"):  # noqa: S314 - our own pytest's
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif skipped is not None:
            name = f"{case.get('classname')}::{case.get('name')}"
            skips.append(Skip(name, skipped.get("message") or "no reason given"))
        else:
            passed += 1
    return Verdict(passed, failed, tuple(skips))


def judge(exit_code: int, report: str | None) -> Verdict:
    """What pytest's exit code and its report prove together."""
    if exit_code == VM_CRASHED:
        return Verdict(0, 1, note="did not finish: the virtual machine crashed")
    try:
        counted = count(report or "")
    except ET.ParseError:
        return Verdict(0, 1, note=f"did not finish: no report, exit code {exit_code}")
    if counted.failed:
        return counted
    if not counted.passed:
        return Verdict(0, 1, counted.skips, f"no test ran, exit code {exit_code}")
    if exit_code != 0:
        note = f"exit code {exit_code}, though no test failed"
        return Verdict(counted.passed, 1, counted.skips, note)
    return counted


def total(run: Run, strict: Strictness) -> Total:
    """In a CI a skipped test and a stage that was not run are one failure each."""
    passed = sum(one.verdict.passed for one in run.finished)
    failed = sum(one.verdict.failed for one in run.finished)
    if strict is Strictness.CI:
        failed += sum(len(one.verdict.skips) for one in run.finished) + len(run.left)
    return Total(passed, failed)


def closing_line(finished: Finished) -> str:
    verdict = finished.verdict
    word, colour = ("FAILED", Colour.RED) if verdict.failed else ("passed", Colour.GREEN)
    note = f": {verdict.note}" if verdict.note else ""
    return (
        f"{finished.stage}: {paint(word, colour, sys.stdout)} "
        f"in {elapsed_text(finished.seconds)}{note}"
    )


def table(finished: Sequence[Finished]) -> list[str]:
    rows = [("stage", "passed", "failed", "time")]
    for one in finished:
        counts = (str(one.verdict.passed), str(one.verdict.failed))
        rows.append((one.stage, *counts, elapsed_text(one.seconds)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join((row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:]))) for row in rows
    ]


def summary(run: Run, strict: Strictness) -> list[str]:
    """The end of a run; its last line is the count and nothing else."""
    lines = ["", *table(run.finished)]
    failure = " (a failure, because CI is set)" if strict is Strictness.CI else ""
    for one in run.finished:
        if one.verdict.note:
            lines.append(f"failed: {one.stage}: {one.verdict.note}")
        lines += [
            f"skipped: {one.stage}: {skip.test}: {skip.reason}{failure}"
            for skip in one.verdict.skips
        ]
    lines += [f"not run: {one.stage}: {one.reason}{failure}" for one in run.left]
    return [*lines, total(run, strict).line]
