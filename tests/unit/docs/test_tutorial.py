"""The tutorial's commands, taken from the page, work in its order and print what it shows."""

import itertools
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.samples import ROOT, Sample, clean_environment, difference

PAGE = ROOT / "docs/tutorial.md"
_BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = _BLOCK.findall(PAGE.read_text("utf-8"))
#: As wide as what the page shows.
COLUMNS = "110"


def test_each_output_follows_its_command() -> None:
    languages = [language for language, _ in BLOCKS]
    assert languages[0] == "sh"
    assert languages.count("text") >= 5
    assert all(pair != ("text", "text") for pair in itertools.pairwise(languages))


@pytest.mark.long
def test_every_command_works_and_prints_what_the_page_shows(tmp_path: Path) -> None:
    """In a folder that has this environment as .venv, and nothing else of the repository."""
    (tmp_path / ".venv").symlink_to(sys.prefix)
    script, marks = "", 0
    for language, text in BLOCKS:
        if language == "sh":
            marks += 1
            script += f"{text}\necho '-- {marks}'\n"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path,
        env=clean_environment(COLUMNS),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = re.split(r"^-- \d+\n", done.stdout, flags=re.MULTILINE)
    assert len(printed) == marks + 1
    shown = [(at, text) for at, (language, text) in enumerate(BLOCKS) if language == "text"]
    told = [_compare(at, text, printed) for at, text in shown]
    assert "".join(told) == ""


def _compare(place: int, text: str, printed: list[str]) -> str:
    """Against what the commands right before it printed."""
    command = sum(language == "sh" for language, _ in BLOCKS[:place]) - 1
    shown = tuple(line.rstrip() for line in text.splitlines())
    sample = Sample(
        page=PAGE.relative_to(ROOT), first=0, last=1, indent="", command="the tutorial", text=shown
    )
    lines = printed[command].rstrip().splitlines()
    return difference(sample, [line.rstrip() for line in lines])
