"""What COPY takes: .dockerignore's rules, and a digest that knows files from times."""

import os
from pathlib import Path

import pytest

from tools.image.building import Context
from tools.image.dockerfile import ImageError
from tools.provision import ROOT


def put(folder: Path, name: str, text: str = "") -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("patterns", "name", "ignored"),
    [
        ((), "a", False),
        (("a",), "a", True),
        (("a",), "a/b/c", True),
        (("a",), "b/a", False),
        (("*",), "a", True),
        (("*", "!a"), "a", False),
        (("*", "!a"), "a/b", False),
        (("*", "!a"), "b", True),
        (("!a", "*"), "a", True),
        (("**/c",), "a/b/c", True),
        (("**/c",), "c", True),
        (("**/c",), "a/c/d", True),
        (("*.txt",), "a.txt", True),
        (("*.txt",), "b/a.txt", False),
        (("**/*.txt",), "b/a.txt", True),
        (("a?",), "ab", True),
        (("a?",), "a/", False),
        (("a.c",), "abc", False),
        (("/a/",), "a", True),
        (("*", "!src", "**/__pycache__"), "src/a/__pycache__/b.pyc", True),
        (("*", "!src", "**/__pycache__"), "src/a/b.py", False),
    ],
)
def test_ignores(patterns: tuple[str, ...], name: str, ignored: bool) -> None:
    assert Context(Path("/nowhere"), patterns).ignores(name) is ignored


def test_our_own_file_leaves_in_what_the_dockerfile_copies() -> None:
    context = Context.of(ROOT)
    for name in ("pyproject.toml", "uv.lock", "README.md", "LICENSE", "src/slackwater/__init__.py",
                 "src/slackwater/manifests/slackwater.yaml"):  # fmt: skip
        assert not context.ignores(name)
    for name in (".git/config", ".venv/bin/python", "tests/unit/conftest.py",
                 "src/slackwater/__pycache__/a.pyc"):  # fmt: skip
        assert context.ignores(name)


def test_comments_and_empty_lines_are_no_patterns(tmp_path: Path) -> None:
    put(tmp_path, ".dockerignore", "# words\n\n  a  \n")
    assert Context.of(tmp_path).patterns == ("a",)
    assert Context.of(tmp_path / "without").patterns == ()


def test_files_are_in_order_and_not_ignored(tmp_path: Path) -> None:
    for name in ("src/b.py", "src/a.py", "src/x/c.py", "src/skip.txt"):
        put(tmp_path, name)
    context = Context(tmp_path, ("**/*.txt",))
    assert context.files("src") == ["src/a.py", "src/b.py", "src/x/c.py"]
    assert context.files("src/a.py") == ["src/a.py"]
    assert context.files("src/skip.txt") == []


def test_what_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="COPY nothing: there is no such file in"):
        Context(tmp_path).files("nothing")


def test_a_digest_knows_names_contents_and_modes_but_no_times(tmp_path: Path) -> None:
    context = Context(tmp_path)
    file = put(tmp_path, "src/a", "one")
    first = context.digest(["src"])
    os.utime(file, (1, 1))
    assert context.digest(["src"]) == first
    file.write_text("two")
    second = context.digest(["src"])
    file.chmod(0o755)
    third = context.digest(["src"])
    file.rename(tmp_path / "src/b")
    assert len({first, second, third, context.digest(["src"])}) == 4


def test_copying_gives_modes_that_do_not_depend_on_the_person(tmp_path: Path) -> None:
    put(tmp_path, "from/a", "one").chmod(0o600)
    put(tmp_path, "from/x/b", "two").chmod(0o700)
    context = Context(tmp_path)
    context.copy("from", tmp_path / "to")
    context.copy("from/a", tmp_path / "alone")
    assert (tmp_path / "to/a").read_text() == "one"
    assert (tmp_path / "alone").read_text() == "one"
    assert (tmp_path / "to/a").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "to/x/b").stat().st_mode & 0o777 == 0o755
