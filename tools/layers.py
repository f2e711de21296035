"""Draws docs/images/layers.svg from the layers in pyproject.toml: python -m tools.layers

The picture of ARCHITECTURE.md cannot disagree with what import-linter checks; a unit test compares
the file with what this module draws.
"""

import ast
import sys
import tomllib
from pathlib import Path

from slackwater.drawing.page import box, page, text

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs/images/layers.svg"
_WIDTH, _ROW, _BOX, _LEFT, _GAP = 920, 56, 40, 190, 14
#: Average width of a character of the small font, for deciding whether a line fits its box.
_CHARACTER = 6.1
#: What a layer has in common, by its first package; layers without an entry are programs.
_SIDE = {
    "cli": "text, exit codes",
    "agent": "programs",
    "runtime": "under every program",
    "execution": "the only readers, writers",
    "kube": "HTTP to the API server",
    "http": "HTTP client",
    "resolution": "pure: what to do",
    "settings": "pure: our settings",
    "contract": "pure: foreign formats",
    "model": "values",
}
_EDGES = frozenset(
    {"runtime", "execution", "observation", "record", "kube", "http", "bounded_read"}
)
_PURE = frozenset({"resolution", "policies", "signals", "settings", "contract", "model"})


def read_layers() -> list[list[str]]:
    """From top to bottom; packages of one layer do not import each other."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["type"] == "layers")
    return [[name.strip() for name in layer.split("|")] for layer in layers]


def _summary(package: str) -> str:
    """The first line of the package's docstring."""
    folder = ROOT / "src/slackwater" / package
    own = folder / "__init__.py"
    path = own if own.is_file() else folder.with_suffix(".py")
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0].rstrip(".")


def _package(package: str, x: float, y: float, width: float) -> list[str]:
    kind = "pure" if package in _PURE else "edge" if package in _EDGES else "program"
    middle = round(x + width / 2, 1)
    summary = _summary(package)
    fits = len(summary) * _CHARACTER < width - 12
    return [
        box(x, y, width, _BOX, kind, 5),
        text(middle, y + (17 if fits else 25), package, "head middle"),
        *([text(middle, y + 33, summary, "faint middle")] if fits else []),
    ]


def draw() -> str:
    rows: list[str] = []
    layers = read_layers()
    for number, layer in enumerate(layers):
        y = 10 + number * _ROW
        room = _WIDTH - _LEFT - 24 - _GAP * (len(layer) - 1)
        width = room / len(layer)
        side = next((_SIDE[name] for name in layer if name in _SIDE), "")
        rows += [box(10, y, _WIDTH - 20, _ROW - 4, "panel", 6), text(24, y + 30, side, "side")]
        for place, name in enumerate(layer):
            rows += _package(name, round(_LEFT + place * (width + _GAP), 1), y + 6, round(width, 1))
    title = "Slackwater's packages: imports go downward only"
    return page(title, 16 + len(layers) * _ROW, rows, _WIDTH)


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
    sys.exit(0)
