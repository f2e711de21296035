"""`slackwater rebalance simulate`: the reference is true, and a terminal shows it well."""

import fcntl
import json
import os
import pty
import re
import select
import shlex
import shutil
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from slackwater.cli.rebalance_simulate_settings import MOVES
from slackwater.settings.rebalance_simulation import SETTINGS
from slackwater.settings.setting import Setting
from tests.unit.cli.simulated_days import EXAMPLE, REFERENCE, ROOT, run, settle_in, told


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    settle_in(tmp_path, monkeypatch)
    return tmp_path


@pytest.mark.parametrize("kind", SETTINGS, ids=lambda kind: kind.key)
def test_the_reference_has_every_flag_default_and_bound(kind: Setting) -> None:
    row = f"| `{kind.flag}` | {kind.default} | {kind.bound} |"
    assert row in REFERENCE.read_text()


def test_the_reference_has_every_key_and_every_flag_of_a_workload() -> None:
    text = REFERENCE.read_text()
    found = told("day.csv")
    keys = [*found, *found["day"], *found["settings"], *found["without"], *found["steps"][0]]
    for key in (*keys, *found["rotations"][0]):
        assert key in text
    for entry in MOVES:
        assert f"`{entry.flag}`" in text


def commands() -> list[str]:
    """Those of the reference that need nothing but a recording."""
    text = REFERENCE.read_text()
    found = re.findall(r"^ {4}slackwater rebalance simulate(.*)$", text, re.MULTILINE)
    plain = [command.split("   ")[0].strip() for command in found if "[" not in command]
    return [command for command in plain if "json" not in command]


@pytest.mark.parametrize("command", commands())
def test_the_references_examples_work(here: Path, command: str) -> None:
    shutil.copytree(ROOT / "examples" / "rebalancer", here / "examples" / "rebalancer")
    done = run(*shlex.split(command))
    assert done.exit_code == 0, done.output
    assert "It would have rotated" in done.stdout


def test_the_reference_has_examples() -> None:
    assert len(commands()) >= 4


def on_a_terminal(columns: int, *arguments: str) -> str:
    """What a person sees; the program is a real one, and so is the terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    # Whoever runs the tests may have said how wide it is.
    ambient = {key: text for key, text in os.environ.items() if key not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-m", "slackwater", "rebalance", "simulate", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**ambient, "TERM": "xterm-256color"},
    )
    os.close(theirs)
    seen = b""
    try:
        while select.select([ours], [], [], 60)[0]:
            seen += os.read(ours, 65536)
    except OSError:  # EIO: the other side has ended
        pass
    finally:
        os.close(ours)
        process.wait()
    assert process.returncode == 0
    return seen.decode().replace("\r\n", "\n")


def test_on_a_terminal_there_are_colours_and_a_bar() -> None:
    shown = on_a_terminal(80, "day.csv")
    assert "\x1b[31m▓" in shown, "what is above the threshold is red"
    assert "\x1b[34m█" in shown
    assert "100%" in shown


@pytest.mark.parametrize("columns", [60, 80, 132])
def test_nothing_is_wider_than_the_terminal(columns: int) -> None:
    shown = on_a_terminal(columns, str(EXAMPLE), "--stickiness", "0.9", "--no-color")
    # The bar draws over itself.
    lines = [line.rpartition("\r")[2] for line in shown.splitlines()]
    assert "\x1b[3" not in "".join(lines[1:])
    assert [line for line in lines if len(line) > columns and line[0] != "\x1b"] == []
    assert any("consumer-5" in line for line in lines)


@pytest.mark.parametrize(("columns", "widest"), [("60", 60), ("80", 80), ("", 110), ("9", 60)])
def test_a_pipe_is_as_wide_as_columns_says(columns: str, widest: int) -> None:
    words = [sys.executable, "-m", "slackwater", "rebalance", "simulate"]
    env = {**os.environ, "COLUMNS": columns}
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=env)
    assert widest - 20 < max(map(len, done.stdout.splitlines())) <= widest


def test_a_pipe_gets_only_the_result() -> None:
    words = [sys.executable, "-m", "slackwater", "rebalance", "simulate", "day.csv", "-o", "json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["kind"] == "RebalanceSimulation"
