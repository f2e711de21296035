"""Owns `make demo`: it runs `slackwater demo`, and its exit code is the demo's."""

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.children import INTERRUPTED
from tools.console import say


def exit_code(code: int) -> int:
    """As a shell tells it: a demo that a signal ended is 128 + n."""
    return code if code >= 0 else 128 - code


def run_demo(arguments: Sequence[str]) -> int:
    """Ctrl-C reaches the demo as well, which then puts everything back: it is waited for."""
    program = Path(sys.executable).with_name("slackwater")
    with subprocess.Popen([str(program), "demo", *arguments]) as process:
        before = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        try:
            while True:
                try:
                    return exit_code(process.wait())
                except KeyboardInterrupt:
                    continue
        finally:
            signal.signal(signal.SIGTERM, before)


def main(arguments: Sequence[str]) -> int:
    try:
        return run_demo(arguments)
    except FileNotFoundError as error:
        say(f"demo: {error.filename} is missing; run `make demo`, which sets it up", sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
