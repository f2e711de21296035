"""Writes the chart's dashboards: python -m tools.dashboards. `--check` writes nothing and says what
is out of date."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.console import say
from tools.dashboards.grafana import render
from tools.dashboards.pages import DASHBOARDS
from tools.manifests import CHART

FOLDER = CHART / "dashboards"


def wanted() -> dict[Path, str]:
    return {FOLDER / f"{each.name}.json": render(each) for each in DASHBOARDS}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.dashboards", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, name what differs")
    chosen = parser.parse_args(arguments)
    files = wanted()
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        if not chosen.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files[path])
        say(f"dashboards: {'old' if chosen.check else 'wrote'}: {path.name}", sys.stderr)
    return 1 if chosen.check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
