"""Where the programs call the system: every such place in the source, found by reading it.

A place is a file, its lines and the call. A file that is opened is two places: opening it, and
reading or writing it.
"""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import msgspec

import slackwater

SOURCE = Path(slackwater.__file__).parent
#: The packages that meet the system, and the one function that all of them read files with.
PACKAGES = ("observation", "execution", "kube", "runtime", "bounded_read.py")

#: Calls of the module os that fail with an OSError.
OS_CALLS = frozenset(
    {
        *("open", "read", "pread", "write", "ftruncate", "dup", "pipe2", "set_blocking"),
        *("stat", "lstat", "fstat", "statvfs", "listdir", "scandir", "readlink"),
        *("rename", "replace", "unlink", "rmdir", "mkdir", "makedirs", "kill"),
    }
)
#: Those of os.path: they answer False where the system refuses.
PATH_CALLS = frozenset(["exists", "isdir", "isfile", "lexists", "islink"])
#: Of a directory entry, which asks the system where the listing did not say.
ENTRY_CALLS = frozenset({"is_dir"})
OPEN, USE = "open", "open, then use"


class Site(msgspec.Struct, frozen=True, order=True):
    file: str
    line: int
    call: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.call}"


class _Place(msgspec.Struct, frozen=True):
    call: str
    first: int
    last: int


@cache
def places() -> Mapping[str, tuple[_Place, ...]]:
    """Of each file. The first call comes before threads: two must not parse (CPython 106905)."""
    return {
        str(path.relative_to(SOURCE)): _places(ast.parse(path.read_text()))
        for top in map(SOURCE.joinpath, PACKAGES)
        for path in ([top] if top.is_file() else sorted(top.rglob("*.py")))
    }


def _places(tree: ast.Module) -> tuple[_Place, ...]:
    return tuple(
        _Place(call, node.lineno, node.end_lineno or node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.expr)
        for call in _calls(node)
    )


def _calls(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Attribute(ast.Name("os"), name) if name in OS_CALLS:
            yield f"os.{name}"
        case ast.Attribute(ast.Attribute(ast.Name("os"), "path"), name) if name in PATH_CALLS:
            yield f"os.path.{name}"
        case ast.Attribute(ast.Name("fcntl"), "flock"):
            yield "fcntl.flock"
        case ast.Attribute(_, name) if name in ENTRY_CALLS:
            yield name
        case ast.Call(ast.Name("open")):
            yield OPEN
            yield USE


def all_sites() -> frozenset[Site]:
    return frozenset(
        Site(file, place.first, place.call) for file, found in places().items() for place in found
    )


def site_at(path: str, line: int, call: str) -> Site | None:
    """The place of a call that a frame of this file makes at this line."""
    if not path.startswith(f"{SOURCE}/"):
        return None
    file = path[len(str(SOURCE)) + 1 :]
    for place in places().get(file, ()):
        if place.call == call and place.first <= line <= place.last:
            return Site(file, place.first, call)
    return None
