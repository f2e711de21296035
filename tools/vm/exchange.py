"""The folder through which host and guest talk: one command in, its output and exit code out.

The guest's half is guest_files/run-command. An exit code counts only if it is there and whole:
a machine that died leaves none, and that is never read as a result of the command.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.vm.failure import NO_RESULT

GUEST_OUT = "/run/slackwater-vm/out"
OUT_VARIABLE = "SLACKWATER_VM_OUT"

_EXIT_CODE = re.compile(r"(\d{1,3})\n")
_LARGEST_EXIT_CODE = 255
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
# A panic with its register dump and call trace is about this long.
_CONSOLE_LINES = 40


@dataclass(frozen=True)
class Exchange:
    """The files of one machine's folder."""

    folder: Path

    @property
    def command(self) -> Path:
        return self.folder / "command"

    @property
    def output(self) -> Path:
        return self.folder / "output"

    @property
    def console(self) -> Path:
        return self.folder / "console"

    @property
    def emulator_messages(self) -> Path:
        return self.folder / "qemu"

    def started(self) -> bool:
        """Whether the guest got as far as starting the command."""
        return (self.folder / "started").exists()

    def exit_code(self) -> int | None:
        """The command's exit code; final only once the machine is off."""
        try:
            text = (self.folder / "exit-code").read_text()
        except OSError:
            return None
        return parse_exit_code(text)

    def last_words(self) -> str:
        """The end of what the emulator and the guest's kernel said."""
        texts = (_text(self.emulator_messages), _text(self.console))
        lines = [line for text in texts for line in text.splitlines() if line.strip()]
        return "\n".join(lines[-_CONSOLE_LINES:])


def parse_exit_code(text: str) -> int | None:
    """A whole line with a number from 0 to 255; None for anything less."""
    found = _EXIT_CODE.fullmatch(text)
    if found is None or int(found.group(1)) > _LARGEST_EXIT_CODE:
        return None
    return int(found.group(1))


def parse_variable(text: str) -> tuple[str, str]:
    """NAME=VALUE as a pair."""
    found = _VARIABLE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not NAME=VALUE")
    return found.group(1), found.group(2)


def command_script(command: Sequence[str], folder: Path, variables: Mapping[str, str]) -> str:
    """A script that runs the command in the folder with these variables and no others."""
    place = shlex.quote(str(folder))
    assignments = [f"{name}={value}" for name, value in variables.items()]
    words = shlex.join(["/usr/bin/env", "-i", *assignments, *command])
    return f"cd {place} || exit {NO_RESULT}\nexec {words}\n"


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
