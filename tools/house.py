"""Measures the shape of the source tree: how finely it is cut, and what exists more than once.

`make house` prints the table of the renovation (docs/adr/0015-the-renovation.md). The limits are
printed beside what was measured, and not enforced: a number is a place to look, not a verdict.
"""

import argparse
import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

PACKAGE = "slackwater"
#: Names that every package may use for the same thing in it.
CONVENTIONAL = frozenset({"settings", "metrics", "program"})
#: Two Structs are near-twins from this share of common fields on, of the smaller one; those with
#: fewer fields are alike by chance.
TWIN_SHARE = 0.7
TWIN_FIELDS = 3
#: Lines from which on a file probably has a second reason to change.
LONG = 500


@dataclass(frozen=True, slots=True)
class Module:
    """One source file. `imports` are dotted names, those inside functions included."""

    name: str
    path: Path
    lines: int
    tree: ast.Module
    imports: frozenset[str]

    @property
    def package(self) -> str:
        return self.name.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class Row:
    what: str
    measured: str
    limit: str
    places: tuple[str, ...] = ()


def read_modules(source: Path) -> dict[str, Module]:
    """Every module below `source`, packages' own `__init__` included, by dotted name."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        found[name] = Module(name, path, text.count("\n"), tree, frozenset(_imports(tree)))
    return found


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def import_graph(modules: Mapping[str, Module]) -> dict[str, frozenset[str]]:
    """Which modules each one imports. `from package import module` counts as the module alone."""
    graph = {}
    for name, module in modules.items():
        targets = {each for each in module.imports if each in modules and each != name}
        parents = {each.rpartition(".")[0] for each in targets}
        graph[name] = frozenset(targets - (parents & _packages(modules)))
    return graph


def _packages(modules: Mapping[str, Module]) -> set[str]:
    return {name for name, module in modules.items() if module.path.name == "__init__.py"}


def find_cycles(graph: Mapping[str, frozenset[str]]) -> list[tuple[str, ...]]:
    """Groups of modules that import each other in a circle (Tarjan's components)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    cycles: list[tuple[str, ...]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for target in sorted(graph[name]):
            if target not in index:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], index[target])
        if low[name] == index[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                cycles.append(tuple(sorted(group)))

    for name in sorted(graph):
        if name not in index:
            visit(name)
    return cycles


def find_single_importers(graph: Mapping[str, frozenset[str]]) -> list[str]:
    """Modules whose only importer stands in the same package: the cut may not follow a seam."""
    importers: dict[str, set[str]] = defaultdict(set)
    for name, targets in graph.items():
        for target in targets:
            importers[target].add(name)
    found = []
    for name, by in sorted(importers.items()):
        only = next(iter(by))
        if len(by) == 1 and only.rpartition(".")[0] == name.rpartition(".")[0]:
            found.append(f"{name} (by {only.rpartition('.')[2]})")
    return found


def _classes(modules: Iterable[Module]) -> Iterator[tuple[Module, ast.ClassDef]]:
    for module in modules:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                yield module, node


def _fields(node: ast.ClassDef) -> frozenset[str]:
    return frozenset(
        each.target.id
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    )


def _bases(node: ast.ClassDef) -> Iterator[str]:
    """Without their packages and type parameters."""
    for base in node.bases:
        plain = base.value if isinstance(base, ast.Subscript) else base
        yield ast.unparse(plain).rpartition(".")[2]


def find_structs(classes: Iterable[ast.ClassDef]) -> frozenset[str]:
    """Names of all Structs: those that inherit from another one as well."""
    bases = {node.name: set(_bases(node)) for node in classes}
    found = {"Struct"}
    while fresh := {name for name, above in bases.items() if above & found} - found:
        found |= fresh
    return frozenset(found)


def find_twins(modules: Iterable[Module]) -> list[str]:
    """Pairs of Structs most of whose fields have the same names; inherited ones are no copies."""
    classes = list(_classes(modules))
    known = find_structs(node for _, node in classes)
    structs = [
        (f"{module.name}.{node.name}", fields)
        for module, node in classes
        if node.name in known and len(fields := _fields(node)) >= TWIN_FIELDS
    ]
    return [
        f"{one} ~ {other}"
        for (one, mine), (other, theirs) in combinations(structs, 2)
        if len(mine & theirs) >= TWIN_SHARE * min(len(mine), len(theirs))
    ]


def repeated(names: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    return {name: sorted(places) for name, places in sorted(names.items()) if len(set(places)) > 1}


def _class_places(modules: Iterable[Module]) -> dict[str, list[str]]:
    places: dict[str, list[str]] = defaultdict(list)
    for module, node in _classes(modules):
        places[node.name].append(module.name)
    return places


def _module_places(modules: Mapping[str, Module]) -> dict[str, list[str]]:
    places: dict[str, list[str]] = defaultdict(list)
    for name in modules.keys() - _packages(modules):
        package, _, last = name.rpartition(".")
        if last not in CONVENTIONAL and package != PACKAGE:
            places[last].append(package)
    return places


def _listed(found: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    return tuple(f"{name}: {', '.join(places)}" for name, places in found.items())


def count_lines(paths: Iterable[Path]) -> tuple[int, int]:
    """Files and their lines."""
    sizes = [path.read_text(encoding="utf-8").count("\n") for path in paths]
    return len(sizes), sum(sizes)


def measure(root: Path) -> list[Row]:
    modules = read_modules(root / "src" / PACKAGE)
    graph = import_graph(modules)
    files, lines = len(modules), sum(module.lines for module in modules.values())
    singles = find_single_importers(graph)
    classes = _class_places(modules.values())
    twice = repeated(classes)
    homonyms = repeated(_module_places(modules))
    twins = find_twins(modules.values())
    cycles = [" -> ".join(cycle) for cycle in find_cycles(graph)]
    packages = Counter(name.split(".")[1] for name in modules if "." in name)
    tools = count_lines((root / "tools").rglob("*.py"))
    tool_tests = count_lines((root / "tests/unit/tools").rglob("*.py"))
    tests = count_lines((root / "tests").rglob("*.py"))
    long = [
        f"{m.name}: {m.lines}"
        for m in sorted(modules.values(), key=lambda m: m.name)
        if m.lines > 500
    ]
    return [
        Row(
            "source files / lines",
            f"{files} / {lines:,}",
            "260 / 39,000",
            tuple(f"{name} {count}" for name, count in packages.most_common()),
        ),
        Row(f"files over {LONG} lines", str(len(long)), "0", tuple(long)),
        Row(
            "modules with one importer, in the same package",
            str(len(singles)),
            "25",
            tuple(singles),
        ),
        Row(
            "class names that exist more than once",
            f"{len(twice)} of {sum(map(len, classes.values()))}",
            "10",
            _listed(twice),
        ),
        Row("module names in two packages", str(len(homonyms)), "0", _listed(homonyms)),
        Row("pairs of Structs sharing 70 % of their fields", str(len(twins)), "40", tuple(twins)),
        Row("import cycles, imports in functions counted", str(len(cycles)), "0", tuple(cycles)),
        Row("tools/ files / lines", f"{tools[0]} / {tools[1]:,}", "41 / 3,600"),
        Row("tests of tools/, lines", f"{tool_tests[1]:,}", "2,200"),
        Row("tests / source, lines", f"{tests[1] / lines:.2f}", "at least 1.30"),
    ]


def print_table(rows: Iterable[Row], *, places: bool) -> None:
    for row in rows:
        print(f"{row.what:<52} {row.measured:>16}   limit {row.limit}")
        if places:
            print("".join(f"    {place}\n" for place in row.places), end="")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.house", description=__doc__)
    parser.add_argument("--places", action="store_true", help="list what was counted, too")
    parser.add_argument("--root", type=Path, default=Path(__file__).parent.parent)
    options = parser.parse_args(arguments)
    print_table(measure(options.root), places=options.places)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
