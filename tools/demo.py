"""Owns `make demo` until the demo itself exists: it runs `slackwater doctor` and says so.

Refuses to hide a broken program: doctor's exit code 1 means "a problem was found" and is a fine
demo, but an uncaught exception ends with 1 too, so its traceback is looked for.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.children import INTERRUPTED
from tools.console import say

FOUND_PROBLEMS = 1
TRACEBACK = "Traceback (most recent call last)"


def demo_exit_code(doctor_exit_code: int, errors: str) -> int:
    """Problems of this machine are no failure of the demo; a crash is."""
    crashed = TRACEBACK in errors
    return 0 if doctor_exit_code == FOUND_PROBLEMS and not crashed else doctor_exit_code


def run_doctor(arguments: Sequence[str]) -> int:
    doctor = Path(sys.executable).with_name("slackwater")
    command = [str(doctor), "doctor", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, errors="replace") as process:
        errors = ""
        for line in process.stderr or ():
            sys.stderr.write(line)
            sys.stderr.flush()
            errors += line
    return demo_exit_code(process.returncode, errors)


def main(arguments: Sequence[str]) -> int:
    say("demo: there is no demo yet; what runs is `slackwater doctor`: what this machine can do.")
    try:
        return run_doctor(arguments)
    except FileNotFoundError as error:
        say(f"demo: {error.filename} is missing; run `make demo`, which sets it up", sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
