"""Debian packages: which are missing, and installing them by name.

Refuses to let a package start its services (a policy-rc.d stands guard meanwhile), to install what
is only recommended, and to ask anything.
"""

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tools.children import Children
from tools.console import ProgressLine

POLICY = Path("/usr/sbin/policy-rc.d")
# Exit code 101 is "action forbidden by policy" (Debian: invoke-rc.d, policy-rc.d specification).
GUARD = """#!/bin/sh
# Slackwater's setup: packages do not start services while it installs them.
exit 101
"""
APT_ENV = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
APT = ("apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=300", "-o", "Dpkg::Use-Pty=0")
INSTALL = ("install", "--no-install-recommends")
PHASES = {"dlstatus": "downloading", "pmstatus": "installing"}
# A log without a terminal gets a line per step, so few of them.
STEP_PERCENT = 25
PERCENT = re.compile(r"\d{1,3}\.\d+")


def missing(wanted: Sequence[str], present: Iterable[str]) -> tuple[str, ...]:
    there = frozenset(present)
    return tuple(name for name in wanted if name not in there)


def installed(children: Children, wanted: Sequence[str]) -> tuple[str, ...]:
    form = "${Package} ${db:Status-Status}\n"
    _, said = children.run_quietly(["dpkg-query", "-W", "-f", form, *wanted], APT_ENV)
    return names_installed(said)


def names_installed(said: str) -> tuple[str, ...]:
    """Of dpkg-query's answer only what is fully there; "config-files" is a removed package."""
    rows = (line.split(" ") for line in said.splitlines())
    return tuple(row[0] for row in rows if row[1:] == ["installed"])


def lacks(needs: Mapping[str, str], which: Callable[[str], str | None]) -> str:
    """The first program that is needed and not here, with the package that brings it."""
    for program, package in needs.items():
        if which(program) is None:
            return f"{program} is missing: apt-get install {package}."
    return ""


def obstacle(user: int, which: Callable[[str], str | None]) -> str:
    """Why packages cannot be installed here; nothing if they can."""
    if which("apt-get") is None:
        return "there is no apt-get here"
    if user != 0:
        return "only root can install packages"
    return ""


def install(children: Children, packages: Sequence[str], policy: Path = POLICY) -> str:
    """Installs, fetching the package lists only if they are missing or old; returns the problem."""
    known, _ = children.run_quietly([*APT, "--simulate", *INSTALL, *packages], APT_ENV)
    attempts = ((INSTALL, packages),) if known == 0 else ()
    problem = ""
    try:
        with services_stay_stopped(policy), ended_before_the_guard_goes(children):
            for action, names in (*attempts, (("update",), ()), (INSTALL, packages)):
                problem = run_apt(children, [*action, *names])
                if action == INSTALL and not problem:
                    return ""
    except OSError as error:
        return str(error)
    return problem


@contextmanager
def ended_before_the_guard_goes(children: Children) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        children.end_all()
        raise


def run_apt(children: Children, arguments: Sequence[str]) -> str:
    """Runs apt-get with its progress on one line; returns its words if it failed."""
    reading, writing = os.pipe()
    shown = ProgressLine(f"setup: apt-get {arguments[0]}", sys.stderr)
    with tempfile.TemporaryFile() as words, shown as line:
        with open(reading) as news:
            try:
                command = [*APT, "-o", f"APT::Status-Fd={writing}", *arguments]
                child = children.start(command, APT_ENV, words, (writing,))
            finally:
                os.close(writing)
            follow(news, line)
        if children.wait(child) == 0:
            return ""
        words.seek(0)
        return words.read().decode(errors="replace").strip() or "apt-get said nothing"


def follow(news: IO[str], line: ProgressLine) -> None:
    for row in news:
        if step := progress(row):
            line.tell(step)


def progress(row: str) -> str:
    """Reads `dlstatus:3:41.2:Retrieving file 3 of 7` (apt's README.progress-reporting)."""
    phase, *fields = row.split(":")
    # the package's name may carry its architecture, so the percentage has no fixed place
    percents = [field for field in fields[1:] if PERCENT.fullmatch(field)]
    if phase not in PHASES or not percents:
        return ""
    return f"{PHASES[phase]} {int(float(percents[0])) // STEP_PERCENT * STEP_PERCENT} %"


@contextmanager
def services_stay_stopped(policy: Path) -> Iterator[None]:
    """Stands guard, then puts back what was there, also what a killed run left behind."""
    saved = policy.with_name(policy.name + ".slackwater-saved")
    put_back(policy, saved)
    if os.path.lexists(policy):
        policy.rename(saved)
    try:
        policy.write_text(GUARD)
        policy.chmod(0o755)
        yield
    finally:
        put_back(policy, saved)


def put_back(policy: Path, saved: Path) -> None:
    if policy.is_file() and policy.read_text(errors="replace") == GUARD:
        policy.unlink()
    if os.path.lexists(saved) and not os.path.lexists(policy):
        saved.rename(policy)
