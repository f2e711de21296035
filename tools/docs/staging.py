"""Puts the site's pages into one folder, with links that lead to each other.

Pages keep to Markdown that reads well in the repository: links are paths of it. Here a link to a
page leads to that page of the site, and one to any other file or folder to a page that shows it.
"""

import os
import posixpath
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.docs.navigation import CHAPTERS, FRONT, Chapter

#: Below it are the pages that show other files of the repository.
FILES = "files"
#: Of the site's own, generated.
_DECISIONS = "docs/adr"
_COPIED = ("docs/images", "docs/schemas")
_LINK = re.compile(r"(?<!`)(!?\[[^\]]*\]\()([^)\s]+)(\))")
_FOREIGN = re.compile(r"[a-z]+:|#")
_LANGUAGES = {".yaml": "yaml", ".py": "python", ".toml": "toml", ".json": "json", ".md": "markdown"}


class StagingError(Exception):
    """One sentence about a link or a page."""


def stage(root: Path, folder: Path) -> None:
    """Fills an empty folder with everything that the generator reads."""
    site = _Site(root, folder)
    for source, name in site.names.items():
        content = (root / source).read_text(encoding="utf-8")
        if source == FRONT:
            content += "".join(site.toctree(each) for each in CHAPTERS)
        site.write(name, site.linked(source, content))
    site.write_decisions()
    site.write_shown_files()
    for each in _COPIED:
        if (root / each).is_dir():
            shutil.copytree(root / each, folder / Path(each).name)


class _Site:
    """The folder, and which files of the repository its links asked for."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._root = root
        self._folder = folder
        pages = [FRONT, *(page for each in CHAPTERS for page in self._pages(each))]
        #: The page's path in the site, by its path in the repository.
        self.names = {page: _name(page) for page in dict.fromkeys(pages)}
        self._shown: set[str] = set()

    def _pages(self, chapter: Chapter) -> Iterator[str]:
        for each in chapter.pages:
            if (self._root / each).is_dir():
                found = sorted((self._root / each).glob("*.md"))
                yield from (str(page.relative_to(self._root)) for page in found)
            else:
                yield each

    def write(self, name: str, content: str) -> None:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")

    def toctree(self, chapter: Chapter) -> str:
        """A chapter of the menu; decisions have a page of their own that lists them."""
        listed = [_name(each) for each in dict.fromkeys(self._pages(chapter))]
        decisions = f"{_name(_DECISIONS)}/"
        names = [each for each in listed if not each.startswith(decisions)]
        if len(names) < len(listed):
            names.append(f"{decisions}index.md")
        lines = "\n".join(each.removesuffix(".md") for each in names)
        return f"\n```{{toctree}}\n:hidden:\n:caption: {chapter.title}\n\n{lines}\n```\n"

    def write_decisions(self) -> None:
        pages = [each for each in self.names if each.startswith(f"{_DECISIONS}/")]
        lines = "\n".join(posixpath.basename(each).removesuffix(".md") for each in pages)
        head = "# Decisions\n\nWhy it is as it is: each decision with what else was considered.\n"
        toctree = f"\n```{{toctree}}\n:maxdepth: 1\n\n{lines}\n```\n"
        self.write(f"{_name(_DECISIONS)}/index.md", head + toctree)

    def linked(self, source: str, content: str) -> str:
        """The page with its links as they are in the site. Blocks between fences stay."""
        parts = re.split(r"(?m)(^ *```.*?^ *```$)", content, flags=re.DOTALL)
        even = [
            _LINK.sub(lambda found: found[1] + self._target(source, found[2]) + found[3], part)
            for part in parts[::2]
        ]
        return "".join(text for pair in zip(even, [*parts[1::2], ""], strict=True) for text in pair)

    def _target(self, source: str, link: str) -> str:
        if _FOREIGN.match(link):
            return link
        path, mark, anchor = link.partition("#")
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if wanted.startswith("..") or not (self._root / wanted).exists():
            raise StagingError(f"{source}: the link {link} leads nowhere")
        beside = posixpath.dirname(self.names[source]) or "."
        return posixpath.relpath(self._find(wanted), beside) + mark + anchor

    def _find(self, wanted: str) -> str:
        if wanted in self.names:
            return self.names[wanted]
        if wanted == _DECISIONS:
            return f"{_name(_DECISIONS)}/index.md"
        if f"{wanted}/README.md" in self.names:
            return self.names[f"{wanted}/README.md"]
        if wanted.startswith(tuple(f"{each}/" for each in _COPIED)):
            return wanted.removeprefix("docs/")
        self._shown.add(wanted)
        return _shown_name(wanted)

    def write_shown_files(self) -> None:
        """A page for each file or folder of the repository that some page links to."""
        for each in sorted(self._shown):
            self.write(_shown_name(each), f"---\norphan: true\n---\n\n# {each}\n{self._show(each)}")

    def _show(self, path: str) -> str:
        if not (self._root / path).is_dir():
            return f"\n{_fenced(self._root / path)}"
        return "".join(
            f"\n## {found.relative_to(self._root)}\n\n{_fenced(found)}"
            for found in sorted((self._root / path).rglob("*"))
            if found.is_file() and "__pycache__" not in found.parts
        )


def _fenced(path: Path) -> str:
    language = _LANGUAGES.get(path.suffix, "text")
    return f"````````{language}\n{path.read_text(encoding='utf-8').rstrip()}\n````````\n"


def _name(page: str) -> str:
    """Where a page is in the site: those of docs/ at its top, the rest in small letters."""
    if page == FRONT:
        return "index.md"
    return page.removeprefix("docs/") if page.startswith("docs/") else page.lower()


def _shown_name(path: str) -> str:
    return f"{FILES}/{path.replace(os.sep, '/')}.md"


def external_requests(files: Sequence[Path]) -> list[str]:
    """What a browser would fetch from elsewhere when it shows these files."""
    fetched = re.compile(
        r"""<(?:script|img|iframe|source|link(?![^>]*rel="(?:canonical|license)"))[^>]*?"""
        r"""(?:src|href)="((?:https?:)?//[^"]+)"|(?:@import\s+|url\()["']?((?:https?:)?//[^"')]+)"""
    )
    return [
        f"{file.name}: {found[0] or found[1]}"
        for file in files
        for found in fetched.findall(file.read_text(encoding="utf-8", errors="replace"))
    ]
