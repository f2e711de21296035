"""Owns running checks: their commands, what the person sees, and their verdicts.

Refuses to order stages or to add them up (tools.run_tests, tools.verdicts); tests are
tools.suite_run's.
"""

import shlex
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from tools.children import Children
from tools.console import ProgressLine, say
from tools.stages import Check
from tools.verdicts import Finished, Verdict, closing_line

_POLL_SECONDS = 0.1


class CheckRunner:
    """Guards the commands that have begun and what they say."""

    def __init__(self, children: Children, reports: Path) -> None:
        self._children = children
        self._reports = reports
        self._begun: dict[tuple[str, ...], tuple[subprocess.Popen[bytes], Path]] = {}

    def begin(self, checks: Iterable[Check]) -> None:
        """All at once: each keeps one CPU busy, and none minds the others. Told in their order."""
        commands = [command for check in checks for command in check.commands]
        for number, command in enumerate(commands):
            words = self._reports / f"check-{number}.log"
            # What cannot start says so when it is its turn.
            with suppress(OSError), words.open("wb") as output:
                self._begun[command] = (self._children.start(command, {}, output), words)

    def run(self, check: Check, meanwhile: Callable[[], None] = lambda: None) -> Finished:
        """`meanwhile` is called again and again while a command that has begun runs."""
        began = time.monotonic()
        heard = []
        with ProgressLine(f"{check.name}: {check.what}"):
            for command in check.commands:
                code, said = self._outcome(command, meanwhile)
                if code != 0:
                    heard.append(f"$ {shown(command)}\n{said.rstrip()}\nexit code {code}")
        for text in heard:
            say(text)
        verdict = Verdict(0, 1) if heard else Verdict(1, 0)
        finished = Finished(check.name, verdict, time.monotonic() - began)
        say(closing_line(finished))
        return finished

    def _outcome(self, command: tuple[str, ...], meanwhile: Callable[[], None]) -> tuple[int, str]:
        if command not in self._begun:
            return self._children.run_quietly(command, {})
        child, words = self._begun.pop(command)
        while child.poll() is None:
            meanwhile()
            time.sleep(_POLL_SECONDS)
        return self._children.wait(child), words.read_text(errors="replace")


def shown(command: Sequence[str]) -> str:
    """A command as a person would type it in the virtual environment."""
    return shlex.join([Path(command[0]).name, *command[1:]])
