"""`slackwater rebalance simulate` in a folder of its own, with the seed's example in it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from slackwater.cli.main import slackwater

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "rebalancer" / "day.csv"
REFERENCE = ROOT / "docs" / "reference" / "rebalance-simulate.md"
#: The seed's example for a quarter of an hour.
SIX = {"a": 1.2, "b": 1.1, "c": 0.8, "d": 0.6, "e": 0.4, "f": 0.3}
ROWS = "".join(f"{at},{pod},{cores},1\n" for at in (0, 300, 600) for pod, cores in SIX.items())
CSV = "time,pod,cores,request\n" + ROWS


def settle_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """day.csv is there, and no variable is set."""
    monkeypatch.chdir(folder)
    ours = (
        *("SLACKWATER_", "NO_COLOR", "COLUMNS"),
        *("TOLERANCE", "REBALANCE_", "MINIMUM_", "METRICS_"),
    )
    for name in [name for name in os.environ if name.startswith(ours)]:
        monkeypatch.delenv(name)
    Path("day.csv").write_text(CSV)


def run(*arguments: str, text: str | None = None, **environ: str) -> Result:
    words = ["rebalance", "simulate", *arguments]
    return CliRunner().invoke(slackwater, words, input=text, env=environ)


def told(*arguments: str, text: str | None = None, **environ: str) -> dict[str, Any]:
    done = run(*arguments, "-o", "json", text=text, **environ)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found
