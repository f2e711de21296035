"""The console script's small commands."""

import os
import subprocess
import sys

import click
import pytest

from slackwater import __version__
from slackwater.cli.main import COMMANDS
from slackwater.cli.main import slackwater as group


def slackwater(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "slackwater", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_version() -> None:
    assert slackwater("version").stdout == f"{__version__}\n"


def test_nothing_shows_the_help() -> None:
    done = slackwater()
    assert "doctor" in done.stderr
    assert done.returncode == 2


@pytest.mark.parametrize("path", [(), ("forecast",), ("normalize",), ("rebalance",)])
def test_summaries_of_commands_are_whole(path: tuple[str, ...]) -> None:
    """In 80 columns click cuts what does not fit and ends it with dots."""
    done = slackwater(*path, "--help")
    summaries = done.stdout.partition("Commands:\n")[2].splitlines()
    assert summaries
    assert [line for line in summaries if line.endswith("...")] == []


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
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "{"
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["doctor", "doctor -o json", "version", "completion bash"])
@pytest.mark.parametrize("where", [">&-", "> /dev/full"])
def test_a_result_that_cannot_be_written_is_one_sentence(command: str, where: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m slackwater {command} {where}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("slackwater: the result cannot be written: ")
    assert done.stderr.count("\n") == 1


def test_a_terminal_in_ascii() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "slackwater", "doctor", "--cgroup-root", "/nowhere"],
        capture_output=True, check=False,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert b" Mount the host's" in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_where_its_name_says(name: str) -> None:
    command = group.get_command(click.Context(group), name)
    assert command is not None
    assert command.name == name


def test_an_agent_does_not_import_what_only_people_need() -> None:
    code = (
        "import sys, slackwater.cli.agent; print([m for m in ('rich', 'yaml') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n"
