"""The console script's small commands."""

import subprocess
import sys

import pytest

from slackwater import __version__


def slackwater(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "slackwater", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_version() -> None:
    assert slackwater("version").stdout == f"{__version__}\n"


def test_nothing_shows_the_help() -> None:
    done = slackwater()
    assert "doctor" in done.stderr
    assert done.returncode == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    done = slackwater("completion", shell)
    assert done.returncode == 0
    assert "_SLACKWATER_COMPLETE" in done.stdout


def test_an_unknown_shell_is_named() -> None:
    done = slackwater("completion", "tcsh")
    assert done.returncode == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in done.stderr


def test_a_reader_that_leaves_early_is_no_traceback() -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m slackwater doctor -o json | head -c 1"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout == "{"
    assert "Traceback" not in done.stderr
