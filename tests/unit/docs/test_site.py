"""The site has all pages, links that lead somewhere, and nothing from elsewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.docs.navigation import CHAPTERS, FRONT, Chapter
from tools.docs.staging import StagingError, external_requests, stage
from tools.samples import ROOT

PAGES = {
    "README.md": "# Front\n\n[a page](docs/one.md#its-end), [a file](examples/x.yaml)\n"
    "![p](docs/images/p.svg)\n",
    "docs/one.md": "# One\n\n[back](../README.md) and [away](https://example.org)\n\n"
    "```sh\n[no](link)\n```\n",
    "docs/adr/0001-first.md": "# First\n\n[folder](../../examples)\n",
    "examples/x.yaml": "kind: X\n",
    "docs/images/p.svg": "<svg/>",
}


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "source"
    for name, content in PAGES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    chapters = (Chapter("Learn", ("docs/one.md",)), Chapter("Understand", ("docs/adr",)))
    monkeypatch.setattr("tools.docs.staging.CHAPTERS", chapters)
    return root


def staged(source: Path) -> Path:
    folder = source.parent / "staged"
    folder.mkdir()
    stage(source, folder)
    return folder


def test_links_lead_to_pages_of_the_site(source: Path) -> None:
    folder = staged(source)
    front = (folder / "index.md").read_text()
    assert "[a page](one.md#its-end)" in front
    assert "[a file](files/examples/x.yaml.md)" in front
    assert "![p](images/p.svg)" in front
    one = (folder / "one.md").read_text()
    assert "[back](index.md)" in one
    assert "[away](https://example.org)" in one
    assert "[no](link)" in one
    assert "[folder](../files/examples.md)" in (folder / "adr/0001-first.md").read_text()


def test_files_that_are_linked_have_a_page_that_shows_them(source: Path) -> None:
    folder = staged(source)
    assert "yaml\nkind: X\n" in (folder / "files/examples/x.yaml.md").read_text()
    assert "## examples/x.yaml" in (folder / "files/examples.md").read_text()
    assert (folder / "images/p.svg").is_file()


def test_the_menu_has_each_chapter_and_decisions_one_page(source: Path) -> None:
    folder = staged(source)
    front = (folder / "index.md").read_text()
    assert ":caption: Learn\n\none\n" in front
    assert ":caption: Understand\n\nadr/index\n" in front
    assert "\n0001-first\n" in (folder / "adr/index.md").read_text()


@pytest.mark.parametrize("link", ["docs/none.md", "../outside.md", "docs/one.mdx#a"])
def test_a_link_that_leads_nowhere_is_named(source: Path, link: str) -> None:
    (source / "README.md").write_text(f"# Front\n\n[x]({link})\n")
    with pytest.raises(StagingError, match=f"README.md: the link {re.escape(link)} leads nowhere"):
        staged(source)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ('<script src="https://cdn.example/x.js">', ["page.html: https://cdn.example/x.js"]),
        ('<link rel="stylesheet" href="//fonts.example/a">', ["page.html: //fonts.example/a"]),
        ("@import url(https://fonts.example/a)", ["page.html: https://fonts.example/a"]),
        ('<img alt="" src="https://x.example/p.png">', ["page.html: https://x.example/p.png"]),
        ('<a href="https://example.org">elsewhere</a>', []),
        ('<script src="_static/x.js"></script><img src="images/p.svg">', []),
    ],
)
def test_what_a_browser_would_fetch_elsewhere(
    tmp_path: Path, content: str, found: list[str]
) -> None:
    page = tmp_path / "page.html"
    page.write_text(content)
    assert external_requests([page]) == found


def test_every_page_is_in_the_menu() -> None:
    listed = {FRONT, *(page for each in CHAPTERS for page in each.pages)}
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        name = str(path.relative_to(ROOT))
        assert name in listed or str(path.parent.relative_to(ROOT)) in listed, name


@pytest.mark.long
def test_the_whole_site(tmp_path: Path) -> None:
    """A warning of the generator, such as a link to a heading that is not there, fails it."""
    out = tmp_path / "site"
    command = [sys.executable, "-m", "tools.docs", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (out / "searchindex.js").is_file()
    assert (out / "schemas/agent-settings.json").is_file()
    for name in ("index", "tutorial", "how-to/move", "reference/settings", "architecture"):
        assert (out / f"{name}.html").is_file(), name
