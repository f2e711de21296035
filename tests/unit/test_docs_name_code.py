"""The documents that lead through the code name modules and classes that exist."""

import ast
import re
from pathlib import Path

import pytest

from tools.layers import PICTURE, draw

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/slackwater"


def exists(dotted: str) -> bool:
    """Whether `package.module` or `package.module.Name` is there."""
    path = SOURCE / dotted.replace(".", "/")
    if path.is_dir() or path.with_suffix(".py").is_file():
        return True
    module, _, name = dotted.rpartition(".")
    file = (SOURCE / module.replace(".", "/")).with_suffix(".py")
    if not file.is_file():
        return False
    names = {
        target
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        for target in _names(node)
    }
    return name in names


def _names(node: ast.stmt) -> list[str]:
    match node:
        case ast.ClassDef() | ast.FunctionDef():
            return [node.name]
        case ast.Assign(targets=targets):
            return [each.id for each in targets if isinstance(each, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []


def rows(document: str) -> list[str]:
    text = (ROOT / document).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line.startswith("|") and "`" in line]


def test_the_glossarys_places_exist() -> None:
    last_cells = [row.split("|")[-2] for row in rows("GLOSSARY.md")]
    named = [name for cell in last_cells for name in re.findall(r"`([a-z_]+(?:\.\w+)+)`", cell)]
    assert len(named) > 30
    assert [each for each in named if not exists(each)] == []


@pytest.mark.parametrize("document", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_the_files_that_a_document_names_exist(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    named = [name for name in re.findall(r"`((?:[\w-]+/)+[\w.-]*)`", text) if "NAME" not in name]
    assert len(named) > 10
    missing = [
        each for each in named if not (ROOT / each).exists() and not (SOURCE / each).exists()
    ]
    assert missing == []


def test_the_picture_of_the_layers_is_drawn_from_the_contract() -> None:
    assert PICTURE.read_text(encoding="utf-8") == draw(), "run python -m tools.layers"
