"""No module of the package imports itself by way of others, imports inside functions counted.

import-linter checks the order of the packages; it does not see cycles inside one of them. The
finder is the one that `make house` prints.
"""

from pathlib import Path

import pytest

import slackwater
from tools.house import find_cycles, import_graph, read_modules

ROOT = Path(slackwater.__file__).parent


def test_there_is_no_import_cycle() -> None:
    graph = import_graph(read_modules(ROOT))
    assert sum(map(len, graph.values())) > 500, "the imports are not found any more"
    assert find_cycles(graph) == []


@pytest.mark.parametrize(
    ("graph", "cycles"),
    [
        ({"a": "b", "b": "c", "c": ""}, []),
        ({"a": "bc", "b": "d", "c": "d", "d": ""}, []),
        ({"a": "b", "b": "c", "c": "b"}, [("b", "c")]),
        ({"a": "b", "b": "c", "c": "a", "d": "e", "e": "d"}, [("a", "b", "c"), ("d", "e")]),
    ],
)
def test_a_cycle_is_found(graph: dict[str, str], cycles: list[tuple[str, ...]]) -> None:
    assert find_cycles({name: frozenset(targets) for name, targets in graph.items()}) == cycles


def test_imports_in_functions_count(tmp_path: Path) -> None:
    package = tmp_path / "p"
    package.mkdir()
    for name, text in (
        ("__init__", ""),
        ("one", "import p.two"),
        (
            "two",
            "def late() -> None:\n    from p import one, nothing\n    from p.four import name\n",
        ),
        ("four", ""),
    ):
        (package / f"{name}.py").write_text(text)
    graph = import_graph(read_modules(package))
    assert graph["p.two"] == {"p.one", "p.four"}
    assert find_cycles(graph) == [("p.one", "p.two")]
