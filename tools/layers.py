"""Draws docs/images/layers.svg from the layers in pyproject.toml: python -m tools.layers

The picture of ARCHITECTURE.md cannot disagree with what import-linter checks; a unit test compares
the file with what this module draws.
"""

import ast
import sys
import tomllib
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs/images/layers.svg"
_WIDTH, _ROW, _BOX, _LEFT, _GAP = 920, 56, 40, 190, 14
#: Average width of a character of the small font, for deciding whether a line fits its box.
_CHARACTER = 6.1
_STYLE = """
    .band { fill: #f4f6f8; stroke: #c8d0d8; }
    .pure { fill: #dcecf7; stroke: #3b7ea1; }
    .program { fill: #e6f2e4; stroke: #5a8f52; }
    .edge { fill: #fdeedb; stroke: #c9812f; }
    .name { font-weight: 600; fill: #16242f; }
    .small { font-size: 12px; fill: #51606d; }
    .side { font-size: 12px; fill: #51606d; font-style: italic; }
"""
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


def _box(package: str, x: float, y: float, width: float) -> str:
    kind = "pure" if package in _PURE else "edge" if package in _EDGES else "program"
    middle = x + width / 2
    summary = _summary(package)
    fits = len(summary) * _CHARACTER < width - 12
    rows = [
        f'<rect class="{kind}" x="{x:.0f}" y="{y}" width="{width:.0f}" height="{_BOX}" rx="5"/>',
        _text("name", middle, y + (17 if fits else 25), package),
    ]
    return "\n".join([*rows, _text("small", middle, y + 33, summary)] if fits else rows)


def _text(kind: str, x: float, y: float, text: str) -> str:
    return f'<text class="{kind}" x="{x:.0f}" y="{y}" text-anchor="middle">{escape(text)}</text>'


def draw() -> str:
    rows = []
    layers = read_layers()
    for number, layer in enumerate(layers):
        y, band = 10 + number * _ROW, f'width="{_WIDTH - 20}" height="{_ROW - 4}"'
        room = _WIDTH - _LEFT - 24 - _GAP * (len(layer) - 1)
        width = room / len(layer)
        side = next((_SIDE[name] for name in layer if name in _SIDE), "")
        rows.append(
            f'<rect class="band" x="10" y="{y}" {band} rx="6"/>\n'
            f'<text class="side" x="24" y="{y + 30}">{side}</text>'
        )
        rows += [
            _box(name, _LEFT + place * (width + _GAP), y + 6, width)
            for place, name in enumerate(layer)
        ]
    height = 16 + len(layers) * _ROW
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="system-ui, sans-serif" font-size="15">\n'
        "<title>Slackwater's packages: imports go downward only</title>\n"
        f"<style>{_STYLE}</style>\n"
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>\n'
        + "\n".join(rows)
        + "\n</svg>\n"
    )


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
    sys.exit(0)
