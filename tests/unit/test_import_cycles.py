"""No module of the package imports itself by way of others, imports inside functions counted.

import-linter checks the order of the packages; it does not see cycles inside one of them.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

import slackwater

ROOT = Path(slackwater.__file__).parent


def modules_below(root: Path) -> dict[str, Path]:
    """Every module and package of the tree by its dotted name."""
    found = {}
    for path in root.rglob("*.py"):
        parts = path.relative_to(root.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(tree: ast.AST, known: Iterable[str]) -> Iterator[str]:
    """The known modules that a syntax tree imports, wherever the import stands, except those
    under `if TYPE_CHECKING`, which never run."""
    names = set(known)
    for node in _running(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            members = {f"{node.module}.{alias.name}" for alias in node.names} & names
            yield from members
            if node.module in names and len(members) < len(node.names):
                yield node.module


def _running(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            continue
        yield child
        yield from _running(child)


def cycle_in(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """One cycle, its first module repeated at its end; empty where there is none."""
    done: set[str] = set()
    for start in graph:
        path: list[str] = []
        stack = [(start, iter(graph[start]))] if start not in done else []
        path += [start] * bool(stack)
        while stack:
            after = next((each for each in stack[-1][1] if each not in done), None)
            if after is None:
                done.add(path.pop())
                stack.pop()
            elif after in path:
                return [*path[path.index(after) :], after]
            else:
                path.append(after)
                stack.append((after, iter(graph.get(after, ()))))
    return []


def test_there_is_no_import_cycle() -> None:
    modules = modules_below(ROOT)
    graph = {
        name: sorted(set(imports_of(ast.parse(path.read_text()), modules)))
        for name, path in modules.items()
    }
    assert sum(map(len, graph.values())) > 500, "the imports are not found any more"
    assert cycle_in(graph) == []


@pytest.mark.parametrize(
    ("graph", "cycle"),
    [
        ({"a": ["b"], "b": ["c"], "c": []}, []),
        ({"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}, []),
        ({"a": ["a"]}, ["a", "a"]),
        ({"a": ["b"], "b": ["c"], "c": ["b"]}, ["b", "c", "b"]),
        ({"a": ["b"], "b": ["c"], "c": ["a"]}, ["a", "b", "c", "a"]),
    ],
)
def test_a_cycle_is_found(graph: dict[str, list[str]], cycle: list[str]) -> None:
    assert cycle_in(graph) == cycle


def test_imports_in_functions_count_and_those_for_types_do_not() -> None:
    text = """
import p.one
if TYPE_CHECKING:
    import p.two
def late():
    from p import three, nothing
    from p.four import name
"""
    known = ["p", "p.one", "p.two", "p.three", "p.four"]
    assert sorted(imports_of(ast.parse(text), known)) == ["p", "p.four", "p.one", "p.three"]
