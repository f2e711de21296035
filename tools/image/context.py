"""What COPY may take from the repository, and a digest of it.

Owns .dockerignore. Two equal sets of files have one digest: names, modes and contents count, times
do not.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.image.failure import ImageError


@dataclass(frozen=True, slots=True)
class Context:
    """A folder, and its .dockerignore's patterns in order; the last that matches wins."""

    folder: Path
    patterns: tuple[str, ...] = ()

    @classmethod
    def of(cls, folder: Path) -> "Context":
        file = folder / ".dockerignore"
        rows = file.read_text().splitlines() if file.exists() else []
        bare = (row.strip() for row in rows)
        return cls(folder, tuple(row for row in bare if row and not row.startswith("#")))

    def ignores(self, name: str) -> bool:
        """Whether a path, with slashes and without a leading one, is left out."""
        parts = name.split("/")
        above = ["/".join(parts[: end + 1]) for end in range(len(parts))]
        ignored = False
        for row in self.patterns:
            pattern = _pattern(row.removeprefix("!"))
            if any(pattern.fullmatch(path) for path in above):
                ignored = not row.startswith("!")
        return ignored

    def files(self, source: str) -> list[str]:
        """The files below a path of the context, in order."""
        top = self.folder / source
        if not top.exists() and not top.is_symlink():
            raise ImageError(f"COPY {source}: there is no such file in {self.folder.name}")
        if not top.is_dir() or top.is_symlink():
            return [] if self.ignores(_slashes(source)) else [_slashes(source)]
        found = (
            _slashes(os.path.relpath(os.path.join(place, name), self.folder))
            for place, _, names in os.walk(top)
            for name in names
        )
        return sorted(name for name in found if not self.ignores(name))

    def digest(self, sources: Sequence[str]) -> str:
        hashed = hashlib.sha256()
        for name in (name for source in sources for name in self.files(source)):
            path = self.folder / name
            mode = "x" if os.access(path, os.X_OK) else "-"
            hashed.update(f"{name}\0{mode}\0".encode())
            hashed.update(hashlib.sha256(path.read_bytes()).digest())
        return hashed.hexdigest()

    def copy(self, source: str, target: Path) -> None:
        """A folder's content goes into the target, a file becomes it."""
        is_folder = (self.folder / source).is_dir()
        for name in self.files(source):
            inner = os.path.relpath(name, source) if is_folder else ""
            copy_file(self.folder / name, target / inner if inner else target)


def copy_file(source: Path, target: Path) -> None:
    """As an engine does: owned by root, with modes that do not depend on the person's umask."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755 if os.access(source, os.X_OK) else 0o644)


def _slashes(path: str) -> str:
    return os.path.normpath(path).replace(os.sep, "/")


def _pattern(row: str) -> re.Pattern[str]:
    """** is any number of folders, * and ? stay within one (moby/patternmatcher)."""
    written = ""
    for token in re.findall(r"\*\*/?|\*|\?|[^*?]+", row.strip("/")):
        match token:
            case "**/":
                written += "(?:.*/)?"
            case "**":
                written += ".*"
            case "*":
                written += "[^/]*"
            case "?":
                written += "[^/]"
            case _:
                written += re.escape(token)
    return re.compile(written)
